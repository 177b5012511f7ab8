# SPDX-License-Identifier: Apache-2.0
"""partition/relax_parts.py: what a binding reads, in an order that is the same in every run."""

from __future__ import annotations

import numpy as np
import pytest

pytest.importorskip("tvm", reason="TVM is not installed (the extra `compiler`)")
pytest.importorskip("onnx", reason="onnx is not installed")

from loadstone import graph as g
from loadstone.frontend import onnx
from loadstone.frontend.rewrites import canonical
from loadstone.partition.eager import partition
from loadstone.partition.relax_parts import variables
from loadstone.relax.compat import relax
from tests.onnx_builder import Graph

#: Ten in the order of their addresses would be here in the order of their names once in millions.
COUNT = 10


def test_variables_come_in_the_order_in_which_they_are_read_and_once() -> None:
    made = [relax.Var(f"x{k}", relax.TensorType((1, 2), "float32")) for k in range(COUNT)]
    read = relax.op.concat([*made[::-1], *made], axis=1)
    assert [str(variable.name) for variable in variables(read)] == [
        f"x{k}" for k in reversed(range(COUNT))
    ]


def test_a_host_operator_reads_its_inputs_in_the_order_of_the_network() -> None:
    """Their numbers stand in the artifact, and their order in its C: the same file gives the same
    bytes."""
    graph = Graph()
    names = [graph.input((1, 2), np.float32) for _ in range(COUNT)]
    model = graph.save(
        [(graph.node("Tanh", graph.node("Concat", *names[::-1], axis=1)), np.float32)]
    )
    made = partition(canonical(onnx.from_bytes(model, "m.onnx")), []).graph
    (host,) = made.operators
    assert isinstance(host, g.Host)
    inputs = [tensor.name for tensor in made.inputs]
    assert [tensor.name for tensor in host.inputs] == inputs[::-1]
