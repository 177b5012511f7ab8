# SPDX-License-Identifier: Apache-2.0
"""ONNX's dynamic quantization: scales that are found when the network runs, and products of
integers.

In:   an OnnxNode of DynamicQuantizeLinear, MatMulInteger or ConvInteger.
Out:  its results as Relax expressions: real arithmetic for the scale, and, wherever the weights are
      constants, one product of int8 by int8 whose sums are int32 (a device can do that one), with
      what the zero points add beside it.
Next: importer.py binds them; vta/region/byte_planes.py brings such sums out of a device.

    sum (a - za) * (w - zw)  =  sum a' * w'  -  za' * sum w'  -  zw' * sum a'  +  K * za' * zw'

a' and w' are int8: a uint8 is less by 128, and so is its zero point. Weights are centred first
wherever they then fit int8, as those of symmetric quantizers do; zw' is 0 then, and the last two
terms are not there. All of it is arithmetic of int32, which wraps as the file's would.

The scale is ONNX Runtime's: (max - min) / 255 of a range that contains 0, rounded once for each
operation; 1 for a tensor of zeros. A NaN or an infinity makes scale and numbers NaN, and the
integers 0 or 255: no integer says what is lost, the scale does.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from loadstone.frontend.onnx.node import OnnxNode
from loadstone.frontend.onnx.operators.convolution import convolved, kernel_of
from loadstone.frontend.onnx.operators.windows import windows_of
from loadstone.frontend.onnx.table import converter
from loadstone.numerics import Array, wrap_int32
from loadstone.relax.compat import (
    dtype,
    exact_constant,
    is_call,
    is_constant,
    relax,
    scalar,
    value,
)

if TYPE_CHECKING:
    from loadstone.relax.types import Expr

__all__: list[str] = []

#: What a uint8 is more than the int8 of the same bits but the highest.
_OFFSET = 128
#: Steps of a uint8.
_STEPS = 255


@converter("DynamicQuantizeLinear", outputs=3, types=("float32", "uint8"))
def _quantized(node: OnnxNode) -> list[Expr]:
    """y, its scale and its zero point, of one range for the whole tensor."""
    x, zero, one = node.tensor(0), _number(0.0), _number(1.0)
    # Zero comes first: of two numbers of which one is none the second is taken.
    low = node.emit(relax.op.minimum(zero, node.emit(relax.op.min(x))))
    high = node.emit(relax.op.maximum(zero, node.emit(relax.op.max(x))))
    span = node.emit(relax.op.subtract(high, low))
    step = node.emit(relax.op.divide(span, _number(float(_STEPS))))
    flat = node.emit(relax.op.equal(high, low))
    scale = node.emit(relax.op.where(flat, one, step), node.proto.output[1])
    begin = node.emit(relax.op.divide(low, scale))
    point = node.emit(relax.op.round(_within(node, node.emit(relax.op.subtract(zero, begin)))))
    # In the order of ONNX Runtime: clipped around the zero point, rounded to even, then moved.
    real = node.emit(relax.op.divide(x, scale))
    least = node.emit(relax.op.subtract(zero, point))
    most = node.emit(relax.op.subtract(_number(float(_STEPS)), point))
    inside = node.emit(relax.op.minimum(node.emit(relax.op.maximum(real, least)), most))
    rounded = node.emit(relax.op.round(inside))
    moved = _within(node, node.emit(relax.op.add(rounded, point)))
    signed = node.emit(relax.op.subtract(moved, _number(float(_OFFSET))))
    integers = node.emit(relax.op.astype(signed, "int8"))
    return [_unsigned(node, integers), scale, relax.op.astype(point, "uint8")]


def _unsigned(node: OnnxNode, integers: Expr) -> Expr:
    """The uint8 of the same order: `_same_signed` finds the int8 in it again, once for all
    products that read it."""
    wide = node.emit(relax.op.astype(integers, "int32"))
    return relax.op.astype(node.emit(relax.op.add(wide, _offset())), "uint8")


def _same_signed(node: OnnxNode, given: Expr) -> Expr | None:
    """The int8 that `_unsigned` made a uint8 of; None for one of another making."""
    made = given
    for name in ("astype", "add", "astype"):
        made = node.builder.lookup_binding(made) if isinstance(made, relax.Var) else made
        if made is None or not is_call(made, name):
            return None
        if name == "add" and (not is_constant(made.args[1]) or scalar(made.args[1]) != _OFFSET):
            return None
        made = made.args[0]
    return made if dtype(made) == "int8" else None


def _offset() -> Expr:
    return exact_constant(np.array(_OFFSET, np.int32))


def _within(node: OnnxNode, expr: Expr) -> Expr:
    """In the range of uint8. What is no number is there, too, so that C may convert it."""
    below = node.emit(relax.op.minimum(expr, _number(float(_STEPS))))
    return node.emit(relax.op.maximum(below, _number(0.0)))


def _number(number: float) -> Expr:
    return exact_constant(np.array(number, np.float32))


class _Factor(NamedTuple):
    """int8, and a zero point of int32 that broadcasts against it; None: zero."""

    integers: Expr
    zero_point: Expr | None


@converter("MatMulInteger", inputs=4, types=("int8", "uint8", "int32"))
def _product(node: OnnxNode) -> Expr:
    """Zero points are one number, or one for each row of the first and each column of the second
    factor."""
    weights = node.input(1)
    if weights is None or not is_constant(weights) or len(node.extents(1)) != 2:
        return _plain(node, relax.op.matmul)
    found = _centred(value(weights), _points(node, 3))
    extents = node.extents(0)
    first = _signed(node, 0, 2)
    sums = relax.op.matmul(first.integers, exact_constant(found.weights), out_dtype="int32")
    made = node.emit(sums, f"{node.proto.output[0]}/sums")
    columns = exact_constant(wrap_int32(found.weights.astype(np.int64).sum(axis=0)))
    if first.zero_point is not None:
        lost = node.emit(relax.op.multiply(first.zero_point, columns))
        made = node.emit(relax.op.subtract(made, lost))
    if not found.zero_points.any():
        return made
    wide = node.emit(relax.op.astype(first.integers, "int32"))
    if first.zero_point is not None:
        wide = node.emit(relax.op.subtract(wide, first.zero_point))
    rows = node.emit(relax.op.sum(wide, [len(extents) - 1], keepdims=len(extents) > 1))
    points = exact_constant(found.zero_points)
    return relax.op.subtract(made, node.emit(relax.op.multiply(rows, points)))


class _Centred(NamedTuple):
    """int8 weights and int32 zero points, one or one a column."""

    weights: Array
    zero_points: Array


def _centred(weights: Array, zero_points: Array) -> _Centred:
    """Weights less their zero points, which then are 0, where the differences fit int8."""
    wide = weights.astype(np.int32) - zero_points
    if wide.min() >= -_OFFSET and wide.max() < _OFFSET:
        return _Centred(wide.astype(np.int8), np.zeros(1, np.int32))
    offset = _OFFSET if weights.dtype == np.uint8 else 0
    return _Centred((weights.astype(np.int32) - offset).astype(np.int8), zero_points - offset)


def _points(node: OnnxNode, index: int) -> Array:
    """A zero point that has to be a constant, as int32."""
    found = node.constant(index)
    return np.zeros(1, np.int32) if found is None else found.astype(np.int32)


def _signed(node: OnnxNode, index: int, at: int) -> _Factor:
    """A factor as int8. at: the input that is its zero point."""
    given, unsigned = node.tensor(index), node.dtype(index) == "uint8"
    point = _point(node, at, is_first=True)
    if not unsigned:
        return _Factor(given, point)
    integers = _same_signed(node, given)
    if integers is None:
        wide = node.emit(relax.op.astype(given, "int32"))
        integers = node.emit(relax.op.astype(node.emit(relax.op.subtract(wide, _offset())), "int8"))
    if point is None:
        return _Factor(integers, exact_constant(np.array(-_OFFSET, np.int32)))
    return _Factor(integers, node.emit(relax.op.subtract(point, _offset())))


def _point(node: OnnxNode, at: int, *, is_first: bool) -> Expr | None:
    """A zero point as int32, so that it broadcasts against the rows of the first factor or the
    columns of the second."""
    given = node.input(at)
    if given is None:
        return None
    wide = node.emit(relax.op.astype(given, "int32"))
    extents = node.extents(at)
    if not is_first or len(extents) != 1 or extents == (1,):
        return wide
    return node.emit(relax.op.reshape(wide, [*extents, 1]))


#: Spatial axes of a convolution that a device can do.
_IMAGE = 2


@converter(
    "ConvInteger",
    attributes="auto_pad dilations group kernel_shape pads strides",
    inputs=4,
    types=("int8", "uint8", "int32"),
)
def _convolution(node: OnnxNode) -> Expr:
    """Padding counts as zero points. Where a window hangs over the edge fewer weights meet the
    first zero point: how many is known before."""
    weights, kernel = node.input(1), kernel_of(node)
    if weights is None or not is_constant(weights) or len(kernel) != _IMAGE:
        return _plain(node, lambda x, w: convolved(node, x, w))
    points = _points(node, 3).reshape(-1, *[1] * (_IMAGE + 1))
    found = _centred(value(weights), points)
    if found.zero_points.any():
        return _plain(node, lambda x, w: convolved(node, x, w))
    first = _signed(node, 0, 2)
    sums = convolved(node, first.integers, exact_constant(found.weights), "int32")
    if first.zero_point is None:
        return sums
    windows = windows_of(node, kernel)
    _, inside = windows.read()
    taps = found.weights.astype(np.int64).sum(axis=1).reshape(len(found.weights), -1)
    met = wrap_int32(taps @ inside.T.astype(np.int64)).reshape(1, len(taps), *windows.outputs)
    if (met == met[..., :1, :1]).all():
        met = np.ascontiguousarray(met[..., :1, :1])
    lost = node.emit(relax.op.multiply(first.zero_point, exact_constant(met)))
    return relax.op.subtract(node.emit(sums, f"{node.proto.output[0]}/sums"), lost)


def _plain(node: OnnxNode, product: Callable[[Expr, Expr], Expr]) -> Expr:
    """As ONNX says it, for factors that are both computed when the network runs."""
    sides = []
    for index, at in ((0, 2), (1, 3)):
        wide = node.emit(relax.op.astype(node.tensor(index), "int32"))
        if (point := _point(node, at, is_first=index == 0)) is not None:
            if node.op_type == "ConvInteger" and index and node.extents(at) not in ((), (1,)):
                point = node.emit(relax.op.reshape(point, [-1, *[1] * (len(node.extents(1)) - 1)]))
            wide = node.emit(relax.op.subtract(wide, point))
        sides.append(wide)
    return product(*sides)
