# SPDX-License-Identifier: Apache-2.0
"""Which elements a resized axis reads, and by which weights.

In:   ResizedAxis: sizes, scale, coordinates of ONNX's Resize.
Out:  AxisSamples, computed in float32 in ONNX Runtime's order, so that ties fall as they fall
      there.
Next: resize.py emits what reads them.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from loadstone.frontend.onnx.node import Attributes
from loadstone.numerics import Array

__all__ = ["COORDINATES", "AxisSamples", "ResizedAxis", "exact_nearest", "nearest", "weighted"]

_F = np.float32


@dataclass(frozen=True)
class ResizedAxis:
    """number: of the axis. size, made: its elements before and after. coordinates: as ONNX calls
    them. roi: what of the axis is resized, in parts of it, if the coordinates say so."""

    number: int
    size: int
    made: int
    scale: np.float32
    coordinates: str
    roi: tuple[float, float] = (0.0, 1.0)

    @property
    def is_resized(self) -> bool:
        """A scale of 1 copies."""
        return bool(self.scale != 1)

    def positions(self) -> Array:
        """Where each result lies among the elements, (made,) float32."""
        found: Array = COORDINATES[self.coordinates](self, np.arange(self.made, dtype=_F))
        return found.astype(_F)


def _half_pixel(axis: ResizedAxis, index: Array) -> Array:
    return (index + _F(0.5)) / axis.scale - _F(0.5)


def _align_corners(axis: ResizedAxis, index: Array) -> Array:
    return index * _F(axis.size - 1) / _F(max(1, axis.made - 1))


def _tf_crop_and_resize(axis: ResizedAxis, index: Array) -> Array:
    start, end = _F(axis.roi[0]), _F(axis.roi[1])
    last = _F(axis.size - 1)
    if axis.made == 1:
        return np.full(1, 0.5 * float(start + end) * float(last))
    return start * last + index * (end - start) * last / _F(axis.made - 1)


def _half_pixel_symmetric(axis: ResizedAxis, index: Array) -> Array:
    width = axis.scale * _F(axis.size)
    offset = _F(axis.size) / _F(2) * (_F(1) - _F(axis.made) / width)
    return offset + (index.astype(np.float64) + 0.5) / float(axis.scale) - 0.5


#: ResizedAxis and the index of each result to positions.
COORDINATES = {
    "asymmetric": lambda axis, index: index / axis.scale,
    "half_pixel": _half_pixel,
    "pytorch_half_pixel": lambda axis, index: (
        _half_pixel(axis, index) if axis.made > 1 else index * _F(0)
    ),
    "tf_half_pixel_for_nn": lambda axis, index: (index + _F(0.5)) / axis.scale,
    "align_corners": _align_corners,
    "tf_crop_and_resize": _tf_crop_and_resize,
    "half_pixel_symmetric": _half_pixel_symmetric,
}


@dataclass(frozen=True, eq=False)
class AxisSamples:
    """places, weights: (results, taps); no weights where one element is copied. outside: (results,)
    bool, of a roi that reaches beyond the elements."""

    places: Array
    weights: Array | None
    outside: Array

    def is_like(self, other: AxisSamples) -> bool:
        """Whether the same is read."""
        if self.outside.any() or not np.array_equal(self.places, other.places):
            return False
        if self.weights is None or other.weights is None:
            return self.weights is other.weights
        return np.array_equal(self.weights, other.weights)


def _outside(axis: ResizedAxis, positions: Array) -> Array:
    if axis.coordinates != "tf_crop_and_resize":
        return np.zeros(axis.made, bool)
    return (positions < 0) | (positions > axis.size - 1)


def nearest(axis: ResizedAxis, rounding: str) -> AxisSamples:
    """rounding: nearest_mode; "simple" is what was before it. KeyError for others."""
    positions = axis.positions()
    # round_prefer_ceil rounds halves away from zero, which differs from upwards only below zero
    up = np.floor(positions.astype(np.float64) + 0.5)
    found = {
        "simple": np.ceil(positions) if axis.scale < 1 else np.trunc(positions),
        "floor": np.floor(positions),
        "ceil": np.ceil(positions),
        "round_prefer_ceil": up,
        "round_prefer_floor": np.where(positions % 1 == 0.5, np.floor(positions), up),
    }[rounding]
    places = np.clip(found, 0, axis.size - 1).astype(np.int64)[:, None]
    return AxisSamples(places, None, _outside(axis, positions))


def exact_nearest(axis: ResizedAxis) -> AxisSamples:
    """As a device has it, in whole numbers, with the sizes' own ratio: `asymmetric` rounds down,
    `half_pixel` and `align_corners` round half up."""
    index, size, made = np.arange(axis.made), axis.size, axis.made
    if axis.coordinates == "asymmetric":
        places = index * size // made
    elif axis.coordinates == "half_pixel":
        places = (2 * index + 1) * size // (2 * made)
    else:
        gaps = max(1, made - 1)
        places = (2 * index * (size - 1) + gaps) // (2 * gaps)
    return AxisSamples(places[:, None], None, np.zeros(made, bool))


def weighted(axis: ResizedAxis, mode: str, attributes: Attributes) -> AxisSamples:
    """mode: linear or cubic. attributes: of the node."""
    positions = axis.positions()
    a = _F(attributes.get("cubic_coeff_a", -0.75))
    excludes = bool(attributes.get("exclude_outside", 0))
    if attributes.get("antialias"):
        places, weights = _filtered(axis, positions, mode, a, excludes)
    elif mode == "linear":
        places, weights = _linear(axis, positions)
    else:
        places, weights = _cubic(axis, positions, a, excludes)
    return AxisSamples(places, weights, _outside(axis, positions))


def _linear(axis: ResizedAxis, positions: Array) -> tuple[Array, Array]:
    """At the last element two halves of it."""
    at = np.clip(positions, _F(0), _F(axis.size - 1))
    low = at.astype(np.int64)
    high = np.minimum(low + 1, axis.size - 1)
    to_low, to_high = np.abs(at - low.astype(_F)), np.abs(at - high.astype(_F))
    weights = np.where((low == high)[:, None], _F(0.5), np.stack([to_high, to_low], 1))
    return np.stack([low, high], 1), weights.astype(_F)


def _cubic(
    axis: ResizedAxis, positions: Array, a: np.float32, excludes: bool
) -> tuple[Array, Array]:
    """Keys' cubic of four elements."""
    low = np.floor(positions)
    taps = low[:, None].astype(np.int64) + np.arange(-1, 3)
    s = (positions - low).astype(_F)
    near, far = (s, _F(1) - s), (s + _F(1), _F(2) - s)
    inner = [((a + _F(2)) * x - (a + _F(3))) * x * x + _F(1) for x in near]
    outer = [((a * x - _F(5) * a) * x + _F(8) * a) * x - _F(4) * a for x in far]
    weights = np.stack([outer[0], *inner, outer[1]], 1).astype(_F)
    if excludes:
        weights = np.where((taps >= 0) & (taps < axis.size), weights, _F(0))
        weights = weights / weights.sum(1, keepdims=True)
    return np.clip(taps, 0, axis.size - 1), weights


def _filtered(
    axis: ResizedAxis, positions: Array, mode: str, a: np.float32, excludes: bool
) -> tuple[Array, Array]:
    """antialias: the same curves, stretched over all elements that a result stands for."""
    step = _F(1) / axis.scale
    support = (_F(1) if mode == "linear" else _F(2)) * max(step, _F(1))
    narrow = _F(1) / max(step, _F(1))
    rows = list[tuple[int, Array]]()
    for center in positions + _F(0.5):
        first, last = (int(np.floor(center + side * support + _F(0.5))) for side in (-1, 1))
        if excludes:
            first, last = max(0, first), min(axis.size, last)
        taps = np.arange(first, last)
        distances = np.abs((taps.astype(_F) - center + _F(0.5)) * narrow)
        curve = _curve(distances, mode, a)
        total = _F(0)
        for weight in curve:
            total = _F(total + weight)
        low, high = max(0, first), min(axis.size, last)
        row = np.zeros(max(1, high - low), _F)
        for is_inside in (True, False):  # what lies outside is added to the edge
            for tap, weight in zip(taps, curve, strict=True):
                if (0 <= tap < axis.size) == is_inside:
                    row[int(np.clip(tap, low, high - 1)) - low] += weight
        rows.append((min(low, axis.size - 1), row * (_F(1) / total if total else _F(1))))
    count = max(len(row) for _, row in rows)
    places = np.array([low + np.arange(count) for low, _ in rows])
    weights = np.array([np.pad(row, (0, count - len(row))) for _, row in rows], _F)
    return np.clip(places, 0, axis.size - 1), weights


def _curve(x: Array, mode: str, a: np.float32) -> Array:
    """A triangle, or Keys' cubic, of distances."""
    if mode == "linear":
        return np.maximum(_F(0), _F(1) - x)
    near = ((a + _F(2)) * x - (a + _F(3))) * x * x + _F(1)
    far = (((x - _F(5)) * x + _F(8)) * x - _F(4)) * a
    return np.where(x < 1, near, np.where(x < 2, far, _F(0))).astype(_F)
