# SPDX-License-Identifier: Apache-2.0
"""ONNX's RoiAlign of regions that are known: places and weights, computed when the model is
imported.

In:   an OnnxNode; regions and the images that they are of are constants.
Out:  its result as a Relax expression: elements gathered, weighted, and added up or compared.
Next: importer.py binds it.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from loadstone.frontend.onnx.node import OnnxNode
from loadstone.frontend.onnx.table import ALL, converter
from loadstone.numerics import Array
from loadstone.relax.compat import constant, constant_int64, relax

if TYPE_CHECKING:
    from loadstone.relax.types import Expr

__all__: list[str] = []

_F = np.float32


@converter(
    "RoiAlign",
    attributes="coordinate_transformation_mode mode output_height output_width sampling_ratio "
    "spatial_scale",
    inputs=3,
    constants=(1, 2),
    types=("float32", "int64"),
    opsets=(10, ALL),
)
def _roi_align(node: OnnxNode) -> Expr:
    """(images, channels, height, width) to (regions, channels, output_height, output_width)."""
    images, channels, height, width = node.extents(0)
    rois, numbers = node.constant(1), node.constant(2)
    assert rois is not None  # the table
    assert numbers is not None
    mode, numbers = node.attributes["mode"], numbers.reshape(-1).astype(np.int64)
    if mode not in ("avg", "max"):
        raise node.refusal(f"its mode is {mode}, and avg and max are imported", "export it anew")
    if np.any((numbers < 0) | (numbers >= images)):
        raise node.refusal(
            f"its regions are of images up to {numbers.max()} of {images}", "mend it"
        )
    made = [int(node.attributes["output_height"]), int(node.attributes["output_width"])]
    places, weights = _of_regions(node, rois.astype(_F), numbers, (height, width), made)
    moved = node.emit(relax.op.permute_dims(node.tensor(0), [1, 0, 2, 3]))
    flat = node.emit(relax.op.reshape(moved, [channels, images * height * width]))
    read = node.emit(relax.op.take(flat, constant_int64(places), axis=1))
    weighted = node.emit(relax.op.multiply(read, constant(weights)))
    reduced = relax.op.sum(weighted, [2]) if mode == "avg" else relax.op.max(weighted, [2])
    shaped = node.emit(relax.op.reshape(node.emit(reduced), [channels, len(rois), *made]))
    return relax.op.permute_dims(shaped, [1, 0, 2, 3])


def _of_regions(
    node: OnnxNode, rois: Array, numbers: Array, sizes: tuple[int, int], made: list[int]
) -> tuple[Array, Array]:
    """(regions * bins, taps) each: elements of all images, and what each counts."""
    is_average = node.attributes["mode"] == "avg"
    is_half = node.attributes.get("coordinate_transformation_mode") == "half_pixel"
    scale, ratio = _F(node.attributes["spatial_scale"]), int(node.attributes["sampling_ratio"])
    rows = list[tuple[Array, Array]]()
    for roi, number in zip(rois * scale - _F(0.5 if is_half else 0), numbers, strict=True):
        axes = [
            _Span(roi[1 - a], roi[3 - a], sizes[a], made[a], ratio, is_half).samples()
            for a in (0, 1)
        ]
        (low_high_y, weights_y), (low_high_x, weights_x) = axes
        # (bins, samples, 2) of each axis to (bins y, bins x, samples y, samples x, 2, 2)
        y, x = (
            (slice(None), None, slice(None), None, slice(None), None),
            (*(None, slice(None), None, slice(None), None, slice(None)),),
        )
        places = low_high_y[y] * sizes[1] + low_high_x[x] + number * sizes[0] * sizes[1]
        weights = weights_y[y] * weights_x[x]
        if is_average:
            weights = weights / _F(weights_y.shape[1] * weights_x.shape[1])
        bins = made[0] * made[1]
        rows.append((places.reshape(bins, -1), weights.reshape(bins, -1)))
    most = max(places.shape[1] for places, _ in rows)
    places, weights = (
        np.concatenate([_filled(part, most, is_average=is_average) for part in parts])
        for parts in zip(*rows, strict=True)
    )
    return places, weights


def _filled(part: Array, most: int, *, is_average: bool) -> Array:
    """(bins, most): an average takes nothing more; of a maximum the last stands as often as
    needed."""
    widths = [(0, 0), (0, most - part.shape[1])]
    return np.pad(part, widths) if is_average else np.pad(part, widths, "edge")


@dataclass(frozen=True)
class _Span:
    """A region along one axis, from begin to end among `size` elements, in `made` bins. ratio:
    samples in a bin, 0 for as many as there are elements."""

    begin: np.float32
    end: np.float32
    size: int
    made: int
    ratio: int
    is_half: bool

    def samples(self) -> tuple[Array, Array]:
        """(bins, samples, 2): the two elements beside each sample, and their weights."""
        length = self.end - self.begin
        length = length if self.is_half else max(length, _F(1))
        bin_size = _F(length) / _F(self.made)
        count = self.ratio if self.ratio > 0 else int(np.ceil(bin_size))
        if count < 1:
            return np.zeros((self.made, 1, 2), np.int64), np.zeros((self.made, 1, 2), _F)
        index = np.arange(self.made, dtype=_F)[:, None]
        inner = (np.arange(count, dtype=_F) + _F(0.5)) * bin_size / _F(count)
        at = self.begin + index * bin_size + inner
        outside = (at < -1) | (at > self.size)
        at = np.clip(at, _F(0), _F(self.size - 1))
        low = at.astype(np.int64)
        high = np.minimum(low + 1, self.size - 1)
        rest = at - low.astype(_F)
        weights = np.stack([_F(1) - rest, rest], -1) * ~outside[..., None]
        return np.stack([low, high], -1), weights.astype(_F)
