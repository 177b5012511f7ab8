# SPDX-License-Identifier: Apache-2.0
"""bounds.py: what a block takes at most, from cycles of its programs that are made up."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

import pytest

from loadstone.analysis import bounds
from loadstone.analysis.bounds import Bound, SharedNetwork, blocks_of, bound, bounds_beside
from loadstone.artifact.format import Artifact, HostStep, ProgramStep
from loadstone.backend.device import ProgramDevice
from loadstone.errors import ConfigError
from tests.commands.test_exported_several import with_weights_of_another
from tests.further import branches
from tests.runtime.test_schedule import CONFIG, MODEL, in_parts
from tests.sample_model import entries_model

#: Of each program, in order: its device, and whether it may start beside those before it.
Marks = Sequence[tuple[int, bool]]


class Stated:
    """A simulator of one device whose programs take so long, by their steps."""

    def __init__(self, cycles: Mapping[int, int]) -> None:
        self.cycles = cycles

    def longest(self, _artifact: Artifact) -> Mapping[int, int]:
        return self.cycles


def marked(marks: Marks) -> Artifact:
    """The sample model: a step of the host, programs, a step of the host."""
    made, each = in_parts(len(marks)), iter(marks)

    def with_mark(step: ProgramStep | HostStep) -> ProgramStep | HostStep:
        if isinstance(step, HostStep):
            return step
        device, beside = next(each)
        return replace(step, device=device, beside=beside)

    steps = map(with_mark, made.steps)
    others = (ProgramDevice.of(replace(CONFIG, name=name)) for name in ("second", "third"))
    return replace(made, steps=tuple(steps), devices=(made.devices[0], *others))


def blocks(
    monkeypatch: pytest.MonkeyPatch, marks: Marks, cycles: Sequence[int], overhead: int = 0
) -> tuple[int, ...]:
    """Those of programs alone; cycles: of each program, two simulators know each a part."""
    artifact = marked(marks)
    stated = dict(zip((n for n, _ in artifact.numbered_programs), cycles, strict=True))
    own = {n: stated[n] for n, step in artifact.numbered_programs if step.device == 0}
    others = {n: c for n, c in stated.items() if n not in own}
    monkeypatch.setattr(bounds, "simulators", lambda *_: [Stated(own), Stated(others)])
    first, *found, last = blocks_of(artifact, CONFIG, None, overhead)
    assert first == last == overhead
    return tuple(found)


@pytest.mark.parametrize(
    ("marks", "cycles", "overhead", "wanted"),
    [
        ([(0, False), (0, False)], [30, 40], 7, (37, 47)),
        ([(0, False), (1, True)], [30, 40], 7, (47,)),
        ([(0, False), (1, True)], [40, 30], 7, (47,)),
        ([(0, False), (1, False)], [30, 40], 7, (37, 47)),
        ([(0, False), (1, True), (2, True)], [30, 40, 35], 7, (47,)),
        # the first device is at work: both are waited for, and the host is between
        ([(0, False), (1, True), (0, True)], [30, 40, 5], 7, (40 + 5 + 14,)),
        ([(0, False), (1, True), (1, True), (0, True)], [30, 40, 5, 50], 0, (40 + 50,)),
        ([(0, False), (1, True), (0, True), (0, True)], [30, 40, 5, 6], 1, (40 + 5 + 6 + 3,)),
        ([(1, False), (0, True), (0, False), (1, True)], [9, 8, 7, 6], 0, (9, 7)),
    ],
)
def test_a_block_takes_what_is_waited_for(
    monkeypatch: pytest.MonkeyPatch,
    marks: Marks,
    cycles: Sequence[int],
    overhead: int,
    wanted: tuple[int, ...],
) -> None:
    assert blocks(monkeypatch, marks, cycles, overhead) == wanted


def test_steps_of_the_host_take_their_time_rounded_up(monkeypatch: pytest.MonkeyPatch) -> None:
    artifact = marked([(0, False)])
    monkeypatch.setattr(bounds, "simulators", lambda *_: [Stated({1: 500})])
    assert [isinstance(step, HostStep) for step in artifact.steps] == [True, False, True]
    spent = {artifact.steps[0].name: 1000, artifact.steps[2].name: 1001}
    found = blocks_of(artifact, CONFIG, lambda step, _: spent[step.name], 3)
    assert CONFIG.clock_mhz == 200
    assert found == (3 + 200, 3 + 500, 3 + 201)
    with pytest.raises(ConfigError, match="'" + artifact.steps[2].name + "' is one whose time"):
        blocks_of(
            artifact, CONFIG, lambda step, _: {**spent, artifact.steps[2].name: None}[step.name], 3
        )


def test_the_step_is_named_with_which_the_longest_block_begins() -> None:
    """Of equal ones the first."""
    artifact = marked([(0, False), (1, True), (0, False)])
    names = [step.name for step in artifact.steps]
    for cycles, longest in (
        ((9, 7, 8, 1), 0),
        ((7, 9, 8, 1), 1),
        ((7, 8, 9, 1), 3),
        ((1, 9, 9, 2), 1),
    ):
        step = SharedNetwork(artifact, cycles, 100, 100).longest_step
        assert step is not None
        assert step.name == names[longest]
    assert SharedNetwork(artifact, (), 100, 100).longest_step is None


def test_a_model_whose_first_step_is_beside_none_has_a_block_of_it() -> None:
    artifact = marked([(0, True)])
    alone = replace(artifact, steps=artifact.steps[1:2])
    step = SharedNetwork(alone, (5,), 9, 9).longest_step
    assert step is alone.steps[0]


def test_devices_of_two_clocks_have_no_bound() -> None:
    _, artifact = branches(CONFIG, replace(CONFIG, name="beside", clock_mhz=100))
    with pytest.raises(ConfigError, match="beside has 100 MHz, vtaq-1x16x16 200 MHz"):
        blocks_of(artifact, CONFIG, None, 0)


def test_a_program_that_reads_what_another_has_left_has_no_bound() -> None:
    artifact = with_weights_of_another(MODEL)
    with pytest.raises(ConfigError, match="step 1, instruction 4: it is not certain"):
        blocks_of(artifact, CONFIG, None, 0)


def test_of_a_model_with_entries_the_first_is_bounded() -> None:
    model = entries_model()
    assert [entry.steps for entry in model.entries] == [1, 1, 2]
    assert blocks_of(model, CONFIG, None, 7) == (7,)
    assert SharedNetwork(model, (7,), 9, 9).longest_step is model.steps[0]
    assert model.steps[0] != model.steps[1]


def test_the_longest_of_the_host_and_of_programs_are_apart() -> None:
    """A step of the host, two programs, of which the second runs beside the first, another, and a
    step of the host: four blocks."""
    artifact = marked([(0, False), (1, True), (0, False)])
    network = SharedNetwork(artifact, (30, 7, 20, 50), 100, 100)
    assert (network.longest_of(host=True), network.longest_of(host=False)) == (50, 20)
    assert network.longest_step is artifact.steps[4]
    alone = SharedNetwork(entries_model(), (8,), 100, 100)
    found = (alone.longest_of(host=True), alone.longest_of(host=False))
    assert sorted(found) == [0, 8]


def test_all_responses_must_be_within_deadlines() -> None:
    networks = [SharedNetwork(MODEL, (10,), 100, 15), SharedNetwork(MODEL, (20,), 100, 30)]
    found = bound(networks, ["so it is"])
    assert found.responses == [29, 30]
    assert found.utilization == pytest.approx(0.3)
    assert found.assumed == ["so it is"]
    assert not found.schedulable
    late = [replace(networks[0], deadline=29), networks[1]]
    assert bound(late).schedulable
    assert not bound([late[0], replace(networks[1], deadline=29)]).schedulable
    with pytest.raises(ValueError, match="longer"):
        Bound(late, [29], 0.3).schedulable  # noqa: B018
    assert not Bound(late, [29, None], 0.3).schedulable
    assert not Bound(late, [None, 30], 0.3).schedulable


def test_the_block_that_is_allowed_is_that_of_lower_priorities() -> None:
    """Of three networks the second waits for those of higher priority besides."""
    three = [SharedNetwork(MODEL, (n,), 100, n + 20) for n in (10, 20, 30)]
    found = bound(three)
    assert found.responses == [39, 59, 60]
    assert found.in_time == [False, False, False]
    assert [found.allowed_block(place) for place in range(3)] == [21, 11, None]
    assert bound(three[:1]).allowed_block(0) is None
    longer = [three[0], replace(three[1], deadline=59), three[2]]
    assert [bound(longer).allowed_block(place) for place in range(2)] == [21, None]


def test_one_beside_another_that_runs_again_and_again(monkeypatch: pytest.MonkeyPatch) -> None:
    """The first waits for a program of the other at most; this one for all runs of the first."""
    own, other = marked([(0, False)]), marked([(0, False), (0, False)])
    cycles = iter([{1: 30}, {1: 40, 2: 50}])
    monkeypatch.setattr(bounds, "simulators", lambda *_: [Stated(next(cycles))])
    assert bounds_beside(own, other, CONFIG, 100) == (49 + 30, 90 + 2 * 30)
