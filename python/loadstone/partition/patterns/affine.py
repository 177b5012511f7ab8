# SPDX-License-Identifier: Apache-2.0
"""A linear function of each channel in float32, as integers: batch normalization, and adding or
multiplying by constants.

In:   quantize(relu? batch_norm(dequantize(x), constants)) of an ONNX model; x + c, x * c in its
      place.
Out:  Conv2D (depthwise, 1x1) or, on a matrix, Dense (diagonal), proven equal on every input of
      every channel; Mismatch where no such integers were found.
Next: partition/patterns/__init__.py lists them.

A function of one int8 has 256 values per channel, so that all can be checked. Any weight w in [1,
127] represents the slope when the weight's scale is slope / w. Each w rounds the offset
differently, and permits a range of scales that reproduce all 256 values, or none. The first weight
with such a range is used: for most channels the first one tried, for some one of the first dozen.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from loadstone.graph import Conv2D, Dense, Tensor, Weighted
from loadstone.graph.base import Fields
from loadstone.numerics import Array, Rounding, onnx_scale, requantize_float32
from loadstone.partition.patterns.forms import const, dq, op, tail
from loadstone.partition.patterns.reader import Mismatch, Reader
from loadstone.relax.compat import dpl, is_call, is_constant, value

if TYPE_CHECKING:
    from loadstone.relax.types import Call, DFPattern, Expr

__all__ = ["batch_norm", "batch_norm_pattern", "channel_add", "channel_mul", "channel_pattern"]

MAX_WEIGHT = 127
#: The largest number of channels: a diagonal dense layer has its square of weights, nearly all 0.
MAX_DIAGONAL = 512


def batch_norm_pattern() -> DFPattern:
    """The first result of batch_norm."""
    return tail(
        dpl.is_tuple_get_item(op("nn.batch_norm")(dq(), const(), const(), const(), const()), 0)
    )


def batch_norm(reader: Reader, root: Call) -> Weighted:
    """Raises Mismatch unless the channels are last and the integers are exact."""
    inner, _, _ = reader.tail(root)
    call = reader.call(reader.call(inner).tuple_value)
    if not is_call(call, "nn.batch_norm") or int(call.attrs.axis) != 3:
        raise Mismatch("its channels are not last")
    gamma, beta, mean, variance = (
        value(parameter).astype(np.float32) for parameter in call.args[1:]
    )
    slope = gamma / np.sqrt(variance + np.float32(call.attrs.epsilon))
    offset = beta - mean * slope
    return _affine(reader, root, call.args[0], slope, offset, lambda real: real * slope + offset)


def channel_pattern(relax_name: str) -> Callable[[], DFPattern]:
    """x + c or x * c with a constant c."""
    return lambda: tail(op(relax_name)(dq(), dq(const())))


def channel_add(reader: Reader, root: Call) -> Weighted:
    """x + c, one c per channel. Raises Mismatch in TFLite models, whose ADD has a rule of its
    own."""
    data, constant = _with_channels(reader, root)
    return _affine(
        reader, root, data, np.ones_like(constant), constant, lambda real: real + constant
    )


def channel_mul(reader: Reader, root: Call) -> Weighted:
    """x * c, one c per channel."""
    data, constant = _with_channels(reader, root)
    return _affine(
        reader, root, data, constant, np.zeros_like(constant), lambda real: real * constant
    )


def _with_channels(reader: Reader, root: Call) -> tuple[Expr, NDArray[np.float32]]:
    """(x, the real constant of each channel)."""
    data, other = reader.call(reader.tail(root)[0]).args
    if is_constant(reader.call(data).args[0]):
        data, other = other, data
    if not is_constant(reader.call(other).args[0]):
        raise Mismatch("its operands are both computed")
    constant, channels = reader.constant(other), reader.output(root).shape[-1]
    if (
        constant.integers.shape[-1:] not in ((channels,), (1,))
        or constant.integers.size != constant.integers.shape[-1]
    ):
        raise Mismatch("its constant is not one value per channel")
    real = np.broadcast_to(constant.real.reshape(-1), (channels,))
    return data, np.ascontiguousarray(real, np.float32)


def _affine(
    reader: Reader,
    root: Call,
    data: Expr,
    slope: Array,
    offset: Array,
    rule: Callable[[Array], Array],
) -> Weighted:
    """A depthwise 1x1 convolution, or on a matrix a diagonal dense layer, that equals
    quantize(rule(dequantize(x)))."""
    _, low, high = reader.tail(root)
    source, output = reader.source(data), reader.output(root)
    if reader.tflite:
        raise Mismatch("TFLite has a rule of its own for it")
    if (
        source.shape != output.shape
        or len(source.shape) not in (2, 4)
        or (len(source.shape) == 2 and slope.size > MAX_DIAGONAL)
    ):
        raise Mismatch(f"it works on a tensor of shape {list(source.shape)}")
    real = (
        np.float32(source.scale)
        * (np.arange(-128, 128) - source.zero_point).astype(np.float32)[:, None]
    )
    steps = np.rint(rule(real).astype(np.float32) / np.float32(output.scale)).astype(np.float64)
    wanted = np.asarray(np.clip(steps + output.zero_point, low, high), np.int64)
    weights, scales, bias = _search(slope, offset, wanted, source, output, (low, high))
    fields: Fields = {
        "name": output.name,
        "inputs": (source,),
        "outputs": (output,),
        "weight_scales": scales,
        "weight_zero_points": np.zeros(slope.size, np.int32),
        "bias": bias,
        "low": low,
        "high": high,
        "rounding": Rounding.FLOAT32,
    }
    if len(source.shape) == 2:
        return Dense(**fields, weights=np.diag(weights))
    return Conv2D(
        **fields,
        weights=weights.reshape(-1, 1, 1, 1),
        strides=(1, 1),
        dilation=(1, 1),
        padding=(0, 0, 0, 0),
        groups=slope.size,
    )


def _search(
    slope: Array,
    offset: Array,
    wanted: NDArray[np.int64],
    source: Tensor,
    output: Tensor,
    limits: tuple[int, int],
) -> tuple[NDArray[np.int8], NDArray[np.float32], NDArray[np.int32]]:
    """(weights, their scales, bias) per channel, such that every column of `wanted` is reproduced.
    limits: the smallest and largest output."""
    low, high = limits
    x = np.arange(-128, 128)[:, None] - source.zero_point
    weights, scales = np.zeros(slope.shape, np.int8), np.ones(slope.shape, np.float32)
    bias, unmet = np.zeros(slope.shape, np.int32), np.arange(slope.size)
    steps, lowest, highest = (
        wanted - output.zero_point,
        low - output.zero_point,
        high - output.zero_point,
    )
    per_step = np.float64(output.scale) / np.float64(source.scale)
    magnitude = np.where(slope == 0, per_step, np.abs(slope.astype(np.float64)))
    for weight, nudge in _candidates():
        target = steps[:, unmet]
        signed = np.sign(slope[unmet]).astype(np.int64) * weight
        shift = (
            np.rint(offset[unmet] / (np.float64(source.scale) * magnitude[unmet] / weight)) + nudge
        )
        fits = np.abs(shift) < 2**31 - 2**16
        acc = x * signed + np.where(fits, shift, 0).astype(np.int64)
        scale = (_factor(acc, target, lowest, highest) * per_step).astype(np.float32)
        found = requantize_float32(
            acc.astype(np.int32), onnx_scale(source.scale, scale, output.scale)
        )
        met = fits & np.all(np.clip(found, lowest, highest) == target, 0)
        channels = unmet[met]
        weights[channels], scales[channels], bias[channels] = signed[met], scale[met], shift[met]
        unmet = unmet[~met]
        if not unmet.size:
            return weights, scales, bias
    raise Mismatch(f"no integers give its values exactly in {unmet.size} of {slope.size} channels")


def _factor(
    acc: NDArray[np.int64], target: NDArray[np.int64], lowest: int, highest: int
) -> NDArray[np.float64]:
    """Per channel the middle of the interval of factors f with round(acc * f) = target for every
    acc; also of an empty interval.

    Each acc bounds f: target - 1/2 <= acc * f <= target + 1/2; on one side only where the target is
    clamped.
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
    """(weight, correction of the rounded bias), the likeliest first."""
    for nudge in (0, 1, -1):
        for weight in range(MAX_WEIGHT, 0, -1):
            yield weight, nudge
