# SPDX-License-Identifier: Apache-2.0
"""Operators on real numbers on devices of bfloat16: equal to their definition, bit for bit, and as
near to real numbers as the order of sums allows."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import numpy as np
import pytest

pytest.importorskip("tvm", reason="TVM is not installed (the extra `compiler`)")

from loadstone import graph as g
from loadstone.vta.device.hw_config import load_config
from loadstone.vta.operators import unsupported_reason
from tests.real_operators import (
    KINDS,
    cancelling,
    defined,
    on_device,
    product_bound,
    random_inputs,
    random_operator,
    sum_bound,
)
from tests.repeat import times

SMALL = load_config("vtab-1x8x8")
DEVICES = [
    load_config("vtab-1x16x16"),
    SMALL,
    replace(SMALL, name="vtab-2x4x4", log_batch=1, log_block=2, log_wgt_buff=12, log_acc_buff=13),
]


@pytest.mark.parametrize("kind", KINDS)
def test_a_random_operator_is_its_definition(kind: str, figure: Callable[[str], None]) -> None:
    count = times(3, 150)
    for seed in range(count):
        rng = np.random.default_rng([seed, *kind.encode()])
        config, op = DEVICES[seed % len(DEVICES)], random_operator(kind, rng)
        if isinstance(op, g.RealMatMul):  # rows of a tile of weights are no samples
            config = replace(config, log_batch=0)
        assert unsupported_reason(op, replace(config, log_batch=0)) is None
        inputs = random_inputs(op, config.batch, rng)
        if isinstance(op, g.RealWeighted) and seed % 3:
            op, inputs[0] = cancelling(op, inputs[0])
        got = on_device(op, inputs, config)
        for sample in range(config.batch):
            wanted = defined(op, [x[sample] for x in inputs], config.block)
            np.testing.assert_array_equal(
                got[sample].view(np.uint32), wanted.view(np.uint32), f"{op}, {config.name}"
            )
            if isinstance(op, g.RealWeighted):
                check_bound(op, inputs[0][sample], got[sample])
            if isinstance(op, g.RealMatMul):
                exact, slack = product_bound(inputs[0][sample], inputs[1][sample])
                near = np.clip(exact, op.low, op.high)
                nearest = 2.0**-8 * (np.abs(near) + slack) + 2.0**-133
                assert np.all(np.abs(got[sample] - near) <= slack + nearest)
    figure(f"bfloat16: {count} operators {kind} equal to their definition")


def check_bound(op: g.RealWeighted, x: np.ndarray, got: np.ndarray) -> None:
    """Within the bound of any order of sums, and one rounding to 8 bits. NumPy's own order, in
    float32, is held to the same bound."""
    exact, slack = sum_bound(op, x)
    clamped = np.clip(exact, op.low, op.high)
    nearest = 2.0**-8 * (np.abs(clamped) + slack) + 2.0**-133  # a clamp's bound is rounded, too
    assert np.all(np.abs(got - clamped) <= slack + nearest)
    if isinstance(op, g.RealDense):
        from loadstone.graph.bfloat16 import rounded

        numpy = rounded(x) @ op.weights.T + op.bias
        assert np.all(np.abs(numpy - exact) <= slack)
        near = 2 * slack + nearest
        assert np.all(np.abs(got - np.clip(numpy, op.low, op.high)) <= near)


def test_what_such_a_device_leaves_to_the_host() -> None:
    shape = (1, 4, 4, 8)
    x, y = g.Tensor("x", shape, "float32"), g.Tensor("y", (1, 1, 4, 8), "float32")
    mean = g.RealMean(name="y", inputs=(x,), outputs=(y,), axes=(1,))
    refusal = unsupported_reason(mean, SMALL)
    assert refusal is not None
    assert refusal.why == "mean over axes (1,)"
    row = g.Tensor("row", (1, 4, 1, 8), "float32")
    ends = {"inputs": (x, row), "outputs": (replace(y, shape=shape),)}
    add = g.RealBinary(name="y", **ends, function="add", low=0.0, high=6.0)
    refusal = unsupported_reason(add, SMALL)
    assert refusal is not None
    assert refusal.why == "add of 1x4x4x8 and 1x4x1x8"
    softmax = g.Softmax(
        name="y",
        inputs=(x,),
        outputs=(x,),
        beta=1.0,
        rounding=0,  # type: ignore[arg-type]
    )
    refusal = unsupported_reason(softmax, SMALL)
    assert refusal is not None
    assert refusal.why == "vtab-1x8x8 has no lowering of softmax"
