# SPDX-License-Identifier: Apache-2.0
"""frontend/onnx/fused_dynamic.py: dynamic products that ONNX Runtime has fused give its numbers."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

pytest.importorskip("tvm", reason="TVM is not installed (the extra `compiler`)")
pytest.importorskip("onnxruntime", reason="ONNX Runtime is not installed")
pytest.importorskip("onnx", reason="onnx is not installed")

from tests.frontend.onnx.operators.single import check_model
from tests.onnx_builder import Graph

ROWS, DEPTH, COLUMNS = 3, 8, 5
DRAW = np.random.default_rng(5)
WEIGHTS = DRAW.integers(-127, 128, (DEPTH, COLUMNS)).astype(np.int8)
SCALES = DRAW.uniform(0.01, 0.1, COLUMNS).astype(np.float32)
BIAS = DRAW.normal(size=COLUMNS).astype(np.float32)


def model(op_type: str, inputs: list[Any], constants: list[Any]) -> bytes:
    graph = Graph()
    names = [graph.input(x.shape, x.dtype) for x in inputs]
    names += ["" if c is None else graph.constant(c) for c in constants]
    y = graph.node(op_type, *names, domain="com.microsoft")
    return graph.save([(y, np.float32)], [(ROWS, COLUMNS)])


@pytest.mark.parametrize("zero_point", [None, np.zeros(COLUMNS, np.int8)])
@pytest.mark.parametrize("bias", [None, BIAS])
def test_a_dynamic_product(zero_point: Any, bias: Any) -> None:
    x = DRAW.normal(size=(ROWS, DEPTH)).astype(np.float32)
    given = model("DynamicQuantizeMatMul", [x], [WEIGHTS, SCALES, zero_point, bias])
    check_model(given, [x])


@pytest.mark.parametrize("bias", [None, BIAS])
def test_a_product_to_float(bias: Any) -> None:
    x = DRAW.integers(0, 256, (ROWS, DEPTH)).astype(np.uint8)
    constants = [WEIGHTS, np.float32(0.02), SCALES, np.uint8(131), None, bias]
    check_model(model("MatMulIntegerToFloat", [x], constants), [x])
