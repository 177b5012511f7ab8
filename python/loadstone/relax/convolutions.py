# SPDX-License-Identifier: Apache-2.0
"""Convolutions as Relax calls, with their types.

In:   the data, the kernel, the attributes of another convolution.
Out:  a call to nn.conv2d whose type is known.
Next: frontend/ and the passes of quantization/ emit it.

TVM finds the type of a convolution by layouts with symbolic axes: 0.6 ms, where all other calls
take a hundredth of it, and each pass that rebuilds a network asks again. Where all extents are
known it is a line of arithmetic.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import TYPE_CHECKING

from loadstone.relax.compat import dtype, integers, is_call, relax, retyped, shape

if TYPE_CHECKING:
    from loadstone.relax.types import Attrs, Call, Expr

__all__ = ["channels_last_conv2d", "with_types"]


def channels_last_conv2d(
    data: Expr,
    kernel: Expr,
    attrs: Attrs,
    *,
    kernel_layout: str = "OHWI",
    padding: Sequence[int] | None = None,
) -> Expr:
    """A convolution of NHWC data with the strides, dilation and groups of another one, and its
    padding unless given."""
    call = relax.op.nn.conv2d(
        data,
        kernel,
        strides=integers(attrs.strides),
        padding=integers(attrs.padding) if padding is None else padding,
        dilation=integers(attrs.dilation),
        groups=int(attrs.groups),
        data_layout="NHWC",
        kernel_layout=kernel_layout,
    )
    return with_types(call)


def with_types(expr: Expr) -> Expr:
    """The expression itself; the convolutions in it know their types now, if what they read does.
    What TVM would refuse is left to it."""
    if not isinstance(expr, relax.Call):
        return expr
    for argument in expr.args:
        with_types(argument)
    if expr.ty.is_missing() and (extents := _extents(expr)) is not None:
        return retyped(expr, relax.TensorType(extents, dtype(expr.args[0])))
    return expr


def _extents(expr: Call) -> tuple[int, ...] | None:
    """Of the result, in its layout; None where TVM has to say."""
    read = shape(expr.args[0]) if expr.args else None
    if read is None:
        return None
    if is_call(expr, "nn.conv2d"):
        return _of_convolution(expr)
    if is_call(expr, "permute_dims") and expr.attrs.axes is not None:
        return tuple(read[axis] for axis in integers(expr.attrs.axes))
    if is_call(expr, "reshape") and isinstance(expr.args[1], relax.ShapeExpr):
        extents = integers(expr.args[1])
        return extents if math.prod(extents) == math.prod(read) and min(extents) > 0 else None
    return None


def _of_convolution(call: Call) -> tuple[int, ...] | None:
    attrs = call.attrs
    layouts = [str(attrs.data_layout), str(attrs.kernel_layout), str(attrs.out_layout)]
    layouts[2] = layouts[2] or layouts[0]
    known = [shape(argument) for argument in call.args]
    if [sorted(layout) for layout in layouts] != [sorted(letters) for letters in _LETTERS] or any(
        extents is None or len(extents) != 4 for extents in known
    ):
        return None
    data, kernel = (dict(zip(layout, extents or (), strict=True))
                    for layout, extents in zip(layouts, known, strict=False))  # fmt: skip
    pads, strides, dilations = map(integers, (attrs.padding, attrs.strides, attrs.dilation))
    groups, types = int(attrs.groups), {dtype(argument) for argument in call.args}
    if data["C"] != kernel["I"] * groups or kernel["O"] % groups or len(types) != 1:
        return None
    if str(attrs.out_dtype) not in ("None", "", "void", *types) or len(pads) != 4:
        return None
    made = {"N": data["N"], "C": kernel["O"]}
    for number, axis in enumerate("HW"):
        window = dilations[number] * (kernel[axis] - 1) + 1
        room = data[axis] + pads[number] + pads[number + 2] - window
        if room < 0:
            return None
        made[axis] = room // strides[number] + 1
    return tuple(made[letter] for letter in layouts[2])


_LETTERS = ("NCHW", "OIHW", "NCHW")
