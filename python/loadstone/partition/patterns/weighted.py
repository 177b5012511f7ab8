# SPDX-License-Identifier: Apache-2.0
"""Convolution and dense layers: their pattern, and the operators of graph/ for it.

In:   quantize(relu? (add?(conv2d | matmul (dequantize(x), dequantize(weights)), bias))).
Out:  Conv2D, Dense.
Next: partition/patterns/__init__.py lists them.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from loadstone.errors import Refusal
from loadstone.graph import Conv2D, Dense, Tensor
from loadstone.graph.base import Fields
from loadstone.numerics import Array, Rounding
from loadstone.partition.patterns.forms import const, dq, op, tail
from loadstone.partition.patterns.reader import Constant, Mismatch, Reader
from loadstone.relax.compat import integers, is_call, is_constant, value

if TYPE_CHECKING:
    from loadstone.relax.types import Call, DFPattern, Expr

__all__ = ["conv2d", "conv2d_pattern", "dense", "dense_pattern"]

#: The scale of a bias equals that of the accumulator, up to the rounding of float32 products.
BIAS_SCALE_TOLERANCE = 1e-4
#: The largest change of a result, in steps of the output, by rounding a bias to integers: this is
#: about the share of results that then differ from those of the file's real numbers. Real biases
#: are rounded, as in ONNX Runtime's optimizer; integers with another scale must be represented
#: exactly.
BIAS_MOVES_AT_MOST = {"rounded": 1 / 16, "exact": 1e-6}


def conv2d_pattern() -> DFPattern:
    """Convolution with or without a bias and an activation."""
    core = op("nn.conv2d")(dq(), dq(const()))
    return tail(op("add")(core, dq(const()) | const()) | core)


def dense_pattern() -> DFPattern:
    """x (M, I) times weights (I, O), with or without a bias and an activation."""
    core = op("matmul")(dq(), dq(const()))
    return tail(op("add")(core, dq(const()) | const()) | core)


def conv2d(reader: Reader, root: Call) -> Conv2D:
    """Raises Mismatch for layouts and weights that Conv2D cannot represent."""
    core, bias, low, high = _parts(reader, root)
    attrs = core.attrs
    if str(attrs.data_layout) != "NHWC" or str(attrs.kernel_layout) != "OHWI":
        raise Mismatch(f"its layout is {attrs.data_layout}")
    source, output = reader.source(core.args[0]), reader.output(root)
    top, left, bottom, right = integers(attrs.padding)
    strides, dilation = integers(attrs.strides), integers(attrs.dilation)
    weights, bias = _alive(source, reader.constant(core.args[1]), bias, reader.output(root))
    fields, rounding = _weights(source, weights, 0, bias), reader.rounding
    halves = _half_steps(bias, fields["weight_scales"], source, output)
    if reader.real_biases and halves is not None:
        fields["bias"], rounding = halves, Rounding.SINGLE
    elif reader.real_biases:
        _check_bias(bias, fields, source, output)
    if not reader.tflite:  # LiteRT's sums wrap
        _check_sums(fields, source)
    return Conv2D(
        **fields,
        name=output.name,
        inputs=(source,),
        outputs=(output,),
        low=low,
        high=high,
        rounding=rounding,
        strides=(strides[0], strides[1]),
        dilation=(dilation[0], dilation[1]),
        padding=(top, left, bottom, right),
        groups=int(attrs.groups),
        float32_product=reader.unsigned,
    )


def dense(reader: Reader, root: Call) -> Dense:
    """Raises Mismatch where the input is not a matrix."""
    core, bias, low, high = _parts(reader, root)
    source = reader.source(core.args[0])
    weights = reader.constant(core.args[1])
    if len(source.shape) != 2 or weights.integers.ndim != 2:
        raise Mismatch(
            f"it multiplies tensors of shape {list(source.shape)} and "
            f"{list(weights.integers.shape)}"
        )
    if reader.output(root).shape != (source.shape[0], weights.integers.shape[1]):
        raise Mismatch(f"what it adds makes {list(reader.output(root).shape)} of its results")
    by_output = Constant(
        weights.integers.T,
        weights.scales,
        weights.zero_points,
        1 - weights.axis if weights.scales.size > 1 else -1,
    )
    output = reader.output(root)
    by_output, bias = _alive(source, by_output, bias, output)
    fields = _weights(source, by_output, 0, bias)
    if reader.real_biases:
        _check_bias(bias, fields, source, output)
    if not reader.tflite:
        _check_sums(fields, source)
    return Dense(
        **fields,
        name=output.name,
        inputs=(source,),
        outputs=(output,),
        low=low,
        high=high,
        rounding=reader.dense_rounding,
    )


def _parts(reader: Reader, root: Call) -> tuple[Expr, Constant | Array | None, int, int]:
    """(the multiplication, its bias, low, high)."""
    inner, low, high = reader.tail(root)
    core = reader.call(inner)
    if not is_call(core, "add"):
        return core, None, low, high
    term = core.args[1]
    bias = value(term) if is_constant(term) else reader.constant(term)
    return reader.call(core.args[0]), bias, low, high


def _alive(
    source: Tensor, weights: Constant, bias: Constant | Array | None, output: Tensor
) -> tuple[Constant, Constant | Array | None]:
    """Replaces channels whose scale is 0, and whose values are thus 0 for any weights and bias, by
    weights of 0 with a scale of another channel. weights: the output channel along axis 0."""
    dead = weights.scales == 0
    if not dead.any():
        return weights, bias
    scale = weights.scales.max() or np.float32(output.scale / source.scale / 256)
    channels = len(weights.integers)
    scales = np.where(dead, scale, weights.scales)
    dead, every = (np.broadcast_to(array, (channels,)) for array in (dead, scales))
    along = (channels,) + (1,) * (weights.integers.ndim - 1)
    zeros = np.broadcast_to(weights.zero_points, (channels,)).reshape(along)
    integers_ = np.where(dead.reshape(along), zeros, weights.integers)
    if isinstance(bias, Constant) and bias.integers.size == channels:
        none = dead.reshape(bias.integers.shape)
        own = np.where(dead, np.float32(source.scale) * every, bias.scales).astype(np.float32)
        axis = bias.axis if bias.axis >= 0 else int(np.argmax(bias.integers.shape))
        points = np.broadcast_to(bias.zero_points, (channels,))
        kept = np.where(none, 0, bias.integers).astype(bias.integers.dtype)
        bias = Constant(kept, own, np.where(dead, 0, points).astype(np.int32), axis)
    axis = weights.axis if weights.scales.size > 1 else -1
    return Constant(integers_.astype(np.int8), scales, weights.zero_points, axis), bias


def _weights(source: Tensor, weights: Constant, axis: int, bias: Constant | Array | None) -> Fields:
    """The fields of Weighted, the output channel along `axis`."""
    if weights.integers.dtype != np.int8 or source.dtype != "int8":
        raise Mismatch(f"it multiplies {source.dtype} by {weights.integers.dtype}")
    if weights.scales.size > 1 and weights.axis != axis:
        raise Mismatch("its weights are not quantized per output channel")
    channels = weights.integers.shape[axis]
    with np.errstate(over="ignore"):
        if not np.all(np.isfinite(np.float32(source.scale) * weights.scales)):
            raise Mismatch("the product of its input's and its weights' scales is beyond float32")
    scales = np.ascontiguousarray(np.broadcast_to(weights.scales, (channels,)), np.float32)
    zeros = np.broadcast_to(weights.zero_points, (channels,)).astype(np.int32)
    integers_, zeros = _centred(weights.integers, zeros)
    return {
        "weights": integers_,
        "weight_scales": scales,
        "weight_zero_points": zeros,
        "bias": _bias(bias, np.float32(source.scale) * scales, channels),
    }


def _centred(
    weights: Array, zeros: NDArray[np.int32]
) -> tuple[NDArray[np.int8], NDArray[np.int32]]:
    """Weights minus their zero points, if the differences fit int8; the zero points are then 0."""
    centred = weights.astype(np.int32) - zeros.reshape((-1,) + (1,) * (weights.ndim - 1))
    if centred.min(initial=0) >= -128 and centred.max(initial=0) <= 127:
        return centred.astype(np.int8), np.zeros_like(zeros)
    return np.ascontiguousarray(weights), np.ascontiguousarray(zeros)


def _bias(
    bias: Constant | Array | None, scales: NDArray[np.float32], channels: int
) -> NDArray[np.int32]:
    """int32 at the accumulator's scale. A float bias is rounded to it; an int32 bias must have this
    scale already."""
    if bias is None:
        return np.zeros(channels, np.int32)
    if isinstance(bias, np.ndarray):
        return _rounded(bias.astype(np.float64).reshape(-1), scales, channels)
    if bias.integers.size not in (1, channels):
        raise Mismatch(f"it adds {bias.integers.size} numbers to {channels} channels")
    real = bias.integers.astype(np.float64).reshape(-1) - bias.zero_points
    if _of_accumulator(bias, scales):
        return np.ascontiguousarray(np.broadcast_to(bias.integers.reshape(-1), (channels,)))
    return _rounded(real * bias.scales, scales, channels)


def _of_accumulator(bias: Constant, scales: NDArray[np.floating]) -> bool:
    """Whether a quantized bias has the scales of this accumulator."""
    close = np.allclose(bias.scales, scales, rtol=BIAS_SCALE_TOLERANCE, atol=0)
    return bias.integers.dtype == np.int32 and not np.any(bias.zero_points) and close


def _check_bias(
    bias: Constant | Array | None, fields: Fields, source: Tensor, output: Tensor
) -> None:
    """Raises Mismatch where the integers of a bias differ too much from the real numbers that the
    file adds.

    A bias smaller than one accumulator step, as with an absurdly large input scale, would vanish,
    and with it many steps of the output.
    """
    assert source.quantization is not None
    assert output.quantization is not None
    if bias is None:
        return
    unit = source.quantization.scale * fields["weight_scales"].astype(np.float64)
    if isinstance(bias, np.ndarray):
        real, limit = bias.astype(np.float64).reshape(-1), BIAS_MOVES_AT_MOST["rounded"]
    else:
        real = (bias.integers.astype(np.float64).reshape(-1) - bias.zero_points) * bias.scales
        limit = BIAS_MOVES_AT_MOST["rounded" if _of_accumulator(bias, unit) else "exact"]
    moved = np.abs(fields["bias"] * unit - real).max() / output.quantization.scale
    if not moved <= limit:
        raise Mismatch(
            "its bias, rounded to a step of the accumulator, moves its results by up to "
            f"{moved:.3g} steps of the output"
        )


def _check_sums(fields: Fields, source: Tensor) -> None:
    """Raises Mismatch where a possible sum does not fit int32, as with a bias that a quantizer has
    saturated: the file adds real numbers, which do not wrap."""
    weights = fields["weights"].reshape(len(fields["bias"]), -1).astype(np.int64)
    weights -= fields["weight_zero_points"].astype(np.int64)[:, None]
    ends = [weights * (end - source.zero_point) for end in (-128, 127)]
    biases = fields["bias"].astype(np.int64)
    least = np.minimum(*ends).sum(axis=1) + biases
    most = np.maximum(*ends).sum(axis=1) + biases
    for reach, channel in ((least.min(), least.argmin()), (most.max(), most.argmax())):
        if not -(2**31) <= reach < 2**31:
            raise Mismatch(
                Refusal(
                    f"its sum of channel {channel} can reach {reach} (its bias is "
                    f"{biases[channel]}), and int32 holds [-2147483648, 2147483647]",
                    "a larger scale of its input or weights, which makes the bias smaller",
                )
            )


def _half_steps(
    bias: Constant | Array | None, scales: NDArray[np.float32], source: Tensor, output: Tensor
) -> NDArray[np.int32] | None:
    """The bias minus half an accumulator step, where every channel has a float bias with such a
    half, and all scales are powers of two; else None.

    No sum then lies halfway between two integers of the output, and rounding the file's real
    numbers half to even equals one shift of the integers with ties up: Rounding.SINGLE. A model
    requests this rounding in this way, because it is the cheapest one on a device without a
    multiplier.
    """
    assert source.quantization is not None
    assert output.quantization is not None
    unit = np.float64(source.quantization.scale) * scales.astype(np.float64)
    if not isinstance(bias, np.ndarray) or bias.size not in (1, scales.size) or unit.min() <= 0:
        return None
    steps = np.log2(output.quantization.scale / unit)
    if np.any(steps != np.rint(steps)) or steps.min() < 1:
        return None
    real = np.broadcast_to(bias.astype(np.float64).reshape(-1), scales.shape) / unit
    whole = np.floor(real)
    if np.any(real != whole + 0.5) or np.abs(real).max() >= 2**31 - 1:
        return None
    return np.ascontiguousarray(whole, np.int32)


def _rounded(
    real: NDArray[np.float64], scales: NDArray[np.float32], channels: int
) -> NDArray[np.int32]:
    if real.size not in (1, channels):
        raise Mismatch(f"it adds {real.size} numbers to {channels} channels")
    steps = np.rint(np.broadcast_to(real, (channels,)) / scales)
    if np.any(np.abs(steps) >= 2**31):
        raise Mismatch("its bias does not fit int32 at the scale of the accumulator")
    return steps.astype(np.int32)
