# SPDX-License-Identifier: Apache-2.0
"""row_steps.py: calls on rows as steps of the C runtime, against TVM's run of the same calls by
NumPy, bit by bit."""

from __future__ import annotations

import numpy as np
import pytest

pytest.importorskip("tvm", reason="TVM is not installed (the extra `compiler`)")

from loadstone import graph as g
from loadstone.artifact.deploy import deploy
from loadstone.artifact.format import HostStep
from loadstone.artifact.host import has_steps
from loadstone.artifact.host_step import HostOpcode
from loadstone.artifact.relax_steps import relax_steps
from loadstone.relax.saved import run_module
from loadstone.runtime.device import OpenedDevice
from loadstone.vta.device.hw_config import load_config
from tests.relax.row_networks import CALLS, inputs_of
from tests.relax.test_c_printer import module

CONFIG = load_config("vtaq-1x16x16")


def host(name: str, samples: int = 1) -> g.Host:
    """One call as an operator of the host."""
    make, inputs = CALLS[name]
    made = module(make, *inputs)
    (result,) = run_module(made, inputs_of(name, np.random.default_rng(0)))
    tensors = [
        g.Tensor(f"in{k}", (samples * shape[0], *shape[1:]), kind)
        for k, (shape, kind) in enumerate(inputs)
    ]
    shape = (samples * result.shape[0], *result.shape[1:])
    y = g.Tensor("y", shape, str(result.dtype))
    return g.Host(name="o", inputs=tuple(tensors), outputs=(y,), function=made, operators=())


@pytest.mark.parametrize("name", CALLS)
def test_a_step_computes_the_call(name: str) -> None:
    operator = host(name)
    graph = g.Graph(
        name="one", inputs=operator.inputs, outputs=operator.outputs, operators=(operator,)
    )
    artifact = deploy(graph, graph.operators, CONFIG).artifact
    kinds = [step.opcode.name.lower() for step in artifact.steps if isinstance(step, HostStep)]
    assert kinds[-1] == (name.split(" ")[0] if "constant" not in name else "quantize_rows")
    given = inputs_of(name, np.random.default_rng(5))
    (wanted,) = run_module(operator.function, given)
    with OpenedDevice("null", "", CONFIG) as device, device.load(artifact) as session:
        (found,) = session.run([x[None] for x in given])
    assert found.dtype == wanted.dtype
    assert np.array_equal(np.asarray(found)[0], wanted)


def test_of_several_samples_places_have_no_form() -> None:
    for name in ("attention", "keep_rows", "rotate_places"):
        assert relax_steps(host(name, samples=2), Nothing()) is None
        assert not has_steps(host(name, samples=2))
    for name in ("gate", "rms_norm", "row_scales", "quantize_rows", "rescale_rows"):
        assert has_steps(host(name, samples=2))


class Nothing:
    def tensor(self, _: g.Tensor) -> int:
        return 0

    temporary = tensor

    def constant(self, _name: str, _value: object) -> int:
        return 0


def test_weights_of_attention_are_memory_of_the_step() -> None:
    steps = relax_steps(host("attention"), Nothing())
    assert steps is not None
    assert [step.opcode for step in steps] == [HostOpcode.ATTENTION]
    assert steps[0].parameters["window"] == 3
