# SPDX-License-Identifier: Apache-2.0
"""ONNX's normalizations.

In:   a OnnxNode.
Out:  its result, or results, as Relax expressions.
Next: importer.py binds them.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np

from loadstone.frontend.onnx.node import OnnxNode
from loadstone.frontend.onnx.table import converter
from loadstone.relax.compat import constant, relax

if TYPE_CHECKING:
    from loadstone.relax.types import Expr

__all__: list[str] = []


def _number(node: OnnxNode, number: float) -> Expr:
    return constant(np.asarray(number, node.dtype(0)))


@converter("LayerNormalization", attributes="axis epsilon stash_type", inputs=3, outputs=3)
def _layer_normalization(node: OnnxNode) -> list[Expr | None]:
    """Over the axes from `axis` on; Mean and InvStdDev keep them with length 1."""
    x, extents = node.tensor(0), node.extents(0)
    axes = list(range(int(node.attributes["axis"]) % len(extents), len(extents)))
    epsilon = float(node.attributes["epsilon"])
    gamma = _spread(node, node.tensor(1), extents[axes[0] :])
    beta = node.input(2)
    zeros = np.zeros(extents[axes[0] :], node.dtype(0))
    shift = constant(zeros) if beta is None else _spread(node, beta, extents[axes[0] :])
    made = relax.op.nn.layer_norm(x, gamma, shift, axes=axes, epsilon=epsilon)
    wanted = [bool(name) for name in node.proto.output[1:]] + [False, False]
    if not any(wanted):
        return [made, None, None]
    mean = node.emit(relax.op.mean(x, axes, keepdims=True))
    return [made, mean, _inverse_deviation(node, x, mean, axes) if wanted[1] else None]


def _spread(node: OnnxNode, parameter: Expr, extents: Sequence[int]) -> Expr:
    """Of the shape that is normalized."""
    known = node.builder.normalize(parameter).ty.shape
    if [int(size) for size in known] == list(extents):
        return parameter
    return node.emit(relax.op.broadcast_to(parameter, list(extents)))


def _inverse_deviation(node: OnnxNode, x: Expr, mean: Expr, axes: Sequence[int]) -> Expr:
    gaps = node.emit(relax.op.subtract(x, mean))
    squares = node.emit(relax.op.multiply(gaps, gaps))
    variance = node.emit(relax.op.mean(squares, list(axes), keepdims=True))
    shifted = node.emit(relax.op.add(variance, _number(node, node.attributes["epsilon"])))
    return relax.op.divide(_number(node, 1), node.emit(relax.op.sqrt(shifted)))


@converter("LpNormalization", attributes="axis p")
def _lp_normalization(node: OnnxNode) -> Expr:
    """A vector of zeros stays one."""
    x, axis, p = node.tensor(0), int(node.attributes["axis"]), int(node.attributes["p"])
    if p == 1:
        total = relax.op.sum(node.emit(relax.op.abs(x)), axis, keepdims=True)
        norm = node.emit(total)
    elif p == 2:
        total = relax.op.sum(node.emit(relax.op.multiply(x, x)), axis, keepdims=True)
        norm = node.emit(relax.op.sqrt(node.emit(total)))
    else:
        raise node.refusal(f"its p is {p}, and ONNX defines 1 and 2", "export it anew")
    is_zero = node.emit(relax.op.equal(norm, _number(node, 0)))
    divisor = node.emit(relax.op.where(is_zero, _number(node, 1), norm))
    return relax.op.divide(x, divisor)


#: Added to a standard deviation.
_LEAST_DEVIATION = 1e-9


@converter("MeanVarianceNormalization", attributes="axes")
def _mean_variance_normalization(node: OnnxNode) -> Expr:
    """The variance is the mean of squares of what is left of the mean: the difference of two means
    of squares, as ONNX writes it, cancels, and may be below 0."""
    x, axes = node.tensor(0), [int(axis) for axis in node.attributes["axes"]]
    gaps = node.emit(relax.op.subtract(x, node.emit(relax.op.mean(x, axes, keepdims=True))))
    squares = node.emit(relax.op.multiply(gaps, gaps))
    deviation = node.emit(relax.op.sqrt(node.emit(relax.op.mean(squares, axes, keepdims=True))))
    divisor = node.emit(relax.op.add(deviation, _number(node, _LEAST_DEVIATION)))
    return relax.op.divide(gaps, divisor)
