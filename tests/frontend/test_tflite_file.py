# SPDX-License-Identifier: Apache-2.0
"""frontend/tflite_file.py: every record of a file is read, and files that are not what they say are
refused in one line."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

pytest.importorskip("tvm", reason="TVM is not installed (the extra `compiler`)")
pytest.importorskip("ai_edge_litert", reason="LiteRT is not installed")

from loadstone.frontend import tflite_file
from tests.draw import Random
from tests.frontend.tflite_models import activation, check, dense_model, refusal
from tests.tflite_builder import Graph


def test_a_shape_that_the_operator_does_not_give_is_named() -> None:
    text = refusal(dense_model(y=lambda graph: graph.tensor((1, 3), np.int8, 0.3, 0)))
    assert "would have shape (1, 2), the file says (1, 3)" in text


def test_cycles_and_missing_tensors_are_named() -> None:
    graph = Graph()
    x = graph.input((1, 4), np.int8, 0.1, 0)
    y, z = (graph.tensor((1, 4), np.int8, 0.1, 0) for _ in "yz")
    graph.operator("ADD", [x, z], [y])
    graph.operator("ADD", [x, y], [z])
    assert "reads 't2' before it is written" in refusal(graph.save([z]))
    graph.operators.pop()
    assert "graph output 't2' is never written" in refusal(
        Graph(graph.tensors, [], graph.inputs).save([z])
    )


@pytest.mark.parametrize(
    ("model", "part"),
    [(b"", "not a TFLite file"), (b"PK\x03\x04 and more bytes", "not a TFLite file")],
)
def test_other_files_are_named(model: bytes, part: str) -> None:
    assert part in refusal(model)


def test_a_scale_that_is_no_number_is_named() -> None:
    for scale in (-1.0, float("nan"), float("inf")):
        model = dense_model(x=lambda graph, scale=scale: graph.input((1, 4), np.int8, scale, 0))
        assert "a scale that is not positive and finite" in refusal(model)
    assert "a zero point outside [-128, 127]" in refusal(
        dense_model(x=lambda graph: graph.input((1, 4), np.int8, 0.1, 300))
    )


def test_every_record_of_a_real_file_is_read(shared: Path) -> None:
    file = tflite_file.read(
        (shared / "models" / "mlpt_resnet8_int8.tflite").read_bytes(), "resnet8"
    )
    assert [operator.code for operator in file.operators].count("CONV_2D") == 9
    assert file.tensors[file.inputs[0]].shape == (1, 32, 32, 3)
    assert all(tensor.data is None or tensor.data.shape == tensor.shape for tensor in file.tensors)
    assert sum(tensor.scales is not None and tensor.scales.size > 1 for tensor in file.tensors) >= 9


def test_an_operator_code_is_the_larger_of_both_fields() -> None:
    """Tools write 0 into the old field, which is the code of ADD."""
    draw, graph = Random(0), Graph(new_codes=True)
    x = activation(graph, draw, (1, 4, 4, 3), unsigned=False)
    y = graph.tensor(x.shape, np.int8, x.scale * 2, 3)
    graph.operator("MUL", [x, x], [y])
    real = graph.tensor(x.shape, np.float32)
    graph.operator("DEQUANTIZE", [y], [real])
    back = graph.tensor(x.shape, np.int8, 0.07, 4)
    graph.operator("QUANTIZE", [real], [back])
    made = check(graph, [back], draw)
    assert "add" not in {operator.kind for operator in made.operators}
