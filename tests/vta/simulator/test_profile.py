# SPDX-License-Identifier: Apache-2.0
"""vta/simulator/profile.py: each device program once, its layers in time."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from loadstone.artifact.format import Artifact
from loadstone.backend.device import TimingConstant
from loadstone.vta.device.hw_config import load_config
from loadstone.vta.device.timing_tables import EXTRA, FETCH_SPLITS
from loadstone.vta.simulator import profile as module
from loadstone.vta.simulator.profile import cycles, longest_cycles, profile
from tests.sample_model import copy_model, dense_model

VTAQ, PYNQ = load_config("vtaq-1x16x16"), load_config("vta-pynq")


@pytest.mark.parametrize("config", [VTAQ, PYNQ], ids=lambda c: c.name)
def test_layers_lie_within_the_run(config: object) -> None:
    """Also on a device without regions, whose programs are placed by rewriting their addresses."""
    (found,) = profile(dense_model(config).artifact, config)  # type: ignore[arg-type]
    assert found.result.status == "NONE"
    assert len(found.events) == len(found.layer_of) == len(found.program)
    for layer in found.layers():
        assert 0 <= layer.first_cycle < layer.last_cycle <= found.result.cycles
        assert sum(layer.busy_cycles.values()) > 0
    starts = [layer.first_cycle for layer in found.layers()]
    assert starts == sorted(starts)


def test_cycles_are_those_of_the_profile() -> None:
    model = copy_model()
    (found,) = profile(model, VTAQ)
    assert cycles(model, VTAQ) == [found.result.cycles]
    assert [layer.name for layer in found.layers()] == ["copy"]


def test_the_longest_is_that_of_the_worst_place() -> None:
    """Of a program of which each LOAD and STORE can have its own: no run takes longer, and where
    memory begins as bursts do, a run takes it."""
    timing = {**VTAQ.timing, FETCH_SPLITS: TimingConstant(0, "this test")}
    made, config = dense_model(VTAQ).artifact, replace(VTAQ, timing=timing)
    slow = replace(VTAQ, timing={**timing, EXTRA: timing["worst_burst_extra_cycles"]})
    fixed, anywhere = _aligned(made, timing["burst_boundary_bytes"].value), _aligned(made, 64)
    assert longest_cycles(fixed, config) == cycles(fixed, slow)
    assert longest_cycles(anywhere, config) > longest_cycles(fixed, config)


@pytest.mark.parametrize(("worst", "outstanding"), [(1, 1), (5, 1), (5, 2), (5, 4), (20, 4)])
def test_memory_that_is_faster_makes_no_program_take_longer_than_the_longest(
    worst: int, outstanding: int
) -> None:
    """Where a latency is long beside the delay of a burst, a burst that finds others waiting does
    not wait for it, and one that comes when faster memory has served them does."""
    changed = {
        "burst_max_beats": 1,
        "read_latency_cycles": 200,
        "read_bursts_outstanding": outstanding,
        "worst_burst_extra_cycles": worst,
    }
    timing = {**VTAQ.timing, **{k: TimingConstant(n, "this test") for k, n in changed.items()}}
    made, config = dense_model(VTAQ).artifact, replace(VTAQ, timing=timing)
    each = [
        cycles(made, replace(VTAQ, timing={**timing, EXTRA: TimingConstant(extra, "this test")}))
        for extra in range(worst + 1)
    ]
    assert max(each) > each[-1]
    assert longest_cycles(made, config) >= max(each)


def _aligned(made: Artifact, align_bytes: int) -> Artifact:
    regions = [replace(r, align_bytes=align_bytes) if r.on_device else r for r in made.regions]
    return replace(made, regions=tuple(regions))


def test_where_fetches_end_as_bursts_do_every_place_of_the_code_is_tried(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    tried = list[int]()

    def place(*words: Any) -> Any:
        if words[0].place_bytes:  # else it is the runs at other speeds of memory
            tried.append(words[3])
        return placed(*words)

    placed = module._place
    monkeypatch.setattr(module, "_place", place)
    for splits, offsets in ((1, [*range(0, 2048, 64)]), (0, [0])):
        timing = {**VTAQ.timing, FETCH_SPLITS: TimingConstant(splits, "this test")}
        longest_cycles(dense_model(VTAQ).artifact, replace(VTAQ, timing=timing))
        assert tried == offsets
        tried.clear()
