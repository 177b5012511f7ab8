# SPDX-License-Identifier: Apache-2.0
"""partition/eager.py: operators go to the first back end that takes them, and each no says why."""

from __future__ import annotations

from itertools import pairwise
from typing import Any

import numpy as np
import pytest

pytest.importorskip("tvm", reason="TVM is not installed (the extra `compiler`)")
pytest.importorskip("onnx", reason="onnx is not installed")

from loadstone import graph as g
from loadstone.backend.interface import Pattern, Refusal, Taken, offered
from loadstone.errors import UnsupportedError
from loadstone.frontend.rewrites import canonical
from loadstone.partition.eager import HOST, explain, partition
from loadstone.partition.patterns import OperatorPattern
from loadstone.partition.patterns.forms import dq, op, q
from loadstone.partition.patterns.reader import Reader
from tests.draw import Random
from tests.onnx_builder import Graph
from tests.partition.divided import backend, module_of, places, step


def residual(graph: Graph, x: str) -> str:
    """add(sigmoid(x), max_pool(x)) in the input's quantization."""
    pooled = step(graph, "MaxPool", x, kernel_shape=[3, 3], pads=[1, 1, 1, 1])
    return step(graph, "Add", step(graph, "LeakyRelu", x, alpha=0.5), pooled)


def test_an_operator_goes_to_the_first_back_end_that_takes_it() -> None:
    module = module_of(residual)
    takes_all = [offered(form) for form in ("add", "max_pool2d", "transpose", "leaky_relu")]
    divided = partition(module, [backend("first", offered("add")), backend("second", *takes_all)])
    assert {("max_pool2d", "second"), ("lookup", "second"), ("add", "first")} <= set(
        places(divided)
    )


def test_a_refusal_says_why_and_what_would_change_it() -> None:
    refusal = Refusal("3x3 windows do not fit", "a larger scratchpad")
    divided = partition(
        module_of(residual),
        [backend("npu", offered("add"), offered("max_pool2d", lambda o: refusal))],
    )
    rows = {row["kind"]: row for row in explain(divided)}
    assert rows["add"] == {
        "operator": rows["add"]["operator"],
        "kind": "add",
        "where": "npu",
        "why": "",
        "remedy": "",
    }
    assert rows["max_pool2d"]["where"] == HOST
    assert rows["max_pool2d"]["why"] == "npu: 3x3 windows do not fit"
    assert rows["max_pool2d"]["remedy"] == "a larger scratchpad"
    assert rows["lookup"]["why"] == "npu: the device has no lookup"
    assert rows["lookup"]["remedy"]


def test_a_predicate_sees_the_operator_with_its_integers() -> None:
    seen: list[g.Operator] = []

    def note(operator: g.Operator) -> None:
        seen.append(operator)

    partition(module_of(residual), [backend("npu", offered("add", note))])
    (operator,) = seen
    assert isinstance(operator, g.Add)
    assert operator.output.quantization == g.Quantization(0.5, 0)
    assert (operator.low, operator.high) == (-128, 127)


def test_a_back_end_may_bring_a_form_of_its_own() -> None:
    """Two operators as one, into a dataclass that nobody else knows."""

    class AddRelu(g.Operator):
        kind = "add_sigmoid"

    def extract(reader: Reader, root: Any) -> AddRelu:
        total = reader.call(reader.call(root.args[0]).args[0])
        inputs = tuple(reader.source(operand) for operand in reader.call(total).args)
        output = reader.output(root)
        return AddRelu(name=output.name, inputs=inputs, outputs=(output,))

    def build(graph: Graph, x: str) -> str:
        other = graph.input((1, 4, 6, 6), np.int8)
        total = graph.node("Add", graph.dequantize(x, 0.5, 0), graph.dequantize(other, 0.5, 0))
        return graph.quantize(graph.node("Sigmoid", total), 1 / 256, -128)

    own = OperatorPattern("add_sigmoid", lambda: q(op("sigmoid")(op("add")(dq(), dq()))), extract)
    divided = partition(
        module_of(build), [backend("npu", Pattern("add_sigmoid", own, lambda _: None))]
    )
    assert places(divided)[-1] == ("add_sigmoid", "npu")
    composites = [
        str(f.attrs["Composite"])
        for f in divided.module.functions.values()
        if f.attrs and "Composite" in f.attrs
    ]
    assert composites == ["npu.add_sigmoid"]


def ladder(graph: Graph, x: str) -> str:
    """add, leaky ReLU, add, leaky ReLU, add: each add reads the ReLU and the add before it."""
    total = step(graph, "Add", x, x)
    for _ in range(2):
        total = step(graph, "Add", total, step(graph, "LeakyRelu", total, alpha=0.5))
    return total


def test_a_segment_is_never_left_and_entered_again() -> None:
    divided = partition(module_of(ladder), [backend("npu", offered("add"))])
    assert places(divided) == [("add", "npu"), ("lookup", HOST)] * 2 + [("add", "npu")]
    assert [len(segment.operators) for segment in divided.segments] == [1, 1, 1]
    for before, after in pairwise(divided.segments):
        assert before.operators[-1].name != after.operators[0].name


def test_branches_that_do_not_wait_for_the_host_share_a_segment() -> None:
    def build(graph: Graph, x: str) -> str:
        left = step(graph, "Add", x, x)
        right = step(graph, "Mul", x, x)
        return step(graph, "Sub", left, step(graph, "Add", right, left))

    divided = partition(module_of(build), [backend("npu", *map(offered, ("add", "sub", "mul")))])
    (segment,) = divided.segments
    assert len(segment.operators) == 4
    assert [tensor.name for tensor in segment.inputs] == ["in0"]
    assert segment.outputs == divided.graph.outputs


def test_operators_of_a_segment_lie_together_in_the_graph() -> None:
    draw = Random(3)

    def build(graph: Graph, x: str) -> str:
        values = [x]
        for _ in range(12):
            kind = ["Add", "Mul", "LeakyRelu"][draw.int(0, 2)]
            chosen = [
                values[draw.int(0, len(values) - 1)] for _ in range(1 if kind == "LeakyRelu" else 2)
            ]
            values.append(
                step(graph, kind, *chosen, **({"alpha": 0.5} if kind == "LeakyRelu" else {}))
            )
        total = values[0]
        for value in values[1:]:
            total = step(graph, "Sub", total, value)
        return total

    for _ in range(4):
        divided = partition(
            module_of(build),
            [backend("a", offered("add"), offered("sub")), backend("b", offered("mul"))],
        )
        order = [assignment.backend for assignment in divided.assignments]
        position = {operator: index for index, operator in enumerate(divided.graph.operators)}
        for segment in divided.segments:
            places_ = [position[operator] for operator in segment.operators]
            assert places_ == list(range(places_[0], places_[0] + len(places_)))
            assert {order[place] for place in places_} == {segment.backend}


def test_an_operator_that_only_moves_elements_between_two_of_the_host_stays_there() -> None:
    def graph_shape(graph: Graph) -> str:
        return graph.constant(np.array([1, 144], np.int64))

    def build(graph: Graph, x: str) -> str:
        first = step(graph, "LeakyRelu", x, alpha=0.5)
        real = graph.node("Reshape", graph.dequantize(first, 0.5, 0), graph_shape(graph))
        return step(graph, "LeakyRelu", graph.quantize(real, 0.5, 0), alpha=0.25)

    divided = partition(module_of(build), [backend("npu", offered("reshape"))])
    assert ("reshape", HOST) in places(divided)
    assert not divided.segments
    row = next(row for row in explain(divided) if row["kind"] == "reshape")
    assert "two transfers between operators of the host" in row["why"]


def test_a_dynamic_shape_is_named() -> None:
    from loadstone.relax.compat import relax, tirx, tvm

    n = tirx.Var("n", "int64")
    x = relax.Var("x", relax.TensorType((n, 4), "float32"))
    builder = relax.BlockBuilder()
    with builder.function("main", [x]):
        with builder.dataflow():
            output = builder.emit_output(relax.op.exp(x))
        builder.emit_func_output(output)
    assert isinstance(builder.get(), tvm.IRModule)
    with pytest.raises(UnsupportedError, match='"x" has a dynamic shape'):
        partition(canonical(builder.get()), [])


def test_an_assignment_carries_what_the_predicate_lowered() -> None:
    """Of who runs the operator: not of who would have, nor where it moves back to the host."""
    said = Taken("lowered")
    first, second = (backend(name, offered("add", lambda o: said)) for name in ("first", "second"))
    divided = partition(module_of(residual), [first, second])
    taken = {a.operator.kind: a.taken for a in divided.assignments}
    assert taken.pop("add") is said
    assert set(taken.values()) == {None}

    def between(graph: Graph, x: str) -> str:
        relu = step(graph, "LeakyRelu", x, alpha=0.5)
        pool = step(graph, "MaxPool", relu, kernel_shape=[2, 2], strides=[1, 1])
        return step(graph, "LeakyRelu", pool, alpha=0.5)

    divided = partition(module_of(between), [backend("npu", offered("max_pool2d", lambda o: said))])
    (pool,) = (a for a in divided.assignments if a.operator.kind == "max_pool2d")
    assert (pool.backend, pool.taken) == (HOST, None)
