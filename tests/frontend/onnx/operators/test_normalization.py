# SPDX-License-Identifier: Apache-2.0
"""frontend/onnx/operators/normalization.py: normalizations equal ONNX Runtime."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

pytest.importorskip("tvm", reason="TVM is not installed (the extra `compiler`)")
pytest.importorskip("onnxruntime", reason="ONNX Runtime is not installed")

from loadstone.errors import UnsupportedError
from loadstone.graph.reference import run
from tests.frontend.onnx import sweep
from tests.frontend.onnx.models import refusal
from tests.frontend.onnx.normalization_sketches import NORMALIZATION
from tests.frontend.onnx.operators.single import arrays, check, check_model, single
from tests.imported import onnx_graph


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


def test_what_is_drawn_of_normalizations_equals_onnx_runtime() -> None:
    counts = sweep.check(NORMALIZATION, range(20, 24))
    assert counts == {"equal": 4 * len(NORMALIZATION), "refused": 0}


def test_equal_numbers_have_no_deviation_and_become_zeros() -> None:
    """Where the difference of two means of squares is below 0, ONNX Runtime's root is none."""
    x: Any = np.full((1, 2, 3, 3), 1.125, np.float32)
    x[0, 1] = [[1000, 1000.5, 1001]] * 3
    model = single("MeanVarianceNormalization", [x], opset=13)
    (found,) = run(onnx_graph(model), [x])
    gaps = x.astype(np.float64) - x.mean((0, 2, 3), keepdims=True, dtype=np.float64)
    deviation = np.sqrt((gaps**2).mean((0, 2, 3), keepdims=True))
    np.testing.assert_allclose(found, gaps / (deviation + 1e-9), atol=1e-5)
    assert not found[0, 0].any()


@pytest.mark.parametrize(
    ("attributes", "opset", "words"),
    [
        ({"training_mode": 1}, 15, "its attribute training_mode is 1, and only 0 is imported"),
        ({"spatial": 0}, 7, "its attribute spatial is 0, and only 1 is imported"),
    ],
)
def test_a_batch_normalization_of_another_kind_is_refused(
    attributes: dict[str, int], opset: int, words: str
) -> None:
    statistics = [np.ones(2, np.float32)] * 4
    given: dict[str, Any] = {"shape": (1, 2, 3), "opset": opset, **attributes}
    model = single("BatchNormalization", [(1, 2, 3)], *statistics, **given)
    assert words in refusal(model, UnsupportedError)
