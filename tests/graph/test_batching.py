# SPDX-License-Identifier: Apache-2.0
"""batching.py: a network for one sample becomes one for several, or is refused by name."""

from __future__ import annotations

import numpy as np
import pytest

from loadstone import graph as g
from loadstone.errors import UnsupportedError
from loadstone.graph.batching import batched
from loadstone.graph.reference import run
from loadstone.numerics import Rounding

Q = g.Quantization(0.5, 3)


def relu(shape: tuple[int, ...]) -> g.Graph:
    x, y = g.Tensor("x", shape, "int8", Q), g.Tensor("y", shape, "int8", Q)
    clamp = g.Requantize(
        name="y", inputs=(x,), outputs=(y,), low=3, high=127, rounding=Rounding.DOUBLE
    )
    return g.Graph(name="relu", inputs=(x,), outputs=(y,), operators=(clamp,))


def test_samples_are_computed_side_by_side() -> None:
    graph = relu((1, 4, 4, 3))
    wide, renewed = batched(graph, 4)
    assert wide.inputs[0].shape == wide.outputs[0].shape == (4, 4, 4, 3)
    assert renewed[graph.operators[0]] is wide.operators[0]
    x = np.random.default_rng(0).integers(-128, 128, (4, 4, 4, 3)).astype(np.int8)
    (together,) = run(wide, [x])
    apart = np.concatenate([run(graph, [x[k : k + 1]])[0] for k in range(4)])
    np.testing.assert_array_equal(together, apart)


def test_one_sample_changes_nothing() -> None:
    graph = relu((1, 2))
    assert batched(graph, 1)[0] is graph


def test_a_sample_of_several_rows_keeps_them_together() -> None:
    wide, _ = batched(relu((2, 5)), 4)
    assert wide.inputs[0].shape == (8, 5)


def test_a_tensor_without_axes_is_named() -> None:
    with pytest.raises(UnsupportedError, match=r"tensor x is a single number.*batch is 1, not 4"):
        batched(relu(()), 4)


def test_an_operator_that_mixes_samples_is_named() -> None:
    x, y = g.Tensor("x", (1, 4), "int8", Q), g.Tensor("y", (4, 1), "int8", Q)
    turn = g.Transpose(name="turn", inputs=(x,), outputs=(y,), permutation=(1, 0))
    with pytest.raises(UnsupportedError, match="transpose turn mixes samples"):
        batched(g.Graph(name="t", inputs=(x,), outputs=(y,), operators=(turn,)), 4)
