# SPDX-License-Identifier: Apache-2.0
"""partition/segments.py: runs of operators on random graphs, with what goes in and out of each."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from loadstone import graph as g
from loadstone.errors import LoweringError
from loadstone.numerics import Rounding
from loadstone.partition.segments import HOST, divide, verify_segments
from tests.artifact.test_deploy import conv, tensor
from tests.passes.networks import TARGETS

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
    covered = list[g.Operator]()
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


# --- wrong results: each is the right one, changed at one place ----------------------------------
TENSORS = [tensor(f"t{number}", 1, 2, 2, 4) for number in range(6)]
CHAIN = g.Graph(
    name="n",
    inputs=(TENSORS[0],),
    outputs=(TENSORS[5],),
    operators=tuple(map(conv, TENSORS, TENSORS[1:])),
)
ON = {"t1": "npu", "t2": "npu", "t3": HOST, "t4": "dsp", "t5": "dsp"}
#: npu takes t1 and t2; dsp takes t4 and t5.
AFTER, (FIRST, LAST) = divide(CHAIN, ON, PLACES[:2])
ONE, TWO, _, FOUR, FIVE = AFTER.operators


def test_right_segments_pass() -> None:
    verify_segments(ON, CHAIN, (AFTER, (FIRST, LAST)))
    for seed in range(40):
        graph, places = network(seed)
        verify_segments(places, graph, divide(graph, places, PLACES[:2]))


@pytest.mark.parametrize(
    ("fields", "found"),
    [
        ({"operators": (*AFTER.operators[:4], replace(FIVE))}, "operators are others than before"),
        ({"outputs": (*AFTER.outputs, TENSORS[1])}, "inputs or outputs are others than before"),
    ],
)
def test_another_network_is_found(fields: dict[str, Any], found: str) -> None:
    with pytest.raises(LoweringError, match=found):
        verify_segments(ON, CHAIN, (replace(AFTER, **fields), (FIRST, LAST)))


@pytest.mark.parametrize(
    ("first", "last", "found"),
    [
        ({}, {"operators": (FOUR,)}, "in no segment, or in several"),
        ({"operators": (ONE, TWO, TWO)}, {}, "in no segment, or in several"),
        ({"graph": CHAIN}, {}, "npu_0: it is a part of another network"),
        ({"operators": ()}, {"operators": (ONE, TWO, FOUR, FIVE)}, "npu_0: it has no operators"),
        ({}, {"operators": (FIVE, FOUR)}, "dsp_4: other operators run between its own"),
        ({"operators": (ONE, replace(TWO))}, {}, "npu_0: other operators run between its own"),
        ({"backend": "dsp"}, {}, "npu_0: t1 is of another back end"),
        ({"inputs": ()}, {}, "npu_0: t0 does not come in"),
        ({"inputs": TENSORS[:2]}, {}, "npu_0: t1 should not come in"),
        ({"inputs": (TENSORS[0],) * 2}, {}, "npu_0: t0 should not come in"),
        ({}, {"from_host": ()}, "dsp_4: t3 does not come from the host"),
        ({"from_host": TENSORS[:2]}, {}, "npu_0: t1 should not come from the host"),
        ({"outputs": ()}, {}, "npu_0: t2 does not come out"),
        ({}, {"outputs": ()}, "dsp_4: t5 does not come out"),
        ({"outputs": TENSORS[1:3]}, {}, "npu_0: t1 should not come out"),
    ],
)
def test_a_wrong_segment_is_found(first: dict[str, Any], last: dict[str, Any], found: str) -> None:
    segments = replace(FIRST, **first), replace(LAST, **last)
    with pytest.raises(LoweringError, match=found):
        verify_segments(ON, CHAIN, (AFTER, segments))


def test_what_the_same_back_end_makes_does_not_come_from_the_host() -> None:
    x, (a, b, c) = TENSORS[0], TENSORS[1:4]
    both = g.Add(
        name="sum", inputs=(a, b), outputs=(c,), low=-128, high=127, rounding=Rounding.DOUBLE
    )
    graph = g.Graph(name="n", inputs=(x,), outputs=(c,), operators=(conv(x, a), conv(a, b), both))
    places = {"t1": "npu", "t2": HOST, "sum": "npu"}
    after, (first, second) = divide(graph, places, PLACES[:2])
    verify_segments(places, graph, (after, (first, second)))
    wrong = replace(second, from_host=second.inputs)
    with pytest.raises(LoweringError, match="t1 should not come from the host"):
        verify_segments(places, graph, (after, (first, wrong)))


@pytest.mark.parametrize("target", TARGETS)
def test_text_in_text_out(target: str, update_golden: bool) -> None:
    pytest.importorskip("tvm", reason="TVM is not installed (the extra `compiler`)")
    from tests.partition.divided import texts_behind
    from tests.relax_text import compare_text

    compare_text(f"segments.{target}", texts_behind(target)["segments"], update_golden)
