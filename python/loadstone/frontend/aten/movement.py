# SPDX-License-Identifier: Apache-2.0
"""Operators that move elements, or choose among them.

In:   the arguments of an operator, tensors as Relax expressions.
Out:  reshape, permute_dims, strided_slice, concat, resize2d ...
Next: torch.py emits them.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np

from loadstone.errors import UnsupportedError
from loadstone.frontend.aten.build import Build, extents, importer
from loadstone.relax.compat import relax

if TYPE_CHECKING:
    from loadstone.relax.types import Expr

__all__: list[str] = []


@importer(*(f"aten.{name}" for name in ("view", "_unsafe_view", "squeeze", "unsqueeze")))
def _reshape(build: Build, x: Expr, *_: object) -> Expr:
    """Every operator that leaves the row-major order as it is: PyTorch knows the shape."""
    return relax.op.reshape(x, build.shape)


@importer(*(f"aten.{name}" for name in ("clone", "detach", "alias")))
def _same(build: Build, x: Expr, memory_format: object = None) -> Expr:
    return x


@importer("aten._to_copy")
def _cast(build: Build, x: Expr, dtype: object = None, **_: object) -> Expr:
    return x if dtype is None else relax.op.astype(x, str(dtype).removeprefix("torch."))


@importer("aten.permute")
def _permute(build: Build, x: Expr, axes: Sequence[int]) -> Expr:
    return relax.op.permute_dims(x, [axis % len(axes) for axis in axes])


@importer("aten.transpose.int")
def _transpose(build: Build, x: Expr, first: int, second: int) -> Expr:
    order = list(range(len(extents(x))))
    order[first], order[second] = order[second], order[first]
    return relax.op.permute_dims(x, order)


@importer("aten.t")
def _t(build: Build, x: Expr) -> Expr:
    return relax.op.permute_dims(x, [1, 0]) if len(extents(x)) == 2 else x


@importer("aten.expand")
def _expand(build: Build, x: Expr, size: Sequence[int], implicit: bool = False) -> Expr:
    return x if extents(x) == build.shape else relax.op.broadcast_to(x, build.shape)


@importer("aten.cat")
def _cat(build: Build, tensors: Sequence[Expr], axis: int = 0) -> Expr:
    return relax.op.concat(tensors, axis=axis % len(build.shape))


@importer("aten.stack")
def _stack(build: Build, tensors: Sequence[Expr], axis: int = 0) -> Expr:
    axis %= len(build.shape)
    one = (*build.shape[:axis], 1, *build.shape[axis + 1 :])
    return relax.op.concat([build.emit(relax.op.reshape(item, one)) for item in tensors], axis=axis)


@importer("aten.slice.Tensor")
def _slice(
    build: Build,
    x: Expr,
    axis: int = 0,
    start: int | None = None,
    end: int | None = None,
    step: int = 1,
) -> Expr:
    extent = extents(x)[axis]
    first, last, _ = slice(start, end).indices(extent)
    return x if (first, last, step) == (0, extent, 1) else _sliced(x, axis, first, last, step)


@importer("aten.select.int")
def _select(build: Build, x: Expr, axis: int, index: int) -> Expr:
    first = index % extents(x)[axis]
    return relax.op.reshape(build.emit(_sliced(x, axis, first, first + 1)), build.shape)


@importer("aten.split_with_sizes")
def _split_with_sizes(build: Build, x: Expr, sizes: Sequence[int], axis: int = 0) -> list[Expr]:
    ends = np.cumsum(sizes).tolist()
    return [_sliced(x, axis, end - size, end) for end, size in zip(ends, sizes, strict=True)]


@importer("aten.split.Tensor")
def _split(build: Build, x: Expr, size: int, axis: int = 0) -> list[Expr]:
    extent = extents(x)[axis]
    return [_sliced(x, axis, begin, min(begin + size, extent)) for begin in range(0, extent, size)]


@importer("aten.unbind.int")
def _unbind(build: Build, x: Expr, axis: int = 0) -> list[Expr]:
    axis %= len(extents(x))
    rest = (*extents(x)[:axis], *extents(x)[axis + 1 :])
    parts = [build.emit(_sliced(x, axis, k, k + 1)) for k in range(extents(x)[axis])]
    return [relax.op.reshape(part, rest) for part in parts]


def _sliced(x: Expr, axis: int, begin: int, end: int, step: int = 1) -> Expr:
    return relax.op.strided_slice(x, [axis % len(extents(x))], [begin], [end], [step])


@importer("aten.pad", "aten.constant_pad_nd")
def _pad(
    build: Build, x: Expr, pads: Sequence[int], mode: str = "constant", fill: float | None = None
) -> Expr:
    """The last axis comes first in `pads`. constant_pad_nd has no mode."""
    if not isinstance(mode, str):
        mode, fill = "constant", mode
    if mode != "constant":
        raise UnsupportedError(f"it pads in mode {mode}: pad with a constant")
    rank, pairs = len(extents(x)), [(0, 0)] * len(extents(x))
    for axis, sides in enumerate(zip(pads[::2], pads[1::2], strict=True)):
        pairs[rank - 1 - axis] = sides
    if min(pads, default=0) < 0:
        raise UnsupportedError(f"it pads by {list(pads)}: use a slice to make a tensor smaller")
    return relax.op.nn.pad(
        x, [number for sides in pairs for number in sides], pad_value=float(fill or 0.0)
    )


@importer("aten.channel_shuffle")
def _channel_shuffle(build: Build, x: Expr, groups: int) -> Expr:
    batch, channels, *rest = extents(x)
    split = build.emit(relax.op.reshape(x, (batch, groups, channels // groups, *rest)))
    order = [0, 2, 1, *range(3, 3 + len(rest))]
    return relax.op.reshape(build.emit(relax.op.permute_dims(split, order)), build.shape)


@importer("aten.pixel_shuffle")
def _pixel_shuffle(build: Build, x: Expr, factor: int) -> Expr:
    batch, channels, height, width = extents(x)
    split = build.emit(
        relax.op.reshape(x, (batch, channels // factor**2, factor, factor, height, width))
    )
    return relax.op.reshape(
        build.emit(relax.op.permute_dims(split, [0, 1, 4, 2, 5, 3])), build.shape
    )


@importer("aten.upsample_nearest2d.vec")
def _upsample_nearest2d(
    build: Build, x: Expr, size: int | Sequence[int], scales: Sequence[float] | None = None
) -> Expr:
    """floor(index * size / new size)."""
    ratios = [new / old for old, new in zip(extents(x)[2:], build.shape[2:], strict=True)]
    if any(ratio != int(ratio) and 1 / ratio != int(1 / ratio) for ratio in ratios):
        raise UnsupportedError(
            f"it resizes by {ratios[0]:g} x {ratios[1]:g}: by whole factors only all rules "
            "take the same elements"
        )
    return _resized(build, x, "nearest_neighbor", "asymmetric", "floor")


@importer("aten.upsample_bilinear2d.vec")
def _upsample_bilinear2d(
    build: Build,
    x: Expr,
    size: int | Sequence[int],
    align_corners: bool,
    scales: Sequence[float] | None = None,
) -> Expr:
    """Positions follow from the sizes, but in PyTorch from scale_factor where that was given."""
    if (
        scales is not None
        and tuple(old * scale for old, scale in zip(extents(x)[2:], scales, strict=True))
        != build.shape[2:]
    ):
        raise UnsupportedError(
            f"scale_factor {scales[0]:g} x {scales[1]:g} gives no whole size: use "
            "recompute_scale_factor=True"
        )
    return _resized(build, x, "linear", "align_corners" if align_corners else "half_pixel", "")


def _resized(build: Build, x: Expr, method: str, coordinates: str, rounding: str) -> Expr:
    return relax.op.image.resize2d(
        x,
        build.shape[2:],
        layout="NCHW",
        method=method,
        coordinate_transformation_mode=coordinates,
        rounding_method=rounding,
    )
