# SPDX-License-Identifier: Apache-2.0
"""frontend/tflite_cut.py: a part of a TFLite model."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from loadstone.compiler import compile
from loadstone.errors import LoadstoneError
from loadstone.frontend import import_model
from loadstone.frontend.reading import Reading
from tests.tflite_builder import Graph


def chain(folder: Path) -> tuple[Path, list[str]]:
    """Two operators in a row; the names of their tensors."""
    graph = Graph()
    tensors = [graph.input((1, 4), np.int8, scale=0.1, zero_point=0)]
    for _ in range(2):
        tensors.append(graph.tensor((1, 4), np.int8, scale=1 / 256, zero_point=-128))
    graph.operator("LOGISTIC", [tensors[0]], [tensors[1]])
    graph.operator("LOGISTIC", [tensors[1]], [tensors[2]])
    (folder / "m.tflite").write_bytes(graph.save([tensors[2]]))
    return folder / "m.tflite", [tensor.name for tensor in tensors]


def test_what_follows_an_output_is_left_out(tmp_path: Path) -> None:
    path, names = chain(tmp_path)
    for reading, count in ((Reading(), 2), (Reading(outputs=(names[1],)), 1)):
        compiled = compile(path, "vtaq-1x16x16", reading=reading)
        assert len(compiled.graph.operators) == count
    behind = compile(path, "vtaq-1x16x16", reading=Reading(inputs=(names[1],)))
    assert len(behind.graph.operators) == 1


def test_a_name_that_is_not_there(tmp_path: Path) -> None:
    with pytest.raises(LoadstoneError, match='no tensor "absent"'):
        import_model(chain(tmp_path)[0], Reading(outputs=("absent",)))


def test_sizes_are_for_other_formats(tmp_path: Path) -> None:
    with pytest.raises(LoadstoneError, match="fixed sizes"):
        import_model(chain(tmp_path)[0], Reading({"x": (1,)}))
