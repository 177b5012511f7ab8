# SPDX-License-Identifier: Apache-2.0
"""host.py and runtime/externals.py: what stays on the host, run by the C runtime, gives the
integers of graph/reference.py."""

from __future__ import annotations

import itertools
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from loadstone import graph as g
from loadstone.artifact.deploy import deploy
from loadstone.artifact.format import HostStep
from loadstone.artifact.host import is_built_in
from loadstone.artifact.host_step import EXTERNAL_OPERATOR, HostOpcode
from loadstone.graph.reference import run
from loadstone.numerics import Rounding
from loadstone.runtime.device import OpenedDevice
from loadstone.vta.device.hw_config import load_config
from tests.poisoned import unwritten

CONFIG = load_config("vtaq-1x16x16")
Q = g.Quantization(0.0625, -7)
Q2 = g.Quantization(0.09375, 11)
RNG = np.random.default_rng(3)


def tensor(name: str, *shape: int, dtype: str = "int8", q: g.Quantization | None = Q) -> g.Tensor:
    return g.Tensor(name, shape, dtype, q)


def network(operator: g.Operator, inputs: tuple[g.Tensor, ...] = ()) -> g.Graph:
    return g.Graph(
        name="one",
        inputs=inputs or operator.inputs,
        outputs=operator.outputs,
        operators=(operator,),
    )


def values(t: g.Tensor) -> NDArray[Any]:
    if t.dtype == "float32":
        return RNG.normal(0, 3, t.shape).astype(np.float32)
    limits = np.iinfo(t.dtype)
    return RNG.integers(limits.min, limits.max + 1, t.shape).astype(t.dtype)


def check(graph: g.Graph) -> list[HostStep]:
    """Runs three samples; every byte of every step's outputs is written. Returns the steps."""
    artifact = deploy(graph, graph.operators, CONFIG).artifact
    samples = [[values(t) for t in graph.inputs] for _ in range(3)]
    with OpenedDevice("sim", "", CONFIG) as device, device.load(artifact, trust=True) as session:
        got = session.run([np.stack(arrays) for arrays in zip(*samples, strict=True)])
    for k, sample in enumerate(samples):
        for out, want in zip(got, run(graph, sample), strict=True):
            np.testing.assert_array_equal(out[k], want)
    assert unwritten(artifact, CONFIG) == {}
    return [step for step in artifact.steps if isinstance(step, HostStep)]


X = tensor("x", 1, 4, 6, 5)
DOUBLE = Rounding.DOUBLE


def one(
    kind: type[g.Operator],
    *out: int,
    q: g.Quantization | None = Q,
    dtype: str = "int8",
    source: g.Tensor = X,
    **values: Any,
) -> g.Operator:
    return kind(
        name="y", inputs=(source,), outputs=(tensor("y", *out, dtype=dtype, q=q),), **values
    )


BUILT_IN = {
    "reshape": one(g.Reshape, 1, 120),
    "transpose": one(g.Transpose, 1, 5, 4, 6, permutation=(0, 3, 1, 2)),
    "slice with steps": one(g.Slice, 1, 2, 2, 5, begin=(0, 1, 1, 0), strides=(1, 2, 3, 1)),
    "pad": one(g.Pad, 1, 7, 6, 6, before=(0, 1, 0, 0), after=(0, 2, 0, 1), value=-7),
    "resize nearest by 2 and 3": one(
        g.ResizeNearest, 1, 8, 18, 5, align_corners=False, half_pixel_centers=False, rounding=DOUBLE
    ),
    "requantize": one(g.Requantize, 1, 4, 6, 5, q=Q2, low=-100, high=90, rounding=DOUBLE),
    "uint8 to int8": one(
        g.Requantize,
        1,
        4,
        q=g.Quantization(0.5, -8),
        source=tensor("x", 1, 4, dtype="uint8", q=g.Quantization(0.5, 120)),
        low=-128,
        high=127,
        rounding=DOUBLE,
    ),
    "quantize": one(
        g.Quantize,
        1,
        40,
        source=tensor("x", 1, 40, dtype="float32", q=None),
        low=-128,
        high=127,
        rounding=DOUBLE,
    ),
    "quantize to even": one(
        g.Quantize,
        1,
        40,
        source=tensor("x", 1, 40, dtype="float32", q=None),
        low=-128,
        high=127,
        rounding=Rounding.FLOAT32,
    ),
    "dequantize": one(g.Dequantize, 1, 4, 6, 5, dtype="float32", q=None),
    "softmax": one(g.Softmax, 1, 4, 6, 5, q=g.Quantization(1 / 256, -128), rounding=DOUBLE),
    "softmax with beta": one(
        g.Softmax, 1, 4, 6, 5, q=g.Quantization(1 / 256, -128), rounding=DOUBLE, beta=0.5
    ),
    "argmax": one(g.ArgMax, 1, 4, 6, dtype="int32", q=None, axis=3),
}


@pytest.mark.parametrize("name", BUILT_IN)
def test_the_c_runtime_alone_runs_it(name: str) -> None:
    operator = BUILT_IN[name]
    assert is_built_in(operator)
    assert all(step.opcode != HostOpcode.EXTERNAL for step in check(network(operator)))


def test_a_concatenation_requantizes_what_differs() -> None:
    a, b = tensor("a", 1, 3, 4), tensor("b", 1, 3, 2, q=Q2)
    join = g.Concatenate(
        name="y",
        inputs=(a, b),
        outputs=(tensor("y", 1, 3, 6),),
        axis=2,
        low=-128,
        high=127,
        rounding=DOUBLE,
    )
    kinds = [step.opcode for step in check(network(join))]
    assert kinds == [HostOpcode.COPY, HostOpcode.LOOKUP, HostOpcode.COPY]


OTHERS = {
    "average pool": one(
        g.AveragePool2D,
        1,
        2,
        3,
        5,
        kernel=(2, 2),
        strides=(2, 2),
        padding=(0, 0, 0, 0),
        low=-128,
        high=127,
        rounding=DOUBLE,
        count_include_pad=False,
    ),
    "resize to a size that is no multiple": one(
        g.ResizeNearest, 1, 5, 7, 5, align_corners=False, half_pixel_centers=False, rounding=DOUBLE
    ),
    "argmax over rows": one(g.ArgMax, 1, 6, 5, dtype="int64", q=None, axis=1),
}


@pytest.mark.parametrize("name", OTHERS)
def test_the_rest_is_an_operator_as_data(name: str) -> None:
    operator = OTHERS[name]
    assert not is_built_in(operator)
    assert [step.function for step in check(network(operator))] == [EXTERNAL_OPERATOR]


def test_an_operator_with_weights_carries_them() -> None:
    layer = g.Dense(
        name="y",
        inputs=(tensor("x", 1, 9),),
        outputs=(tensor("y", 1, 4, q=Q2),),
        weights=RNG.integers(-127, 128, (4, 9)).astype(np.int8),
        weight_scales=np.full(4, 0.03, np.float32),
        weight_zero_points=np.zeros(4, np.int32),
        bias=RNG.integers(-500, 500, 4).astype(np.int32),
        low=-128,
        high=127,
        rounding=Rounding.SINGLE,
    )
    assert [step.function for step in check(network(layer))] == [EXTERNAL_OPERATOR]


def test_tensors_between_host_steps_share_memory() -> None:
    shape = (1, 8, 8, 8)
    tensors = [tensor(f"t{k}", *shape) for k in range(6)]
    chain = tuple(
        g.Transpose(name=b.name, inputs=(a,), outputs=(b,), permutation=(0, 2, 1, 3))
        for a, b in itertools.pairwise(tensors)
    )
    graph = g.Graph(name="chain", inputs=(tensors[0],), outputs=(tensors[-1],), operators=chain)
    check(graph)
    deployment = deploy(graph, graph.operators, CONFIG)
    assert deployment.host.size_bytes == 2 * 512
    assert deployment.host.sum_bytes == 4 * 512
