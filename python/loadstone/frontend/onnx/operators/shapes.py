# SPDX-License-Identifier: Apache-2.0
"""ONNX's operators that give shapes, or tensors whose numbers follow from one.

In:   an OnnxNode.
Out:  its result as a Relax expression, a constant where it is one.
Next: importer.py binds it.
"""

from __future__ import annotations

from math import prod
from typing import TYPE_CHECKING

import numpy as np
import onnx

from loadstone.frontend.onnx.node import OnnxNode
from loadstone.frontend.onnx.table import converter
from loadstone.relax.compat import exact_constant, relax

if TYPE_CHECKING:
    from loadstone.relax.types import Expr

__all__: list[str] = []


@converter("Shape", attributes="start end")
def _shape(node: OnnxNode) -> Expr:
    """Part of it from opset 15 on; bounds beyond the rank are at its ends."""
    extents = node.extents(0)
    bounds = slice(node.attributes.get("start", 0), node.attributes.get("end", len(extents)))
    return exact_constant(np.array(extents[bounds], np.int64))


@converter("Size")
def _size(node: OnnxNode) -> Expr:
    return exact_constant(np.array(prod(node.extents(0)), np.int64))


@converter("EyeLike", attributes="dtype k")
def _eye_like(node: OnnxNode) -> Expr:
    """Ones on the k-th diagonal of a matrix of the input's shape."""
    rows, columns = node.extents(0)
    said = node.attributes.get("dtype")
    kind = node.dtype(0) if said is None else onnx.helper.tensor_dtype_to_np_dtype(said)
    return exact_constant(np.eye(rows, columns, int(node.attributes["k"]), np.dtype(kind)))


@converter("ConstantOfShape", attributes="value", constants=(0,))
def _constant_of_shape(node: OnnxNode) -> Expr:
    """Zeros of float32 if no value is given."""
    given = node.constant(0)
    assert given is not None
    value = node.attributes.get("value", np.zeros(1, np.float32))
    return exact_constant(np.full(given.astype(int).tolist(), value.reshape(-1)[0], value.dtype))


@converter("OneHot", attributes="axis", inputs=3, constants=(1,))
def _one_hot(node: OnnxNode) -> Expr:
    """An index below 0 counts from the end; one outside is nowhere."""
    places, values, given = node.tensor(0), node.tensor(2), node.constant(1)
    extents, kind = node.extents(0), node.dtype(0)
    assert given is not None
    depth = int(given.reshape(-1)[0])
    axis = int(node.attributes["axis"]) % (len(extents) + 1)
    wrapped = places
    if not kind.startswith("uint"):
        behind = node.emit(relax.op.add(places, exact_constant(np.array(depth, kind))))
        negative = node.emit(relax.op.less(places, exact_constant(np.zeros((), kind))))
        wrapped = node.emit(relax.op.where(negative, behind, places))
    row = [1] * (len(extents) + 1)
    row[axis] = depth
    classes = exact_constant(np.arange(depth).astype(kind).reshape(row))
    hot = node.emit(relax.op.equal(node.emit(relax.op.expand_dims(wrapped, axis)), classes))
    off, on = (
        node.emit(relax.op.squeeze(node.emit(relax.op.take(values, _place(k), 0)), [0]))
        for k in (0, 1)
    )
    return relax.op.where(hot, on, off)


def _place(index: int) -> Expr:
    return exact_constant(np.array([index], np.int64))
