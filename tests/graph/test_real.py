# SPDX-License-Identifier: Apache-2.0
"""graph/real.py: what an operator on real numbers must be, and what the compiler asks of it."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from loadstone import graph as g
from loadstone.graph.batching import batched_operator
from loadstone.graph.bfloat16 import rounded
from tests.real_operators import KINDS, random_operator

RNG = np.random.default_rng(0)


def test_weights_are_numbers_of_bfloat16() -> None:
    layer = random_operator("dense", RNG)
    assert isinstance(layer, g.RealDense)
    assert layer.macs == layer.weights.size
    with pytest.raises(AssertionError):
        replace(layer, weights=layer.weights * np.float32(1.001))
    with pytest.raises(AssertionError):
        replace(layer, bias=layer.bias[1:])
    assert np.array_equal(rounded(layer.weights), layer.weights)


def test_a_convolution_knows_its_work() -> None:
    shapes = g.Tensor("x", (1, 4, 4, 6), "float32"), g.Tensor("y", (1, 2, 2, 4), "float32")
    conv = g.RealConv2D(
        name="y",
        inputs=shapes[:1],
        outputs=shapes[1:],
        weights=np.ones((4, 3, 3, 3), np.float32),
        bias=np.zeros(4, np.float32),
        low=0.0,
        high=np.inf,
        strides=(1, 1),
        dilation=(1, 1),
        padding=(0, 0, 0, 0),
        groups=2,
    )
    assert conv.macs == 2 * 2 * 4 * 27
    with pytest.raises(AssertionError):
        replace(conv, groups=1)


@pytest.mark.parametrize("kind", KINDS)
def test_samples_of_an_operator_share_a_run(kind: str) -> None:
    op = random_operator(kind, RNG)
    rows = {tensor.shape[0] for tensor in op.inputs}
    if op.mixes_samples:
        assert kind == "binary"
        return
    batched = batched_operator(op, 4)
    assert {tensor.shape[0] for tensor in batched.inputs} == {4 * row for row in rows}


def test_a_window_may_cover_the_whole_image() -> None:
    ends = {
        "inputs": (g.Tensor("x", (1, 3, 5, 2), "float32"),),
        "outputs": (g.Tensor("y", (1, 1, 1, 2), "float32"),),
    }
    pool = g.RealPool2D(
        name="y",
        **ends,
        function="max",
        kernel=(3, 5),
        strides=(1, 1),
        padding=(0, 0, 0, 0),
    )
    assert pool.is_global
    assert not replace(pool, kernel=(2, 5)).is_global
    assert g.RealMean(name="y", **ends, axes=(0, 1)).mixes_samples
    assert not g.RealMean(name="y", **ends, axes=(1, 2)).mixes_samples
