# SPDX-License-Identifier: Apache-2.0
"""partition/partitioner.py: the eager partitioner divides and lowers; what is told of a choice."""

from __future__ import annotations

import gc
from contextlib import suppress

import pytest

pytest.importorskip("tvm", reason="TVM is not installed (the extra `compiler`)")
pytest.importorskip("onnx", reason="onnx is not installed")

from loadstone.backend.target import resolve
from loadstone.partition.eager import HOST, matches
from loadstone.partition.lowering import Clock
from loadstone.partition.partitioner import (
    Alternative,
    Choice,
    EagerPartitioner,
    Total,
    collected_rarely,
)
from tests.partition.cost.networks import module
from tests.partition.divided import places


def test_every_operator_goes_to_the_first_that_takes_it() -> None:
    partitioner = EagerPartitioner(module(), "m", resolve("vtaq-tiny"))
    clock = Clock()
    lowered = partitioner.run(clock)
    assert places(lowered.partition) == [("add", "vta"), ("mul", "vta"), ("lookup", HOST)]
    assert {"partition", "lower", "deploy"} <= set(clock.seconds)
    assert partitioner.choice is None
    assert len(lowered.deployment.artifact.programs) == 1


def test_a_split_by_chosen_matches_leaves_the_rest_to_the_host() -> None:
    made, target = module(), resolve("vtaq-tiny")
    found, _ = matches(made, target.backends)
    only = [m for m in found if (m.backend, m.operator.kind) == ("vta", "mul")]
    divided = EagerPartitioner(made, "m", target).split(only)
    assert [backend for _, backend in places(divided)].count("vta") == 1
    assert dict(places(divided))["mul"] == "vta"
    nothing = EagerPartitioner(made, "m", target).split([])
    assert {backend for _, backend in places(nothing)} == {HOST}


def test_a_choice_is_told_in_microseconds() -> None:
    lowered = EagerPartitioner(module(), "m", resolve("vtaq-tiny")).run(Clock())
    alternative = Alternative("vta", "mul", 1500, 20)
    assert alternative.to_json() == {
        "place": "vta",
        "pattern": "mul",
        "us": 1.5,
        "transfer_us": 0.02,
    }
    totals = {"host": Total(9000, 0), "eager": Total(3000, 500), "chosen": Total(1000, 250)}
    choice = Choice("cost", lowered, totals, "cortex-m4@80", True, {"y": (alternative,)})
    assert choice.to_json() == {
        "chosen": "cost",
        "host": "cortex-m4@80",
        "plans": {
            "host": {"us": 9.0, "transfers_us": 0.0},
            "eager": {"us": 3.0, "transfers_us": 0.5},
            "chosen": {"us": 1.0, "transfers_us": 0.25},
        },
        "exact": True,
    }


@pytest.mark.parametrize(
    ("before", "inside"),
    [((700, 10, 10), 1_000_000), ((2_000_000, 5, 5), 2_000_000), ((0, 10, 10), 0)],
)
def test_memory_is_looked_through_less_often_while_lowering_and_as_before_afterwards(
    before: tuple[int, int, int], inside: int
) -> None:
    own = gc.get_threshold()
    gc.set_threshold(*before)
    try:
        with suppress(ZeroDivisionError), collected_rarely():
            assert gc.get_threshold() == (inside, *before[1:])
            _ = 1 // 0
        assert gc.get_threshold() == before
    finally:
        gc.set_threshold(*own)
