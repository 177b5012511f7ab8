# SPDX-License-Identifier: Apache-2.0
"""frontend/onnx/graph.py, folding.py: external tensors, open sizes, cuts, computed shapes."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import onnx
import pytest

from loadstone.errors import LoadstoneError
from loadstone.frontend import import_model
from loadstone.frontend.onnx.folding import fold
from loadstone.frontend.reading import Reading
from loadstone.relax.compat import shape
from loadstone.relax.saved import run_module
from tests.onnx_builder import Graph, run


def saved(graph: Graph, output: str, path: Path) -> Path:
    path.write_bytes(graph.save([(output, np.float32)]))
    return path


def external(folder: Path) -> tuple[Path, np.ndarray]:
    """A product whose weights lie in a file beside the model."""
    graph = Graph()
    weights = np.random.default_rng(0).normal(0, 1, (16, 300)).astype(np.float32)
    y = graph.node("MatMul", graph.input((1, 16), np.float32), graph.constant(weights))
    model = onnx.load_model_from_string(graph.save([(y, np.float32)]))
    path = folder / "external.onnx"
    onnx.save_model(
        model, path, save_as_external_data=True, location="weights.bin", size_threshold=0
    )
    return path, weights


def test_tensors_from_a_file_beside_the_model(tmp_path: Path) -> None:
    path, weights = external(tmp_path)
    x = np.ones((1, 16), np.float32)
    np.testing.assert_allclose(run_module(import_model(path), [x])[0], x @ weights, atol=1e-5)


def test_a_file_that_is_not_there_is_named(tmp_path: Path) -> None:
    path, _ = external(tmp_path)
    (tmp_path / "weights.bin").unlink()
    with pytest.raises(LoadstoneError, match=r"the file weights\.bin beside the model"):
        import_model(path)


def test_a_file_of_another_folder_is_not_read(tmp_path: Path) -> None:
    (tmp_path / "inner").mkdir()
    path, _ = external(tmp_path / "inner")
    (tmp_path / "inner/weights.bin").rename(tmp_path / "weights.bin")
    model = onnx.load(path, load_external_data=False)
    for entry in model.graph.initializer[0].external_data:
        entry.value = entry.value.replace("weights.bin", "../weights.bin")
    path.write_bytes(model.SerializeToString())
    with pytest.raises(LoadstoneError, match="cannot be read"):
        import_model(path)


def open_sizes(folder: Path) -> Path:
    graph = Graph()
    y = graph.node("Exp", graph.input((1, 3, 4), np.float32))
    model = onnx.load_model_from_string(graph.save([(y, np.float32)]))
    for axis, name in enumerate(("batch", "height", "width")):
        model.graph.input[0].type.tensor_type.shape.dim[axis].dim_param = name
    (folder / "open.onnx").write_bytes(model.SerializeToString())
    return folder / "open.onnx"


def test_an_open_size_is_asked_for_by_name(tmp_path: Path) -> None:
    path = open_sizes(tmp_path)
    with pytest.raises(LoadstoneError, match=r"dimension 1 is open: .* --shape in0=1,N,N"):
        import_model(path)
    module = import_model(path, Reading({"in0": (1, 5, 6)}))
    assert shape(module["main"].params[0]) == (1, 5, 6)


@pytest.mark.parametrize(
    ("said", "why"),
    [
        ({"z": (1,)}, 'no input "z"'),
        ({"in0": (1, 5)}, "3 dimensions, not 2"),
    ],
)
def test_sizes_that_do_not_fit(said: dict[str, tuple[int, ...]], why: str, tmp_path: Path) -> None:
    with pytest.raises(LoadstoneError, match=why):
        import_model(open_sizes(tmp_path), Reading(said))


def test_a_part_of_a_model(tmp_path: Path) -> None:
    graph = Graph()
    first = graph.node("Exp", graph.input((1, 4), np.float32))
    path = saved(graph, graph.node("Neg", first), tmp_path / "m.onnx")
    x = np.array([[0, 1, 2, 3]], np.float32)
    (left,) = run_module(import_model(path, Reading(outputs=(first,))), [x])
    np.testing.assert_allclose(left, np.exp(x), rtol=1e-6)
    (right,) = run_module(import_model(path, Reading(inputs=(first,))), [x])
    np.testing.assert_array_equal(right, -x)
    with pytest.raises(LoadstoneError, match='no tensor "absent"'):
        import_model(path, Reading(outputs=("absent",)))


def halves() -> tuple[bytes, str]:
    """The first half of the channels, as torch.chunk is exported: its bounds come from a shape."""
    graph = Graph()
    x = graph.node("Relu", graph.input((1, 8, 4), np.float32))
    size = graph.node("Gather", graph.node("Shape", x), graph.constant(np.array(1)), axis=0)
    half = graph.node("Div", size, graph.constant(np.array(2)))
    end = graph.node("Unsqueeze", half, graph.constant(np.array([0])))
    y = graph.node("Slice", x, graph.constant(np.array([0])), end, graph.constant(np.array([1])))
    return graph.save([(y, np.float32)]), y


def test_shapes_that_are_computed_become_constants(tmp_path: Path) -> None:
    data, _ = halves()
    folded = fold(onnx.load_model_from_string(data), lambda _: True)
    assert [node.op_type for node in folded.graph.node] == ["Relu", "Slice"]
    (tmp_path / "m.onnx").write_bytes(data)
    x = np.random.default_rng(0).normal(0, 1, (1, 8, 4)).astype(np.float32)
    (got,) = run_module(import_model(tmp_path / "m.onnx"), [x])
    np.testing.assert_array_equal(got, run(data, [x])[0])


def test_a_failing_node_is_named(tmp_path: Path) -> None:
    graph = Graph()
    x = graph.input((1, 8, 4), np.float32)
    y = graph.node("Slice", x, *(graph.constant(np.array([k])) for k in (0, 5)), axis=9)
    model = onnx.load_model_from_string(graph.save([(y, np.float32)]))
    del model.graph.node[0].attribute[:]
    model.graph.node[0].op_type = "CumSum"
    del model.graph.node[0].input[1:]
    model.graph.node[0].input.append("in0")
    (tmp_path / "m.onnx").write_bytes(model.SerializeToString())
    with pytest.raises(LoadstoneError, match="CumSum"):
        import_model(tmp_path / "m.onnx")
