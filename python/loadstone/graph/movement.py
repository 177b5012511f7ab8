# SPDX-License-Identifier: Apache-2.0
"""Operators that move elements, and resizes, which repeat or mix them.

In:   integers.
Out:  Concatenate, Slice, Pad, Reshape, Transpose, Resize (where it samples), ResizeNearest,
      ResizeBilinear.
Next: graph/reference.py defines their results.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np
from numpy.typing import NDArray

from loadstone.graph.base import Operator
from loadstone.numerics import Rounding

__all__ = [
    "Concatenate",
    "Pad",
    "Reshape",
    "Resize",
    "ResizeBilinear",
    "ResizeNearest",
    "Slice",
    "Transpose",
]


@dataclass(frozen=True, eq=False, kw_only=True)
class Concatenate(Operator):
    """Inputs one after the other along `axis`, each requantized to the output's quantization where
    it differs."""

    kind: ClassVar[str] = "concatenate"
    is_light: ClassVar[bool] = True

    axis: int
    low: int
    high: int
    rounding: Rounding

    @property
    def is_copy(self) -> bool:
        """Every input already has the output's quantization: bytes move, no arithmetic but the
        clamp."""
        return all(tensor.quantization == self.output.quantization for tensor in self.inputs)

    @property
    def mixes_samples(self) -> bool:
        """Rows follow rows."""
        return self.axis == 0


@dataclass(frozen=True, eq=False, kw_only=True)
class Slice(Operator):
    """output[i] = input[begin + i * strides], per axis; strides > 0. Quantization is unchanged."""

    kind: ClassVar[str] = "slice"
    is_move: ClassVar[bool] = True

    begin: tuple[int, ...]
    strides: tuple[int, ...]

    @property
    def mixes_samples(self) -> bool:
        """It leaves rows out, or takes an axis away."""
        return self._rows_differ()


@dataclass(frozen=True, eq=False, kw_only=True)
class Pad(Operator):
    """`before` and `after` elements of `value` (an integer of the tensor's type) around each
    axis."""

    kind: ClassVar[str] = "pad"
    is_move: ClassVar[bool] = True

    before: tuple[int, ...]
    after: tuple[int, ...]
    value: int

    def __post_init__(self) -> None:
        super().__post_init__()
        extents = zip(self.before, self.input.shape, self.after, strict=True)
        shape = tuple(sum(parts) for parts in extents)
        self._must(self.output.shape == shape, f"an output of {shape}")
        self._must(min(self.before + self.after) >= 0, "more elements, or as many")

    @property
    def mixes_samples(self) -> bool:
        """It adds rows."""
        return bool(self.before[0] or self.after[0])


@dataclass(frozen=True, eq=False, kw_only=True)
class Reshape(Operator):
    """The same bytes in row-major order under another shape (flatten, squeeze, expand; or another
    quantization)."""

    kind: ClassVar[str] = "reshape"
    patterns: ClassVar[tuple[str, ...]] = ("reshape", "relabel")
    is_move: ClassVar[bool] = True

    def __post_init__(self) -> None:
        super().__post_init__()
        self._must(self.input.size == self.output.size, "as many elements behind it as before")


@dataclass(frozen=True, eq=False, kw_only=True)
class Transpose(Operator):
    """output axis i is input axis permutation[i]."""

    kind: ClassVar[str] = "transpose"
    is_move: ClassVar[bool] = True

    permutation: tuple[int, ...]

    @property
    def mixes_samples(self) -> bool:
        """The leading axis goes elsewhere."""
        return self.permutation[0] != 0


@dataclass(frozen=True, eq=False, kw_only=True)
class Resize(Operator):
    """Changes (H, W) of (N, H, W, C) to those of the output.

    Sample position: align_corners: i * (in - 1) / (out - 1); half_pixel_centers: (i + 0.5) * in /
    out - 0.5;
    neither: i * in / out.
    """

    is_light: ClassVar[bool] = True

    align_corners: bool
    half_pixel_centers: bool
    rounding: Rounding

    def positions(self, axis: int) -> NDArray[np.float64]:
        """Where each output index of an axis (1 or 2) samples the input.

        (output length of the axis,), in input elements.
        """
        size, out = self.input.shape[axis], self.output.shape[axis]
        index = np.arange(out, dtype=np.float64)
        if self.align_corners and out > 1:
            return index * (size - 1) / (out - 1)
        return (index + 0.5) * size / out - 0.5 if self.half_pixel_centers else index * size / out


@dataclass(frozen=True, eq=False, kw_only=True)
class ResizeNearest(Resize):
    """The nearest sample: floor of the position; for align_corners and half_pixel_centers rounded
    half up."""

    kind: ClassVar[str] = "resize_nearest"
    patterns: ClassVar[tuple[str, ...]] = ("resize",)

    def nearest(self, axis: int) -> NDArray[np.int64]:
        """The input index that each output index of an axis (1 or 2) copies.

        (output length of the axis,).
        """
        position = self.positions(axis)
        rounded = (
            np.floor(position + 0.5)
            if self.align_corners or self.half_pixel_centers
            else np.floor(position)
        )
        return np.asarray(np.clip(rounded, 0, self.input.shape[axis] - 1), np.int64)


@dataclass(frozen=True, eq=False, kw_only=True)
class ResizeBilinear(Resize):
    """Between the four nearest samples. unsigned: as for AveragePool2D, x + 128 is what is
    rounded."""

    kind: ClassVar[str] = "resize_bilinear"
    patterns: ClassVar[tuple[str, ...]] = ("resize",)

    unsigned: bool = False
