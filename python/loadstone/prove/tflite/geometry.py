# SPDX-License-Identifier: Apache-2.0
"""Where LiteRT's operators take their elements from: windows, slices, resizes.

In:   sizes, and the options of a .tflite operator.
Out:  paddings, positions and weights.
Next: read_tflite.py makes them attributes of operators.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import tflite
from numpy.typing import NDArray

from loadstone.prove.tflite.file import TfliteOperator

__all__ = [
    "SliceBounds",
    "WindowGeometry",
    "bilinear",
    "bilinear_uint8",
    "nearest",
    "sliced",
    "window",
]

Positions = NDArray[np.int64]
#: RESIZE_BILINEAR of int8: bits of positions and weights behind the point.
_FRACTION_BITS = 10


@dataclass(frozen=True)
class WindowGeometry:
    """How a window moves over rows and columns. inside: the input's size; size: the output's;
    pads: top, left, bottom, right."""

    inside: tuple[int, int]
    size: tuple[int, int]
    strides: tuple[int, int]
    dilations: tuple[int, int]
    pads: tuple[int, int, int, int]

    def counts(self, kernel: tuple[int, int]) -> list[int]:
        """Every number of taps that lie inside the input at some position, in order."""
        along = []
        for axis in (0, 1):
            start = np.arange(self.size[axis]) * self.strides[axis] - self.pads[axis]
            last = np.minimum(start + kernel[axis], self.inside[axis])
            along.append(set((last - np.maximum(start, 0)).tolist()))
        return sorted({rows * columns for rows in along[0] for columns in along[1]})


def window(
    operator: TfliteOperator,
    inside: Sequence[int],
    kernel: Sequence[int],
    *,
    dilated: bool = False,
) -> WindowGeometry | None:
    """The window of a convolution or a pool, with padding SAME (more at the end) or VALID; None
    where its options mean nothing."""
    strides = operator.option("StrideH"), operator.option("StrideW")
    dilations = 1, 1
    if dilated:
        dilations = operator.option("DilationHFactor"), operator.option("DilationWFactor")
    padding = operator.option("Padding")
    known = padding in (tflite.Padding.SAME, tflite.Padding.VALID)
    if min(*strides, *dilations, *kernel, *inside) < 1 or not known:
        return None
    size, total = [], []
    for n, k, s, d in zip(inside, kernel, strides, dilations, strict=True):
        extent = d * (k - 1) + 1
        out = -(-n // s) if padding == tflite.Padding.SAME else -(-(n - extent + 1) // s)
        size.append(out)
        total.append(max((out - 1) * s + extent - n, 0))
    if min(size) < 1:
        return None
    top, left = total[0] // 2, total[1] // 2
    pads = (top, left, total[0] - top, total[1] - left)
    return WindowGeometry((inside[0], inside[1]), (size[0], size[1]), strides, dilations, pads)


@dataclass(frozen=True)
class SliceBounds:
    """begin, strides, shape: of each axis of the input; kept: the shape without axes that are
    dropped."""

    begin: tuple[int, ...]
    strides: tuple[int, ...]
    shape: tuple[int, ...]
    kept: tuple[int, ...]


def sliced(
    operator: TfliteOperator, shape: tuple[int, ...], constants: list[list[int]]
) -> SliceBounds | None:
    """What SLICE (begin, size) and STRIDED_SLICE (begin, end, strides) take of `shape`; None where
    that is not understood."""
    if any(len(values) != len(shape) for values in constants):
        return None
    if operator.code == "SLICE":
        begin, size = constants
        ends = [n if s == -1 else b + s for b, s, n in zip(begin, size, shape, strict=True)]
        fits = all(0 <= b <= e <= n for b, e, n in zip(begin, ends, shape, strict=True))
        taken = tuple(e - b for b, e in zip(begin, ends, strict=True))
        return SliceBounds(tuple(begin), (1,) * len(shape), taken, taken) if fits else None
    return _strided(operator, shape, constants)


def _strided(
    operator: TfliteOperator, shape: tuple[int, ...], constants: list[list[int]]
) -> SliceBounds | None:
    begins, counts, kept = [], [], []
    masks = [operator.option(f"{which}Mask") for which in ("Begin", "End", "ShrinkAxis")]
    for axis, (begin, end, stride) in enumerate(zip(*constants, strict=True)):
        free_begin, free_end, dropped = (bool(mask >> axis & 1) for mask in masks)
        n = shape[axis]
        if stride == 0 or (dropped and (stride != 1 or not -n <= begin < n)):
            return None
        if dropped:
            places = range(begin % n, begin % n + 1)
        else:
            some = slice(None if free_begin else begin, None if free_end else end, stride)
            places = range(*some.indices(n))
            kept.append(len(places))
        if not places:
            return None
        begins.append(places[0])
        counts.append(len(places))
    return SliceBounds(tuple(begins), tuple(constants[2]), tuple(counts), tuple(kept))


def nearest(size: int, out: int, corners: bool, centres: bool) -> Positions:
    """RESIZE_NEAREST_NEIGHBOR: the input's index of each of the output's; shape (out,). float32;
    with align_corners half away from zero, else down."""
    scale = np.float32(size) / np.float32(out)
    if corners and out > 1:
        scale = np.float32(size - 1) / np.float32(out - 1)
    offset = np.float32(0.5 if centres else 0)
    place = (np.arange(out, dtype=np.float32) + offset) * scale
    index = np.floor(place + np.float32(0.5)) if corners else np.floor(place)
    return np.asarray(np.clip(index, 0, size - 1), np.int64)


def bilinear(
    size: int, out: int, corners: bool, centres: bool
) -> tuple[Positions, Positions, Positions]:
    """RESIZE_BILINEAR of int8: lower and upper index of each output's, and the weight of the upper
    one in 2^-10; each of shape (out,)."""
    one = 1 << _FRACTION_BITS
    step = (one * size + out // 2) // out
    if corners and out > 1:
        step = (one * (size - 1) + (out - 1) // 2) // (out - 1)
    place = np.arange(out, dtype=np.int64) * step
    if centres:
        place = place + step // 2 - one // 2
    lower = np.maximum(np.trunc(place / one).astype(np.int64), 0)
    upper = np.minimum(np.trunc((place + one - 1) / one).astype(np.int64), size - 1)
    return lower, upper, place - lower * one


def bilinear_uint8(
    size: int, out: int, corners: bool, centres: bool
) -> tuple[Positions, Positions, NDArray[np.float32]]:
    """RESIZE_BILINEAR of uint8, computed in float32: lower and upper index of each output's, and
    the weight of the upper one; each of shape (out,)."""
    scale = np.float32(size) / np.float32(out)
    if corners and out > 1:
        scale = np.float32(size - 1) / np.float32(out - 1)
    place = np.arange(out, dtype=np.float32)
    half = np.float32(0.5)
    place = (place + half) * scale - half if centres else place * scale
    lower = np.maximum(np.floor(place).astype(np.int64), 0)
    upper = np.minimum(np.ceil(place).astype(np.int64), size - 1)
    return lower, upper, place - lower.astype(np.float32)
