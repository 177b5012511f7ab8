# SPDX-License-Identifier: Apache-2.0
"""What a name of an ONNX graph stands for, between levels and real numbers.

In:   levels, scales, zero points; functions of real numbers.
Out:  RealLevels and its kin: which real number each level stands for, in float32.
Next: read_onnx.py follows the graph with them; QuantizeLinear makes levels of them again.

An operator between DequantizeLinear and QuantizeLinear that computes element by element is a table:
of each level, or of each pair of levels. So chains of any length are one table, in the float32 that
the file's operators compute in.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray

from loadstone.prove.requantize import Levels

__all__ = [
    "ConstantValue",
    "Moved",
    "Pending",
    "QuantizedConstant",
    "RealLevels",
    "Reals",
    "Scale",
    "Value",
]

Reals: TypeAlias = NDArray[np.float32]


@dataclass(frozen=True)
class Scale:
    """scale, zero point and type of a tensor of levels."""

    scale: float
    zero_point: int
    dtype: str

    @property
    def limits(self) -> tuple[int, int]:
        """The least and the greatest level."""
        found = np.iinfo(self.dtype)
        return int(found.min), int(found.max)

    def reals(self) -> Reals:
        """DequantizeLinear of every level, from the least; shape (256,)."""
        low, high = self.limits
        centred = np.arange(low, high + 1, dtype=np.int64) - self.zero_point
        return centred.astype(np.float32) * np.float32(self.scale)

    def levels(self, reals: Reals) -> Levels:
        """QuantizeLinear: a float32 quotient rounded half to even, elementwise."""
        with np.errstate(over="ignore"):
            rounded = np.rint(np.asarray(reals, np.float32) / np.float32(self.scale))
        moved = np.clip(rounded.astype(np.float64) + self.zero_point, *self.limits)
        return np.asarray(moved, np.int64)


@dataclass(frozen=True, eq=False)
class ConstantValue:
    """A constant of the file, or what follows from constants."""

    data: NDArray[np.generic]


@dataclass(frozen=True, eq=False)
class QuantizedConstant:
    """DequantizeLinear of a constant; scales and zero points: one, or one for each place of
    `axis`."""

    data: NDArray[np.generic]
    scales: NDArray[np.float32]
    zero_points: NDArray[np.int64]
    axis: int

    @property
    def is_of_levels(self) -> bool:
        """Whether it is an activation's: 8 bits, one scale."""
        return self.scales.size == 1 and self.data.dtype.itemsize == 1

    def real(self) -> Reals:
        """The real numbers, in the shape of data."""
        around = [1] * self.data.ndim
        if self.scales.size > 1:
            around[self.axis] = -1
        scales, zeros = self.scales.reshape(around), self.zero_points.reshape(around)
        return np.asarray((self.data.astype(np.int64) - zeros).astype(np.float32) * scales)


@dataclass(frozen=True, eq=False)
class Moved:
    """A tensor of the network as it is: levels without a scale yet, or real numbers."""

    index: int
    shape: tuple[int, ...]


@dataclass(frozen=True, eq=False)
class RealLevels:
    """RealLevels numbers that are a function of levels.

    sources: one or two tensors of the network; scale: of the first, where the function is
    DequantizeLinear alone. reals: (256,) or (256, 256); (C, 256) with a function for each place of
    `axis`. kind: the first operator that computed.
    """

    sources: tuple[int, ...]
    shape: tuple[int, ...]
    reals: Reals
    scale: Scale | None = None
    axis: int | None = None
    kind: str = "requantize"

    def then(self, function: Callable[[Reals], Reals], kind: str = "table") -> RealLevels:
        """Applies a function of one real number, elementwise."""
        made = np.asarray(function(self.reals), np.float32)
        name = kind if self.kind == "requantize" else self.kind
        return replace(self, reals=made, scale=None, kind=name)


@dataclass(frozen=True, eq=False)
class Pending:
    """What an operator computes in real numbers of levels, until QuantizeLinear says which levels.

    inputs: tensors of the network. unit: the scale of integer sums, float32, one for each channel
    or one; bias: real numbers that are added to them. low, high: bounds of the real numbers.
    """

    kind: str
    inputs: tuple[int, ...]
    shape: tuple[int, ...]
    attributes: Mapping[str, object]
    unit: NDArray[np.float32] | None = None
    bias: ConstantValue | QuantizedConstant | None = None
    low: float = -math.inf
    high: float = math.inf

    def clamped(self, low: float, high: float) -> Pending:
        """The same between bounds, one within the other."""
        clip = min(max(self.low, low), high), min(max(self.high, low), high)
        return replace(self, low=clip[0], high=clip[1])


Value: TypeAlias = ConstantValue | QuantizedConstant | Moved | RealLevels | Pending
