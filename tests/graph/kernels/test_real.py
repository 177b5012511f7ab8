# SPDX-License-Identifier: Apache-2.0
"""graph/kernels/real.py as loops over single numbers, and against NumPy where the order is free."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from loadstone import graph as g
from loadstone.graph import reference
from loadstone.graph.bfloat16 import rounded
from loadstone.graph.kernels import real
from tests.real_operators import KINDS, cancelling, defined, random_inputs, random_operator

F = np.float32


def tensor(name: str, *shape: int) -> g.Tensor:
    return g.Tensor(name, shape, "float32")


@pytest.mark.parametrize("block", [2, 4, 16])
def test_a_convolution_adds_blocks_rows_columns_and_lanes(block: int) -> None:
    rng = np.random.default_rng(block)
    conv = g.RealConv2D(
        name="y",
        inputs=(tensor("x", 1, 4, 5, 6),),
        outputs=(tensor("y", 1, 2, 5, 4),),
        weights=rounded(rng.normal(size=(4, 3, 2, 3))),
        bias=rng.normal(size=4).astype(F),
        low=-2.0,
        high=2.5,
        strides=(2, 1),
        dilation=(1, 1),
        padding=(1, 0, 0, 1),
        groups=2,
    )
    x = (rng.normal(size=(1, 4, 5, 6)) * 10).astype(F)
    near, wanted = rounded(x), np.zeros(conv.output.shape, F)
    for i, j, o in np.ndindex(2, 5, 4):
        acc = F(0)
        for first in range(0, 6, block):
            for ky, kx in np.ndindex(3, 2):
                for channel in range(first, min(first + block, 6)):
                    y, column = 2 * i + ky - 1, j + kx
                    inside = 0 <= y < 4 and column < 5 and channel // 3 == o // 2
                    if inside:
                        weight = conv.weights[o, ky, kx, channel % 3]
                        acc = acc + near[0, y, column, channel] * weight
        wanted[0, i, j, o] = min(max(acc + conv.bias[o], F(-2)), F(2.5))
    np.testing.assert_array_equal(real.conv2d(conv, x, block), rounded(wanted))


def test_the_order_of_a_sum_can_be_seen() -> None:
    """Else the tests of devices would hold for any order."""
    rng = np.random.default_rng(0)
    op = replace(random_operator("dense", rng), low=-np.inf, high=np.inf)
    assert isinstance(op, g.RealDense)
    weights = rounded(rng.normal(size=(64, 500)))
    shapes = {"inputs": (tensor("x", 8, 500),), "outputs": (tensor("y", 8, 64),)}
    op = replace(op, weights=weights, bias=np.zeros(64, F), **shapes)
    assert isinstance(op, g.RealWeighted)
    x = rng.normal(size=(8, 500)).astype(F)
    op, x = cancelling(op, x)
    turned = replace(op, weights=np.ascontiguousarray(op.weights[:, ::-1]))
    different = real.dense(op, x) != real.dense(turned, np.ascontiguousarray(x[:, ::-1]))
    assert np.mean(different) > 0.5


def test_means_divide_by_the_taps_that_count() -> None:
    pool = g.RealPool2D(
        name="y",
        inputs=(tensor("x", 1, 3, 3, 1),),
        outputs=(tensor("y", 1, 3, 3, 1),),
        function="average",
        kernel=(3, 3),
        strides=(1, 1),
        padding=(1, 1, 1, 1),
    )
    ones = np.ones((1, 3, 3, 1), F)
    np.testing.assert_array_equal(real.tap_counts(pool), [[4, 6, 4], [6, 9, 6], [4, 6, 4]])
    np.testing.assert_array_equal(real.pool2d(pool, ones), ones)
    whole = replace(pool, count_include_pad=True)
    np.testing.assert_array_equal(
        real.pool2d(whole, ones).reshape(-1)[:2], rounded(np.array([4 / 9, 6 / 9], F))
    )
    largest = replace(pool, function="max")
    np.testing.assert_array_equal(real.pool2d(largest, -ones), -ones)


@pytest.mark.parametrize("kind", KINDS)
def test_the_reference_has_the_rule(kind: str) -> None:
    rng = np.random.default_rng(5)
    op = random_operator(kind, rng)
    inputs = [x[0] for x in random_inputs(op, 1, rng)]
    (got,) = reference.run_operator(op, inputs)
    if kind == "concatenate":  # bytes move
        got = rounded(got)
    block = max(tensor.shape[-1] for tensor in op.inputs)
    np.testing.assert_array_equal(got, defined(op, inputs, block))
