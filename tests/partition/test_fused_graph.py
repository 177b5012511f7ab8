# SPDX-License-Identifier: Apache-2.0
"""partition/fused_graph.py: what no pattern takes becomes operators of the host, one a group."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

pytest.importorskip("tvm", reason="TVM is not installed (the extra `compiler`)")
pytest.importorskip("onnx", reason="onnx is not installed")

from onnx import load_from_string
from onnx.shape_inference import infer_shapes

from loadstone import graph as g
from loadstone.backend.interface import offered
from loadstone.compiler import Compiled, compile
from loadstone.errors import UnsupportedError
from loadstone.frontend import onnx
from loadstone.frontend.rewrites import canonical
from loadstone.graph.reference import run
from loadstone.partition.eager import HOST, explain, partition
from tests.draw import Random
from tests.onnx_builder import Graph
from tests.onnx_builder import run as run_onnx
from tests.partition.divided import backend, module_of, places, step, texts_behind
from tests.passes import networks
from tests.poisoned import unwritten
from tests.relax_text import compare_text


def test_float_operators_become_one_host_operator_per_connected_group() -> None:
    shifts = np.linspace(-1, 1, 4 * 36, dtype=np.float32).reshape(1, 4, 6, 6)

    def moved(graph: Graph, x: str) -> str:  # each element otherwise, or it were a table
        return graph.node("Add", graph.dequantize(x, 0.05, 0), graph.constant(shifts))

    def build(graph: Graph, x: str) -> str:
        left = graph.node("Exp", graph.node("Neg", moved(graph, x)))
        right = graph.node("Sqrt", graph.node("Abs", moved(graph, x)))
        return step(graph, "Add", graph.quantize(left, 0.5, 0), graph.quantize(right, 0.5, 0))

    divided = partition(module_of(build), [backend("npu", offered("add"))])
    hosts = [operator for operator in divided.graph.operators if isinstance(operator, g.Host)]
    assert [set(host.operators) for host in hosts] == [
        {"add", "negative", "exp"},
        {"add", "abs", "sqrt"},
    ]
    rows = [row for row in explain(divided) if row["kind"] == "host"]
    assert rows[0]["why"] == "npu: works on float32 (add, negative, exp)"
    data = Random(0).int8(1, 4, 6, 6)
    real = data.astype(np.float32) * np.float32(0.05) + shifts
    parts = [
        np.clip(np.rint(part / np.float32(0.5)), -128, 127)
        for part in (np.exp(-real), np.sqrt(np.abs(real)))
    ]
    wanted = np.clip(np.rint(parts[0] + parts[1]), -128, 127)
    got = run(divided.graph, [data])[0]
    assert np.mean(got != wanted) < 0.01  # TVM's exp and NumPy's


def test_a_float_model_is_one_host_operator(shared: Any) -> None:
    from loadstone.frontend import load

    divided = partition(
        load(shared / "models" / "mlpt_ad_f32.tflite"), [backend("npu", offered("dense"))]
    )
    assert places(divided) == [("host", HOST)]
    assert not divided.segments


def test_a_composite_that_reads_what_the_host_computes_knows_its_name() -> None:
    """Names of Relax variables have no dots, names of the file's tensors may: the Host operator
    names what is read."""
    graph = Graph()
    x = graph.node("Tanh", graph.input((1, 3, 4, 4), np.float32))
    padded = graph.node(
        "Pad",
        graph.node("Concat", x, x, axis=1),
        graph.constant(np.array([0, 0, 1, 1, 0, 0, 1, 1])),
    )
    model = graph.save([(graph.quantize(padded, 0.01, 0), np.int8)])
    made = partition(canonical(onnx.from_bytes(model, "m.onnx")), []).graph
    assert made.operators[-1].inputs[0].name in {
        tensor.name for operator in made.operators[:-1] for tensor in operator.outputs
    }


def compiled_and_right(
    model: Graph, outputs: list[str], target: str, tmp_path: Path, atol: float = 0
) -> Compiled:
    """What ONNX Runtime gives, on a device, and every byte of it written by some step."""
    whole = load_from_string(model.save([(name, np.float32) for name in outputs]))
    data = infer_shapes(whole).SerializeToString()
    (tmp_path / "m.onnx").write_bytes(data)
    made = compile(tmp_path / "m.onnx", target)
    random, samples = np.random.default_rng(5), 4
    shapes = [[d.dim_value for d in i.type.tensor_type.shape.dim] for i in model.inputs]
    given = [random.normal(0, 1, (samples, *shape)).astype(np.float32) for shape in shapes]
    got = made.run(*given)
    for k in range(samples):
        wanted = run_onnx(data, [np.asarray(array[k]) for array in given])
        for out, want in zip(got, wanted, strict=True):
            np.testing.assert_allclose(out[k].reshape(want.shape), want, rtol=0, atol=atol)
    assert unwritten(made.artifact, made.device) == {}
    assert [made.artifact.tensors[index].name for index in made.artifact.outputs] == outputs
    return made


#: Two samples at once, and one on the int8 devices and on that of bfloat16.
TARGETS = ("vtaq-1x16x16", "vtaq-4x16x16", "vta-pynq", "vtab-1x16x16")


def small_network(model: Graph) -> str:
    """relu(x), quantized: what has another output beside it."""
    x = model.input((1, 4, 5, 5), np.float32)
    x = model.dequantize(model.quantize(x, 0.05, 3), 0.05, 3)
    return model.dequantize(model.quantize(model.node("Relu", x), 0.05, -10), 0.05, -10)


@pytest.mark.parametrize("target", TARGETS)
def test_outputs_that_are_constants_are_stored_like_any_other(target: str, tmp_path: Path) -> None:
    """A step that made one was C without a statement: the output was what lay in memory."""
    model, random = Graph(), np.random.default_rng(1)
    y = small_network(model)
    per_channel = model.dequantize(
        model.constant(random.integers(-128, 128, (8, 3)), np.int8),
        random.uniform(0.01, 0.1, 8).astype(np.float32),
        np.zeros(8, np.int8),
        axis=0,
    )
    whole = model.dequantize(model.constant(random.integers(-128, 128, (1, 3)), np.int8), 0.5, 3)
    folded = model.node("Exp", model.constant(random.normal(0, 1, (2, 3)), np.float32))
    negated = model.node("Neg", model.constant(random.normal(0, 1, (2, 3)), np.float32))
    plain = model.constant(random.normal(0, 1, (7,)), np.float32)
    named = model.node("Identity", plain)
    outputs = [y, per_channel, whole, negated, named]
    made = compiled_and_right(model, outputs, target, tmp_path)
    assert folded not in [tensor.name for tensor in made.graph.outputs]


@pytest.mark.parametrize("target", TARGETS)
def test_what_reads_a_constant_that_is_computed_reads_it(target: str, tmp_path: Path) -> None:
    """An int32 bias of each channel, which a device of bfloat16 adds behind the convolution."""
    model, random = Graph(), np.random.default_rng(2)
    x = model.input((1, 4, 8, 8), np.float32)
    x = model.dequantize(model.quantize(x, 2**-5, 0), 2**-5, 0)
    scales = 2.0 ** random.integers(-9, -6, 8)
    weights = model.dequantize(
        model.constant(random.integers(-8, 8, (8, 4, 1, 1)), np.int8),
        scales.astype(np.float32),
        np.zeros(8, np.int8),
        axis=0,
    )
    bias = model.dequantize(
        model.constant(random.integers(-800, 800, 8), np.int32),
        (scales * 2**-5).astype(np.float32),
        np.zeros(8, np.int32),
        np.int32,
        axis=0,
    )
    y = model.quantize(model.node("Conv", x, weights, bias), 2**-4, 5)
    step = 2**-4 if target.startswith("vtab") else 0  # its sums have eight bits
    compiled_and_right(model, [model.dequantize(y, 2**-4, 5)], target, tmp_path, step)


@pytest.mark.parametrize("target", TARGETS)
def test_an_input_that_is_passed_through_and_an_output_twice(target: str, tmp_path: Path) -> None:
    model = Graph()
    y = small_network(model)
    other = model.input((1, 3), np.float32)
    again = model.node("Identity", y)
    outputs = [y, model.node("Identity", other), again, model.node("Identity", "in0")]
    made = compiled_and_right(model, outputs, target, tmp_path)
    why = {row["operator"]: row["why"] for row in made.explain()}
    assert sum("copies what is an input" in text for text in why.values()) == 2


@pytest.mark.parametrize("target", ["vtaq-1x16x16", "vta-pynq", "vtab-1x16x16"])
def test_single_numbers_go_in_and_out(target: str, tmp_path: Path) -> None:
    model = Graph()
    y = small_network(model)
    one = model.input((), np.float32)
    outputs = [
        y,
        model.node("Mul", y, one),
        model.node("Neg", one),
        model.node("ReduceMax", y, keepdims=0),
        model.node("Identity", one),
        model.node("Identity", model.constant(np.float32(2.5))),
    ]
    made = compiled_and_right(model, outputs, target, tmp_path)
    shapes = [made.artifact.tensors[index].shape for index in made.artifact.outputs]
    assert shapes[2:] == [(1,)] * 4


def test_single_numbers_are_of_one_sample(tmp_path: Path) -> None:
    model = Graph()
    y = model.node("Neg", model.input((), np.float32))
    (tmp_path / "m.onnx").write_bytes(model.save([(y, np.float32)]))
    with pytest.raises(UnsupportedError, match=r"single number: compile for a device whose batch"):
        compile(tmp_path / "m.onnx", "vtaq-4x16x16")


@pytest.mark.parametrize("target", networks.TARGETS)
def test_text_in_text_out(target: str, update_golden: bool) -> None:
    compare_text(f"graph.{target}", texts_behind(target)["graph"], update_golden)
