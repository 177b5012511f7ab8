# SPDX-License-Identifier: Apache-2.0
"""frontend/tflite_converters.py: operators that TVM's importer does in part, equal to LiteRT."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from loadstone.compiler import compile
from loadstone.errors import UnsupportedError
from tests.tflite_builder import Graph, Tensor, run

SHAPE, SCALE, ZERO = (1, 6, 5, 4), 0.05, -3
X = np.random.default_rng(2).integers(-128, 128, SHAPE).astype(np.int8)


def source(graph: Graph, dtype: type = np.int8) -> Tensor:
    return graph.input(SHAPE, dtype, scale=SCALE, zero_point=ZERO if dtype is np.int8 else 0)


def kinds(graph: Graph, outputs: list[Tensor], folder: Path) -> list[str]:
    """The kinds of its operators, which give LiteRT's integers without Python."""
    model = graph.save(outputs)
    (folder / "m.tflite").write_bytes(model)
    compiled = compile(folder / "m.tflite", "vtaq-tiny")
    assert not compiled.python_steps
    for got, want in zip(compiled.run(X[None]), run(model, [X]), strict=True):
        assert got.dtype == want.dtype
        assert np.array_equal(got.reshape(want.shape), want)
    return [row["kind"] for row in compiled.explain()]


@pytest.mark.parametrize(("dtype", "code"), [(np.int32, 2), (np.int64, 4)])
def test_an_index_of_either_type(dtype: type, code: int, tmp_path: Path) -> None:
    graph = Graph()
    y = graph.tensor(SHAPE[:3], dtype)
    graph.operator("ARG_MAX", [source(graph), graph.constant(np.int32(3))], [y], output_type=code)
    assert kinds(graph, [y], tmp_path) == ["argmax"]


def test_a_split_into_parts_of_which_one_is_the_rest(tmp_path: Path) -> None:
    graph = Graph()
    x = source(graph)
    outputs = [graph.tensor((1, 6, 5, c), np.int8, SCALE, ZERO) for c in (1, 3)]
    sizes, axis = graph.constant(np.array([1, -1], np.int32)), graph.constant(np.int32(3))
    graph.operator("SPLIT_V", [x, sizes, axis], outputs, num_splits=2)
    assert kinds(graph, outputs, tmp_path) == ["slice", "slice"]


def test_a_split_whose_sizes_are_not_its_outputs_is_refused(tmp_path: Path) -> None:
    """LiteRT follows the sizes; the outputs' shapes were taken for them."""
    graph = Graph()
    x = source(graph)
    outputs = [graph.tensor((1, 6, 5, c), np.int8, SCALE, ZERO) for c in (1, 3)]
    sizes, axis = graph.constant(np.array([2, -1], np.int32)), graph.constant(np.int32(3))
    graph.operator("SPLIT_V", [x, sizes, axis], outputs, num_splits=2)
    (tmp_path / "m.tflite").write_bytes(graph.save(outputs))
    with pytest.raises(UnsupportedError, match=r"its sizes along axis 3 are \[2, -1\]"):
        compile(tmp_path / "m.tflite", "vtaq-tiny")


@pytest.mark.parametrize("keep", [False, True])
def test_a_mean_over_height_and_then_over_width(keep: bool, tmp_path: Path) -> None:
    graph = Graph()
    x = source(graph)
    middle = graph.tensor((1, 1, 5, 4) if keep else (1, 5, 4), np.int8, 0.03, 2)
    y = graph.tensor((1, 1, 1, 4) if keep else (1, 4), np.int8, 0.02, 1)
    for before, axis, after in ((x, 1, middle), (middle, 2 if keep else 1, y)):
        axes = graph.constant(np.array([axis], np.int32))
        graph.operator("MEAN", [before, axes], [after], keep_dims=keep)
    assert kinds(graph, [y], tmp_path) == ["mean", "mean"]


@pytest.mark.parametrize("kind", ["TANH", "EXP", "LOG", "GELU", "HARD_SWISH"])
def test_functions_of_one_element_are_one_table(kind: str, tmp_path: Path) -> None:
    graph = Graph()
    scale = {"TANH": 2**-7}.get(kind, 0.05)
    y = graph.tensor(SHAPE, np.int8, scale, 0)
    graph.operator(kind, [source(graph)], [y])
    assert kinds(graph, [y], tmp_path) == ["lookup"]


def test_activations_of_16_bits_are_refused_as_such(tmp_path: Path) -> None:
    graph = Graph()
    x = source(graph, np.int16)
    y = graph.tensor(SHAPE, np.int16, SCALE, 0)
    graph.operator("SUB", [x, x], [y])
    (tmp_path / "m.tflite").write_bytes(graph.save([y]))
    with pytest.raises(UnsupportedError, match="is int16, and with 16x8 quantization ADD"):
        compile(tmp_path / "m.tflite", "vtaq-tiny")


@pytest.mark.parametrize("axis", [1, -1])
def test_slices_that_constants_choose(axis: int, tmp_path: Path) -> None:
    graph = Graph()
    chosen = np.array([[3, 0], [1, 1]], np.int32)
    where = axis % 4
    shape = (*SHAPE[:where], *chosen.shape, *SHAPE[where + 1 :])
    y = graph.tensor(shape, np.int8, SCALE, ZERO)
    graph.operator("GATHER", [source(graph), graph.constant(chosen)], [y], axis=axis)
    kinds(graph, [y], tmp_path)


@pytest.mark.parametrize(
    ("index", "axis", "why"),
    [
        (4, 3, "its index 4 is outside of axis 3, which has 4 elements"),
        (-1, 3, "its index -1 is outside of axis 3"),
        (0, 4, "its axis is 4: its input has 4 axes"),
        (0, -5, "its axis is -5: its input has 4 axes"),
    ],
)
def test_a_gather_that_is_not_done_is_refused(
    index: int, axis: int, why: str, tmp_path: Path
) -> None:
    graph = Graph()
    y = graph.tensor((*SHAPE[:3], 1), np.int8, SCALE, ZERO)
    chosen = graph.constant(np.array([index], np.int32))
    graph.operator("GATHER", [source(graph), chosen], [y], axis=axis, batch_dims=0)
    (tmp_path / "m.tflite").write_bytes(graph.save([y]))
    with pytest.raises(UnsupportedError, match=why):
        compile(tmp_path / "m.tflite", "vtaq-tiny")
