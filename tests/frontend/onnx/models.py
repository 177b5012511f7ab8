# SPDX-License-Identifier: Apache-2.0
"""What the tests of ONNX models share.

In:   a graph of onnx_builder.py under construction, or a file.
Out:  scales and zero points as QLinear operators want them; kinds of operators; a refusal's line.
Next: test_importer.py, test_qoperator.py.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

pytest.importorskip("tvm", reason="TVM is not installed (the extra `compiler`)")
pytest.importorskip("onnxruntime", reason="ONNX Runtime is not installed")
pytest.importorskip("onnx", reason="onnx is not installed")


from loadstone import graph as g
from loadstone.errors import ModelError
from loadstone.frontend.onnx import from_bytes
from tests.onnx_builder import Graph


def operands(graph: Graph, scale: float, zero_point: int, dtype: Any = np.int8) -> tuple[str, str]:
    return graph.constant(scale, np.float32), graph.constant(zero_point, dtype)


def kinds(made: g.Graph) -> list[str]:
    return [operator.kind for operator in made.operators]


def refusal(model: bytes, kind: type[ModelError] = ModelError) -> str:
    with pytest.raises(kind) as caught:
        from_bytes(model, "m.onnx")
    text = str(caught.value)
    assert text.startswith("m.onnx: ")
    assert "\n" not in text
    return text
