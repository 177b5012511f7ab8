# SPDX-License-Identifier: Apache-2.0
"""frontend/onnx/operators/normalization.py: normalizations equal ONNX Runtime."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

pytest.importorskip("tvm", reason="TVM is not installed (the extra `compiler`)")
pytest.importorskip("onnxruntime", reason="ONNX Runtime is not installed")

from tests.frontend.onnx.operators.single import arrays, check, check_model, single


@pytest.mark.parametrize(("axis", "outputs"), [(1, 1), (2, 3), (-1, 2)])
def test_a_layer_normalization_and_what_it_computes_with(axis: int, outputs: int) -> None:
    shape = (2, 3, 4)
    gamma, beta = arrays([(3, 4)] * 2)
    parameters = (gamma, beta) if axis == 1 else (gamma[0], beta[0])
    model = single(
        "LayerNormalization", [shape], *parameters, axis=axis, outputs=outputs, epsilon=1e-3
    )
    check_model(model, arrays([shape]), atol=1e-5)


@pytest.mark.parametrize("p", [1, 2])
@pytest.mark.parametrize("axis", [0, -1])
def test_a_vector_divided_by_its_norm(p: int, axis: int) -> None:
    check("LpNormalization", [(3, 5)], p=p, axis=axis)


def test_a_vector_of_zeros_stays_one() -> None:
    x: Any = np.array([[0, 0], [3, 4]], np.float32)
    check_model(single("LpNormalization", [x], opset=22), [x], by_reference=True)
