# SPDX-License-Identifier: Apache-2.0
"""partition/dataflow.py: who reads what, also by way of tuples, other names and the result."""

from __future__ import annotations

import numpy as np
import pytest

pytest.importorskip("tvm", reason="TVM is not installed (the extra `compiler`)")

from loadstone.partition.dataflow import Dataflow
from loadstone.relax.compat import relax


def test_a_node_knows_who_reads_it() -> None:
    """a = relu(x); b = concat((a, a)); c = b; d = split(b)[1]; the result is (c, d)."""
    builder = relax.BlockBuilder()
    x = relax.Var("x", relax.TensorType((2, 2), "float32"))
    with builder.function("main", [x]):
        with builder.dataflow():
            a = builder.emit(relax.op.nn.relu(x), "a")
            b = builder.emit(relax.op.concat([a, a], axis=0), "b")
            c = builder.emit(b, "c")
            parts = builder.emit(relax.op.split(b, 2, axis=0), "parts")
            d = builder.emit(relax.TupleGetItem(parts, 1), "d")
            output = builder.emit_output(relax.Tuple([c, d]))
        builder.emit_func_output(output)
    flow = Dataflow(builder.get()["main"])
    named = {node.bound_to.name: node for node in flow.nodes}
    assert list(named)[:4] == ["a", "b", "parts", "d"]  # c is b
    assert set(named["a"].readers) == {named["b"]}
    whole = flow.nodes[-1]
    assert set(named["b"].readers) == {named["parts"], whole, None}
    assert named["parts"].readers == [named["d"]]
    assert (named["d"].index, named["d"].arguments) == (1, (named["parts"],))
    assert [node.operator for node in flow.nodes[:3]] == ["relax.nn.relu", "relax.concat", "relax.split"]  # fmt: skip # noqa: E501
    assert whole.is_tuple
    assert whole.readers == [None]
    assert flow.of_expr[named["a"].expr] is named["a"]


def test_constants_are_where_they_are_read() -> None:
    builder = relax.BlockBuilder()
    x = relax.Var("x", relax.TensorType((2,), "float32"))
    with builder.function("main", [x]):
        with builder.dataflow():
            total = builder.emit(relax.op.add(x, relax.const(np.ones(2, np.float32))))
            output = builder.emit_output(total)
        builder.emit_func_output(output)
    (node, *_) = Dataflow(builder.get()["main"]).nodes
    source, one = node.arguments
    assert (source.variable, source.is_constant) == (x, False)
    assert (one.variable, one.is_constant) == (None, True)
