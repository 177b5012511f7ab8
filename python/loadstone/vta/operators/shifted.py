"""Requantization by shifts, for devices without RQ: every scale must be a power of two.

In:   operators; the sums that can occur.
Out:  ALU steps and their operands that give the framework's integers, or a Refusal that says why
      none do.
Next: weighted.py uses them where the device has no RQ.

    out = clamp((acc + bias + half a step + (zero point << shift)) >> shift)            rounds half
        up

A shift rounds ties up; ONNX rounds them to even, TFLite's averages and dense layers away from zero.
Where a clamp hides the difference nothing is needed. Else a correction of 0 or -1 is made from a
copy of the sum, which costs ALU passes:

    away from zero     -1 where the sum is negative
    to even            -1 where sum >> shift is even

That the integers are the framework's is proven, at every accumulator around which the output
changes, or on all values.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum

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
from loadstone.vta import constants
from loadstone.vta.requantization_search import OutputRange
from loadstone.vta.schedule.epilogue import Immediate, RowOperand, Step, TieCorrection

__all__ = ["Epilogue", "weighted"]

_POW2 = "quantization with scales that are powers of two (`loadstone quantize --scheme pow2`)"
_RQ = "a device with the capability requantize"
#: An immediate has 16 bits; a shift by an immediate or a tile is at most 15, to the left at most
#: 16.
_IMMEDIATE_LIMIT = (1 << 15) - 1
_SHIFT_LIMIT = 15

IntArray = NDArray[np.int64]


@dataclass(frozen=True)
class Epilogue:
    """What follows a sum: steps, and the rows of operand tiles that they read (a value per
    channel)."""

    tail: tuple[Step, ...]
    rows: tuple[ArrayLike, ...]


class _Tie(Enum):
    """Where half goes; cheapest first."""

    UP = "up"
    AWAY = "away from zero"
    EVEN = "to even"

    def shifted(self, acc: IntArray, shift: IntArray) -> IntArray:
        """acc / 2^shift, rounded."""
        half = (np.int64(1) << shift) >> 1
        correction = {
            _Tie.UP: 0 * acc,
            _Tie.AWAY: -(acc < 0).astype(np.int64),
            _Tie.EVEN: ((acc >> shift) & 1) - 1,
        }[self]
        return np.asarray((acc + half + np.where(shift > 0, correction, 0)) >> shift, np.int64)


def weighted(op: g.Weighted) -> Epilogue | Refusal:
    """A convolution or dense layer."""
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
    tie = next((tie for tie in _Tie if _rounds_alike(op, shift, tie)), None)
    if tie is None:
        return Refusal(f"its {op.rounding.name.lower()} rounding is none that shifts can make", _RQ)
    return _epilogue(bias, shift, tie, OutputRange(op.output.zero_point, op.low, op.high))


def _shifts(scale: NDArray[np.float64]) -> IntArray | Refusal:
    """s with scale = 2^-s."""
    fraction, exponent = np.frexp(scale)
    if np.any(fraction != 0.5):
        return Refusal(
            f"its scale {float(scale[np.argmax(fraction != 0.5)]):.6g} is no power of two", _POW2
        )
    return np.asarray(1 - exponent, np.int64)


def _epilogue(
    bias: IntArray, shift: IntArray, tie: _Tie, output: OutputRange
) -> Epilogue | Refusal:
    """The steps. Values that all channels share are immediates, others stand in operand tiles."""
    if np.any(shift < 0) or np.any(shift > 2 * _SHIFT_LIMIT):
        return Refusal(
            f"a shift of {int(shift.min() if shift.min() < 0 else shift.max())} is not in "
            f"[0, {2 * _SHIFT_LIMIT}]",
            _RQ,
        )
    if shift.max() - shift.min() > _SHIFT_LIMIT or (
        tie is not _Tie.UP and shift.min() == 0 < shift.max()
    ):
        return Refusal(f"shifts from {shift.min()} to {shift.max()} are too far apart", _RQ)
    rows = _Rows()
    half = ((np.int64(1) << shift) >> 1) + (output.zero_point << shift)
    clamp = (Immediate("max", output.low), Immediate("min", output.high))
    if tie is _Tie.UP or shift.max() == 0:
        return Epilogue((*rows.add(bias + half), *rows.shift(shift), *clamp), tuple(rows.rows))
    sign: tuple[Immediate | RowOperand, ...] = (
        Immediate("min", 0),
        Immediate("max", -1),
    )  # -1 of what is negative
    if tie is _Tie.EVEN:  # bit 0 of (sum >> shift) + 1, moved to the sign
        sign = (
            *rows.shift(shift),
            Immediate("add", 1),
            Immediate("shr", -16),
            Immediate("shr", -15),
            *sign,
        )
    return Epilogue(
        (*rows.add(bias), TieCorrection(sign), *rows.add(half), *rows.shift(shift), *clamp),
        tuple(rows.rows),
    )


class _Rows:
    """Steps with a value per channel, and the operand rows that they need."""

    def __init__(self) -> None:
        self.rows: list[IntArray] = []

    def add(self, values: IntArray) -> tuple[Immediate | RowOperand, ...]:
        """x + value. A tensor operation costs as much as two immediate ones."""
        if np.any(values != values[0]) or abs(values[0]) > 2 * _IMMEDIATE_LIMIT:
            return (RowOperand("add", self._row(values)),)
        total = int(values[0])
        parts = -(-abs(total) // _IMMEDIATE_LIMIT)
        return tuple(
            Immediate("add", (total + part) // parts) for part in range(parts)
        )  # parts that add up to the total

    def shift(self, values: IntArray) -> tuple[Immediate | RowOperand, ...]:
        """x >> value, in as many steps as it takes: floors compose."""
        common = (
            int(values[0])
            if np.all(values == values[0])
            else max(0, int(values.max()) - _SHIFT_LIMIT)
        )
        parts = (min(common, _SHIFT_LIMIT), max(0, common - _SHIFT_LIMIT))
        steps: list[Immediate | RowOperand] = [Immediate("shr", part) for part in parts if part]
        if np.any(values != common):
            steps.append(RowOperand("shr", self._row(values - common)))
        return tuple(steps)

    def _row(self, values: IntArray) -> int:
        for number, row in enumerate(self.rows):
            if np.array_equal(row, values):
                return number
        self.rows.append(values)
        return len(self.rows) - 1


def _rounds_alike(op: g.Weighted, shift: IntArray, tie: _Tie) -> bool:
    """Whether the operator's rule is the shift, clamped: compared around every accumulator at which
    the output changes."""
    step = np.unique(np.maximum(shift, 0)).reshape(-1, 1)
    low, high = op.low - op.output.zero_point, op.high - op.output.zero_point
    changes = (
        2 * np.arange(low - 1, high + 2) + 1 << step
    ) >> 1  # where acc / 2^s is half between integers
    acc = (changes[..., None] + np.arange(-1, 2)).ravel()
    steps = np.broadcast_to(step[..., None], (*changes.shape, 3)).ravel()
    inside = np.abs(acc) <= INT32_MAX
    acc, steps = acc[inside], steps[inside]
    wanted = np.clip(_rule(op, acc, np.ldexp(1.0, -steps)), low, high)
    return np.array_equal(np.clip(tie.shifted(acc, steps), low, high), wanted)


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
