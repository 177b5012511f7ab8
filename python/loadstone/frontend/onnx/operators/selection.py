# SPDX-License-Identifier: Apache-2.0
"""ONNX's operators that choose elements.

In:   an OnnxNode.
Out:  its outputs; the values of TopK are gathered, so that nothing is sorted twice.
Next: importer.py binds them.
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


@converter("TopK", attributes="axis largest sorted k", inputs=2, outputs=2, constants=(1,))
def _top_k(node: OnnxNode) -> list[Expr]:
    """Without order (sorted=0) they are in order all the same."""
    x, extents, given = node.tensor(0), node.extents(0), node.constant(1)
    axis = int(node.attributes.get("axis", -1)) % max(1, len(extents))
    k = int(given.reshape(-1)[0]) if given is not None else int(node.attributes.get("k", 1))
    if not 1 <= k <= extents[axis]:
        raise node.refusal(
            f"its k is {k}, and 1 to {extents[axis]} of axis {axis} can be taken",
            "export it with such a k",
        )
    largest = bool(node.attributes.get("largest", 1))
    places = node.emit(
        relax.op.topk(x, k, axis, ret_type="indices", largest=largest, dtype="int64")
    )
    return [node.emit(relax.op.gather_elements(x, places, axis)), places]


@converter("Compress", attributes="axis", inputs=2, constants=(1,))
def _compress(node: OnnxNode) -> Expr:
    """What a condition keeps that is known now; without an axis of all elements in a row."""
    x, extents, condition = node.tensor(0), node.extents(0), node.constant(1)
    assert condition is not None
    axis = node.attributes.get("axis")
    if axis is None:
        x = node.emit(relax.op.reshape(x, (prod(extents),)))
    places = np.flatnonzero(condition)
    if not places.size:
        raise node.refusal("its condition keeps nothing", "export the model without it")
    return relax.op.take(x, exact_constant(places), 0 if axis is None else int(axis) % len(extents))


@converter("Scatter", attributes="axis", inputs=3, opsets=(9, 10))
def _scatter(node: OnnxNode) -> Expr:
    """What ScatterElements was called before it had that name."""
    axis = int(node.attributes["axis"]) % len(node.extents(0))
    return relax.op.scatter_elements(node.tensor(0), node.tensor(1), node.tensor(2), axis)
