# SPDX-License-Identifier: Apache-2.0
"""frontend/names.py: inputs and outputs of an artifact are called as in the file."""

from __future__ import annotations

from typing import Any

import numpy as np
import onnx
import pytest

from loadstone.compiler import Compiled, compile
from loadstone.frontend.names import output_names, with_output_names
from loadstone.relax.compat import bindings, name_of, relax, result, with_main
from tests import onnx_builder
from tests.onnx_builder import Graph
from tests.relax_text import compare_rewritten


def ports(made: Compiled) -> tuple[list[str], list[str]]:
    tensors = made.artifact.tensors
    inputs = [tensors[index].name for index in made.artifact.inputs]
    return inputs, [tensors[index].name for index in made.artifact.outputs]


def network(names: list[str]) -> onnx.ModelProto:
    """A convolution, its real output, the integers behind that, and a clamp of them; renamed."""
    graph, random = Graph(), np.random.default_rng(0)
    x = graph.input((1, 4, 6, 6), np.float32)
    x = graph.dequantize(graph.quantize(x, 2**-5, 3), 2**-5, 3)
    weights = graph.constant(random.integers(-99, 99, (8, 4, 3, 3)), np.int8)
    y = graph.node("Conv", x, graph.dequantize(weights, 2**-7, 0))
    whole = graph.quantize(y, 2**-3, 5)
    real = graph.dequantize(whole, 2**-3, 5)
    clamped = graph.node("Relu", graph.dequantize(whole, 2**-3, 5))
    kept = graph.dequantize(
        graph.quantize(graph.node("Sigmoid", real), 1 / 256, -128), 1 / 256, -128
    )
    outputs = [(real, np.float32), (whole, np.int8), (clamped, np.float32), (kept, np.float32)]
    model = onnx.load_from_string(graph.save(outputs))
    new = dict(zip(["in0", *(name for name, _ in outputs)], names, strict=True))
    for node in model.graph.node:
        for side in (node.input, node.output):
            side[:] = [new.get(name, name) for name in side]
    for port in (*model.graph.input, *model.graph.output):
        port.name = new[port.name]
    return model


NAMES = (
    ["x", "y", "q", "r", "s"],
    ["input.1", "StatefulPartitionedCall:0", "a/b", "a/b/int8", "1"],
    ["args_0", "y#2", "y", "y/int8", "y/real"],
)


@pytest.mark.parametrize("target", ["vtaq-1x16x16", "vta-pynq", "vtab-1x16x16"])
@pytest.mark.parametrize("names", NAMES)
def test_ports_have_the_names_of_the_file(names: list[str], target: str) -> None:
    model = network(names)
    made = compile(model, target)
    assert ports(made) == (names[:1], names[1:])
    tensors = [tensor.name for tensor in made.artifact.tensors]
    assert len(set(tensors)) == len(tensors)
    x = np.random.default_rng(1).normal(0, 1, (2, 1, 4, 6, 6)).astype(np.float32)
    got = made.run({names[0]: x})
    for k, sample in enumerate(x):
        wanted = onnx_builder.run(model.SerializeToString(), [sample])
        for out, want, step in zip(got, wanted, (2**-3, 1, 2**-3, 2**-5), strict=True):
            limit = step if target.startswith("vtab") else 0  # sums of eight bits
            np.testing.assert_allclose(out[k], want, rtol=0, atol=1.01 * limit)


def of_names(name: str) -> Any:
    """Variables, input and output that are called `name`."""
    builder = relax.BlockBuilder()
    x = relax.Var(name, relax.TensorType((1, 4), "float32"))
    with builder.function("main", [x]):
        with builder.dataflow():
            inner = builder.emit(relax.op.exp(x), name_hint=name)
            output = builder.emit_output(builder.emit(relax.op.negative(inner), name_hint=name))
        builder.emit_func_output(output)
    return with_main(builder.get())


@pytest.mark.parametrize("name", ["main", "x", "main1"])
def test_a_tensor_may_be_called_as_the_function(name: str) -> None:
    made = compile(of_names(name), "vtaq-1x16x16")
    assert ports(made)[0] == [name]
    x = np.array([[[0.0, 1.0, -1.0, 2.0]]], np.float32)
    np.testing.assert_allclose(made.run(x)[0], -np.exp(x), rtol=1e-6)


def test_no_other_call_has_the_name_of_a_result() -> None:
    function = of_names("x")["main"]
    assert output_names(function) != ["wanted"]
    renamed = with_output_names(function, ["wanted"])
    assert output_names(renamed) == ["wanted"]
    again = with_output_names(renamed, ["wanted"])
    assert [name_of(call) for v, call in bindings(again) if v in result(again)] == ["wanted"]


def test_text_in_text_out(update_golden: bool) -> None:
    compare_rewritten("names", lambda main: with_output_names(main, ["result"]), update_golden)
