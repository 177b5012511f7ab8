# SPDX-License-Identifier: Apache-2.0
"""backend/rounded_network.py: without roundings of its own it is the reference; a departure is
counted on the inputs that the operator then has."""

from __future__ import annotations

import numpy as np

from loadstone.backend.rounded_network import Departure, rounded_network
from loadstone.backend.rounding import MultiplyShift, StatedRounding
from loadstone.conformance.networks import NETWORKS
from loadstone.graph import Weighted
from loadstone.graph import reference as graph_reference
from loadstone.graph.accumulators import sums_of


def test_without_roundings_it_is_the_reference() -> None:
    for kind, make in NETWORKS.items():
        graph = make(np.random.default_rng(1))
        rng = np.random.default_rng(2)
        inputs = [rng.integers(-128, 128, t.shape).astype(t.dtype) for t in graph.inputs]
        network = rounded_network(graph, inputs, {})
        for name, value in graph_reference.run_all(graph, inputs).items():
            np.testing.assert_array_equal(network.values[name], value, err_msg=kind)
        assert network.departures == {}


def test_a_departure_is_that_of_one_layer() -> None:
    graph = NETWORKS["autoencoder"](np.random.default_rng(1))
    layers = [operator for operator in graph.operators if isinstance(operator, Weighted)]
    rules = {operator.name: MultiplyShift.of(operator, 5) for operator in layers}
    roundings = {name: StatedRounding(rule, 9) for name, rule in rules.items()}
    x = np.random.default_rng(3).integers(-128, 128, graph.inputs[0].shape).astype(np.int8)
    network = rounded_network(graph, [x], roundings)
    assert set(network.departures) == set(rules)
    for operator in layers:
        given = network.values[operator.input.name]
        own = rules[operator.name](sums_of(operator, given))
        np.testing.assert_array_equal(network.values[operator.output.name], own)
        apart = np.abs(own - graph_reference.run_operator(operator, [given])[0])
        counted = network.departures[operator.name]
        assert counted == Departure(own.size, int((apart > 0).sum()), int(apart.max()), 9)
    assert any(one.different for one in network.departures.values())


def test_its_text() -> None:
    assert str(Departure(960, 12, 1, 2)) == (
        "rounded near: 12 of 960 elements differ from the framework's, by 1 at most "
        "(stated: at most 2)"
    )
    assert "equal to the framework's integers (stated: at most 2)" in str(Departure(960, 0, 0, 2))
