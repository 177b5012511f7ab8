# SPDX-License-Identifier: Apache-2.0
"""Arithmetic on integers as gemmlowp defines it, in operations of Relax, for TFLite's operators
with a state.

In:   expressions of int64; scales as real numbers.
Out:  expressions of int64 with the integers of LiteRT's kernels; Stateful, the interface of
      tflite.py for such operators.
Next: tflite_state.py (SVDF) and tflite_lstm.py use it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

import numpy as np
from numpy.typing import ArrayLike

from loadstone.errors import UnsupportedError
from loadstone.frontend.tflite_file import OperatorRecord, TensorRecord, TfliteFile
from loadstone.numerics import quantize_multiplier
from loadstone.relax.compat import constant_int64, relax

if TYPE_CHECKING:
    from loadstone.relax.types import BlockBuilder, Expr

__all__ = ["Integers", "Stateful", "grid", "single_scale"]


def single_scale(record: TensorRecord) -> np.float32:
    """The scale of a tensor that has one for all elements. Raises UnsupportedError."""
    if record.scales is None or record.scales.size != 1:
        raise UnsupportedError(f'"{record.name}" has no single scale')
    return np.float32(record.scales[0])


def grid(tensor: TensorRecord) -> tuple[float, int]:
    """Scale and zero point: tflite_rules.py has checked that there is one of each."""
    assert tensor.scales is not None
    assert tensor.zero_points is not None
    return float(tensor.scales[0]), int(tensor.zero_points[0])


class Stateful(Protocol):
    """What these functions ask of tflite.py."""

    file: TfliteFile
    record: OperatorRecord
    bb: BlockBuilder

    def real(self, position: int) -> Expr:
        """Input number `position` of the operator, as real numbers."""
        ...

    def stored(self, index: int) -> Expr:
        """A tensor as the file has it."""
        ...

    def keep(self, index: int, expr: Expr) -> None:
        """The next value of a state, which is read from here on."""
        ...

    def give(self, index: int, expr: Expr) -> None:
        """A tensor as the file has it, computed."""
        ...


class Integers:
    """int64 in, int64 out; a scale or shift is one number, or one for each column."""

    def __init__(self, builder: BlockBuilder) -> None:
        self.emit = builder.emit
        self._numbers: dict[tuple[tuple[int, ...], bytes], Expr] = {}

    def number(self, value: ArrayLike) -> Expr:
        """value: of any shape (...). One constant for each, however often it is used: a step in C
        names each as an input."""
        array = np.asarray(value, np.int64)
        key = (array.shape, array.tobytes())
        if key not in self._numbers:
            self._numbers[key] = constant_int64(array)
        return self._numbers[key]

    def wide(self, x: Expr) -> Expr:
        """As int64."""
        return self.emit(relax.op.astype(x, "int64"))

    def scaled(self, x: Expr, scale: ArrayLike) -> Expr:
        """numerics.requantize_double: times a multiplier, shifted right, each rounded. scale: () or
        (columns,)."""
        multiplier, shift = (array.astype(np.int64) for array in quantize_multiplier(scale))
        left, right = np.maximum(shift, 0), np.maximum(-shift, 0)
        if np.any(left):
            x = self.emit(relax.op.multiply(x, self.number(np.int64(1) << left)))
        product = self.emit(relax.op.multiply(x, self.number(multiplier)))
        zero = self.number(0)
        positive = self.emit(relax.op.greater_equal(product, zero))
        nudge = self.emit(
            relax.op.where(positive, self.number(1 << 30), self.number(1 - (1 << 30)))
        )
        nudged = self.emit(relax.op.add(product, nudge))
        size = self.emit(relax.op.right_shift(self.emit(relax.op.abs(nudged)), self.number(31)))
        upward = self.emit(relax.op.greater_equal(nudged, zero))
        high = self.emit(relax.op.where(upward, size, self.emit(relax.op.negative(size))))
        return self.shifted(high, right) if np.any(right) else high

    def scaled_wide(self, x: Expr, scale: ArrayLike) -> Expr:
        """LiteRT's MultiplyByQuantizedMultiplier of 64 bits: a multiplier of 16 bits, rounded once,
        ties upward. scale: () or (columns,)."""
        multiplier, shift = (array.astype(np.int64) for array in quantize_multiplier(scale))
        reduced = np.where(multiplier < 0x7FFF0000, (multiplier + (1 << 15)) >> 16, 0x7FFF)
        product = self.emit(relax.op.multiply(x, self.number(reduced)))
        nudged = self.emit(relax.op.add(product, self.number(np.int64(1) << (14 - shift))))
        return self.emit(relax.op.right_shift(nudged, self.number(15 - shift)))

    def scaled_once(self, x: Expr, scale: ArrayLike) -> Expr:
        """numerics.requantize_single: times a multiplier and shifted right, rounded once, ties
        upward. scale: () or (columns,)."""
        multiplier, shift = (array.astype(np.int64) for array in quantize_multiplier(scale))
        product = self.emit(relax.op.multiply(x, self.number(multiplier)))
        nudged = self.emit(relax.op.add(product, self.number(np.int64(1) << (30 - shift))))
        return self.emit(relax.op.right_shift(nudged, self.number(31 - shift)))

    def shifted(self, x: Expr, right: ArrayLike) -> Expr:
        """gemmlowp's RoundingDivideByPOT: to nearest, ties away from zero. right: bits, () or
        (columns,)."""
        mask = (np.int64(1) << np.asarray(right, np.int64)) - 1
        rest = self.emit(relax.op.bitwise_and(x, self.number(mask)))
        negative = self.emit(relax.op.less(x, self.number(0)))
        half = self.emit(
            relax.op.where(negative, self.number((mask >> 1) + 1), self.number(mask >> 1))
        )
        up = self.emit(relax.op.astype(self.emit(relax.op.greater(rest, half)), "int64"))
        return self.emit(relax.op.add(self.emit(relax.op.right_shift(x, self.number(right))), up))

    def clamped(self, x: Expr, low: int, high: int) -> Expr:
        """Between two bounds."""
        least = self.emit(relax.op.maximum(x, self.number(low)))
        return self.emit(relax.op.minimum(least, self.number(high)))

    def limited(self, x: Expr, kind: str) -> Expr:
        """Saturated to an integer type; not bound yet."""
        limits = np.iinfo(kind)
        return relax.op.astype(self.clamped(x, int(limits.min), int(limits.max)), kind)
