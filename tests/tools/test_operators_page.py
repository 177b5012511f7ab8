# SPDX-License-Identifier: Apache-2.0
"""tools/operators_page.py: docs/supported-operators.md is current, and says what compiling says."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

pytest.importorskip("tvm", reason="TVM is not installed (the extra `compiler`)")
pytest.importorskip("torch", reason="torch is not installed (the extra `torch`)")

from loadstone.compiler import compile
from loadstone.frontend.aten.build import OPERATORS as ATEN
from loadstone.frontend.onnx.table import CONVERTERS
from loadstone.frontend.tflite_operators import OPERATORS as TFLITE
from tests.onnx_builder import Graph
from tests.search.small_network import small_network
from tools.operators_page import PAGE, main, text


def row(kind: str) -> list[str]:
    """The cells of an operator on devices."""
    (line,) = [line for line in text().splitlines() if line.startswith(f"| {kind} |")]
    return [cell.strip() for cell in line.split("|")[1:-1]]


def test_the_page_is_current() -> None:
    assert main(["--check"]) == 0
    assert PAGE.read_text(encoding="utf-8") == text()


def test_every_operator_of_every_format_is_there() -> None:
    page = text()
    for name in TFLITE:
        assert f"| {name} |" in page
    for domain, name in CONVERTERS:
        assert f"`{domain + ': ' if domain else ''}{name}`" in page
    for name in ATEN:
        assert f"`{name}`" in page


def test_a_row_says_what_the_compiler_does(tmp_path: Path) -> None:
    """Convolutions and additions are taken; a softmax stays on the host, with the reason of the
    table."""
    (tmp_path / "net.onnx").write_bytes(small_network())
    rows = compile(tmp_path / "net.onnx", "vtaq-tiny").explain()
    taken = {each["kind"] for each in rows if each["where"] == "vta"}
    assert taken == {"conv2d", "add"}
    assert {row(kind)[2] for kind in taken} == {"yes"}

    graph = Graph()
    x = graph.dequantize(graph.input((1, 16), np.int8), 0.125, 0)
    y = graph.quantize(graph.node("Softmax", x, axis=-1), 2.0**-8, -128)
    (tmp_path / "soft.onnx").write_bytes(graph.save([(y, np.int8)]))
    rows = compile(tmp_path / "soft.onnx", "vtaq-tiny").explain()
    (soft,) = [each for each in rows if each["kind"] == "softmax"]
    assert soft["where"] == "host"
    assert row("softmax")[2].startswith("no: the ALU has no exponential; remedy: ")
    assert "the ALU has no exponential" in soft["why"]
