# SPDX-License-Identifier: Apache-2.0
"""TFLite's operators that select and move elements, where TVM's importer lacks them or supports
them only in part.

In:   an operator's table; the Converter of tflite.py, which returns tensors of the file as real
      numbers.
Out:  a Relax expression of real numbers; ARRAYS, by operator.
Next: tflite.py quantizes the result.

Indices that are constants of the file become constants of the network: the same elements are then
moved in every run, and the indices are checked here.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from loadstone.errors import UnsupportedError
from loadstone.frontend.tflite_converters import Converter, axis_of, constant_of, target_of
from loadstone.frontend.tflite_file import TfliteTable
from loadstone.relax.compat import constant, relax, shape

if TYPE_CHECKING:
    from loadstone.relax.types import Expr

__all__ = ["ARRAYS"]


def _split(converter: Converter, op: TfliteTable) -> Expr:
    """SPLIT into equal parts."""
    return _parts(converter, 1, axis_of(converter, 0, data=1))


def _split_v(converter: Converter, op: TfliteTable) -> Expr:
    """SPLIT_V, also with a size of -1, what the others leave."""
    axis, sizes = axis_of(converter, 2), constant_of(converter, 1).reshape(-1).tolist()
    whole = converter.file.tensors[converter.record.inputs[0]].shape[axis]
    said = [whole - sum(sizes) - 1 if size == -1 else size for size in sizes]
    made = [converter.file.tensors[index].shape[axis] for index in converter.record.outputs]
    if said != made:
        raise UnsupportedError(f"its sizes along axis {axis} are {sizes}, and its outputs {made}")
    return _parts(converter, 0, axis)


def _parts(converter: Converter, position: int, axis: int) -> Expr:
    """An input in parts along an axis, of the sizes that the outputs have."""
    source, tensors = converter.real(position), converter.file.tensors
    whole = tensors[converter.record.inputs[position]].shape
    sizes = [tensors[index].shape[axis] for index in converter.record.outputs]
    if sum(sizes) != whole[axis]:
        raise UnsupportedError(f"its parts of axis {axis} are {sizes}, together not {whole[axis]}")
    ends = np.cumsum(sizes).tolist()
    parts = [
        relax.op.strided_slice(source, [axis], [end - size], [end])
        for end, size in zip(ends, sizes, strict=True)
    ]
    return relax.Tuple([converter.bb.emit(part) for part in parts])


def _extreme(find: str) -> Callable[[Converter, TfliteTable], Expr]:
    """ARG_MAX and ARG_MIN, whose index is int64 or int32, as the file says."""

    def convert(converter: Converter, op: TfliteTable) -> Expr:
        source, target = converter.real(0), target_of(converter)
        found = getattr(relax.op, find)(source, axis=axis_of(converter, 1), keepdims=False)
        if target.dtype == "int64":
            return found
        return relax.op.astype(converter.bb.emit(found), target.dtype)

    return convert


def _gather(converter: Converter, op: TfliteTable) -> Expr:
    """GATHER along an axis. TVM's importer looks at every element of the output, and overlooks
    batch_dims."""
    options = converter.record.options
    source, places = (converter.file.tensors[index] for index in converter.record.inputs)
    rank = len(source.shape)
    if not -rank <= options["axis"] < rank:
        raise UnsupportedError(f"its axis is {options['axis']}: its input has {rank} axes")
    axis = options["axis"] % rank
    if options["batch_dims"] != 0:
        return _gather_of_batches(converter, axis)
    if places.data is None:
        indices = relax.op.astype(converter.real(1), "int32")
        return relax.op.take(converter.real(0), indices, axis=axis, mode="clip")
    _check_inside(places.data.astype(np.int64), source.shape[axis], axis)
    return relax.op.take(converter.real(0), constant(places.data), axis=axis, mode="fast")


def _gather_of_batches(converter: Converter, axis: int) -> Expr:
    """GATHER whose first batch_dims axes are the same in both inputs: places count in one long
    axis."""
    batches = converter.record.options["batch_dims"]
    source, places = (converter.file.tensors[index] for index in converter.record.inputs)
    indices = constant_of(converter, 1).astype(np.int64)
    if batches < 0 or axis < batches or source.shape[:batches] != places.shape[:batches]:
        raise UnsupportedError(
            f"its batch_dims is {batches} and its axis {axis}, of inputs {list(source.shape)} and "
            f"{list(places.shape)}"
        )
    _check_inside(indices, source.shape[axis], axis)
    own = np.arange(int(np.prod(source.shape))).reshape(source.shape)
    found = np.empty((*source.shape[:axis], *places.shape[batches:], *source.shape[axis + 1 :]))
    for batch in np.ndindex(*source.shape[:batches]):
        found[batch] = np.take(own[batch], indices[batch], axis - batches)
    return _taken(converter, 0, found.astype(np.int32))


def _gather_nd(converter: Converter, op: TfliteTable) -> Expr:
    """GATHER_ND: the last axis of the places is an index of the first axes."""
    source = converter.file.tensors[converter.record.inputs[0]]
    places = constant_of(converter, 1).astype(np.int64)
    if not 1 <= places.shape[-1] <= len(source.shape):
        raise UnsupportedError(
            f"its indices have {places.shape[-1]} numbers each: its input has "
            f"{len(source.shape)} axes"
        )
    for axis in range(places.shape[-1]):
        _check_inside(places[..., axis], source.shape[axis], axis)
    own = np.arange(int(np.prod(source.shape))).reshape(source.shape)
    return _taken(converter, 0, own[tuple(np.moveaxis(places, -1, 0))].astype(np.int32))


def _check_inside(places: NDArray[np.int64], extent: int, axis: int) -> None:
    outside = places[(places < 0) | (places >= extent)]
    if outside.size:
        raise UnsupportedError(
            f"its index {outside.reshape(-1)[0]} is outside of axis {axis}, which has {extent} "
            "elements"
        )


def _taken(converter: Converter, position: int, places: NDArray[np.int32]) -> Expr:
    """Elements of an input by their places in it as one row; the result has the places' shape."""
    flat = converter.bb.emit(relax.op.reshape(converter.real(position), (-1,)))
    row = converter.bb.emit(relax.op.take(flat, constant(places.reshape(-1)), axis=0, mode="fast"))
    return relax.op.reshape(row, places.shape) if places.ndim else relax.op.squeeze(row, [0])


def _mirror_pad(converter: Converter, op: TfliteTable) -> Expr:
    """MIRROR_PAD: with the edge twice (SYMMETRIC) or once (REFLECT)."""
    source, widths = converter.file.tensors[converter.record.inputs[0]], constant_of(converter, 1)
    symmetric = converter.record.options["mode"] == 1
    most = [extent - (not symmetric) for extent in source.shape]
    if widths.shape != (len(source.shape), 2) or np.any(widths < 0):
        raise UnsupportedError(f"its widths are {widths.tolist()}")
    for axis, (pair, limit) in enumerate(zip(widths, most, strict=True)):
        if max(pair) > limit:
            raise UnsupportedError(
                f"it pads axis {axis} by {max(pair)}: a mirror of {source.shape[axis]} elements "
                f"gives {limit}"
            )
    own = np.arange(int(np.prod(source.shape)), dtype=np.int32).reshape(source.shape)
    pairs = [(int(before), int(after)) for before, after in widths]
    return _taken(converter, 0, np.pad(own, pairs, "symmetric" if symmetric else "reflect"))


def _nearest(converter: Converter, op: TfliteTable) -> Expr:
    """RESIZE_NEAREST_NEIGHBOR. Rows and columns are those that LiteRT's float32 finds."""
    options, target = converter.record.options, target_of(converter)
    source = converter.real(0)
    corners, half = options["align_corners"], options["half_pixel_centers"]
    extents, sizes = (shape(source) or ())[1:3], target.shape[1:3]
    found = [_rows(*pair, corners=corners, half=half) for pair in zip(extents, sizes, strict=True)]
    exact = [
        (2 * np.arange(size) + half) * extent // (2 * size)
        for extent, size in zip(extents, sizes, strict=True)
    ]
    if not corners and all(map(np.array_equal, found, exact)):
        return relax.op.image.resize2d(
            source,
            relax.ShapeExpr(sizes),
            layout="NHWC",
            method="nearest_neighbor",
            coordinate_transformation_mode="half_pixel" if half else "asymmetric",
            rounding_method="round_prefer_ceil" if half else "floor",
        )
    for axis, rows in enumerate(found, start=1):
        source = converter.bb.emit(
            relax.op.take(source, constant(rows.astype(np.int32)), axis=axis, mode="fast")
        )
    return source


def _rows(extent: int, size: int, *, corners: bool, half: bool) -> NDArray[np.int64]:
    """(size,) rows of an input of `extent` rows, as LiteRT's GetNearestNeighbor has them."""
    stretched = corners and size > 1
    scale = np.float32(extent - 1 if stretched else extent) / np.float32(size - stretched)
    places = (np.arange(size).astype(np.float32) + np.float32(0.5 * half)) * scale
    rounded = np.floor(places + np.float32(0.5)) if corners else np.floor(places)
    return np.asarray(np.clip(rounded.astype(np.int64), 0, extent - 1))


def _fill(converter: Converter, op: TfliteTable) -> Expr:
    """FILL: one value everywhere."""
    size = tuple(int(n) for n in constant_of(converter, 0).reshape(-1))
    if min(size, default=1) < 1:
        raise UnsupportedError(f"it writes the shape {list(size)}, which has no elements")
    return relax.op.broadcast_to(converter.real(1), size)


def _select(converter: Converter, op: TfliteTable) -> Expr:
    """SELECT: a condition of one axis chooses among rows."""
    condition, size = converter.real(0), target_of(converter).shape
    extents = shape(condition) or ()
    if len(extents) == 1 and len(size) > 1:
        condition = relax.op.reshape(condition, (extents[0], *(1,) * (len(size) - 1)))
    return relax.op.where(condition, converter.real(1), converter.real(2))


def _cumsum(converter: Converter, op: TfliteTable) -> Expr:
    """CUMSUM, from either end, with the element itself or without."""
    options, axis = converter.record.options, axis_of(converter, 1)
    source = converter.real(0)
    if options["reverse"]:
        source = converter.bb.emit(relax.op.flip(source, axis))
    sums = converter.bb.emit(
        relax.op.cumsum(source, axis=axis, exclusive=bool(options["exclusive"]))
    )
    return relax.op.flip(sums, axis) if options["reverse"] else sums


def _dynamic_update_slice(converter: Converter, op: TfliteTable) -> Expr:
    """DYNAMIC_UPDATE_SLICE at a constant place, which is moved inside as LiteRT does it."""
    whole, part = (converter.file.tensors[index].shape for index in converter.record.inputs[:2])
    begin = constant_of(converter, 2).astype(np.int64).reshape(-1)
    if len(whole) != len(part) or begin.size != len(whole) or any(map(np.greater, part, whole)):
        raise UnsupportedError(f"it writes {list(part)} into {list(whole)}")
    first = [
        min(max(int(at), 0), most - size) for at, most, size in zip(begin, whole, part, strict=True)
    ]
    places = tuple(slice(at, at + size) for at, size in zip(first, part, strict=True))
    inside, own = np.zeros(whole, np.bool_), np.zeros(whole, np.int32)
    inside[places] = True
    own[places] = np.arange(int(np.prod(part))).reshape(part)
    written = converter.bb.emit(_taken(converter, 1, own))
    return relax.op.where(constant(inside), written, converter.real(0))


def _embedding(converter: Converter, op: TfliteTable) -> Expr:
    """EMBEDDING_LOOKUP: rows of a table by constant numbers."""
    rows = constant_of(converter, 0).astype(np.int64)
    table = converter.file.tensors[converter.record.inputs[1]]
    if rows.ndim != 1:
        raise UnsupportedError(f"its rows have the shape {list(rows.shape)}: one axis is done")
    _check_inside(rows, table.shape[0], 0)
    return relax.op.take(converter.real(1), constant(rows.astype(np.int32)), axis=0, mode="fast")


#: Operator -> its conversion.
ARRAYS: Mapping[str, Callable[[Converter, TfliteTable], Expr]] = {
    "SPLIT": _split,
    "SPLIT_V": _split_v,
    "ARG_MAX": _extreme("argmax"),
    "ARG_MIN": _extreme("argmin"),
    "GATHER": _gather,
    "GATHER_ND": _gather_nd,
    "MIRROR_PAD": _mirror_pad,
    "RESIZE_NEAREST_NEIGHBOR": _nearest,
    "FILL": _fill,
    "SELECT": _select,
    "CUMSUM": _cumsum,
    "DYNAMIC_UPDATE_SLICE": _dynamic_update_slice,
    "EMBEDDING_LOOKUP": _embedding,
}
