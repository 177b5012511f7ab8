# SPDX-License-Identifier: Apache-2.0
"""schedule.py and runtime/schedule.c: who goes on when, and that nobody notices the others."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import numpy as np
import pytest

from loadstone.artifact.format import Artifact
from loadstone.errors import ArtifactError, DeviceError, LoadstoneError
from loadstone.library.native import lib
from loadstone.numerics import Array
from loadstone.runtime import device
from loadstone.runtime.device import OpenedDevice, Session
from loadstone.runtime.schedule import Schedule, Task
from loadstone.simulator.programs import elapsed_cycles, program_cycles, program_runs
from loadstone.vta.device.hw_config import load_config
from tests.further import branches, chain
from tests.repeat import times
from tests.sample_model import dense_model

CONFIG = load_config("vtaq-1x16x16")
MODEL = dense_model(CONFIG).artifact
CYCLES = sum(program_cycles(MODEL, CONFIG))


def in_parts(parts: int) -> Artifact:
    """The program of the sample model again and again: blocks of equal length."""
    program = MODEL.programs[0]
    at = MODEL.steps.index(program)
    again = tuple(dataclasses.replace(program, name=f"part {n}") for n in range(parts))
    return dataclasses.replace(MODEL, steps=(*MODEL.steps[:at], *again, *MODEL.steps[at + 1 :]))


@contextmanager
def opened() -> Iterator[OpenedDevice]:
    with device.open("vtaq-1x16x16") as made:
        yield made


class Fed:
    """A session with inputs of its own for every run, and what they gave."""

    def __init__(self, session: Session, seed: int) -> None:
        self.session, self.rng = session, np.random.default_rng(seed)
        self.given: list[Array] = []
        self.got: list[Array] = []

    def begin(self, session: Session) -> None:
        x = self.rng.integers(-128, 128, session.inputs[0].shape).astype(np.int8)
        session.inputs[0][...] = x
        self.given.append(x)

    def done(self, session: Session) -> None:
        self.got.append(session.outputs[0].copy())

    def alone(self, opened: OpenedDevice) -> list[Array]:
        """The same runs with nobody else on the device."""
        session = opened.load(self.session.artifact)
        found = []
        for x in self.given:
            session.inputs[0][...] = x
            session.execute()
            found.append(session.outputs[0].copy())
        return found


def fed(
    schedule: Schedule, dev: OpenedDevice, artifact: Artifact, **options: int
) -> tuple[Task, Fed]:
    feeder = Fed(dev.load(artifact), options.get("priority", 0))
    task = schedule.add(feeder.session, begin=feeder.begin, done=feeder.done, **options)
    return task, feeder


def test_the_higher_priority_waits_for_one_block() -> None:
    with opened() as dev:
        schedule = Schedule()
        low, _ = fed(schedule, dev, in_parts(10), priority=1)
        high, _ = fed(schedule, dev, MODEL, priority=2)
        schedule.run([(0, low), (1, high)], until=1)
        (first,), (last,) = high.responses, low.responses
        assert first.time == 2 * CYCLES - 1  # one block of the other, and its own
        assert last.time == 11 * CYCLES
        assert schedule.cycles == 11 * CYCLES
        assert schedule.switches == 3


@pytest.mark.parametrize("bus_of", ["", CONFIG.name])
def test_cycles_of_programs_side_by_side_count_once(bus_of: str) -> None:
    """A block has both devices, for as long as the longer of its programs takes."""
    beside = dataclasses.replace(CONFIG, name="beside", bus_of=bus_of)
    for _, artifact in (branches(CONFIG, beside), chain(CONFIG, beside)):
        schedule = Schedule()
        with opened() as dev:
            task = schedule.add(dev.load(artifact))
            schedule.run([(0, task), (5, task)], until=6)
        each = elapsed_cycles(artifact, program_runs(artifact, CONFIG))
        assert [response.time for response in task.responses] == [each, 2 * each - 5]
        assert schedule.cycles == 2 * each


def test_of_equal_priorities_the_first_goes_first() -> None:
    with opened() as dev:
        schedule = Schedule()
        tasks = [fed(schedule, dev, MODEL)[0] for _ in range(3)]
        schedule.run([(0, task) for task in tasks], until=1)
        assert [task.responses[0].time for task in tasks] == [CYCLES, 2 * CYCLES, 3 * CYCLES]


def test_periods_deadlines_and_releases_that_come_too_early() -> None:
    with opened() as dev:
        schedule = Schedule()
        task, _ = fed(schedule, dev, in_parts(3), period=2 * CYCLES, offset=5, deadline=CYCLES)
        schedule.run(until=12 * CYCLES)
        assert [r.released for r in task.responses] == [5 + 4 * n * CYCLES for n in range(3)]
        assert {r.time for r in task.responses} == {3 * CYCLES}
        assert task.worst_response == 3 * CYCLES
        assert task.missed == 3 + 3  # deadlines, and releases while it ran


@pytest.mark.parametrize(
    ("period", "offset", "now", "missed", "following"),
    [
        (1, 0, 2**64 - 1, 2**64 - 1, None),  # no release comes that 64 bits can say
        (1, 0, 2**63, 2**63, 2**63 + 1),
        (10, 5, 5, 0, 15),
        (10, 5, 14, 0, 15),
        (10, 5, 15, 1, 25),
        (2**63, 2**63, 2**63, 0, None),
    ],
)
def test_releases_of_the_past_are_counted_at_once(
    period: int, offset: int, now: int, missed: int, following: int | None
) -> None:
    """Also those of a clock that has run for long, or of a period of one unit: nothing hangs."""
    with opened() as dev:
        schedule = Schedule()
        task, _ = fed(schedule, dev, MODEL, period=period, offset=offset)
        assert schedule.step(now)
        assert (task.missed, schedule.next) == (missed, following)
        while not task.responses:
            schedule.step(now)
        assert task.responses[0].released == offset


def test_outputs_are_those_of_each_alone() -> None:
    rng = np.random.default_rng(1)
    with opened() as dev:
        schedule = Schedule()
        made = [fed(schedule, dev, in_parts(n + 1), priority=n) for n in range(3)]
        releases = [(int(rng.integers(200 * CYCLES)), made[n % 3][0]) for n in range(100)]
        schedule.run(releases, until=200 * CYCLES)
        for _, feeder in made:
            assert len(feeder.got) > 10
            for got, wanted in zip(feeder.got, feeder.alone(dev), strict=True):
                np.testing.assert_array_equal(got, wanted)


def test_one_that_is_cancelled_ends_with_its_block_and_the_others_go_on() -> None:
    with opened() as dev:
        schedule = Schedule()
        low, _ = fed(schedule, dev, in_parts(10), priority=1)
        other, feeder = fed(schedule, dev, MODEL)
        assert low.release(0)
        assert other.release(0)
        assert not low.release(0)
        schedule.step(0)
        schedule.step(0)
        low.cancel()
        schedule.run(until=100 * CYCLES)
        (cut,), (whole,) = low.responses, other.responses
        assert "cancelled" in str(cut.error)
        assert whole.error is None
        assert len(feeder.got) == 1
        low.cancel()  # nothing runs: it does not spoil the next run
        schedule.run([(schedule.now, low)], until=200 * CYCLES)
        assert low.responses[1].error is None


@pytest.mark.parametrize(
    ("fault", "turns", "text"),
    [("BUS_ERROR", times(50, 1000), "bus"), ("HANG", times(3, 20), "hung"), ("DEAD", 1, "")],
)
def test_one_that_fails_keeps_its_error_and_the_others_are_exact(
    fault: str, turns: int, text: str
) -> None:
    with opened() as dev:
        schedule = Schedule()
        feeders = [
            Fed(dev.load(artifact, hang_seconds=0.02), n)
            for n, artifact in enumerate((in_parts(4), MODEL))
        ]
        bad, good = (
            schedule.add(f.session, priority=2 - n, begin=f.begin, done=f.done)
            for n, f in enumerate(feeders)
        )
        core = lib().lds_hal_sim_device(dev.sim)
        for turn in range(turns):
            code = getattr(lib(), f"LDS_FAULT_{fault}")
            assert lib().lds_simdev_fault(core, code, turn % 4, 1) == 0
            now = schedule.now
            schedule.run([(now, bad), (now, good)], until=now + 1)
        if fault == "DEAD":  # nobody can stop it: the board's reset is what the runtime tries
            assert bad.responses[0].error is not None
            return
        assert all(r.error is not None and text in str(r.error) for r in bad.responses)
        assert len(bad.responses) == len(good.responses) == turns
        feeder = feeders[1]
        assert all(r.error is None for r in good.responses)
        for got, wanted in zip(feeder.got, feeder.alone(dev), strict=True):
            np.testing.assert_array_equal(got, wanted)


def test_what_begin_raises_ends_this_run_alone() -> None:
    def refuses(_session: Session) -> None:
        raise ValueError("no input yet")

    with opened() as dev:
        schedule = Schedule()
        task = schedule.add(dev.load(MODEL), begin=refuses)
        task.release(0)
        with pytest.raises(ValueError, match="no input yet"):
            schedule.run(until=1)
        schedule.run(until=2)
        assert isinstance(task.responses[0].error, LoadstoneError)


def test_a_program_that_reads_what_another_left_is_not_taken(tmp_path: Path) -> None:
    program = MODEL.programs[0]
    no_weights = bytearray(program.instructions)
    no_weights[16:32] = bytes([no_weights[16] & 0x7F | 1 << 7]) + bytes(15)  # a LOAD of nothing
    steps = [
        dataclasses.replace(s, instructions=bytes(no_weights)) if s is program else s
        for s in MODEL.steps
    ]
    changed = dataclasses.replace(MODEL, steps=tuple(steps))
    with opened() as dev:
        schedule = Schedule()
        session = dev.load(changed)
        with pytest.raises(ArtifactError, match=r"instruction 4.*another program has left"):
            schedule.add(session)
        schedule.add(session, trust=True)


@pytest.mark.parametrize("options", [{"priority": -1}, {"priority": 1 << 32}, {"period": 1 << 64}])
def test_numbers_that_do_not_fit_are_refused(options: dict[str, int]) -> None:
    with opened() as dev, pytest.raises(DeviceError, match="none is below 0"):
        Schedule().add(dev.load(MODEL), **options)  # type: ignore[arg-type]
