# SPDX-License-Identifier: Apache-2.0
"""relax/dynamic_rows.py: scheme dynamic, quantized here or read from its file, runs by the
runtime's operators on rows, with the bits of the scheme in NumPy."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

pytest.importorskip("tvm", reason="TVM is not installed (the extra `compiler`)")
pytest.importorskip("onnx", reason="onnx is not installed")

import onnx

from loadstone.artifact.host_step import HostOpcode, HostStep
from loadstone.compiler import Compiled, compile, quantize
from loadstone.frontend import load
from loadstone.relax.compat import bindings, tvm
from loadstone.relax.dynamic_rows import with_row_operators
from loadstone.relax.row_calls import row_call
from tests.onnx_builder import Graph
from tests.quantization.test_dynamic import DEPTH, FIRST, INNER, ROWS, numbers, rows_times

CALLS = ["row_scales", "quantize_rows", "rescale_rows"]


def dense(rows: int = ROWS) -> Any:
    graph = Graph()
    x = graph.input((1, rows, DEPTH), np.float32)
    y = graph.node("MatMul", x, graph.constant(FIRST))
    model = onnx.load_model_from_string(graph.save([(y, np.float32)], [(1, rows, INNER)]))
    return quantize(model, numbers(2, 1, rows, DEPTH), scheme="dynamic")


def found(module: Any) -> list[str]:
    said = (row_call(call) for _, call in bindings(with_row_operators(module)["main"]))
    return [call[0] for call in said if call is not None]


def opcodes(compiled: Compiled) -> set[HostOpcode]:
    return {step.opcode for step in compiled.artifact.steps if isinstance(step, HostStep)}


@pytest.mark.parametrize("device", ["vta-pynq", "vtaq-4x16x16"])
def test_the_network_and_its_file_run_by_operators_on_rows(device: str, tmp_path: Path) -> None:
    made, path = dense(), tmp_path / "net.onnx"
    made.save(path)
    given = numbers(8, 1, ROWS, DEPTH)
    given[1, 0, 2] = 0
    given[2, 0, 3] *= np.float32(1e-44)
    for model in (made, path):
        compiled = compile(model, device)
        assert {HostOpcode[name.upper()] for name in CALLS} <= opcodes(compiled)
        assert not compiled.python_steps
        (got,) = compiled.run(given)
        assert got.tobytes() == rows_times(given, FIRST).tobytes()


@pytest.mark.parametrize("number", [np.nan, np.inf, -np.inf])
def test_a_row_that_is_not_finite_is_no_number_and_others_stay(number: float) -> None:
    compiled, given = compile(dense(), "vta-pynq"), numbers(1, 1, ROWS, DEPTH)
    wanted = rows_times(given, FIRST)
    given[0, 0, 2, 5] = number
    (got,) = compiled.run(given, allow_nan=True)
    assert np.isnan(got[0, 0, 2]).all()
    others = [row for row in range(ROWS) if row != 2]
    assert got[0, 0, others].tobytes() == wanted[0, 0, others].tobytes()


def test_what_is_written_otherwise_stays_as_it_is(tmp_path: Path) -> None:
    """Other steps, another divisor, another axis, a test of the wrong number."""
    path = tmp_path / "net.onnx"
    dense().save(path)
    assert found(load(path)) == CALLS
    changed = {
        "127 in Div": lambda m: _number(m, "Div", 127, 128),
        "ends of Clip": lambda m: _number(m, "Clip", -127, -128),
        "0 in Equal": lambda m: _number(m, "Equal", 0, 1),
    }
    for what, change in changed.items():
        model = onnx.load(path)
        change(model)
        onnx.save(model, path.with_suffix(".changed.onnx"))
        calls = found(load(path.with_suffix(".changed.onnx")))
        assert calls == (["row_scales"] if "Clip" in what else []), what


def _number(model: Any, operator: str, old: float, new: float) -> None:
    """Changes a constant that such a node reads."""
    arrays = {tensor.name: tensor for tensor in model.graph.initializer}
    for node in model.graph.node:
        for k, name in enumerate(node.input):
            if node.op_type != operator or name not in arrays:
                continue
            array = onnx.numpy_helper.to_array(arrays[name])
            if array.size == 1 and array.item() == old:
                changed = np.full_like(array, new)
                model.graph.initializer.append(
                    onnx.numpy_helper.from_array(changed, f"{node.name}/changed/{name}")
                )
                node.input[k] = f"{node.name}/changed/{name}"
                return
    raise AssertionError(f"no {operator} of {old}")


def test_what_has_no_step_of_its_own_becomes_c_beside_the_rows() -> None:
    """A layer normalization, a GELU and a residual around two products: nothing needs Python."""
    graph = Graph()
    x = graph.input((1, ROWS, DEPTH), np.float32)
    normal = graph.node(
        "LayerNormalization", x, graph.constant(numbers(DEPTH)), graph.constant(numbers(DEPTH))
    )
    inner = graph.node("MatMul", normal, graph.constant(FIRST))
    half = graph.node("Erf", inner)
    gated = graph.node("Mul", inner, half)
    y = graph.node("Add", x, graph.node("MatMul", gated, graph.constant(numbers(INNER, DEPTH))))
    model = onnx.load_model_from_string(graph.save([(y, np.float32)], [(1, ROWS, DEPTH)]))
    made = quantize(model, numbers(2, 1, ROWS, DEPTH), scheme="dynamic")
    compiled = compile(made, "vta-pynq")
    assert not compiled.python_steps
    assert {HostOpcode.QUANTIZE_ROWS, HostOpcode.RESCALE_ROWS} <= opcodes(compiled)
    given = numbers(2, 1, ROWS, DEPTH)
    (got,), (want,) = compiled.run(given), compile(made, "vtab-1x16x16").run(given)
    np.testing.assert_allclose(got, want, rtol=0, atol=0.02 * np.abs(want).max())


def test_a_module_without_them_is_itself() -> None:
    graph = Graph()
    y = graph.node("Abs", graph.input((1, 8), np.float32))
    module = load(onnx.load_model_from_string(graph.save([(y, np.float32)], [(1, 8)])))
    assert isinstance(module, tvm.IRModule)
    assert with_row_operators(module) is module
