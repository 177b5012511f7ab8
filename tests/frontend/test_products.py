# SPDX-License-Identifier: Apache-2.0
"""frontend/products.py: products of two activations are by the rows of the second, whatever the
model turned; with ONNX Runtime's integers, on the device, the host and in C."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from loadstone import graph as g
from loadstone.compiler import Compiled, compile
from loadstone.frontend.products import with_turned_products
from tests.onnx_builder import Graph, run
from tests.relax_text import compare_rewritten
from tests.repeat import more

RNG = np.random.default_rng(11)
GRID_A, GRID_B, GRID_Y = (0.05, -128), (0.03, 5), (0.25, -20)


def attention(turn: tuple[int, ...] | None, shape: tuple[int, ...], tail: str = "") -> Graph:
    """a (2, 5, 32) times b, of `shape` and then turned."""
    graph = Graph()
    a = graph.dequantize(graph.input((2, 5, 32), np.int8), *GRID_A)
    b = graph.dequantize(graph.input(shape, np.int8), *GRID_B)
    if turn is not None:
        moved = graph.quantize(graph.node("Transpose", b, perm=list(turn)), *GRID_B)
        b = graph.dequantize(moved, *GRID_B)
    y = graph.node("MatMul", a, b)
    if tail:
        y = graph.node(tail, y)
    graph.result = graph.quantize(y, *GRID_Y)  # type: ignore[attr-defined]
    return graph


def compiled(graph: Graph, shape: tuple[int, ...], folder: Path, target: str) -> Compiled:
    """Compiled; its results, through the C runtime, are ONNX Runtime's."""
    model = graph.save([(graph.result, np.int8)])  # type: ignore[attr-defined]
    (folder / "m.onnx").write_bytes(model)
    found = compile(folder / "m.onnx", target)
    x = [RNG.integers(-128, 128, s).astype(np.int8) for s in ((2, 5, 32), shape)]
    (wanted,) = run(model, x)
    (y,) = found.run(*(array[None] for array in x))
    np.testing.assert_array_equal(y[0], wanted)
    assert len(np.unique(wanted)) > 40
    return found


def kinds(found: Compiled) -> list[str]:
    return [str(operator.kind) for operator in found.graph.operators]


@pytest.mark.parametrize(
    ("turn", "shape", "wanted"),
    [
        ((0, 2, 1), (2, 48, 32), ["batch_matmul"]),  # keys: nothing moves
        (None, (2, 32, 48), ["transpose", "batch_matmul"]),
        ((1, 0, 2), (32, 2, 48), ["transpose", "batch_matmul"]),  # one, not two
    ],
)
def test_a_product_moves_as_little_as_it_can(
    turn: tuple[int, ...] | None, shape: tuple[int, ...], wanted: list[str], tmp_path: Path
) -> None:
    found = compiled(attention(turn, shape), shape, tmp_path, "vtaq-1x16x16")
    assert kinds(found) == wanted
    assert [row["where"] for row in found.explain()][-1] != "host"
    assert found.explain()[-1]["macs"] == 2 * 5 * 32 * 48


def test_a_product_and_its_relu_on_a_device_that_only_shifts(tmp_path: Path) -> None:
    """There its sums are requantized by products of their digits, and exact."""
    shape = (2, 48, 32)
    graph = attention((0, 2, 1), shape, "Relu")
    found = compiled(graph, shape, tmp_path, "vta-pynq")
    assert kinds(found) == ["batch_matmul"]
    (row,) = found.explain()
    assert row["where"] == "vta"
    operator = found.graph.operators[0]
    assert isinstance(operator, g.BatchMatMul)
    assert operator.low == GRID_Y[1]


def test_a_product_that_is_not_quantized_stays_float(tmp_path: Path) -> None:
    graph = attention((0, 2, 1), (2, 48, 32))
    product = graph.nodes[-2].output[0]
    (tmp_path / "m.onnx").write_bytes(graph.save([(product, np.float32)]))
    assert "batch_matmul" not in kinds(compile(tmp_path / "m.onnx", "vtaq-1x16x16"))


@more
def test_every_product_of_the_keyword_transformer_is_on_the_device(shared: Path) -> None:
    """Its attention is written as products of two matrices that are computed."""
    samples = [RNG.normal(size=(4, 1, 16000)).astype(np.float32)]
    model = shared / "models/arm_kwt1_f32.tflite"
    found = compile(model, "vtaq-1x16x16", samples=samples)
    rows = found.explain()
    assert sum(row["macs"] for row in rows) == 98_880_640
    assert all(row["where"] != "host" for row in rows if row["macs"])
    for operator in found.graph.operators:
        left = operator.operators if isinstance(operator, g.Host) else ()
        assert not {"matmul", "nn.conv2d"} & set(left)
    assert found.python_steps == []


def test_text_in_text_out(update_golden: bool) -> None:
    compare_rewritten("products", with_turned_products, update_golden)
