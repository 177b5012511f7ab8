# SPDX-License-Identifier: Apache-2.0
"""frontend/onnx/control.py: loops of a known number of passes, and sequences, become plain nodes
that give ONNX Runtime's numbers."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

pytest.importorskip("tvm", reason="TVM is not installed (the extra `compiler`)")
pytest.importorskip("onnxruntime", reason="ONNX Runtime is not installed")
pytest.importorskip("onnx", reason="onnx is not installed")

import onnx
from onnx import TensorProto, helper, numpy_helper

from loadstone.frontend.onnx.folding import fold
from tests.onnx_builder import run

FLOAT = TensorProto.FLOAT


def tensor(name: str, *shape: int, kind: int = FLOAT) -> onnx.ValueInfoProto:
    return helper.make_tensor_value_info(name, kind, shape)


def model(nodes: list[Any], outputs: list[str], opset: int, **constants: Any) -> onnx.ModelProto:
    made = [numpy_helper.from_array(np.asarray(v), name) for name, v in constants.items()]
    infos = [helper.make_tensor_value_info(name, FLOAT, None) for name in outputs]
    graph = helper.make_graph(nodes, "m", [tensor("x", 3, 2)], infos, made)
    opsets = [helper.make_opsetid("", opset)]
    return helper.make_model(graph, opset_imports=opsets, ir_version=8)


def check(made: onnx.ModelProto, held: set[str]) -> None:
    """None of these operators is left, and the numbers are the same."""
    x = np.random.default_rng(1).normal(size=(3, 2)).astype(np.float32)
    wanted = run(made.SerializeToString(), [x])
    folded = fold(made, lambda node: node.op_type not in held)
    assert held.isdisjoint(node.op_type for node in folded.graph.node)
    for got, want in zip(run(folded.SerializeToString(), [x]), wanted, strict=True):
        np.testing.assert_array_equal(got, want)


def counted(opset: int, *, stops: bool = False) -> onnx.ModelProto:
    """Adds x to a state four times, or until the pass is number 2; gives every state."""
    nodes = [
        helper.make_node("Add", ["state", "x"], ["next"]),
        helper.make_node("Less", ["i", "two"], ["before"])
        if stops
        else helper.make_node("Identity", ["on"], ["before"]),
    ]
    inputs = [tensor("i", kind=TensorProto.INT64), tensor("on", kind=TensorProto.BOOL)]
    outputs = [tensor("before", kind=TensorProto.BOOL), tensor("next", 3, 2)]
    two = numpy_helper.from_array(np.array(2), "two")
    each = [helper.make_node("Mul", ["next", "next"], ["square"])]
    body = helper.make_graph(
        [*nodes, *each],
        "body",
        [*inputs, tensor("state", 3, 2)],
        [*outputs, tensor("square", 3, 2)],
        [two],
    )
    loop = helper.make_node("Loop", ["count", "", "x"], ["last", "all"], body=body)
    return model([loop], ["last", "all"], opset, count=np.array(4))


@pytest.mark.parametrize("opset", [11, 17])
@pytest.mark.parametrize("stops", [False, True])
def test_a_loop_of_a_known_number_of_passes_is_written_out(opset: int, *, stops: bool) -> None:
    check(counted(opset, stops=stops), {"Loop"})


@pytest.mark.parametrize("backwards", [0, 1])
def test_a_scan_is_written_out(backwards: int) -> None:
    nodes = [
        helper.make_node("Add", ["state", "row"], ["next"]),
        helper.make_node("Mul", ["next", "next"], ["square"]),
    ]
    body = helper.make_graph(
        nodes,
        "body",
        [tensor("state", 2), tensor("row", 2)],
        [tensor("next", 2), tensor("square", 2)],
    )
    scan = helper.make_node(
        "Scan",
        ["zero", "x"],
        ["last", "all"],
        body=body,
        num_scan_inputs=1,
        scan_input_directions=[backwards],
        scan_output_directions=[backwards],
        scan_output_axes=[1],
    )
    check(model([scan], ["last", "all"], 17, zero=np.zeros(2, np.float32)), {"Scan"})


@pytest.mark.parametrize("opset", [11, 17])
@pytest.mark.parametrize("keepdims", [0, 1])
def test_a_sequence_of_parts_is_its_tensors(opset: int, keepdims: int) -> None:
    nodes = [
        helper.make_node("SplitToSequence", ["x"], ["parts"], axis=0, keepdims=keepdims),
        helper.make_node("SequenceAt", ["parts", "last"], ["row"]),
        helper.make_node("Neg", ["row"], ["negative"]),
        helper.make_node("SequenceInsert", ["parts", "negative", "place"], ["more"]),
        helper.make_node("SequenceErase", ["more", "place"], ["less"]),
        helper.make_node("SequenceInsert", ["less", "negative"], ["four"]),
        helper.make_node("ConcatFromSequence", ["four"], ["y"], axis=0, new_axis=1 - keepdims),
        helper.make_node("SequenceLength", ["four"], ["count"]),
        helper.make_node("Cast", ["count"], ["number"], to=FLOAT),
    ]
    made = model(nodes, ["y", "number"], opset, last=np.array(-1), place=np.array(1))
    check(made, {node.op_type for node in nodes if "Seq" in node.op_type})


def test_a_loop_whose_passes_are_counted_when_it_runs_stays() -> None:
    made = counted(17)
    del made.graph.initializer[:]
    made.graph.input.append(tensor("count", kind=TensorProto.INT64))
    assert [node.op_type for node in fold(made, lambda _node: True).graph.node] == ["Loop"]
