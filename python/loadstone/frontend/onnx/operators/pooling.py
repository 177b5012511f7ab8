# SPDX-License-Identifier: Apache-2.0
"""ONNX's pooling over windows, and over whole images.

In:   a OnnxNode, channels first.
Out:  its result as a Relax expression.
Next: importer.py binds it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from loadstone.frontend.onnx.node import OnnxNode
from loadstone.frontend.onnx.table import converter
from loadstone.relax.compat import relax

if TYPE_CHECKING:
    from loadstone.relax.types import Expr

__all__: list[str] = []


@converter("GlobalMaxPool")
def _global_max_pool(node: OnnxNode) -> Expr:
    extents = node.extents(0)
    if len(extents) == 4:
        return relax.op.nn.max_pool2d(node.tensor(0), pool_size=extents[2:])
    return relax.op.max(node.tensor(0), axis=list(range(2, len(extents))), keepdims=True)
