# SPDX-License-Identifier: Apache-2.0
"""Sums that leave a device whole, or as planes of bytes: their patterns, and the operators of
graph/.

In:   concat(astype(acc), astype(acc >> 8), astype(acc >> 16) ...) along the last axis, each int8,
      where acc is an int32 matmul or conv2d of int8 by an int8 constant; or acc itself.
Out:  PLANE_PATTERNS, for back ends that write these forms themselves (vta/region/byte_planes.py).
      The host never takes them: what no device takes stays Relax.
Next: partition/patterns/__init__.py names them beside the others.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from loadstone.backend.interface import OperatorPattern
from loadstone.graph import PlaneConv2D, PlaneDense, Tensor
from loadstone.graph.base import Fields
from loadstone.partition.patterns.forms import anything, const, op
from loadstone.partition.patterns.reader import Mismatch, Reader
from loadstone.relax.compat import (
    dpl,
    dtype,
    integers,
    name_of,
    relax,
    scalar,
    shape,
    value,
)

if TYPE_CHECKING:
    from collections.abc import Callable

    from loadstone.relax.types import Call, DFPattern

__all__ = ["PLANE_PATTERNS"]


def _planes(product: str, count: int) -> Callable[[], DFPattern]:
    def pattern() -> DFPattern:
        core = op(product)(anything(), const())
        if count == 1:
            return core
        shifted = [op("right_shift")(core, const()) for _ in range(1, count)]
        return op("concat")(dpl.is_tuple([op("astype")(part) for part in (core, *shifted)]))

    return pattern


def _product(reader: Reader, root: Call) -> Call:
    """The product whose bytes these are, or which it is."""
    if not root.args or not hasattr(root.args[0], "fields"):
        return _of_int8(root)
    parts = [reader.call(part) for part in root.args[0].fields]
    rank = len(shape(root) or ())
    if int(root.attrs.axis) % rank != rank - 1 or any(dtype(part) != "int8" for part in parts):
        raise Mismatch("its parts are no planes of bytes")
    product = reader.call(parts[0].args[0])
    for plane, part in enumerate(parts[1:], start=1):
        shift = reader.call(part.args[0])
        if reader.call(shift.args[0]) is not product or scalar(shift.args[1]) != 8 * plane:
            raise Mismatch("its parts are no planes of bytes")
    return _of_int8(product)


def _of_int8(product: Call) -> Call:
    if [dtype(expr) for expr in (*product.args[:2], product)] != ["int8", "int8", "int32"]:
        raise Mismatch(f"it multiplies {dtype(product.args[0])} by {dtype(product.args[1])}")
    return product


def _fields(reader: Reader, root: Call, product: Call) -> Fields:
    if not isinstance(product.args[0], relax.Var) or (extents := shape(root)) is None:
        raise Mismatch("it reads a constant, or its shape is not static")
    name = name_of(root) or ""
    return {
        "name": name,
        "inputs": (reader.tensor(product.args[0]),),
        "outputs": (Tensor(name, extents, "int32" if root is product else "int8"),),
        "planes": 1 if root is product else len(root.args[0].fields),
    }


def _dense(reader: Reader, root: Call) -> PlaneDense:
    product = _product(reader, root)
    weights = value(product.args[1])
    if weights.ndim != 2 or len(shape(product.args[0]) or ()) < 2:
        raise Mismatch(f"it multiplies matrices of shape {list(weights.shape)}")
    return PlaneDense(
        **_fields(reader, root, product), weights=np.ascontiguousarray(weights.T, np.int8)
    )


def _conv2d(reader: Reader, root: Call) -> PlaneConv2D:
    product = _product(reader, root)
    attrs = product.attrs
    if str(attrs.data_layout) != "NHWC" or str(attrs.kernel_layout) != "OHWI":
        raise Mismatch(f"its layout is {attrs.data_layout}")
    top, left, bottom, right = integers(attrs.padding)
    strides, dilation = integers(attrs.strides), integers(attrs.dilation)
    return PlaneConv2D(
        **_fields(reader, root, product),
        weights=value(product.args[1]),
        strides=(strides[0], strides[1]),
        dilation=(dilation[0], dilation[1]),
        padding=(top, left, bottom, right),
        groups=int(attrs.groups),
    )


PLANE_PATTERNS: tuple[OperatorPattern, ...] = tuple(
    OperatorPattern(name, _planes(product, count), extract)
    for name, product, extract in (
        ("plane_conv2d", "nn.conv2d", _conv2d),
        ("plane_dense", "matmul", _dense),
    )
    for count in (3, 4, 1)
)
