# SPDX-License-Identifier: Apache-2.0
"""Operators that move elements, or choose among them.

In:   the arguments of an operator, tensors as Relax expressions.
Out:  reshape, permute_dims, strided_slice, concat, resize2d ...
Next: torch.py emits them.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from loadstone.errors import UnsupportedError
from loadstone.frontend.aten.build import (
    Build,
    cast,
    extents,
    importer,
    like,
    literal,
    stored,
    taken,
)
from loadstone.relax.compat import dtype, is_constant, relax

if TYPE_CHECKING:
    from loadstone.relax.types import Expr

__all__ = ["edged"]


@importer(
    *(f"aten.{name}" for name in ("view.default", "_unsafe_view", "squeeze", "unsqueeze")),
    free=("size", "dim"),
)
def _reshape(build: Build, x: Expr) -> Expr:
    """Every operator that leaves the row-major order as it is: PyTorch knows the shape."""
    return relax.op.reshape(x, build.shape)


@importer(*(f"aten.{name}" for name in ("clone", "detach", "alias", "lift_fresh_copy")))
def _same(build: Build, x: Expr) -> Expr:
    return x


@importer("aten._to_copy", free=("dtype",))
def _cast(build: Build, x: Expr) -> Expr:
    return cast(build, x, build.dtype)


@importer("aten.permute")
def _permute(build: Build, x: Expr, dims: Sequence[int]) -> Expr:
    return relax.op.permute_dims(x, [axis % len(dims) for axis in dims]) if dims else x


@importer("aten.transpose.int")
def _transpose(build: Build, x: Expr, dim0: int, dim1: int) -> Expr:
    if not extents(x):
        return x
    order = list(range(len(extents(x))))
    order[dim0], order[dim1] = order[dim1], order[dim0]
    return relax.op.permute_dims(x, order)


@importer("aten.t")
def _t(build: Build, x: Expr) -> Expr:
    return relax.op.permute_dims(x, [1, 0]) if len(extents(x)) == 2 else x


@importer("aten.expand", free=("size",))
def _expand(build: Build, x: Expr) -> Expr:
    return x if extents(x) == build.shape else relax.op.broadcast_to(x, build.shape)


@importer("aten.cat")
def _cat(build: Build, tensors: Sequence[Expr], dim: int) -> Expr:
    """An empty vector joins tensors of any shape."""
    kept = [cast(build, item, build.dtype) for item in tensors if extents(item) != (0,)]
    return relax.op.concat(kept or [tensors[0]], axis=dim % len(build.shape))


@importer("aten.stack")
def _stack(build: Build, tensors: Sequence[Expr], dim: int) -> Expr:
    axis = dim % len(build.shape)
    tensors = [cast(build, item, build.dtype) for item in tensors]
    one = (*build.shape[:axis], 1, *build.shape[axis + 1 :])
    return relax.op.concat([build.emit(relax.op.reshape(item, one)) for item in tensors], axis=axis)


@dataclass(frozen=True, eq=False)
class _Slice:
    """What aten.slice takes. end: also far behind the last."""

    x: Expr
    dim: int
    start: int | None
    end: int | None
    step: int


@importer("aten.slice.Tensor", gathers=_Slice)
def _slice(build: Build, cut: _Slice) -> Expr:
    extent = extents(cut.x)[cut.dim]
    first, last, _ = slice(cut.start, cut.end).indices(extent)
    if (first, last, cut.step) == (0, extent, 1):
        return cut.x
    return _sliced(cut.x, cut.dim, first, last, cut.step)


@importer("aten.select.int")
def _select(build: Build, x: Expr, dim: int, index: int) -> Expr:
    first = index % extents(x)[dim]
    return relax.op.reshape(build.emit(_sliced(x, dim, first, first + 1)), build.shape)


@importer("aten.split_with_sizes")
def _split_with_sizes(build: Build, x: Expr, split_sizes: Sequence[int], dim: int) -> list[Expr]:
    ends = np.cumsum(split_sizes).tolist()
    return [_sliced(x, dim, end - size, end) for end, size in zip(ends, split_sizes, strict=True)]


@importer("aten.split.Tensor")
def _split(build: Build, x: Expr, split_size: int, dim: int) -> list[Expr]:
    extent, size = extents(x)[dim], max(split_size, 1)
    return [_sliced(x, dim, begin, min(begin + size, extent)) for begin in range(0, extent, size)]


@importer("aten.unbind.int")
def _unbind(build: Build, x: Expr, dim: int) -> list[Expr]:
    axis = dim % len(extents(x))
    rest = (*extents(x)[:axis], *extents(x)[axis + 1 :])
    parts = [build.emit(_sliced(x, axis, k, k + 1)) for k in range(extents(x)[axis])]
    return [relax.op.reshape(part, rest) for part in parts]


def _sliced(x: Expr, axis: int, begin: int, end: int, step: int = 1) -> Expr:
    return relax.op.strided_slice(x, [axis % len(extents(x))], [begin], [end], [step])


@importer("aten.flip")
def _flip(build: Build, x: Expr, dims: Sequence[int]) -> Expr:
    for axis in dims:
        x = build.emit(relax.op.flip(x, axis % len(extents(x))))
    return x


@importer("aten.repeat")
def _repeat(build: Build, x: Expr, repeats: Sequence[int]) -> Expr:
    return relax.op.tile(x, list(repeats)) if repeats else x


@importer("aten.index_select")
def _index_select(build: Build, x: Expr, dim: int, index: Expr) -> Expr:
    """Computed places that lie outside, which PyTorch refuses when it runs, take the nearest."""
    if not extents(x):
        return x
    return relax.op.take(x, index, axis=dim % len(extents(x)), mode="clip")


@importer("aten.gather", free=("sparse_grad",))
def _gather(build: Build, x: Expr, dim: int, index: Expr) -> Expr:
    """One element for each index, which counts along one axis; the others are the element's own."""
    if not extents(x):
        return relax.op.broadcast_to(x, build.shape)
    axis = dim % len(extents(x))
    for other, size in enumerate(extents(index)):
        if other != axis and size != extents(x)[other]:
            x = build.emit(_sliced(x, other, 0, size))
    last = like(index, extents(x)[axis] - 1)
    inside = build.emit(relax.op.minimum(index, last))
    inside = build.emit(relax.op.maximum(inside, like(index, 0)))
    return relax.op.gather_elements(x, inside, axis=axis)


@importer("aten.embedding", free=("padding_idx", "scale_grad_by_freq", "sparse"))
def _embedding(build: Build, weight: Expr, indices: Expr) -> Expr:
    return relax.op.take(weight, indices, axis=0, mode="clip")


@importer("aten.index.Tensor", "aten._unsafe_index.Tensor")
def _index(build: Build, x: Expr, indices: Sequence[Expr | None]) -> Expr:
    """By stored indices of axes that follow each other: these become one axis."""
    places = [axis for axis, entry in enumerate(indices) if entry is not None]
    if (
        len(places) == 1
        and not is_constant(indices[places[0]])
        and dtype(indices[places[0]]) in ("int32", "int64")
    ):
        return _computed_index(build, x, indices[places[0]], places[0])
    arrays = [stored(indices[axis], "which elements it takes") for axis in places]
    if any(array.dtype == bool for array in arrays):
        raise UnsupportedError("it takes elements by a mask: use torch.where")
    first, last = places[0], places[-1] + 1
    if places != list(range(first, last)):
        raise UnsupportedError(
            "it takes elements along axes that are apart: take one after another"
        )
    sizes = extents(x)[first:last]
    for array, size in zip(arrays, sizes, strict=True):
        if array.size and not (-size <= array.min() and array.max() < size):
            raise UnsupportedError(f"it takes elements {array.min()} to {array.max()} of {size}")
    whole = [array.astype(np.int64) % size for array, size in zip(arrays, sizes, strict=True)]
    flat = np.ravel_multi_index(np.broadcast_arrays(*whole), sizes).astype(np.int64)
    if len(places) > 1:
        joined = (*extents(x)[:first], int(np.prod(sizes)), *extents(x)[last:])
        x = build.emit(relax.op.reshape(x, joined))
    return taken(build, x, flat, first)


def _computed_index(build: Build, x: Expr, index: Expr, axis: int) -> Expr:
    """Along one axis; negative ones count from its end."""
    negative = build.emit(relax.op.less(index, like(index, 0)))
    turned = build.emit(relax.op.add(index, like(index, extents(x)[axis])))
    places = build.emit(relax.op.where(negative, turned, index))
    return relax.op.take(x, places, axis=axis, mode="clip")


@importer("aten.unfold")
def _unfold(build: Build, x: Expr, dimension: int, size: int, step: int) -> Expr:
    """Windows along an axis, which may overlap; their elements become the last axis."""
    if not extents(x):
        return relax.op.reshape(x, build.shape)
    axis = dimension % len(extents(x))
    places = np.arange(0, extents(x)[axis] - size + 1, step)[:, None] + np.arange(size)
    windows = taken(build, x, places, axis)
    order = [entry for entry in range(len(extents(windows))) if entry != axis + 1]
    return relax.op.permute_dims(windows, [*order, axis + 1])


@importer("aten.pad")
def _pad(build: Build, x: Expr, pad: Sequence[int], mode: str, value: float | None) -> Expr:
    if mode == "constant":
        return _constant_pad(build, x, pad, value or 0)
    return edged(build, x, pad, mode)


@importer("aten.constant_pad_nd")
def _constant_pad(build: Build, x: Expr, pad: Sequence[int], value: float) -> Expr:
    """The last axis comes first in `pad`; negative ones cut off."""
    rank, pairs = len(extents(x)), [(0, 0)] * len(extents(x))
    for place, (before, after) in enumerate(zip(pad[::2], pad[1::2], strict=True)):
        axis = rank - 1 - place
        if min(before, after) < 0:
            begin, end = max(-before, 0), extents(x)[axis] - max(-after, 0)
            x = build.emit(_sliced(x, axis, begin, end))
        pairs[axis] = (max(before, 0), max(after, 0))
    if not any(number for sides in pairs for number in sides):
        return x
    if dtype(x) not in ("float32", "float16"):
        return _joined_constants(build, x, pairs, value)
    return relax.op.nn.pad(
        x, [number for sides in pairs for number in sides], pad_value=float(value)
    )


def _joined_constants(
    build: Build, x: Expr, pairs: Sequence[tuple[int, int]], number: float
) -> Expr:
    """As a concatenation: exact for integers of any size, and for truths."""
    for axis, sides in enumerate(pairs):
        shapes = [(*extents(x)[:axis], side, *extents(x)[axis + 1 :]) for side in sides]
        before, after = (literal(np.full(shape, number, dtype(x))) for shape in shapes)
        parts = [*([before] if sides[0] else []), x, *([after] if sides[1] else [])]
        x = build.emit(relax.op.concat(parts, axis=axis)) if len(parts) > 1 else x
    return x


for _mode, _word in (("reflect", "reflection"), ("replicate", "replication")):
    importer(*(f"aten.{_word}_pad{rank}d" for rank in (1, 2, 3)))(
        lambda build, x, padding, mode=_mode: edged(build, x, padding, mode)
    )


def edged(build: Build, x: Expr, pad: Sequence[int], mode: str) -> Expr:
    """Rows and columns of the tensor itself around it, each a slice: where it is quantized, these
    move integers. The last axis comes first in `pad`."""
    if mode not in ("reflect", "replicate", "circular"):
        raise UnsupportedError(
            f"it pads in mode {mode}: constant, reflect, replicate, circular are done"
        )
    for place, (before, after) in enumerate(zip(pad[::2], pad[1::2], strict=True)):
        axis = len(extents(x)) - 1 - place
        extent = extents(x)[axis]
        ends = {
            "reflect": (range(before, 0, -1), range(extent - 2, extent - 2 - after, -1)),
            "replicate": ([0] * before, [extent - 1] * after),
            "circular": (range(extent - before, extent), range(after)),
        }[mode]
        if min(before, after) < 0:
            raise UnsupportedError(f"it pads by {list(pad)}: use a slice to make a tensor smaller")
        parts = [[build.emit(_sliced(x, axis, k, k + 1)) for k in end] for end in ends]
        if before or after:
            x = build.emit(relax.op.concat([*parts[0], x, *parts[1]], axis=axis))
    return x


@importer("aten.channel_shuffle")
def _channel_shuffle(build: Build, x: Expr, groups: int) -> Expr:
    batch, channels, *rest = extents(x)
    split = build.emit(relax.op.reshape(x, (batch, groups, channels // groups, *rest)))
    order = [0, 2, 1, *range(3, 3 + len(rest))]
    return relax.op.reshape(build.emit(relax.op.permute_dims(split, order)), build.shape)


@importer("aten.pixel_shuffle")
def _pixel_shuffle(build: Build, x: Expr, upscale_factor: int) -> Expr:
    *outer, channels, height, width = extents(x)
    factor, rank = upscale_factor, len(outer)
    apart = (*outer, channels // factor**2, factor, factor, height, width)
    order = [*range(rank + 1), rank + 3, rank + 1, rank + 4, rank + 2]
    moved = build.emit(relax.op.permute_dims(build.emit(relax.op.reshape(x, apart)), order))
    return relax.op.reshape(moved, build.shape)


@importer("aten.pixel_unshuffle")
def _pixel_unshuffle(build: Build, x: Expr, downscale_factor: int) -> Expr:
    *outer, channels, height, width = extents(x)
    factor, rank = downscale_factor, len(outer)
    apart = (*outer, channels, height // factor, factor, width // factor, factor)
    order = [*range(rank + 1), rank + 2, rank + 4, rank + 1, rank + 3]
    moved = build.emit(relax.op.permute_dims(build.emit(relax.op.reshape(x, apart)), order))
    return relax.op.reshape(moved, build.shape)
