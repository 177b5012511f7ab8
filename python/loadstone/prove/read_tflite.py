# SPDX-License-Identifier: Apache-2.0
"""The network of a .tflite file, as LiteRT's reference kernels mean it.

In:   the bytes of a .tflite file, int8 or uint8.
Out:  ModelNetwork.
Next: the engine states each operator on symbols.

What is not understood is refused by one line: an operator, its version, an option, a type, a shape
that the operator does not give. Operators on real numbers keep their name (`float:NAME`).
"""

from __future__ import annotations

from loadstone.errors import ModelError
from loadstone.prove.network import ModelNetwork
from loadstone.prove.tflite.file import read_file
from loadstone.prove.tflite.graph import TfliteGraph
from loadstone.prove.tflite.operators import read_operator

__all__ = ["read_tflite"]


def read_tflite(data: bytes, name: str) -> ModelNetwork:
    """The network of a file. name: what messages call it. Raises ModelError for a file that
    is damaged or all of real numbers, UnsupportedError for what is not understood."""
    graph = TfliteGraph(read_file(data, name))
    try:
        for operator in graph.model.operators:
            read_operator(graph, operator)
    except (ValueError, IndexError, TypeError, KeyError, AssertionError) as error:
        reason = " ".join(str(error).split())
        raise ModelError(f"{name}: damaged TFLite file: {reason}") from error
    return graph.network()
