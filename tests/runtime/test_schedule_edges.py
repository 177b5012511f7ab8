# SPDX-License-Identifier: Apache-2.0
"""runtime/schedule.c where a caller goes wrong or to an end: networks without steps, cancellations
at each moment, functions that change the schedule, clocks, periods that overload the device."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from functools import partial

import numpy as np
import pytest

from loadstone.artifact.content import ModelEntry
from loadstone.library.native import CData, ffi, lib
from loadstone.runtime.schedule import Schedule, Task
from loadstone.runtime.session import Session
from tests.runtime.test_schedule import CYCLES, MODEL, fed, in_parts, opened

#: y = x, without a step.
NOTHING = dataclasses.replace(MODEL, name="nothing", steps=(), outputs=MODEL.inputs)
PROGRAMS_ALONE = dataclasses.replace(in_parts(3), steps=in_parts(3).programs)


def _inner(schedule: Schedule) -> CData:
    return schedule._schedule


def _run(schedule: Schedule, now: int = 0) -> None:
    while schedule.step(now):
        pass


# --- steps ----------------------------------------------------------------------------------------
def test_a_network_without_steps_ends_at_once() -> None:
    with opened() as dev:
        schedule = Schedule()
        task, feeder = fed(schedule, dev, NOTHING)
        schedule.run([(3, task)], until=4)
        (response,) = task.responses
        assert (response.released, response.time, response.error) == (3, 0, None)
        assert np.array_equal(feeder.got[0], feeder.given[0])


def test_an_entry_without_steps_runs_none_of_the_next_one() -> None:
    (x, y), count = (MODEL.inputs[0], MODEL.outputs[0]), len(MODEL.steps)
    entries = tuple(
        ModelEntry(name, steps, 1, 1) for name, steps in (("a", count), ("none", 0), ("b", count))
    )
    three = dataclasses.replace(
        MODEL, steps=MODEL.steps * 2, inputs=(x, x, x), outputs=(y, x, y), entries=entries
    )
    with opened() as dev:
        schedule = Schedule()
        task = schedule.add(dev.load(three), entry="none")
        schedule.run([(0, task)], until=1)
        assert [response.error for response in task.responses] == [None]
        assert schedule.cycles == 0


# --- cancellations --------------------------------------------------------------------------------
def test_a_run_that_waits_for_the_one_before_is_cancelled_alone() -> None:
    with opened() as dev:
        schedule = Schedule()
        task, _ = fed(schedule, dev, in_parts(4))
        assert task.release(0)
        schedule.step(0)
        assert task.release(0)  # while the first runs
        task.cancel()
        _run(schedule)
        assert [response.error is None for response in task.responses] == [True, False]
        assert "cancelled" in str(task.responses[1].error)
        assert task.release(0)
        _run(schedule)
        assert task.responses[2].error is None


def test_a_called_run_of_a_periodic_task_is_cancelled() -> None:
    with opened() as dev:
        schedule = Schedule()
        task, _ = fed(schedule, dev, in_parts(4), period=1 << 40, offset=1 << 40)
        for _ in range(3):
            task.release(0)
            _run(schedule)
        task.release(0)
        schedule.step(0)
        task.cancel()
        _run(schedule)
        assert [response.error is None for response in task.responses] == [True] * 3 + [False]


def test_the_last_run_of_a_period_is_cancelled() -> None:
    """Behind it no release comes that 64 bits can say."""
    with opened() as dev:
        schedule = Schedule()
        task, _ = fed(schedule, dev, in_parts(4), period=1 << 63, offset=1 << 63)
        now = 1 << 63
        schedule.step(now)
        assert schedule.next is None
        task.cancel()
        _run(schedule, now)
        assert ["cancelled" in str(response.error) for response in task.responses] == [True]


def test_a_clock_that_is_behind_a_release_gives_no_response_of_ages() -> None:
    """Another thread released it after the loop had read its clock."""
    with opened() as dev:
        schedule = Schedule()
        task, _ = fed(schedule, dev, MODEL, deadline=10)
        task.release(100)
        task.cancel()
        _run(schedule, 99)
        assert [response.time for response in task.responses] == [0]
        assert (task.worst_response, task.missed) == (0, 0)


# --- what functions of a task do ------------------------------------------------------------------
def _remove(schedule: Schedule, which: Callable[[], Task], _session: Session) -> None:
    assert lib().lds_schedule_remove(_inner(schedule), which().c_task) == 0


def test_a_task_that_is_removed_before_its_run_does_not_start() -> None:
    with opened() as dev:
        schedule = Schedule()
        tasks: list[Task] = []
        leave = partial(_remove, schedule, lambda: tasks[0])
        tasks.append(schedule.add(dev.load(MODEL), priority=1, begin=leave))
        other, feeder = fed(schedule, dev, MODEL)
        tasks[0].release(0)
        other.release(0)
        _run(schedule)
        assert tasks[0].responses == []
        assert [response.error for response in other.responses] == [None]
        assert len(feeder.got) == 1


def test_what_done_removes_is_not_looked_at() -> None:
    """Two were cancelled: the end of the first removes the second, whose memory may be gone."""
    with opened() as dev:
        schedule = Schedule()
        task = ffi.new("lds_task[2]")
        ended: list[int] = []

        @ffi.callback("void(void *, struct lds_task *, int)")
        def done(_ctx: CData, _task: CData, status: int) -> None:
            ended.append(status)
            assert lib().lds_schedule_remove(_inner(schedule), task + 1) == 0
            ffi.memmove(task + 1, b"\xff" * ffi.sizeof("lds_task"), ffi.sizeof("lds_task"))

        config = ffi.new("lds_task_config *")
        lib().lds_task_config_default(config)
        config.done = done
        for n in range(2):
            session = dev.load(MODEL).c_session()
            assert lib().lds_schedule_add(_inner(schedule), task + n, session, config) == 0
            assert lib().lds_task_release(task + n, 0) == 0
            lib().lds_task_cancel(task + n)
        last, _ = fed(schedule, dev, MODEL)
        last.release(0)
        _run(schedule)
        assert ended == [lib().LDS_ERR_CANCELLED]
        assert [response.error for response in last.responses] == [None]


def test_a_step_inside_a_step_is_refused() -> None:
    with opened() as dev:
        schedule = Schedule()
        inside: list[int] = []

        def again(_session: Session) -> None:
            inside.append(lib().lds_schedule_step(_inner(schedule), 0, 0))

        task = schedule.add(dev.load(MODEL), priority=1, begin=again, done=again)
        other, _ = fed(schedule, dev, MODEL)
        task.release(0)
        other.release(0)
        _run(schedule)
        assert inside == [lib().LDS_ERR_STATE] * 2
        assert all(one.responses[0].error is None for one in (task, other))


# --- what is no task ------------------------------------------------------------------------------
def test_a_session_and_a_task_are_in_a_schedule_once() -> None:
    """A session has one set of tensors: two runs of it would change each other's."""
    with opened() as dev:
        schedule = Schedule()
        task, _ = fed(schedule, dev, MODEL)
        config = ffi.new("lds_task_config *")
        lib().lds_task_config_default(config)
        mine, others = task.session.c_session(), dev.load(MODEL).c_session()
        new = ffi.new("lds_task *")
        for where, session in ((new, mine), (task.c_task, others), (task.c_task, mine)):
            status = lib().lds_schedule_add(_inner(schedule), where, session, config)
            assert status == lib().LDS_ERR_ARGUMENT
        assert lib().lds_schedule_add(_inner(schedule), new, others, config) == 0
        task.release(0)
        _run(schedule)
        assert [response.error for response in task.responses] == [None]


def test_pointers_that_are_null_are_refused() -> None:
    null, wrong = ffi.NULL, lib().LDS_ERR_ARGUMENT
    schedule, task = ffi.new("lds_schedule *"), ffi.new("lds_task *")
    config = ffi.new("lds_task_config *")
    assert lib().lds_schedule_add(schedule, task, null, config) == wrong
    assert lib().lds_schedule_remove(null, task) == wrong
    assert lib().lds_schedule_remove(schedule, null) == wrong
    assert lib().lds_schedule_step(null, 0, 0) == wrong
    assert lib().lds_task_release(null, 0) == wrong
    assert lib().lds_schedule_step(schedule, 0, 0) == 0  # of no task


# --- more than the device can do ------------------------------------------------------------------
@pytest.mark.parametrize("count", [1, 3])
def test_periods_that_overload_the_device_end_when_they_are_to(count: int) -> None:
    """Something is released all the time: from `until` on nothing is."""
    with opened() as dev:
        schedule = Schedule()
        tasks = [
            schedule.add(dev.load(PROGRAMS_ALONE), period=CYCLES - n, priority=n)
            for n in range(count)
        ]
        schedule.run(until=20 * CYCLES)
        assert schedule.now < (20 + 3 * count) * CYCLES
        first = len(tasks[-1].responses)
        assert first >= 6
        assert sum(task.missed for task in tasks) > 0
        schedule.run(until=40 * CYCLES)
        assert len(tasks[-1].responses) > first
