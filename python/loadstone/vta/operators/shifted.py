"""Requantization by shifts, for devices without RQ: every scale must be a power of two, and the rule must round as a shift does.

In:   operators; the sums that can occur.
Out:  ALU steps and their operands that give the framework's integers, or a Refusal that says why none do.
Next: weighted.py, elementwise.py and pool.py use them where the device has no RQ.

    out = clamp((acc + constant) >> shift)         constant = bias + half a step + (zero point << shift): rounds half up

A shift rounds ties up; TFLite and ONNX round them away from zero or to even. Where clamps hide the difference (a ReLU) or no tie
can occur, the result is the same, and that is proven here, at every accumulator around which the output changes.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike, NDArray

from loadstone import graph as g
from loadstone.backend import Refusal
from loadstone.numerics import (
    INT32_MAX,
    Rounding,
    quantize_multiplier,
    requantize_double,
    requantize_float32,
    requantize_float64,
    requantize_single,
    tflite_scale,
)
from loadstone.vta import constants
from loadstone.vta.exact import on_all_values
from loadstone.vta.schedule.tail import Immediate, Operand, Step

__all__ = ["Finish", "divided", "linear", "weighted"]

_POW2 = "quantization with scales that are powers of two (`loadstone quantize --scheme pow2`)"
_RQ = "a device with the capability requantize"
#: An immediate has 16 bits; a shift by an immediate or a tile is at most 15.
_IMMEDIATE_LIMIT = (1 << 15) - 1
_SHIFT_LIMIT = 15

IntArray = NDArray[np.int64]


@dataclass(frozen=True)
class Finish:
    """What follows a sum: steps, and the rows of operand tiles that they read (a value per channel)."""

    tail: tuple[Step, ...]
    rows: tuple[ArrayLike, ...]


def weighted(op: g.Weighted) -> Finish | Refusal:
    """A convolution or dense layer."""
    shift = _shifts(tflite_scale(op.input.scale, op.weight_scales, op.output.scale))
    if isinstance(shift, Refusal):
        return shift
    half = np.where(shift > 0, np.int64(1) << np.maximum(shift - 1, 0), 0)
    total = constants.folded_bias(op) + half + (op.output.zero_point << shift)
    weights = constants.centred_weights(op)
    reach = np.abs(weights.reshape(len(weights), -1)).sum(axis=1) * 128 + np.abs(total)
    if reach.max() > INT32_MAX:
        return Refusal(f"sums of output channel {reach.argmax()} can leave 32 bits", _RQ)
    if not _rounds_alike(op, shift):
        return Refusal(f"its {op.rounding.name.lower()} rounding decides ties otherwise than a shift, which rounds them up", _RQ)
    return _finish(total, shift, op.low, op.high)


def linear(op: g.Requantize | g.Add | g.Sub) -> tuple[tuple[int, ...], Finish] | Refusal:
    """An element-wise operator as a sum of inputs times small weights: the weights, and what follows. Tried on all values."""
    quantizations = [tensor.quantization for tensor in op.inputs]
    assert op.output.quantization is not None
    scales = np.array([q.scale for q in quantizations if q is not None], np.float64)
    finest = float(scales.min())
    ratios = [_shifts(np.array([finest / scale])) for scale in scales]
    shift = _shifts(np.array([finest / op.output.scale]))
    if isinstance(shift, Refusal) or any(isinstance(ratio, Refusal) for ratio in ratios):
        return Refusal("the ratios of its scales are no powers of two", _POW2)
    exponents = [int(ratio[0]) + max(0, -int(shift[0])) for ratio in ratios if not isinstance(ratio, Refusal)]
    weights = [1 << exponent for exponent in exponents]
    if max(weights) > 127:
        return Refusal(f"an input's scale is {max(weights)} times the finest one: more than a weight of 8 bits", _RQ)
    if isinstance(op, g.Sub):
        weights[1] = -weights[1]
    shift = np.maximum(shift, 0)
    zero = sum(weight * tensor.zero_point for weight, tensor in zip(weights, op.inputs, strict=True))
    total = -zero + (op.output.zero_point << int(shift[0])) + ((1 << int(shift[0])) >> 1)
    if not np.array_equal(_sums(op, weights, total, int(shift[0])), on_all_values(op)):
        return Refusal(f"its {op.rounding.name.lower()} rounding decides ties otherwise than a shift, which rounds them up", _RQ)
    finish = _finish(np.array([total]), shift, op.low, op.high)
    if isinstance(finish, Refusal) or finish.rows:
        return finish if isinstance(finish, Refusal) else Refusal(f"its constant {total} has more than 16 bits", _RQ)
    return tuple(weights), finish


def divided(sums: IntArray, wanted: IntArray, count: int, offset: int, low: int, high: int) -> Finish | None:
    """A mean of `count` integers, to each of which `offset` is added before and taken off after, if it is a shift."""
    shift = count.bit_length() - 1
    total = offset * count + (count >> 1) - (offset << shift)
    if count != 1 << shift or not np.array_equal(np.clip((sums + total) >> shift, low, high), wanted):
        return None
    finish = _finish(np.array([total]), np.array([shift]), low, high)
    return None if isinstance(finish, Refusal) or finish.rows else finish


def _shifts(scale: NDArray[np.float64]) -> IntArray | Refusal:
    """s with scale = 2^-s."""
    fraction, exponent = np.frexp(scale)
    if np.any(fraction != 0.5):
        return Refusal(f"its scale {float(scale[np.argmax(fraction != 0.5)]):.6g} is no power of two", _POW2)
    return np.asarray(1 - exponent, np.int64)


def _finish(total: IntArray, shift: IntArray, low: int, high: int) -> Finish | Refusal:
    """Immediates where all channels agree, operand tiles where not."""
    if np.any(shift < 0) or np.any(shift > 2 * _SHIFT_LIMIT):
        return Refusal(f"a shift of {int(shift.min() if shift.min() < 0 else shift.max())} is not in [0, {2 * _SHIFT_LIMIT}]", _RQ)
    steps: list[Step] = []
    rows: list[ArrayLike] = []
    if np.any(total != total[0]) or abs(total[0]) > 2 * _IMMEDIATE_LIMIT:  # a tensor operation costs as much as two immediate ones
        steps.append(Operand("add", len(rows)))
        rows.append(total)
    else:
        parts = -(-abs(int(total[0])) // _IMMEDIATE_LIMIT)
        steps += [Immediate("add", (int(total[0]) + part) // parts) for part in range(parts)]  # parts that add up to the total
    common = int(shift.min()) if np.all(shift == shift[0]) else max(0, int(shift.max()) - _SHIFT_LIMIT)
    if common > shift.min():
        return Refusal(f"shifts from {shift.min()} to {shift.max()} are more than {_SHIFT_LIMIT} apart", _RQ)
    for part in (min(common, _SHIFT_LIMIT), max(0, common - _SHIFT_LIMIT)):
        steps += [Immediate("shr", part)] if part else []
    if np.any(shift != common):
        steps.append(Operand("shr", len(rows)))
        rows.append(shift - common)
    return Finish((*steps, Immediate("max", low), Immediate("min", high)), tuple(rows))


def _rounds_alike(op: g.Weighted, shift: IntArray) -> bool:
    """Whether the operator's rule is the shift, clamped: compared around every accumulator at which the output changes."""
    step = np.unique(shift).reshape(-1, 1)
    low, high = op.low - op.output.zero_point, op.high - op.output.zero_point
    changes = (2 * np.arange(low - 1, high + 2) + 1 << step) >> 1  # where acc / 2^s is half between integers
    acc = (changes[..., None] + np.arange(-1, 2)).ravel()
    scale = np.ldexp(1.0, -np.broadcast_to(step[..., None], (*changes.shape, 3)).ravel())
    exact = np.abs(acc) <= INT32_MAX
    acc, scale = acc[exact], scale[exact]
    shifted = np.floor(acc * scale + 0.5)  # exact: |acc| < 2^31, scale a power of two
    return np.array_equal(np.clip(shifted, low, high), np.clip(_rule(op, acc, scale), low, high))


def _rule(op: g.Weighted, acc: IntArray, scale: NDArray[np.float64]) -> NDArray[np.float64]:
    """What the operator's rounding makes of accumulators, before zero point and clamp."""
    if op.rounding is Rounding.FLOAT32:
        return np.asarray(requantize_float32(acc, scale.astype(np.float32)), np.float64)
    multiplier, shift = quantize_multiplier(scale)
    if op.rounding is Rounding.DOUBLE:
        return np.asarray(requantize_double(acc, multiplier, shift), np.float64)
    if isinstance(op, g.Dense):  # TFLite's FULLY_CONNECTED
        return np.asarray(requantize_float64(acc, scale), np.float64)
    return np.asarray(requantize_single(acc, multiplier, shift), np.float64)


def _probe(op: g.Requantize | g.Add | g.Sub) -> list[IntArray]:
    """Every value, or every pair of values, of the inputs."""
    values = np.arange(-128, 128)
    return [values.reshape(256, 1), values.reshape(1, 256)][: len(op.inputs)]


def _sums(op: g.Requantize | g.Add | g.Sub, weights: list[int], total: int, shift: int) -> IntArray:
    acc = sum(weight * values for weight, values in zip(weights, _probe(op), strict=True)) + total
    return np.asarray(np.clip(np.asarray(acc) >> shift, op.low, op.high), np.int64)
