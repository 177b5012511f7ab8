# SPDX-License-Identifier: Apache-2.0
"""ONNX's reductions along axes.

In:   an OnnxNode; axes as an attribute or as a constant input; all axes if neither is given.
Out:  its result as a Relax expression.
Next: importer.py binds it.
"""

from __future__ import annotations

from math import prod
from typing import TYPE_CHECKING

import numpy as np

from loadstone.frontend.onnx.node import OnnxNode
from loadstone.frontend.onnx.table import converter
from loadstone.relax.compat import exact_constant, relax

if TYPE_CHECKING:
    from loadstone.relax.types import Expr

__all__: list[str] = []

_REDUCTIONS = {
    "ReduceL1": relax.op.sum,
    "ReduceL2": relax.op.sum,
    "ReduceLogSum": relax.op.sum,
    "ReduceLogSumExp": relax.op.sum,
    "ReduceMax": relax.op.max,
    "ReduceMean": relax.op.mean,
    "ReduceMin": relax.op.min,
    "ReduceProd": relax.op.prod,
    "ReduceSum": relax.op.sum,
    "ReduceSumSquare": relax.op.sum,
}


@converter(*_REDUCTIONS, attributes="axes keepdims noop_with_empty_axes", inputs=2, constants=(1,))
def _reduce(node: OnnxNode) -> Expr:
    """Without axes and with noop_with_empty_axes only what is done to each element is done."""
    rank, given = len(node.extents(0)), node.constant(1)
    said = node.attributes.get("axes") if given is None else given.reshape(-1)
    axes = sorted({int(axis) % rank for axis in (() if said is None else said)})
    if not axes and not node.attributes.get("noop_with_empty_axes"):
        axes = list(range(rank))
    keeps = bool(node.attributes["keepdims"])
    if node.dtype(0) == "bool":
        return _flags(node, axes, keeps=keeps)
    if node.op_type == "ReduceLogSumExp":
        return _log_sum_exp(node, axes, keeps=keeps)
    x = node.tensor(0)
    if node.op_type == "ReduceL1":
        x = node.emit(relax.op.abs(x))
    elif node.op_type in ("ReduceL2", "ReduceSumSquare"):
        x = node.emit(relax.op.multiply(x, x))
    if node.op_type == "ReduceMean" and "int" in node.dtype(0):
        return _integer_mean(node, axes, keeps=keeps)
    made = _REDUCTIONS[node.op_type](x, axes, keepdims=keeps) if axes else x
    if node.op_type == "ReduceL2":
        return relax.op.sqrt(node.emit(made))
    return relax.op.log(node.emit(made)) if node.op_type == "ReduceLogSum" else made


def _integer_mean(node: OnnxNode, axes: list[int], *, keeps: bool) -> Expr:
    """The sum, divided towards zero."""
    total = node.emit(relax.op.sum(node.tensor(0), axes, keepdims=keeps))
    count = prod(node.extents(0)[axis] for axis in axes)
    return relax.op.divide(total, exact_constant(np.array(count, node.dtype(0))))


def _flags(node: OnnxNode, axes: list[int], *, keeps: bool) -> Expr:
    """The largest of flags is whether one is set, the smallest whether all are."""
    if not axes:
        return node.tensor(0)
    numbers = node.emit(relax.op.astype(node.tensor(0), "uint8"))
    made = node.emit(_REDUCTIONS[node.op_type](numbers, axes, keepdims=keeps))
    return relax.op.astype(made, "bool")


def _log_sum_exp(node: OnnxNode, axes: list[int], *, keeps: bool) -> Expr:
    """The largest is taken out, so that no power leaves float32."""
    x = node.tensor(0)
    if not axes:
        return x
    most = node.emit(relax.op.max(x, axes, keepdims=True))
    powers = node.emit(relax.op.exp(node.emit(relax.op.subtract(x, most))))
    total = node.emit(relax.op.log(node.emit(relax.op.sum(powers, axes, keepdims=True))))
    made = relax.op.add(total, most)
    return made if keeps else relax.op.squeeze(node.emit(made), axes)
