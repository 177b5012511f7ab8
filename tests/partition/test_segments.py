# SPDX-License-Identifier: Apache-2.0
"""partition/segments.py: runs of operators on random graphs, with what goes in and out of each."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from loadstone import graph as g
from loadstone.partition.segments import HOST, divide
from tests.artifact.test_deploy import conv, tensor

PLACES = ("npu", "dsp", HOST)


def network(seed: int) -> tuple[g.Graph, dict[str, str]]:
    """A graph in which every operator reads any earlier tensor, and a random place for each."""
    rng = np.random.default_rng(seed)
    tensors = [tensor("t0", 1, 2, 2, 4)]
    operators = []
    for number in range(1, int(rng.integers(2, 14))):
        made = tensor(f"t{number}", 1, 2, 2, 4)
        operators.append(conv(tensors[rng.integers(len(tensors))], made))
        tensors.append(made)
    read = {t.name for o in operators for t in o.inputs}
    ends = tuple(t for t in tensors[1:] if t.name not in read)
    graph = g.Graph(name="n", inputs=(tensors[0],), outputs=ends, operators=tuple(operators))
    return graph, {o.name: PLACES[rng.integers(3)] for o in operators}


@pytest.mark.parametrize("seed", range(40))
def test_segments_are_runs_that_can_be_executed_in_order(seed: int) -> None:
    graph, places = network(seed)
    ordered, segments = divide(graph, places, PLACES[:2])
    replace(ordered)  # checks that every tensor is written before it is read
    assert set(ordered.operators) == set(graph.operators)
    positions = {operator: k for k, operator in enumerate(ordered.operators)}
    covered = []
    for segment in segments:
        at = [positions[operator] for operator in segment.operators]
        assert at == list(range(at[0], at[0] + len(at)))
        assert {places[operator.name] for operator in segment.operators} == {segment.backend}
        covered += segment.operators
    assert set(covered) == {o for o in graph.operators if places[o.name] != HOST}


@pytest.mark.parametrize("seed", range(40))
def test_a_segment_knows_what_comes_in_and_goes_out(seed: int) -> None:
    graph, places = network(seed)
    ordered, segments = divide(graph, places, PLACES[:2])
    for segment in segments:
        inside = set(segment.operators)
        made = {t.name for o in inside for t in o.outputs}
        assert {t.name for t in segment.inputs} == {t.name for o in inside for t in o.inputs} - made
        read = {t.name for o in ordered.operators if o not in inside for t in o.inputs}
        wanted = (read | {t.name for t in ordered.outputs}) & made
        assert {t.name for t in segment.outputs} == wanted
        makers = {t.name: ordered.producer(t) for t in segment.inputs}
        for t in segment.inputs:
            maker = makers[t.name]
            from_host = maker is None or places[maker.name] != segment.backend
            assert (t in segment.from_host) == from_host


def test_one_chain_on_one_back_end_is_one_segment() -> None:
    graph, places = network(3)
    _, segments = divide(graph, dict.fromkeys(places, "npu"), PLACES[:2])
    assert len(segments) == 1
    _, none = divide(graph, dict.fromkeys(places, HOST), PLACES[:2])
    assert none == ()
