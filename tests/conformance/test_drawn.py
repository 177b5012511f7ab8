# SPDX-License-Identifier: Apache-2.0
"""conformance/drawn.py: drawn cases are cases, and consecutive operators of one are a network."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import HealthCheck, Phase, find, given, settings
from hypothesis import strategies as st

from loadstone import graph as g
from loadstone.conformance.check import CASES, samples_of
from loadstone.conformance.drawn import DrawnRng, consecutive, networks
from loadstone.conformance.networks import NETWORKS
from loadstone.graph.reference import run

SLOW = (HealthCheck.too_slow, HealthCheck.data_too_large)


@pytest.mark.parametrize("kind", sorted(CASES))
def test_the_least_network_of_each_kind_computes(kind: str) -> None:
    first = settings(database=None, max_examples=1, phases=[Phase.generate])  # the simplest
    graph, number = find(networks(CASES, kind), lambda _: True, settings=first)
    assert number == 0
    assert len(graph.operators) == 1
    outputs = run(graph, [samples[0] for samples in samples_of(graph)])
    assert [array.shape for array in outputs] == [tensor.shape for tensor in graph.outputs]


@settings(max_examples=30, deadline=None, suppress_health_check=SLOW)
@given(st.data())
def test_numbers_and_arrays_are_those_of_numpys_generator(data: st.DataObject) -> None:
    """Within the limits, of the shape and type; ends may be an array, as NumPy's."""
    drawn: Any = DrawnRng(data.draw)
    real = np.random.default_rng(0)
    for arguments in ((7,), (-3, 9), (3, 13, 2), (-127, 128, (4, 3, 3, 2)), (-2000, 2000, 24)):
        got, like = drawn.integers(*arguments), real.integers(*arguments)
        assert np.shape(got) == np.shape(like)
        assert np.asarray(got).dtype == np.int64
        low, high = arguments[:2] if len(arguments) > 1 else (0, arguments[0])
        assert np.all((np.asarray(got) >= low) & (np.asarray(got) < high))
    ends = np.array([2, 3, 4, 5])
    assert np.all(drawn.integers(0, ends) < ends)
    for arguments in ((-8, -2), (0.002, 0.02, 5), (0.002, 0.02, 1)):
        got = drawn.uniform(*arguments)
        assert np.shape(got) == arguments[2:]
        assert np.all((np.asarray(got) >= arguments[0]) & (np.asarray(got) <= arguments[1]))
    assert drawn.normal(1, 0.3, 8).shape == (8,)


@pytest.mark.parametrize("kind", sorted(NETWORKS))
def test_consecutive_operators_compute_what_they_compute_in_the_whole(kind: str) -> None:
    graph = NETWORKS[kind](np.random.default_rng(3))
    values: dict[str, Any] = {
        t.name: s[0] for t, s in zip(graph.inputs, samples_of(graph), strict=True)
    }
    for operator in graph.operators:
        one = consecutive(graph, graph.operators.index(operator), 1)
        (values[operator.output.name],) = run(one, [values[t.name] for t in one.inputs])
    for first in range(len(graph.operators)):
        for count in range(1, len(graph.operators) - first + 1):
            part = consecutive(graph, first, count)
            assert len(part.operators) == count
            got = run(part, [values[tensor.name] for tensor in part.inputs])
            for array, tensor in zip(got, part.outputs, strict=True):
                assert np.array_equal(array, values[tensor.name])
    assert isinstance(consecutive(graph, 0, len(graph.operators)), g.Graph)
