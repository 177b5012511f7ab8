# SPDX-License-Identifier: Apache-2.0
"""The rounding of a device whose requantizer is not the framework's, as its back end states it.

In:   an operator; of its requantizer the bits of a multiplier, or of a scale's mantissa, and how it
      treats ties; or any function.
Out:  StatedRounding, which `Backend.rounding` returns; MultiplyShift and FloatScale, two functions
      of sums for it.
Next: rounding_bound.py finds out by how much it is off; conformance/check.py and
      analysis/stated.py compare the device with it.

    def rounding(self, operator):
        return StatedRounding(MultiplyShift.of(operator, bits=8), bound=1)

The same function may be the device's meaning: it takes the sums of an operator and returns bytes.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike, NDArray

from loadstone import graph as g
from loadstone.numerics import Array, requantize_float32

__all__ = ["FloatScale", "MultiplyShift", "StatedRounding"]

#: What is added to a product before its last `shift` bits are dropped.
_TIES = ("up", "even", "away", "floor")
_MOST_BITS, _MOST_SHIFT = 31, 61


@dataclass(frozen=True)
class StatedRounding:
    """function: of a convolution or dense layer, sums (..., O) int64 with their bias -> the
    device's integers, zero point and clamp included; of other operators, their input arrays -> the
    integers, for each element by itself where the operator has at most two inputs of int8 and works
    by elements. bound: by so many levels it is off at most. per_channel: False where the function
    is the same for all channels: it is then given sums (n, 1), so that more of them can be tried.
    Raises TypeError for another bound.

    >>> StatedRounding(lambda sums: sums >> 8, bound=1).bound
    1
    """

    function: Callable[..., Array]
    bound: int = 1
    per_channel: bool = True

    def __post_init__(self) -> None:
        if not isinstance(self.bound, int) or isinstance(self.bound, bool) or self.bound < 0:
            raise TypeError(f"StatedRounding: bound {self.bound!r}, not a number of at least 0")


@dataclass(frozen=True, eq=False)
class MultiplyShift:
    """sum * multiplier / 2^shift, rounded, plus the zero point, clamped.

    multiplier, shift: (O,), in [0, 2^31) and [0, 61]. ties: up (half up), even, away (from zero),
    or floor: no rounding, the bits are dropped. It never decreases while a sum grows. Raises
    ValueError.
    """

    multiplier: NDArray[np.int64]
    shift: NDArray[np.int64]
    zero_point: int = 0
    low: int = -128
    high: int = 127
    ties: str = "up"

    def __post_init__(self) -> None:
        if self.ties not in _TIES:
            raise ValueError(f"ties {self.ties!r} is not one of {', '.join(_TIES)}")
        for name, most in (("multiplier", (1 << _MOST_BITS) - 1), ("shift", _MOST_SHIFT)):
            values = np.asarray(getattr(self, name), np.int64)
            object.__setattr__(self, name, values)
            if values.min(initial=0) < 0 or values.max(initial=0) > most:
                raise ValueError(f"a {name} outside [0, {most}]")

    @classmethod
    def of(
        cls, operator: g.Weighted, bits: int, ties: str = "up", most_shift: int = _MOST_SHIFT
    ) -> MultiplyShift:
        """For an operator: of each channel the multiplier of so many bits, in [2^(bits-1),
        2^bits), that is nearest to its scale; smaller where the shift would exceed most_shift.
        Raises ValueError for bits outside [1, 31], and for a scale of 2^bits or more."""
        if not 1 <= bits <= _MOST_BITS or not 0 <= most_shift <= _MOST_SHIFT:
            raise ValueError(
                f"a multiplier of {bits} bits and a shift up to {most_shift}: not in "
                f"[1, {_MOST_BITS}] and [0, {_MOST_SHIFT}]"
            )
        scale = operator.real_scales()
        shift = np.clip(bits - np.frexp(scale)[1], 0, most_shift)
        multiplier = np.rint(np.ldexp(scale, shift)).astype(np.int64)
        over = (multiplier >> bits > 0) & (shift > 0)  # rounded up to 2^bits
        shift, multiplier = shift - over, np.where(over, multiplier >> 1, multiplier)
        if (multiplier >> bits).any():
            raise ValueError(f"a scale of {scale.max():.3g} needs more than {bits} bits")
        limits = operator.low, operator.high
        return cls(multiplier, shift.astype(np.int64), operator.output.zero_point, *limits, ties)

    def __call__(self, sums: ArrayLike) -> NDArray[np.int64]:
        """(..., O) int32 -> integers."""
        product = np.asarray(sums, np.int64) * self.multiplier
        half = (np.int64(1) << self.shift) >> 1
        if self.ties == "floor":
            half = np.zeros_like(half)
        elif self.ties == "even":
            odd = product >> self.shift & 1
            half = np.where(self.shift > 0, half - 1 + odd, 0)
        elif self.ties == "away":
            half = half - (product < 0) * np.minimum(self.shift, 1)
        rounded = (product + half) >> self.shift
        return np.asarray(np.clip(rounded + self.zero_point, self.low, self.high), np.int64)


@dataclass(frozen=True, eq=False)
class FloatScale:
    """sum * scale in float32, rounded half to even, plus the zero point, clamped.

    scale: (O,) float32, at least 0. It never decreases while a sum grows. Raises ValueError.
    """

    scale: NDArray[np.float32]
    zero_point: int = 0
    low: int = -128
    high: int = 127

    def __post_init__(self) -> None:
        values = np.asarray(self.scale, np.float32)
        object.__setattr__(self, "scale", values)
        if not np.isfinite(values).all() or (values < 0).any():
            raise ValueError("a scale that is no finite number of at least 0")

    @classmethod
    def of(cls, operator: g.Weighted, mantissa_bits: int) -> FloatScale:
        """For an operator: its scales rounded half to even to so many bits behind the leading one,
        as bfloat16 has 7 and float32 23. Raises ValueError for another number of bits."""
        if not 0 <= mantissa_bits <= 23:
            raise ValueError(f"a mantissa of {mantissa_bits} bits, not in [0, 23]")
        fraction, exponent = np.frexp(operator.real_scales())
        whole = np.rint(np.ldexp(fraction, mantissa_bits + 1))
        scale = np.ldexp(whole, exponent - mantissa_bits - 1).astype(np.float32)
        return cls(scale, operator.output.zero_point, operator.low, operator.high)

    def __call__(self, sums: ArrayLike) -> NDArray[np.int64]:
        """(..., O) int32 -> integers."""
        rounded = requantize_float32(sums, self.scale).astype(np.int64)
        return np.asarray(np.clip(rounded + self.zero_point, self.low, self.high), np.int64)
