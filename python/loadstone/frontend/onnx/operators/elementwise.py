# SPDX-License-Identifier: Apache-2.0
"""ONNX's operators on each element.

In:   a OnnxNode.
Out:  its result as a Relax expression.
Next: importer.py binds it.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

from loadstone.frontend.onnx.node import OnnxNode
from loadstone.frontend.onnx.table import converter
from loadstone.relax.compat import FloatImm, is_constant, relax, scalar

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


@converter("Dropout", attributes="ratio seed", inputs=3, constants=(2,))
def _dropout(node: OnnxNode) -> Expr:
    """Nothing at inference; its mask, too, has a meaning only in training."""
    training = node.constant(2)
    if training is not None and training.any():
        raise node.refusal("its training_mode is true", "export the model for inference")
    return node.tensor(0)
