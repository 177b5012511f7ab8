# SPDX-License-Identifier: Apache-2.0
"""Networks that share a device, block by block on one axis of time.

In:   artifacts of one simulated device, by descending priority.
Out:  SharedTimeline: of each network a run, and when each of its blocks had the device.
Next: commands/profile.py prints it, pages/shared.js draws it.

The last network is released at cycle 0, the others a cycle later, when its first block that takes
time has the device: what they then wait for is a block that cannot be interrupted, and those above
them. The simulator's memory is as fast as its timing table says, and the host takes no time;
bounds.py says how long it can take.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from loadstone.artifact.format import Artifact, HostStep
from loadstone.backend.device import Device
from loadstone.errors import ConfigError
from loadstone.files import JsonObject
from loadstone.pages.page import page
from loadstone.runtime.device import OpenedDevice
from loadstone.runtime.schedule import Schedule, Task

__all__ = ["SharedBlock", "SharedRun", "SharedTimeline", "shared_page", "shared_timeline"]


@dataclass(frozen=True)
class SharedBlock:
    """steps: names of a step of the host, or of a program and those beside it. From begin up to
    end: cycles in which it had the device."""

    steps: tuple[str, ...]
    host: bool
    begin: int
    end: int

    @property
    def cycles(self) -> int:
        """How long it took."""
        return self.end - self.begin


@dataclass(frozen=True)
class SharedRun:
    """Of one network. released, response: cycles, from 0 and from its release."""

    model: str
    released: int
    response: int
    blocks: tuple[SharedBlock, ...]

    @property
    def longest(self) -> int:
        """Cycles of its longest block: the distance between two points at which the device can
        turn to another network."""
        return max((block.cycles for block in self.blocks), default=0)


@dataclass(frozen=True)
class SharedTimeline:
    """runs: by descending priority."""

    device: str
    clock_mhz: int
    runs: tuple[SharedRun, ...]

    @property
    def cycles(self) -> int:
        """When all have ended."""
        return max(run.released + run.response for run in self.runs)

    def to_json(self) -> JsonObject:
        """As commands/schemas/profile.json says."""
        return {
            "device": self.device,
            "clock_mhz": self.clock_mhz,
            "cycles": self.cycles,
            "networks": [_of_run(run) for run in self.runs],
        }


def _of_run(run: SharedRun) -> JsonObject:
    return {
        "model": run.model,
        "released_cycle": run.released,
        "response_cycles": run.response,
        "longest_block_cycles": run.longest,
        "blocks": [
            {
                "steps": list(block.steps),
                "host": block.host,
                "begin_cycle": block.begin,
                "end_cycle": block.end,
            }
            for block in run.blocks
        ],
    }


def shared_timeline(
    artifacts: Sequence[Artifact], device: Device, *, trust: bool = False
) -> SharedTimeline:
    """A run of each, on zeros, on which no cycle depends. Raises ArtifactError for artifacts of two
    devices, and where a program depends on what ran before; ConfigError for a device without a
    simulator; what a run raises."""
    with OpenedDevice("sim", "", device) as opened:
        schedule = Schedule()
        tasks = [
            schedule.add(opened.load(artifact, trust=trust), priority=len(artifacts) - place)
            for place, artifact in enumerate(artifacts)
        ]
        blocks = _run(schedule, tasks)
        runs = []
        for artifact, task, own in zip(artifacts, tasks, blocks, strict=True):
            (response,) = task.responses
            if response.error is not None:
                raise response.error
            runs.append(SharedRun(artifact.name, response.released, response.time, tuple(own)))
    if not max(run.response for run in runs):
        why = (
            "counts no cycles"
            if any(artifact.programs for artifact in artifacts)
            else "has no program of these networks, and steps of the host take no time here"
        )
        raise ConfigError(f"device {device.name} {why}: there is no time to show")
    return SharedTimeline(device.name, device.clock_mhz, tuple(runs))


def _run(schedule: Schedule, tasks: Sequence[Task]) -> list[list[SharedBlock]]:
    """Until all have ended: the blocks of each."""
    found: list[list[SharedBlock]] = [[] for _ in tasks]
    done = [0] * len(tasks)
    tasks[-1].release(0)
    late, busy = list(tasks[:-1]), True
    while busy or late:
        if schedule.now or not busy:
            schedule.now = max(schedule.now, 1)
            for task in late:
                task.release(1)
            late = []
        at_work = schedule.at_work
        before = schedule.cycles
        busy = schedule.step(schedule.now)
        spent = schedule.cycles - before
        if at_work is not None and schedule.block_ended:
            place = tasks.index(at_work)
            steps = at_work.session.artifact.only(0).steps[done[place] : at_work.next_step]
            done[place] = at_work.next_step
            host = all(isinstance(step, HostStep) for step in steps)
            names = tuple(step.name for step in steps)
            found[place].append(SharedBlock(names, host, schedule.now, schedule.now + spent))
        schedule.now += spent
    return found


def shared_page(timeline: SharedTimeline) -> str:
    """One HTML file."""
    title = f"{len(timeline.runs)} networks on {timeline.device}"
    return page(title, "shared", [], timeline.to_json())
