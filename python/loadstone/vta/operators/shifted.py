# SPDX-License-Identifier: Apache-2.0
"""Requantization by shifts, for devices without RQ: every scale must be a power of two.

In:   operators; the sums that can occur.
Out:  ALU steps and their operands that give the framework's integers, or a Refusal that says why
      none do.
Next: weighted.py uses them where the device has no RQ.

    out = clamp((acc + bias + half a step + (zero point << shift)) >> shift)            rounds half
        up

A shift rounds ties up; ONNX rounds them to even, TFLite's averages and dense layers away from zero.
Where a clamp hides the difference nothing is needed. Else a copy of the sum decides, which costs
seven ALU passes:

    away from zero     sum - (1 where it is negative)                            then as above
    to even            ((sum + 1.5 steps - 1) >> (shift + 1)) + ((sum + half a step) >> (shift + 1))

The second is a sum of two stairs with steps twice as wide: one climbs onto the odd integers, just
behind the tie, the other onto the even ones, just at the tie.

A value per channel is added by one GEMM step (ConstantProduct), half as dear as a tensor operation.

That the integers are the framework's is proven, at every accumulator around which the output
changes, or on all values.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from enum import Enum
from typing import TypeVar

import numpy as np
from numpy.typing import ArrayLike, NDArray

from loadstone import graph as g
from loadstone.backend.interface import Refusal
from loadstone.numerics import (
    INT32_MAX,
    Rounding,
    quantize_multiplier,
    requantize_double,
    requantize_float32,
    requantize_float64,
    requantize_single,
)
from loadstone.vta.integers.requantization_search import OutputRange
from loadstone.vta.operators import constants
from loadstone.vta.schedule.epilogue import (
    ConstantProduct,
    Immediate,
    RowOperand,
    Step,
    TieCorrection,
)

__all__ = ["Epilogue", "weighted", "without_silent"]

_POW2 = "quantization with scales that are powers of two (`loadstone quantize --scheme pow2`)"
_RQ = "a device with the capability requantize"
#: An immediate has 16 bits; a shift by an immediate or a tile is at most 15, to the left at most
#: 16.
_IMMEDIATE_LIMIT = (1 << 15) - 1
_SHIFT_LIMIT = 15
#: The finest scale of a channel that says nothing, as a power of two: 255 / 2^-22 is below 2^30.
_FINEST = -22

IntArray = NDArray[np.int64]
Layer = TypeVar("Layer", bound=g.Weighted)


@dataclass(frozen=True)
class Epilogue:
    """What follows a sum: steps, and the rows of operand tiles and of products that they read (a
    value per channel)."""

    tail: tuple[Step, ...]
    rows: tuple[ArrayLike, ...]
    products: tuple[ArrayLike, ...] = ()


class _Tie(Enum):
    """The direction in which ties are rounded; the cheapest first."""

    UP = "up"
    AWAY = "away from zero"
    EVEN = "to even"

    def shifted(self, acc: IntArray, shift: IntArray) -> IntArray:
        """acc / 2^shift, rounded."""
        half = (np.int64(1) << shift) >> 1
        if self is _Tie.EVEN:
            odd, even = _stairs(shift)
            return np.asarray(((acc + odd) >> (shift + 1)) + ((acc + even) >> (shift + 1)))
        less = (acc < 0) & (shift > 0) if self is _Tie.AWAY else 0 * acc
        return np.asarray((acc + half - less) >> shift, np.int64)


def _stairs(shift: IntArray) -> tuple[IntArray, IntArray]:
    """What is added in front of shifts by one more: for the stairs onto odd and onto even
    integers. Where nothing is shifted their sum is the integer itself."""
    step = np.int64(1) << shift
    return np.where(shift > 0, step + (step >> 1) - 1, 1), step >> 1


def weighted(op: g.Weighted, block: int) -> Epilogue | Refusal:
    """A convolution or dense layer. block: lanes of the device's weight tiles."""
    op = without_silent(op, block)
    shift = _shifts(op.real_scales())
    if isinstance(shift, Refusal):
        return shift
    bias = constants.folded_bias(op)
    weights = constants.centred_weights(op)
    sums = np.abs(weights.reshape(len(weights), -1)).sum(axis=1) * 128 + np.abs(bias)
    reach = sums + (
        np.int64(256) << np.maximum(shift, 0)
    )  # the output's 8 bits, zero point and half a step among them
    if reach.max() > INT32_MAX:
        return Refusal(f"sums of output channel {reach.argmax()} can leave 32 bits", _RQ)
    tie = next((tie for tie in _Tie if _rounds_alike(op, shift, sums, tie)), None)
    if tie is None:
        return Refusal(f"its {op.rounding.name.lower()} rounding is none that shifts can make", _RQ)
    output = OutputRange(op.output.zero_point, op.low, op.high)
    return _epilogue(bias, shift, tie, output, constants.product_limit(block))


def without_silent(op: Layer, block: int) -> Layer:
    """The same layer, in which channels whose output is one value whatever the input have weights
    of 0 and the scale of their neighbours: near-dead channels of a real network have shifts of 20
    and more, which would not fit beside the others'. Scales must be powers of two, or nothing is
    changed."""
    scale = op.real_scales()
    if isinstance(_shifts(scale), Refusal):
        return op
    weights = constants.centred_weights(op).reshape(len(op.bias), -1)
    x = np.array([-128, 127]) - op.input.zero_point
    ends = np.stack([weights * x[0], weights * x[1]])
    sums = np.stack([ends.min(axis=0).sum(axis=1), ends.max(axis=0).sum(axis=1)]) + op.bias
    inside = np.clip(sums.astype(np.int64), -INT32_MAX, INT32_MAX)
    least, most = np.clip(_rule(op, inside, scale) + op.output.zero_point, op.low, op.high)
    silent = (least == most) & np.all(sums == inside, axis=0)
    if not silent.any():
        return op
    w, scales = op.weights.copy(), op.weight_scales.copy()
    # Of the output; with a larger scale its values are no multiples, with a far smaller one their
    # biases leave 32 bits.
    step = op.output.scale / op.input.scale
    w[silent] = op.weight_zero_points[silent].reshape(-1, *[1] * (w.ndim - 1)).astype(w.dtype)
    for first in range(0, len(scales), block):
        lanes = slice(first, first + block)
        live = scales[lanes][~silent[lanes]]
        common = np.clip(live.max(), np.ldexp(step, _FINEST), step) if live.size else step
        scales[lanes][silent[lanes]] = common
    found = replace(op, weights=w, weight_scales=scales)
    value = np.where(silent, (least - op.output.zero_point) / found.real_scales(), op.bias)
    return replace(found, bias=np.rint(value).astype(op.bias.dtype))


def _shifts(scale: NDArray[np.float64]) -> IntArray | Refusal:
    """s with scale = 2^-s."""
    fraction, exponent = np.frexp(scale)
    if np.any(fraction != 0.5):
        return Refusal(
            f"its scale {float(scale[np.argmax(fraction != 0.5)]):.6g} is no power of two", _POW2
        )
    return np.asarray(1 - exponent, np.int64)


def _epilogue(
    bias: IntArray, shift: IntArray, tie: _Tie, output: OutputRange, product_limit: int = 0
) -> Epilogue | Refusal:
    """The steps. Values that all channels share are immediates, others products of constants up to
    `product_limit`, or stand in operand tiles."""
    if np.any(shift < 0) or np.any(shift >= 2 * _SHIFT_LIMIT):
        return Refusal(
            f"a shift of {int(shift.min() if shift.min() < 0 else shift.max())} is not in "
            f"[0, {2 * _SHIFT_LIMIT - 1}]",
            _RQ,
        )
    rows = _Rows(product_limit)
    half = ((np.int64(1) << shift) >> 1) + (output.zero_point << shift)
    clamp = (Immediate("max", output.low), Immediate("min", output.high))
    steps: tuple[Step, ...]
    if tie is _Tie.UP or shift.max() == 0:
        steps = (*rows.add(bias + half), *rows.shift(shift), *clamp)
    elif tie is _Tie.AWAY:
        if shift.min() == 0:  # there the sign says nothing
            return Refusal(f"its shifts are 0 and up to {shift.max()}: 0 has no ties", _RQ)
        sign = (*rows.add(-half), Immediate("min", 0), Immediate("max", -1))
        steps = (*rows.add(bias + half), TieCorrection(sign), *rows.shift(shift), *clamp)
    else:
        odd, even = _stairs(shift)
        even = even + (-(-output.zero_point // 2) << (shift + 1))
        odd = odd + (output.zero_point // 2 << (shift + 1))
        wide = rows.shift(shift + 1)
        stairs = TieCorrection((*rows.add(odd - even), *wide), wide)
        steps = (*rows.add(bias + even), stairs, *clamp)
    return Epilogue(steps, tuple(rows.rows), tuple(rows.products))


class _Rows:
    """Steps with a value per channel, and the rows that they need."""

    def __init__(self, product_limit: int) -> None:
        self.product_limit = product_limit
        self.rows: list[IntArray] = []
        self.products: list[IntArray] = []

    def add(self, values: IntArray) -> tuple[Immediate | RowOperand | ConstantProduct, ...]:
        """x + value, first of all steps. A tensor operation costs as much as two immediate ones, or
        two products."""
        alike = bool(np.all(values == values[0]))
        if not alike or abs(values[0]) > _IMMEDIATE_LIMIT:
            if np.abs(values).max() <= self.product_limit:
                return (ConstantProduct(_number(values, self.products)),)
            if not alike or abs(values[0]) > 2 * _IMMEDIATE_LIMIT:
                return (RowOperand("add", _number(values, self.rows)),)
        total = int(values[0])
        parts = -(-abs(total) // _IMMEDIATE_LIMIT)
        return tuple(
            Immediate("add", (total + part) // parts) for part in range(parts)
        )  # parts that add up to the total

    def shift(self, values: IntArray) -> tuple[Immediate | RowOperand, ...]:
        """x >> value, in as many steps as it takes: floors compose."""
        alike, least = bool(np.all(values == values[0])), int(values.min())
        common = least if alike else min(least, max(0, int(values.max()) - _SHIFT_LIMIT))
        parts = (min(common, _SHIFT_LIMIT), max(0, common - _SHIFT_LIMIT))
        steps: list[Immediate | RowOperand] = [Immediate("shr", part) for part in parts if part]
        rest = values - common
        while np.any(rest):
            part = np.minimum(rest, _SHIFT_LIMIT)
            steps.append(RowOperand("shr", _number(part, self.rows)))
            rest = rest - part
        return tuple(steps)


def _number(values: IntArray, rows: list[IntArray]) -> int:
    """The row that holds the values: one that does, or a new one."""
    for number, row in enumerate(rows):
        if np.array_equal(row, values):
            return number
    rows.append(values)
    return len(rows) - 1


def _rounds_alike(op: g.Weighted, shift: IntArray, reach: IntArray, tie: _Tie) -> bool:
    """Whether the operator's rule is the shift, clamped: compared around every accumulator at which
    the output changes.

    reach: (O,), the largest sum, either sign, that a channel can have.
    """
    kinds, channels = np.unique(np.maximum(shift, 0), return_inverse=True)
    reached = np.zeros(kinds.shape, np.int64)
    np.maximum.at(reached, channels, reach)
    step = kinds.reshape(-1, 1)
    low, high = op.low - op.output.zero_point, op.high - op.output.zero_point
    changes = (
        2 * np.arange(low - 1, high + 2) + 1 << step
    ) >> 1  # where acc / 2^s is half between integers
    around = changes[..., None] + np.arange(-1, 2)
    inside = np.abs(around) <= reached[:, None, None]
    acc = around[inside]
    steps = np.broadcast_to(step[..., None], around.shape)[inside]
    wanted = np.clip(_rule(op, acc, np.ldexp(1.0, -steps)), low, high)
    return np.array_equal(np.clip(tie.shifted(acc, steps), low, high), wanted)


def _rule(op: g.Weighted, acc: IntArray, scale: NDArray[np.float64]) -> NDArray[np.float64]:
    """The function from accumulators to outputs that the operator's rounding defines, before zero
    point and clamp."""
    if op.rounding is Rounding.FLOAT32:
        return np.asarray(requantize_float32(acc, scale.astype(np.float32)), np.float64)
    multiplier, shift = quantize_multiplier(scale)
    if op.rounding is Rounding.DOUBLE:
        return np.asarray(requantize_double(acc, multiplier, shift), np.float64)
    if isinstance(op, g.Dense):  # TFLite's FULLY_CONNECTED
        return np.asarray(requantize_float64(acc, scale), np.float64)
    return np.asarray(requantize_single(acc, multiplier, shift), np.float64)
