# SPDX-License-Identifier: Apache-2.0
"""The network of a quantized ONNX file: operators between DequantizeLinear and QuantizeLinear, and
operators on integers (QLinearConv and its kin), which mean the same.

In:   the bytes of an .onnx file, QDQ or QOperator.
Out:  ModelNetwork.
Next: the engine states each operator on symbols.

Sums are integers, scaled in float32 and rounded half to even, as ONNX Runtime's integer kernels
have it; what computes element by element is a table of float32; pools, softmax and resizes of real
numbers are named with their attributes. What is not understood is refused by one line.
"""

from __future__ import annotations

from loadstone.errors import ModelError
from loadstone.prove.network import ModelNetwork
from loadstone.prove.onnx.file import read_file
from loadstone.prove.onnx.graph import OnnxGraph
from loadstone.prove.onnx.operators import read_node

__all__ = ["read_onnx"]


def read_onnx(data: bytes, name: str) -> ModelNetwork:
    """The network of a file. name: what messages call it. Raises ModelError for a file that
    is damaged or all of real numbers, UnsupportedError for what is not understood."""
    model = read_file(data, name)
    if not any(node.kind == "QuantizeLinear" or "QLinear" in node.kind for node in model.nodes):
        raise ModelError(
            f"{name}: no operator computes on int8 or uint8: a proof compares integers; quantize "
            "the model first"
        )
    try:
        graph = OnnxGraph(model)
        for node in model.nodes:
            read_node(graph, node)
        return graph.network()
    except (ValueError, IndexError, TypeError, KeyError, AssertionError) as error:
        reason = " ".join(str(error).split())
        raise ModelError(f"{name}: damaged ONNX file: {reason}") from error
