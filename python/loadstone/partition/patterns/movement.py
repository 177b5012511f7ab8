# SPDX-License-Identifier: Apache-2.0
"""Operators that move elements: their patterns, and the operators of graph/ for them.

In:   quantize(reshape | permute_dims | ... (dequantize(x))) with the same quantization on both
      sides
      (frontend/canonical.py); concat, which may requantize.
Out:  Reshape, Transpose, Slice, Pad, Concatenate, ResizeNearest, ResizeBilinear.
Next: partition/patterns/__init__.py lists them.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

import numpy as np

from loadstone.errors import UnsupportedError
from loadstone.graph import (
    Concatenate,
    Pad,
    Reshape,
    ResizeBilinear,
    ResizeNearest,
    Slice,
    Tensor,
    Transpose,
)
from loadstone.graph.base import Fields
from loadstone.graph.kernels.tflite import bilinear_taps
from loadstone.partition.patterns.forms import dq, op, q, tail
from loadstone.partition.patterns.reader import Mismatch, Reader
from loadstone.relax.compat import dpl, dtype, integers, relax

if TYPE_CHECKING:
    from loadstone.relax.types import Call, DFPattern

__all__ = [
    "concatenate",
    "concatenate_pattern",
    "pad",
    "pad_pattern",
    "relabel",
    "relabel_pattern",
    "reshape",
    "reshape_pattern",
    "resize",
    "resize_pattern",
    "slice_",
    "slice_pattern",
    "transpose",
    "transpose_pattern",
]


def reshape_pattern() -> DFPattern:
    """Every operator that preserves the row-major order."""
    forms = (op(name)(dq()) for name in ("squeeze", "expand_dims", "flatten"))
    pattern = op("reshape")(dq(), dpl.wildcard())
    for form in forms:
        pattern = pattern | form
    return q(pattern)


def reshape(reader: Reader, root: Call) -> Reshape:
    """The output's shape defines it completely."""
    source, output = _same_quantization(reader, root)
    return Reshape(name=output.name, inputs=(source,), outputs=(output,))


def relabel_pattern() -> DFPattern:
    """A reshape of integers, which changes the real numbers that they represent."""
    return op("reshape")(dpl.wildcard(), dpl.wildcard())


def relabel(reader: Reader, root: Call) -> Reshape:
    """The same bytes, which later operators read with another scale (TFLite)."""
    variable = next((bound for bound, call in reader.env.items() if call.same_as(root)), None)
    if (
        variable is None
        or not isinstance(root.args[0], relax.Var)
        or dtype(variable) not in ("int8", "uint8")
    ):
        raise Mismatch(f"it reshapes {dtype(root)}")
    source, output = reader.tensor(root.args[0]), reader.tensor(variable)
    return Reshape(name=output.name, inputs=(source,), outputs=(output,))


def transpose_pattern() -> DFPattern:
    """permute_dims."""
    return q(op("permute_dims")(dq()))


def transpose(reader: Reader, root: Call) -> Transpose:
    """Without axes the order of all axes is reversed."""
    source, output = _same_quantization(reader, root)
    axes = reader.call(root.args[0]).attrs.axes
    permutation = integers(axes) if axes is not None else tuple(reversed(range(len(source.shape))))
    return Transpose(
        name=output.name,
        inputs=(source,),
        outputs=(output,),
        permutation=tuple(axis % len(source.shape) for axis in permutation),
    )


def slice_pattern() -> DFPattern:
    """strided_slice with known bounds: axes, begin, end, and steps or none. (One wildcard twice
    would demand equal arguments.)"""
    plain, stepped = (
        op("strided_slice")(dq(), *(dpl.wildcard() for _ in range(count))) for count in (3, 4)
    )
    return q(plain | stepped)


def slice_(reader: Reader, root: Call) -> Slice:
    """Raises Mismatch for negative strides."""
    source, output = _same_quantization(reader, root)
    call = reader.call(root.args[0])
    axes, begins = integers(call.args[1]), integers(call.args[2])
    steps = integers(call.args[4]) if len(call.args) > 4 else (1,) * len(axes)
    begin, strides = [0] * len(source.shape), [1] * len(source.shape)
    for axis, start, step in zip(axes, begins, steps, strict=True):
        extent = source.shape[axis]
        begin[axis] = min(max(start + extent if start < 0 else start, 0), extent)
        strides[axis] = step
    if min(strides) < 1:
        raise Mismatch(f"its strides are {strides}")
    return Slice(
        name=output.name,
        inputs=(source,),
        outputs=(output,),
        begin=tuple(begin),
        strides=tuple(strides),
    )


def pad_pattern() -> DFPattern:
    """nn.pad by a constant."""
    return q(op("nn.pad")(dq()))


def pad(reader: Reader, root: Call) -> Pad:
    """Raises Mismatch for reflecting pads, a value between two integers, and pads that crop."""
    source, output = _same_quantization(reader, root)
    attrs = reader.call(root.args[0]).attrs
    widths = integers(attrs.pad_width)
    point = float(attrs.pad_value) / source.scale + source.zero_point
    if str(attrs.pad_mode) != "constant" or point != round(point):
        raise Mismatch(f"it pads with {attrs.pad_value} in mode {attrs.pad_mode}")
    if min(widths) < 0:
        raise Mismatch(f"it pads by {list(widths)}: a negative number crops")
    return Pad(
        name=output.name,
        inputs=(source,),
        outputs=(output,),
        before=widths[::2],
        after=widths[1::2],
        value=round(point),
    )


def concatenate_pattern(count: int) -> Callable[[], DFPattern]:
    """concat of this number of tensors, because patterns have no repetition."""
    return lambda: tail(op("concat")(dpl.is_tuple([dq() for _ in range(count)])))


def concatenate(reader: Reader, root: Call) -> Concatenate:
    """Inputs may be constants."""
    inner, low, high = reader.tail(root)
    call, output = reader.call(inner), reader.output(root)
    inputs = tuple(reader.source(item, output.name) for item in reader.call(call.args[0]).fields)
    axis = int(call.attrs.axis) % len(output.shape)
    return Concatenate(
        name=output.name,
        inputs=inputs,
        outputs=(output,),
        axis=axis,
        low=low,
        high=high,
        rounding=reader.rounding,
    )


def resize_pattern() -> DFPattern:
    """image.resize2d of any method."""
    return q(op("image.resize2d")(dq(), dpl.wildcard()))


def resize(reader: Reader, root: Call) -> ResizeNearest | ResizeBilinear:
    """Raises Mismatch for methods and coordinates that the dataclasses do not describe."""
    attrs = reader.call(root.args[0]).attrs
    source, output = _same_quantization(reader, root)
    mode, method = str(attrs.coordinate_transformation_mode), str(attrs.method)
    if str(attrs.layout) != "NHWC" or mode not in ("asymmetric", "align_corners", "half_pixel"):
        raise Mismatch(f"its layout is {attrs.layout}, its coordinates {mode}")
    fields: Fields = {
        "name": output.name,
        "inputs": (source,),
        "outputs": (output,),
        "align_corners": mode == "align_corners",
        "half_pixel_centers": mode == "half_pixel",
        "rounding": reader.rounding,
    }
    if method == "linear":
        bilinear = ResizeBilinear(**fields, unsigned=reader.unsigned)
        if reader.tflite and not reader.unsigned:
            _check_places(bilinear)
        return bilinear
    if method != "nearest_neighbor":
        raise Mismatch(f"its method is {method}")
    found = ResizeNearest(**fields)
    if not reader.tflite:
        _check_rounding(found, str(attrs.rounding_method))
    return found


def _check_places(operator: ResizeBilinear) -> None:
    """Raises UnsupportedError where steps of 1/1024, which are rounded, leave the input: LiteRT
    reads what stands behind it."""
    flags = operator.align_corners, operator.half_pixel_centers
    for axis in (1, 2):
        size, out = operator.input.shape[axis], operator.output.shape[axis]
        last = int(bilinear_taps(size, out, *flags)[0].max())
        if last >= size:
            raise UnsupportedError(
                f"{operator.name}: a resize from {size} to {out} rows or columns, of which LiteRT "
                f"reads number {last}, beyond the last one: align corners, take centers of half a "
                "pixel, or choose another size"
            )


def _check_rounding(operator: ResizeNearest, method: str) -> None:
    """ONNX has four ways to round a position. They differ only at ties, so it suffices to compare
    them there."""
    for axis in (1, 2):
        position = operator.positions(axis)
        ours, ties = operator.nearest(axis), position - np.floor(position) == 0.5
        theirs = {
            "floor": np.floor(position),
            "ceil": np.ceil(position),
            "round_prefer_ceil": np.floor(position + 0.5),
            "round_prefer_floor": np.where(ties, np.floor(position), np.floor(position + 0.5)),
            "round": np.where(ties, np.floor(position), np.floor(position + 0.5)),
        }.get(method or "round")
        if theirs is None or not np.array_equal(
            np.clip(theirs, 0, operator.input.shape[axis] - 1), ours
        ):
            raise Mismatch(f"it rounds positions by {method}")


def _same_quantization(reader: Reader, root: Call) -> tuple[Tensor, Tensor]:
    source, output = reader.source(reader.call(root.args[0]).args[0]), reader.output(root)
    if source.quantization != output.quantization:
        raise Mismatch("it changes the quantization while it moves elements")
    return source, output
