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
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

from loadstone.relax.compat import (
    dtype,
    exact_constant,
    integers,
    is_call,
    is_constant,
    relax,
    retyped,
    shape,
    value,
)

if TYPE_CHECKING:
    from loadstone.relax.types import Attrs, Call, Expr

__all__ = ["channels_last_conv2d", "with_flat_kernels", "with_types"]


#: How a convolution says that its result has the type of what it reads.
_UNSAID = ("None", "", "void")


def channels_last_conv2d(
    data: Expr,
    kernel: Expr,
    attrs: Attrs,
    *,
    kernel_layout: str = "OHWI",
    padding: Sequence[int] | None = None,
) -> Expr:
    """A convolution of NHWC data with the strides, dilation, groups and type of another one, and
    its padding unless given."""
    said = str(attrs.out_dtype)
    call = relax.op.nn.conv2d(
        data,
        kernel,
        strides=integers(attrs.strides),
        padding=integers(attrs.padding) if padding is None else padding,
        dilation=integers(attrs.dilation),
        groups=int(attrs.groups),
        data_layout="NHWC",
        kernel_layout=kernel_layout,
        out_dtype=None if said in _UNSAID else said,
    )
    return with_types(call)


def with_types(expr: Expr, bind: Callable[[Expr], Expr] = lambda expr: expr) -> Expr:
    """The expression; the convolutions in it know their types now, if what they read does. What TVM
    would refuse is left to it.

    bind: gives a variable for a call that a convolution reads; one that reads calls loses its type
        when TVM binds them.
    """
    if not isinstance(expr, relax.Call):
        return expr
    arguments = [with_types(argument, bind) for argument in expr.args]
    if is_call(expr, "nn.conv2d"):
        arguments = [bind(entry) if isinstance(entry, relax.Call) else entry for entry in arguments]
    if any(not new.same_as(old) for new, old in zip(arguments, expr.args, strict=True)):
        expr = relax.Call(expr.op, arguments, expr.attrs, expr.ty_args, span=expr.span)
    if expr.ty.is_missing() and (extents := _extents(expr)) is not None:
        return retyped(expr, relax.TensorType(extents, dtype(expr.args[0])))
    return expr


def with_flat_kernels(expr: Expr) -> Expr:
    """The expression; kernels of depthwise convolutions in it that TVM 0.26 imports as (H, W,
    channels, multiplier), which it then refuses, are (H, W, channels * multiplier, 1), as of 0.27.
    """
    if not isinstance(expr, relax.Call):
        return expr
    arguments = [with_flat_kernels(argument) for argument in expr.args]
    if is_call(expr, "nn.conv2d") and expr.attrs.kernel_layout == "HWOI":
        arguments[1] = _flat_kernel(arguments[0], arguments[1], int(expr.attrs.groups))
    if all(new.same_as(old) for new, old in zip(arguments, expr.args, strict=True)):
        return expr
    return relax.Call(expr.op, arguments, expr.attrs, expr.ty_args, span=expr.span)


def _flat_kernel(data: Expr, kernel: Expr, groups: int) -> Expr:
    read = shape(data)
    reshaped = is_call(kernel, "reshape") and isinstance(kernel.args[1], relax.ShapeExpr)
    extents = integers(kernel.args[1]) if reshaped else shape(kernel)
    if not read or not extents or not read[-1] == groups == extents[2] or extents[3] == 1:
        return kernel
    flat = (*extents[:2], extents[2] * extents[3], 1)
    if is_constant(kernel):
        return exact_constant(value(kernel).reshape(flat))
    return relax.op.reshape(kernel.args[0] if reshaped else kernel, flat)


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
    layouts = [str(attrs.data_layout), str(attrs.kernel_layout)]
    layouts.append(str(attrs.out_layout) or layouts[0])
    known = [
        _by_letter(argument, layout) for argument, layout in zip(call.args, layouts, strict=False)
    ]
    if None in known or [sorted(layout) for layout in layouts] != _LETTERS:
        return None
    data, kernel = (extents or {} for extents in known)
    if not _agree(call, data, kernel):
        return None
    pads, strides, dilations = map(integers, (attrs.padding, attrs.strides, attrs.dilation))
    places = [
        (data[axis] + before + after - dilation * (kernel[axis] - 1) - 1) // stride + 1
        for axis, before, after, stride, dilation in zip(
            "HW", pads[:2], pads[2:], strides, dilations, strict=True
        )
    ]
    if min(places) <= 0:  # the window does not fit
        return None
    made = {"N": data["N"], "C": kernel["O"], "H": places[0], "W": places[1]}
    return tuple(made[letter] for letter in layouts[2])


def _agree(call: Call, data: dict[str, int], kernel: dict[str, int]) -> bool:
    """Whether types and channels are such as TVM takes, and gives."""
    types, groups = {dtype(argument) for argument in call.args}, int(call.attrs.groups)
    return (
        len(types) == 1
        and str(call.attrs.out_dtype) in (*_UNSAID, *types)
        and data["C"] == kernel["I"] * groups
        and kernel["O"] % groups == 0
    )


def _by_letter(expr: Expr, layout: str) -> dict[str, int] | None:
    """The extents by the letters of the layout; None where they are not known, or more."""
    extents = shape(expr)
    if extents is None or len(extents) != len(layout):
        return None
    return dict(zip(layout, extents, strict=True))


#: Of data, kernel and result, sorted.
_LETTERS = [sorted("NCHW"), sorted("OIHW"), sorted("NCHW")]
