# SPDX-License-Identifier: Apache-2.0
"""frontend/onnx/operators/tvm_converters.py: what TVM converts is in the table; where it gives up,
one line names the node."""

from __future__ import annotations

import numpy as np
import pytest

pytest.importorskip("tvm", reason="TVM is not installed (the extra `compiler`)")
pytest.importorskip("onnx", reason="onnx is not installed")

from loadstone.errors import UnsupportedError
from loadstone.frontend.onnx import from_bytes
from loadstone.frontend.onnx.operators import tvm_converters
from loadstone.frontend.onnx.table import CONVERTERS
from loadstone.relax.compat import onnx_importer
from tests.onnx_builder import Graph


def test_tvm_has_each_operator_that_stands_for_it() -> None:
    known = onnx_importer()._get_convert_map()
    theirs = [
        op_type
        for (_, op_type), rows in CONVERTERS.items()
        if any(row.convert is tvm_converters.by_tvm for row in rows)
    ]
    assert len(theirs) > 30
    assert [op_type for op_type in theirs if op_type not in known] == []


def test_where_tvm_gives_up_the_node_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    class Broken:
        @staticmethod
        def get_converter(_opset: int) -> object:
            def convert(*_arguments: object) -> None:
                raise AttributeError("'NoneType' object has no attribute 'shape'")

            return convert

    monkeypatch.setitem(onnx_importer()._get_convert_map(), "Relu", Broken)
    monkeypatch.setattr(onnx_importer(), "_get_convert_map", lambda: {"Relu": Broken})
    graph = Graph()
    y = graph.node("Relu", graph.input((1, 2), np.float32))
    with pytest.raises(UnsupportedError, match=rf'Relu \(node "", output "{y}"\)') as caught:
        from_bytes(graph.save([(y, np.float32)], [(1, 2)]), "m.onnx")
    assert "NoneType" not in str(caught.value)


def test_nearest_places_behind_a_reflection_are_refused() -> None:
    """Halfway between two elements runtimes do not read the same."""
    graph = Graph()
    x, grid = graph.input((1, 2, 4, 4), np.float32), graph.input((1, 3, 3, 2), np.float32)
    y = graph.node("GridSample", x, grid, mode="nearest", padding_mode="reflection")
    with pytest.raises(UnsupportedError, match="its mode is nearest and its padding_mode"):
        from_bytes(graph.save([(y, np.float32)], [(1, 2, 3, 3)], opset=16), "m.onnx")
