# SPDX-License-Identifier: Apache-2.0
"""Single-operator models for ONNX Runtime, graph optimisations off.

In:   int8 arrays with the channels last, and their quantizations.
Out:  what the float operator gives between DequantizeLinear and QuantizeLinear.
Next: the tests beside this file compare graph/kernels/onnx with it.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

pytest.importorskip("onnxruntime", reason="ONNX Runtime is not installed")
pytest.importorskip("onnx", reason="onnx is not installed")

from loadstone.graph import Quantization
from tests.onnx_builder import Graph, run


def nchw(x: NDArray[Any]) -> NDArray[Any]:
    return np.ascontiguousarray(x.transpose(0, 3, 1, 2))


def nhwc(x: NDArray[Any]) -> NDArray[Any]:
    return x.transpose(0, 2, 3, 1)


def operands(graph: Graph, q: Quantization) -> tuple[str, str]:
    """A scale and a zero point, as the QLinear operators want them."""
    return graph.constant(q.scale, np.float32), graph.constant(q.zero_point, np.int8)


def trio(
    kind: str,
    arrays: list[NDArray[np.int8]],
    qs: list[Quantization],
    q_out: Quantization,
    *constants: str | float | list[float],
    **options: Any,
) -> NDArray[Any]:
    """DequantizeLinear of every input, the operator, QuantizeLinear."""
    graph = Graph()
    inputs = [
        graph.dequantize(graph.input(x.shape, np.int8), q.scale, q.zero_point)
        for x, q in zip(arrays, qs, strict=True)
    ]
    inputs += [
        value if isinstance(value, str) else graph.constant(value, np.float32)
        for value in constants
    ]
    output = graph.quantize(graph.node(kind, *inputs, **options), q_out.scale, q_out.zero_point)
    return run(graph.save([(output, np.int8)]), arrays)[0]
