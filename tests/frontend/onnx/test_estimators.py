# SPDX-License-Identifier: Apache-2.0
"""frontend/onnx/estimators.py: scalers, imputers and linear models give what ONNX Runtime gives;
what it does not define, or reads otherwise than one would think, is refused by name."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import pytest

pytest.importorskip("tvm", reason="TVM is not installed (the extra `compiler`)")
pytest.importorskip("onnxruntime", reason="ONNX Runtime is not installed")
pytest.importorskip("onnx", reason="onnx is not installed")

import onnx
from numpy.typing import NDArray
from onnx import helper

from loadstone.errors import UnsupportedError
from tests.frontend.onnx.models import refusal
from tests.frontend.onnx.operators.single import check_model
from tests.onnx_builder import Graph

ROWS = np.array([[0.5, -1, 2], [0, 0, 0], [-3, -1, -2], [1, 4, -2]], np.float32)
COEFFICIENTS = [1.0, -2, 0.5, 0.25, 1, -1, -1, 0, 2]
INTERCEPTS = [0.5, -0.25, 1]
LABELS = [3, 5, 10]


def model(
    op_type: str, x: NDArray[Any], types: Sequence[int], opset: int = 17, **attributes: Any
) -> bytes:
    """One node of the domain; types: ONNX's numbers of its outputs' types."""
    graph = Graph()
    made = [graph.node(op_type, graph.input(x.shape, x.dtype), domain="ai.onnx.ml", **attributes)]
    made += [f"{made[0]}_{k}" for k in range(1, len(types))]
    graph.nodes[-1].output.extend(made[1:])
    found = onnx.load_model_from_string(graph.save([(y, np.float32) for y in made], opset=opset))
    found.opset_import.append(helper.make_opsetid("ai.onnx.ml", 1))
    for entry, kind in zip(found.graph.output, types, strict=True):
        entry.CopyFrom(helper.make_tensor_value_info(entry.name, kind, None))
    return bytes(found.SerializeToString())


def check(op_type: str, x: NDArray[Any], *types: int, opset: int = 17, **attributes: Any) -> None:
    check_model(model(op_type, x, types or (1,), opset, **attributes), [x])


def refused(op_type: str, x: NDArray[Any], *types: int, opset: int = 17, **attributes: Any) -> str:
    return refusal(model(op_type, x, types or (1,), opset, **attributes), UnsupportedError)


@pytest.mark.parametrize("kind", [np.float32, np.float64, np.int64, np.int32])
@pytest.mark.parametrize("offset", [[1.5], [1, -2, 0.25]])
def test_a_scaler(kind: Any, offset: list[float]) -> None:
    scale = [2.0, 0.5, -1][: len(offset)]
    check("Scaler", ROWS.astype(kind), offset=offset, scale=scale)
    if len(offset) > 1:
        check("Scaler", ROWS[0].astype(kind), offset=offset, scale=scale)


@pytest.mark.parametrize("opset", [11, 17, 18])
@pytest.mark.parametrize("norm", ["L1", "L2", "MAX"])
def test_a_normalizer_divides_a_row_of_zeros_by_nothing(norm: str, opset: int) -> None:
    for x in (ROWS, ROWS.astype(np.int64), ROWS[2], ROWS[1]):
        check("Normalizer", x, opset=opset, norm=norm)


@pytest.mark.parametrize("threshold", [-1.0, 0.0, 0.5])
def test_a_binarizer(threshold: float) -> None:
    check("Binarizer", ROWS, threshold=threshold)
    check("Binarizer", ROWS[0], threshold=threshold)
    check("Binarizer", ROWS.reshape(2, 2, 3), threshold=threshold)


@pytest.mark.parametrize("replaced", [-1.0, 0.0, np.nan])
@pytest.mark.parametrize("values", [[7.0], [7, 8, 9.5]])
def test_an_imputer(replaced: float, values: list[float]) -> None:
    x = ROWS.copy()
    x[0, 1], x[3, 2] = np.nan, np.nan
    check("Imputer", x, imputed_value_floats=values, replaced_value_float=replaced)


def test_an_imputer_of_whole_numbers() -> None:
    x = ROWS.astype(np.int64)
    for values in ([7], [7, 8, 2**40]):
        check("Imputer", x, 7, imputed_value_int64s=values, replaced_value_int64=-1)


@pytest.mark.parametrize("transform", ["NONE", "LOGISTIC", "SOFTMAX"])
@pytest.mark.parametrize("intercepts", [INTERCEPTS, []])
def test_a_linear_regressor_of_many_targets(transform: str, intercepts: list[float]) -> None:
    given: dict[str, Any] = {"intercepts": intercepts} if intercepts else {}
    for x in (ROWS, ROWS[0]):
        check(
            "LinearRegressor",
            x,
            coefficients=COEFFICIENTS,
            targets=3,
            post_transform=transform,
            **given,
        )


def test_a_linear_regressor_of_one_target() -> None:
    check("LinearRegressor", ROWS, coefficients=COEFFICIENTS[:3], intercepts=INTERCEPTS[:1])


@pytest.mark.parametrize("transform", ["NONE", "LOGISTIC", "SOFTMAX"])
@pytest.mark.parametrize("kind", [np.float32, np.float64, np.int32, np.int64])
def test_a_linear_classifier(transform: str, kind: Any) -> None:
    check(
        "LinearClassifier",
        ROWS.astype(kind),
        *(7, 1),
        coefficients=COEFFICIENTS,
        intercepts=INTERCEPTS,
        classlabels_ints=LABELS,
        multi_class=1,
        post_transform=transform,
    )


@pytest.mark.parametrize("transform", ["NONE", "LOGISTIC"])
def test_a_classifier_of_one_row_has_two_classes(transform: str) -> None:
    for x in (ROWS, ROWS[0]):
        check(
            "LinearClassifier",
            x,
            *(7, 1),
            coefficients=COEFFICIENTS[:3],
            intercepts=INTERCEPTS[:1],
            classlabels_ints=LABELS[:2],
            post_transform=transform,
        )


@pytest.mark.parametrize(
    ("op_type", "attributes", "words"),
    [
        ("Scaler", {"offset": [1.0, 2]}, "its offset has 2 numbers, and its input 3 features"),
        ("Scaler", {"scale": [1.0] * 4}, "its scale has 4 numbers, and its input 3 features"),
        ("Normalizer", {"norm": "L3"}, 'its norm is "L3", and L1, L2 and MAX are imported'),
        ("Imputer", {"imputed_value_int64s": [1]}, "its input is float32, and then it has imputed"),
        ("Imputer", {"imputed_value_floats": [1.0, 2]}, "has 2 numbers, and its input 3 features"),
        ("LinearRegressor", {"coefficients": [1.0]}, "it has 1 coefficients for 1 times 3"),
        (
            "LinearRegressor",
            {"coefficients": [1.0] * 6, "targets": 2, "intercepts": [1.0]},
            "it has 1 intercepts for 2 targets",
        ),
        (
            "LinearRegressor",
            {"coefficients": [1.0] * 6, "targets": 2, "post_transform": "PROBIT"},
            "its post_transform is PROBIT, and only NONE, LOGISTIC, SOFTMAX are imported: export",
        ),
        (
            "LinearRegressor",
            {"coefficients": [1.0] * 3, "post_transform": "LOGISTIC"},
            "its post_transform is LOGISTIC for one target",
        ),
    ],
)
def test_what_is_not_taken_is_named(op_type: str, attributes: dict[str, Any], words: str) -> None:
    assert words in refused(op_type, ROWS, **attributes)


@pytest.mark.parametrize(
    ("attributes", "words"),
    [
        ({"classlabels_ints": [1]}, "it has 1 labels for 3 classes"),
        ({"classlabels_strings": ["a", "b", "c"]}, "the labels are texts, which nothing here"),
        ({"classlabels_ints": LABELS, "post_transform": "SOFTMAX_ZERO"}, "is SOFTMAX_ZERO, and"),
        ({"classlabels_ints": LABELS, "intercepts": []}, "it has no intercepts, one for each row"),
    ],
)
def test_what_of_a_classifier_is_not_taken_is_named(attributes: dict[str, Any], words: str) -> None:
    given = {"coefficients": COEFFICIENTS, "intercepts": INTERCEPTS} | attributes
    if not given["intercepts"]:
        del given["intercepts"]
    assert words in refused("LinearClassifier", ROWS, 7, 1, **given)


def test_softmax_of_one_row_an_old_opset_and_many_dimensions_are_refused() -> None:
    single: dict[str, Any] = {
        "coefficients": [1.0] * 3,
        "intercepts": [0.0],
        "classlabels_ints": [0, 1],
    }
    text = refused("LinearClassifier", ROWS, 7, 1, post_transform="SOFTMAX", **single)
    assert "its post_transform is SOFTMAX for one row of coefficients" in text
    text = refused("Normalizer", ROWS, opset=9, norm="L1")
    assert "the model has opset 9, and from 11 on it is imported: export it with" in text
    assert "its input has 3 dimensions" in refused("Normalizer", ROWS[None], norm="L1")


def test_numbers_that_the_type_does_not_hold_are_refused() -> None:
    text = refused("Imputer", ROWS.astype(np.int32), 6, imputed_value_int64s=[2**40])
    assert "it has whole numbers that int32 does not hold" in text


def test_scores_of_a_classifier_whose_labels_are_texts_are_read_alone() -> None:
    given: dict[str, Any] = {"classlabels_strings": ["a", "b", "c"], "intercepts": INTERCEPTS}
    found = onnx.load_model_from_string(
        model("LinearClassifier", ROWS, (8, 1), coefficients=COEFFICIENTS, **given)
    )
    text = refusal(found.SerializeToString(), UnsupportedError)
    name = text.partition("--outputs ")[2].partition(",")[0]
    assert name == found.graph.output[1].name
    del found.graph.output[0]
    check_model(found.SerializeToString(), [ROWS])
