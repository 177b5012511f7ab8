# SPDX-License-Identifier: Apache-2.0
"""What the frameworks' kernels make of a sum of products: one integer to one level.

In:   sums: int64 arrays of values that fit 32 bits; scales as the framework computes them.
Out:  levels: integers between the least and the greatest level of the output.
Next: the readers attach a Requantizer to an operator; the engine compares it with the device's.

Stated anew from the documented arithmetic, and compared in tests with LiteRT and ONNX Runtime:

    double    32-bit fixed point, rounded twice      LiteRT: convolutions, products, means, ADD
    single    64-bit fixed point, rounded once       LiteRT built with single rounding
    away      float64, half away from zero           LiteRT: FULLY_CONNECTED
    float32   float32, half to even                  ONNX Runtime
    average   divided by a count, half away          LiteRT: AVERAGE_POOL_2D

Each is a non-decreasing function of the sum, but for `double` where its left shift wraps.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray

__all__ = [
    "Average",
    "Away",
    "Double",
    "Float32",
    "Levels",
    "Requantizer",
    "Scaling",
    "average",
    "away",
    "double",
    "float32",
    "quantize_multiplier",
    "single",
    "wrapped",
]

Levels: TypeAlias = NDArray[np.int64]
_Parameter: TypeAlias = int | Levels
_Real: TypeAlias = float | NDArray[np.float64]
_LEAST, _GREATEST = int(np.iinfo(np.int32).min), int(np.iinfo(np.int32).max)


def quantize_multiplier(real: float) -> tuple[int, int]:
    """(multiplier, shift) of a scale >= 0: real = multiplier * 2^(shift - 31), the multiplier in
    [2^30, 2^31), rounded half up; (0, 0) below 2^-32 and the greatest pair from 2^30 on, as
    LiteRT's QuantizeMultiplier has it."""
    fraction, shift = math.frexp(real)
    multiplier = math.floor(math.ldexp(fraction, 31) + 0.5)
    if multiplier == 1 << 31:
        multiplier, shift = 1 << 30, shift + 1
    if shift < -31:
        return 0, 0
    return (multiplier, shift) if shift <= 30 else (_GREATEST, 30)


def wrapped(values: Levels) -> Levels:
    """The low 32 bits of integers, as int32 has them; elementwise."""
    return np.asarray(values, np.int64).astype(np.int32).astype(np.int64)


def double(sums: Levels, multiplier: _Parameter, shift: _Parameter) -> Levels:
    """sums * multiplier * 2^(shift - 31), rounded twice; shapes broadcast.

    LiteRT's MultiplyByQuantizedMultiplier: a left shift, which wraps at 32 bits; the upper half
    of twice the product, rounded to nearest, ties upward; a right shift, rounded to nearest, ties
    away from zero.
    """
    product = wrapped(np.asarray(sums, np.int64) << np.maximum(shift, 0)) * multiplier
    high = np.minimum((product + (1 << 30)) >> 31, _GREATEST)
    right = np.maximum(-np.asarray(shift, np.int64), 0)
    half = (np.int64(1) << right) >> 1
    return np.asarray(np.where(high < 0, -((-high + half) >> right), (high + half) >> right))


def single(sums: Levels, multiplier: _Parameter, shift: _Parameter) -> Levels:
    """sums * multiplier * 2^(shift - 31), rounded once to nearest, ties upward; shapes
    broadcast. shift: at most 30."""
    right = 31 - np.asarray(shift, np.int64)
    return np.asarray(
        (np.asarray(sums, np.int64) * multiplier + (np.int64(1) << (right - 1))) >> right
    )


def away(sums: Levels, real: _Real) -> Levels:
    """sums * real in float64, to nearest, ties away from zero; shapes broadcast."""
    product = np.asarray(sums, np.float64) * real
    whole = np.trunc(product)
    rounded = whole + np.where(np.abs(product - whole) >= 0.5, np.sign(product), 0)
    return np.asarray(np.clip(rounded, _LEAST, _GREATEST), np.int64)


def float32(sums: Levels, real: _Real) -> Levels:
    """sums * real in float32, the sums first, to nearest, ties to even; shapes broadcast."""
    with np.errstate(over="ignore"):
        product = np.asarray(sums, np.int64).astype(np.float32) * np.asarray(real, np.float32)
    return np.clip(np.rint(product).astype(np.float64), _LEAST, _GREATEST).astype(np.int64)


def average(sums: Levels, count: _Parameter) -> Levels:
    """sums / count, to nearest, ties away from zero; shapes broadcast."""
    magnitude = (np.abs(sums) + np.asarray(count) // 2) // count
    return np.asarray(np.sign(sums) * magnitude, np.int64)


@dataclass(frozen=True, eq=False)
class Double:
    """`double`, with a multiplier and a shift for each channel; shape (channels,)."""

    multipliers: Levels
    shifts: Levels

    @classmethod
    def of(cls, reals: NDArray[np.float64]) -> Double:
        """The scaling by real numbers (channels,)."""
        pairs = [quantize_multiplier(real) for real in reals.tolist()]
        multipliers, shifts = zip(*pairs, strict=True)
        return cls(np.array(multipliers, np.int64), np.array(shifts, np.int64))

    def __call__(self, sums: Levels, channel: _Parameter) -> Levels:
        """Scaled sums of channels; shapes broadcast."""
        return double(sums, self.multipliers[channel], self.shifts[channel])


@dataclass(frozen=True, eq=False)
class Away:
    """`away`, with a scale for each channel; shape (channels,)."""

    reals: NDArray[np.float64]

    def __call__(self, sums: Levels, channel: _Parameter) -> Levels:
        """Scaled sums of channels; shapes broadcast."""
        return away(sums, self.reals[channel])


@dataclass(frozen=True, eq=False)
class Float32:
    """`float32`, with a scale for each channel; float32 values, shape (channels,)."""

    reals: NDArray[np.float64]

    def __call__(self, sums: Levels, channel: _Parameter) -> Levels:
        """Scaled sums of channels; shapes broadcast."""
        return float32(sums, self.reals[channel])


@dataclass(frozen=True)
class Average:
    """`average` of so many taps, in every channel."""

    count: int

    def __call__(self, sums: Levels, channel: _Parameter) -> Levels:
        """Scaled sums of channels; shapes broadcast."""
        return average(sums, self.count)


Scaling: TypeAlias = Double | Away | Float32 | Average


@dataclass(frozen=True, eq=False)
class Requantizer:
    """The requantization of an operator's sums: scaled, moved by the zero point, clamped.

    scaling: has a parameter for each output channel. low, high: levels of the output's type.
    """

    scaling: Scaling
    zero_point: int
    low: int
    high: int

    def levels(self, sums: Levels, channel: _Parameter) -> Levels:
        """Levels of sums, which are those of `channel`; shapes broadcast."""
        moved = self.scaling(sums, channel) + self.zero_point
        return np.asarray(np.clip(moved, self.low, self.high))
