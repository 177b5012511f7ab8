# SPDX-License-Identifier: Apache-2.0
"""ONNX's TopK: the places of the largest, and what stands there.

In:   a OnnxNode.
Out:  its two outputs; the values are gathered, so that nothing is sorted twice.
Next: importer.py binds them.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from loadstone.frontend.onnx.node import OnnxNode
from loadstone.frontend.onnx.table import converter
from loadstone.relax.compat import relax

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
