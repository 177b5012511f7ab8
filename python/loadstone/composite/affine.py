"""Batch normalization between quantize and dequantize: a depthwise 1x1 convolution that gives the same integers.

In:   quantize(relu? batch_norm(dequantize(x), constants)).
Out:  Conv2D, proven equal on every input of every channel; Mismatch where no integers were found that are.
Next: composite/__init__.py lists it.

A function of one int8 has 256 values per channel, so it can be checked whole. Any weight w in [1, 127] can stand for the
slope when the weight's scale is slope / w; each rounds the offset differently, and leaves a range of scales that meet
all 256 values, or none. The first weight that leaves one is taken (most channels take the first, some need a dozen).
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
from numpy.typing import NDArray

from loadstone._tvm import dpl, is_call, value
from loadstone.composite.forms import const, dq, op, tail
from loadstone.composite.reader import Mismatch, Reader
from loadstone.graph import Conv2D, Tensor
from loadstone.numerics import Rounding, onnx_scale, requantize_float32

__all__ = ["batch_norm", "batch_norm_pattern"]

MAX_WEIGHT = 127


def batch_norm_pattern() -> Any:
    """The first result of batch_norm."""
    return tail(dpl.is_tuple_get_item(op("nn.batch_norm")(dq(), const(), const(), const(), const()), 0))


def batch_norm(reader: Reader, root: Any) -> Conv2D:
    """Raises Mismatch unless the channels are last and the integers are exact."""
    inner, low, high = reader.tail(root)
    call = reader.call(reader.call(inner).tuple_value)
    source, output = reader.source(call.args[0]), reader.output(root)
    if not is_call(call, "nn.batch_norm") or int(call.attrs.axis) != 3 or len(source.shape) != 4:
        raise Mismatch("its channels are not the last of 4 axes")
    if reader.tflite:
        raise Mismatch("TFLite has no batch normalization")
    gamma, beta, mean, variance = (value(parameter).astype(np.float32) for parameter in call.args[1:])
    slope = gamma / np.sqrt(variance + np.float32(call.attrs.epsilon))
    wanted = _table(slope, beta - mean * slope, source, output, low, high)
    weights, scales, bias = _search(slope, beta - mean * slope, wanted, source, output, low, high)
    channels = slope.size
    return Conv2D(
        name=output.name,
        inputs=(source,),
        outputs=(output,),
        weights=weights.reshape(channels, 1, 1, 1),
        weight_scales=scales,
        weight_zero_points=np.zeros(channels, np.int32),
        bias=bias,
        low=low,
        high=high,
        rounding=Rounding.FLOAT32,
        strides=(1, 1),
        dilation=(1, 1),
        padding=(0, 0, 0, 0),
        groups=channels,
    )


def _table(slope: Any, offset: Any, source: Tensor, output: Tensor, low: int, high: int) -> NDArray[np.int64]:
    """(256, C): the output for x = -128 .. 127, in float32 as ONNX Runtime computes it."""
    real = np.float32(source.scale) * (np.arange(-128, 128) - source.zero_point).astype(np.float32)[:, None]
    steps = np.rint((real * slope + offset) / np.float32(output.scale)).astype(np.float64)
    return np.asarray(np.clip(steps + output.zero_point, low, high), np.int64)


def _search(
    slope: Any, offset: Any, wanted: NDArray[np.int64], source: Tensor, output: Tensor, low: int, high: int
) -> tuple[NDArray[np.int8], NDArray[np.float32], NDArray[np.int32]]:
    """(weights, their scales, bias) per channel, such that every column of `wanted` is met."""
    x = np.arange(-128, 128)[:, None] - source.zero_point
    weights, scales = np.zeros(slope.shape, np.int8), np.ones(slope.shape, np.float32)
    bias, unmet = np.zeros(slope.shape, np.int32), np.arange(slope.size)
    steps, lowest, highest = wanted - output.zero_point, low - output.zero_point, high - output.zero_point
    per_step = np.float64(output.scale) / np.float64(source.scale)
    magnitude = np.where(slope == 0, per_step, np.abs(slope.astype(np.float64)))
    for weight, nudge in _candidates():
        target = steps[:, unmet]
        signed = np.sign(slope[unmet]).astype(np.int64) * weight
        shift = np.rint(offset[unmet] / (np.float64(source.scale) * magnitude[unmet] / weight)) + nudge
        fits = np.abs(shift) < 2**31 - 2**16
        acc = x * signed + np.where(fits, shift, 0).astype(np.int64)
        scale = (_factor(acc, target, lowest, highest) * per_step).astype(np.float32)
        found = requantize_float32(acc.astype(np.int32), onnx_scale(source.scale, scale, output.scale))
        met = fits & np.all(np.clip(found, lowest, highest) == target, 0)
        channels = unmet[met]
        weights[channels], scales[channels], bias[channels] = signed[met], scale[met], shift[met]
        unmet = unmet[~met]
        if not unmet.size:
            return weights, scales, bias
    raise Mismatch(f"no integers give its values exactly in {unmet.size} of {slope.size} channels")


def _factor(acc: NDArray[np.int64], target: NDArray[np.int64], lowest: int, highest: int) -> NDArray[np.float64]:
    """Per channel the middle of the factors f with round(acc * f) = target for every acc; of an empty range, too.

    Each acc bounds f: target - 1/2 <= acc * f <= target + 1/2, on one side only where the target is clamped.
    """
    below = np.where(target == lowest, -np.inf, target - 0.5)
    above = np.where(target == highest, np.inf, target + 0.5)
    divisor = np.where(acc == 0, 1, acc)
    least = np.where(acc > 0, below, above) / divisor
    most = np.where(acc > 0, above, below) / divisor
    least = np.where(acc == 0, -np.inf, least).max(0)
    most = np.where(acc == 0, np.inf, most).min(0)
    with np.errstate(invalid="ignore"):  # -inf + inf: nothing bounds it
        middle = (least + most) / 2
    return np.where(np.isfinite(middle) & (middle > 0), middle, 1.0)


def _candidates() -> Iterator[tuple[int, int]]:
    """(weight, what is added to the rounded bias), the likeliest first."""
    for nudge in (0, 1, -1):
        for weight in range(MAX_WEIGHT, 0, -1):
            yield weight, nudge
