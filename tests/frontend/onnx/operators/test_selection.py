# SPDX-License-Identifier: Apache-2.0
"""frontend/onnx/operators/selection.py: TopK gives ONNX Runtime's values and places, in C."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

pytest.importorskip("tvm", reason="TVM is not installed (the extra `compiler`)")

from loadstone.artifact.format import Artifact
from loadstone.compiler import compile
from loadstone.errors import UnsupportedError
from loadstone.frontend.onnx import from_bytes
from loadstone.runtime.device import open as open_device
from tests.onnx_builder import Graph, run

SHAPE = (1, 6, 9)


def top_k(graph: Graph, x: str, k: int, **attributes: int) -> list[str]:
    name = graph.node("TopK", x, graph.constant([k], np.int64), **attributes)
    graph.nodes[-1].output.append(f"{name}_places")
    return [name, f"{name}_places"]


def test_values_and_places_of_every_kind(tmp_path: Path) -> None:
    """Few numbers, so that many are equal. One behind another: the largest of the smallest."""
    graph = Graph()
    x = graph.dequantize(graph.input(SHAPE, np.int8), 0.5, 3)
    found = top_k(graph, x, 4)
    found += top_k(graph, x, 3, axis=1, largest=0)
    found += top_k(graph, found[2], 2, axis=-1)
    kinds = [np.float32, np.int64] * 3
    shapes = [(1, 6, 4)] * 2 + [(1, 3, 9)] * 2 + [(1, 3, 2)] * 2
    model = graph.save(list(zip(found, kinds, strict=True)), shapes)
    (tmp_path / "k.onnx").write_bytes(model)
    compiled = compile(tmp_path / "k.onnx", "vtaq-1x16x16")
    assert not compiled.python_steps
    images = np.random.default_rng(8).integers(-4, 4, (4, *SHAPE[1:])).astype(np.int8)
    artifact = Artifact.from_bytes(compiled.artifact.to_bytes())
    with open_device("sim") as device, device.load(artifact, trust=True) as session:
        results = session.run([images[:, None]])
    for place, image in enumerate(images):
        for want, got in zip(run(model, [image[None]]), results, strict=True):
            np.testing.assert_array_equal(got[place], want)


def test_none_of_an_axis_is_one_line() -> None:
    graph = Graph()
    found = top_k(graph, graph.input(SHAPE, np.float32), 0)
    with pytest.raises(UnsupportedError, match="has no elements"):
        from_bytes(graph.save([(found[1], np.int64)], [(1, 6, 0)]), "m.onnx")


def test_a_k_that_is_computed_is_one_line() -> None:
    graph = Graph()
    x, k = graph.input(SHAPE, np.float32), graph.input((1,), np.int64)
    graph.node("TopK", x, k)
    graph.nodes[-1].output.append("places")
    model = graph.save([("places", np.int64)])
    with pytest.raises(UnsupportedError, match="computed when the model runs"):
        from_bytes(model, "m.onnx")
