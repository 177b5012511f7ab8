# SPDX-License-Identifier: Apache-2.0
"""ONNX's operators on each element.

In:   an OnnxNode.
Out:  its result as a Relax expression.
Next: importer.py binds it.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

import numpy as np

from loadstone.frontend.onnx.node import OnnxNode
from loadstone.frontend.onnx.table import ALL, converter
from loadstone.relax.compat import FloatImm, exact_constant, is_constant, relax, scalar

if TYPE_CHECKING:
    from loadstone.relax.types import Expr

__all__: list[str] = []


@converter("Clip", attributes="min max", inputs=3)
def _clip(node: OnnxNode) -> Expr:
    """Bounds are attributes up to opset 10, inputs later; min above max gives max."""
    x, low, high = node.tensor(0), node.input(1), node.input(2)
    if (
        all(bound is None or is_constant(bound) for bound in (low, high))
        and node.dtype(0) == "float32"
    ):
        least = node.attributes.get("min", -math.inf) if low is None else scalar(low)
        most = node.attributes.get("max", math.inf) if high is None else scalar(high)
        least = min(least, most)
        return relax.op.clip(x, FloatImm("float32", float(least)), FloatImm("float32", float(most)))
    if low is not None:
        x = node.emit(relax.op.maximum(x, low))
    return x if high is None else relax.op.minimum(x, high)


@converter("Elu", attributes="alpha")
@converter("Selu", attributes="alpha gamma")
def _elu(node: OnnxNode) -> Expr:
    """Below 0 alpha * (exp(x) - 1); Selu: all times gamma. Of functions that quantization knows."""
    x = node.tensor(0)
    powers = node.emit(relax.op.exp(x))
    below = node.emit(relax.op.nn.relu(node.emit(relax.op.subtract(_number(node, 1.0), powers))))
    below = node.emit(relax.op.multiply(below, _number(node, node.attributes["alpha"])))
    made = relax.op.subtract(node.emit(relax.op.nn.relu(x)), below)
    if node.op_type != "Selu":
        return made
    return relax.op.multiply(node.emit(made), _number(node, node.attributes["gamma"]))


@converter("Celu", "LeakyRelu", attributes="alpha")
def _bent(node: OnnxNode) -> Expr:
    """Below 0: alpha * (exp(x / alpha) - 1), alpha * x."""
    x, alpha = node.tensor(0), _number(node, node.attributes["alpha"])
    if node.op_type == "LeakyRelu":
        if node.dtype(0) == "float32":
            return relax.op.nn.leakyrelu(x, node.attributes["alpha"])
        below = node.emit(relax.op.multiply(x, alpha))
    else:
        powers = node.emit(relax.op.exp(node.emit(relax.op.divide(x, alpha))))
        below = node.emit(relax.op.subtract(powers, _number(node, 1.0)))
        below = node.emit(relax.op.multiply(below, alpha))
    return relax.op.where(node.emit(relax.op.less(x, _number(node, 0.0))), below, x)


@converter("ThresholdedRelu", attributes="alpha")
def _thresholded_relu(node: OnnxNode) -> Expr:
    """0 up to alpha."""
    above = node.emit(relax.op.greater(node.tensor(0), _number(node, node.attributes["alpha"])))
    return relax.op.where(above, node.tensor(0), _number(node, 0.0))


def _number(node: OnnxNode, number: float) -> Expr:
    """In the type of the input."""
    return exact_constant(np.array(number, node.dtype(0)))


@converter("IsInf", attributes="detect_negative detect_positive")
def _is_inf(node: OnnxNode) -> Expr:
    """Of one sign, of both, or of none."""
    x, signs = node.tensor(0), []
    for name, infinity in (("detect_negative", -math.inf), ("detect_positive", math.inf)):
        if node.attributes[name]:
            signs.append(node.emit(relax.op.equal(x, _number(node, infinity))))
    if not signs:
        return exact_constant(np.zeros(node.extents(0), np.bool_))
    return signs[0] if len(signs) == 1 else relax.op.logical_or(*signs)


@converter("CumSum", "CumProd", attributes="exclusive reverse", inputs=2, constants=(1,))
def _cumulated(node: OnnxNode) -> Expr:
    """exclusive: of those before each element; reverse: from the end."""
    x, extents, given = node.tensor(0), node.extents(0), node.constant(1)
    assert given is not None
    axis = int(given.reshape(-1)[0]) % len(extents)
    is_sum, reverse = node.op_type == "CumSum", bool(node.attributes["reverse"])
    if reverse:
        x = node.emit(relax.op.flip(x, axis))
    if node.attributes["exclusive"]:
        row = [1 if a == axis else n for a, n in enumerate(extents)]
        first = exact_constant(np.full(row, 0 if is_sum else 1).astype(node.dtype(0)))
        if extents[axis] > 1:
            rest = relax.op.strided_slice(x, [axis], [0], [extents[axis] - 1])
            x = node.emit(relax.op.concat([first, node.emit(rest)], axis))
        else:
            x = first
    cumulate = relax.op.cumsum if is_sum else relax.op.cumprod
    made = node.emit(cumulate(x, axis, dtype=node.dtype(0)))
    return relax.op.flip(made, axis) if reverse else made


@converter("Dropout", attributes="is_test ratio seed", opsets=(1, 11))
@converter("Dropout", attributes="seed", inputs=3, outputs=2, constants=(2,), opsets=(12, ALL))
def _dropout(node: OnnxNode) -> list[Expr]:
    """Nothing at inference, and a mask of nothing but ones, which earlier opsets do not define."""
    training = node.constant(2)
    if training is not None and training.any():
        raise node.refusal("its training_mode is true", "export the model for inference")
    return [node.tensor(0), exact_constant(np.ones(node.extents(0), np.bool_))]
