# SPDX-License-Identifier: Apache-2.0
"""Images and rows in other sizes: F.interpolate.

In:   the arguments of an operator, tensors as Relax expressions.
Out:  resize2d where its rule is PyTorch's; else the elements that PyTorch takes, with its weights.
Next: torch.py emits them.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np

from loadstone.frontend.aten.build import Build, extents, importer, taken
from loadstone.numerics import Array
from loadstone.relax.compat import constant, relax

if TYPE_CHECKING:
    from loadstone.relax.types import Expr

__all__: list[str] = []


@importer(*(f"aten.upsample_nearest{rank}d.vec" for rank in (1, 2, 3)), free=("output_size",))
def _nearest(build: Build, x: Expr, scale_factors: Sequence[float] | None) -> Expr:
    """floor(index * size / new size), with the given scale in place of the sizes' ratio."""
    sizes, new = extents(x)[2:], build.shape[2:]
    if len(sizes) == 2 and all(_is_whole(*each) for each in zip(sizes, new, strict=True)):
        return _resized(build, x, "nearest_neighbor", "asymmetric", "floor")
    for axis, step in enumerate(_steps(sizes, new, scale_factors)):
        index = np.arange(new[axis], dtype=np.float32) * np.float32(step)
        x = taken(build, x, np.minimum(np.floor(index), sizes[axis] - 1), axis + 2)
    return x


@importer("aten.upsample_bilinear2d.vec", "aten.upsample_linear1d.vec", free=("output_size",))
def _linear(
    build: Build, x: Expr, align_corners: bool, scale_factors: Sequence[float] | None
) -> Expr:
    """Positions follow from the sizes, but from scale_factor where that was given."""
    sizes, new = extents(x)[2:], build.shape[2:]
    scales = None if align_corners else scale_factors
    exact = scales is None or all(
        old * scale == size for old, scale, size in zip(sizes, scales, new, strict=True)
    )
    if len(sizes) == 2 and exact:
        return _resized(build, x, "linear", "align_corners" if align_corners else "half_pixel", "")
    for axis, step in enumerate(_steps(sizes, new, scales)):
        index = np.arange(new[axis], dtype=np.float32)
        if align_corners:
            place = index * np.float32((sizes[axis] - 1) / max(new[axis] - 1, 1))
        else:
            place = np.maximum((index + np.float32(0.5)) * np.float32(step) - np.float32(0.5), 0)
        x = _between(build, x, axis + 2, place)
    return x


def _steps(sizes: Sequence[int], new: Sequence[int], scales: Sequence[float] | None) -> list[float]:
    """How far an element of the result goes in the input, by axis."""
    if scales is not None:
        return [1 / scale for scale in scales]
    return [old / size for old, size in zip(sizes, new, strict=True)]


def _between(build: Build, x: Expr, axis: int, place: Array) -> Expr:
    """Elements at real places, from the two beside each."""
    last = extents(x)[axis] - 1
    below = np.minimum(np.floor(place), last)
    along = (-1,) + (1,) * (len(extents(x)) - 1 - axis)
    weight = (place - below).astype(np.float32).reshape(along)
    parts = [
        build.emit(relax.op.multiply(taken(build, x, index, axis), constant(share)))
        for index, share in ((below, 1 - weight), (np.minimum(below + 1, last), weight))
    ]
    return build.emit(relax.op.add(*parts))


def _is_whole(old: int, new: int) -> bool:
    """All rules of rounding take the same elements then."""
    return new % old == 0 or old % new == 0


def _resized(build: Build, x: Expr, method: str, coordinates: str, rounding: str) -> Expr:
    return relax.op.image.resize2d(
        x,
        build.shape[2:],
        layout="NCHW",
        method=method,
        coordinate_transformation_mode=coordinates,
        rounding_method=rounding,
    )
