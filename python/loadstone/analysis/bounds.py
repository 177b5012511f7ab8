# SPDX-License-Identifier: Apache-2.0
"""The blocks of artifacts, with the most that each can take: what response.py computes with.

In:   artifacts of one device; what steps of the host take; periods and deadlines.
Out:  Bound: for each the longest response, and whether all deadlines are met.
Next: commands/bound.py.

A block is what nobody interrupts (runtime/schedule.c): a step of the host, or a program with those
that run beside it, so that a network on several devices has all of them. A program's cycles do not
depend on data. They are simulated with memory as slow as the device's timing table says it can be,
at every place that a runtime can give the code; those of programs on one bus together.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field

from loadstone.analysis.response import (
    BlockTimes,
    longest_allowed_block,
    longest_responses,
    utilization,
)
from loadstone.artifact.format import Artifact, HostStep, ProgramStep
from loadstone.backend.device import Device
from loadstone.errors import ConfigError
from loadstone.runtime.accelerators import further_devices
from loadstone.runtime.schedule import why_not_isolated
from loadstone.simulator.programs import simulators

__all__ = ["Bound", "SharedNetwork", "blocks_of", "bound", "bounds_beside"]

#: Longer than anything that is looked at.
_FAR = 1 << 62
#: Of a host step in an artifact, nanoseconds; None: not known.
HostTime = Callable[[HostStep, Artifact], int | None]


@dataclass(frozen=True)
class SharedNetwork:
    """One that shares the device. period, deadline: cycles."""

    artifact: Artifact
    blocks: tuple[int, ...]
    period: int
    deadline: int

    @property
    def longest_step(self) -> ProgramStep | HostStep | None:
        """The step with which its longest block begins, the first of equal ones."""
        timed = self._timed
        return max(timed, key=lambda block: block[0])[1] if timed else None

    def longest_of(self, *, host: bool) -> int:
        """Of its blocks that are steps of the host, or of those that are programs, the longest, in
        cycles; 0: there is none."""
        each = (cycles for cycles, step in self._timed if isinstance(step, HostStep) == host)
        return max(each, default=0)

    @property
    def _timed(self) -> list[tuple[int, ProgramStep | HostStep]]:
        """Of each block the cycles, and the step with which it begins."""
        steps = [block[0][1] for block in _blocks(self.artifact)]
        return list(zip(self.blocks, steps, strict=False))


@dataclass(frozen=True)
class Bound:
    """networks: by descending priority. responses: in cycles; None: there is no bound."""

    networks: Sequence[SharedNetwork]
    responses: Sequence[int | None]
    utilization: float
    assumed: Sequence[str] = field(default_factory=tuple)

    @property
    def schedulable(self) -> bool:
        """Whether every response is within its deadline."""
        return all(self.in_time)

    @property
    def in_time(self) -> list[bool]:
        """Of each network, whether its response is within its deadline."""
        pairs = zip(self.responses, self.networks, strict=True)
        return [r is not None and r <= network.deadline for r, network in pairs]

    def allowed_block(self, place: int) -> int | None:
        """The cycles of the longest block of lower priority with which a network that responds too
        late would not; None: it responds in time, or too late behind any."""
        if self.in_time[place]:
            return None
        *higher, own = (BlockTimes(one.blocks, one.period) for one in self.networks[: place + 1])
        return longest_allowed_block(higher, own, self.networks[place].deadline)


def blocks_of(
    artifact: Artifact, device: Device, host_time: HostTime | None, overhead_cycles: int
) -> tuple[int, ...]:
    """The most cycles of each block of the first entry. host_time: None counts steps of the host
    as nothing. overhead_cycles: of the host, to end a block and begin the next; of programs that
    wait for those beside them, the same. Raises ConfigError for an artifact of which no bound is
    known, SimulationError as ProgramSimulator.longest."""
    reason = why_not_isolated(artifact)
    if reason:
        raise ConfigError(f"model {artifact.name!r}, {reason}")
    _check_clocks(artifact, device)
    longest: dict[int, int] = {}
    for simulator in simulators(artifact, device):
        longest |= simulator.longest(artifact)
    found: list[int] = []
    for block in _blocks(artifact):
        begins = block[0][1]
        if isinstance(begins, HostStep):
            found.append(overhead_cycles + _host_cycles(begins, artifact, device, host_time))
        else:
            found.append(_together(block, longest, overhead_cycles))
    return tuple(found)


_Block = list[tuple[int, ProgramStep | HostStep]]


def _blocks(artifact: Artifact) -> list[_Block]:
    """Of the first entry: its steps with their numbers, those that nobody interrupts in one list,
    as runtime/schedule.c takes them."""
    found: list[_Block] = []
    for number, step in enumerate(artifact.only(0).steps):
        if isinstance(step, ProgramStep) and step.beside and found:
            found[-1].append((number, step))
        else:
            found.append([(number, step)])
    return found


def _together(block: _Block, longest: Mapping[int, int], overhead_cycles: int) -> int:
    """Programs side by side take what the longest takes; one whose device is at work waits until
    all before it have ended."""
    total, at_work = 0, dict[int, int]()
    for number, step in block:
        assert isinstance(step, ProgramStep)  # nothing else runs beside one
        if step.device in at_work:
            total, at_work = total + max(at_work.values()) + overhead_cycles, {}
        at_work[step.device] = longest[number]
    return total + max(at_work.values()) + overhead_cycles


def _check_clocks(artifact: Artifact, device: Device) -> None:
    for further in further_devices(artifact).values():
        if further.clock_mhz != device.clock_mhz:
            raise ConfigError(
                f"model {artifact.name!r}: {further.name} has {further.clock_mhz} MHz, "
                f"{device.name} {device.clock_mhz} MHz: bounds count the cycles of one clock; "
                "compile for devices of equal clock_mhz"
            )


def _host_cycles(
    step: HostStep, artifact: Artifact, device: Device, host_time: HostTime | None
) -> int:
    if host_time is None:
        return 0
    spent = host_time(step, artifact)
    if spent is None:
        raise ConfigError(
            f"model {artifact.name!r}: step {step.name!r} is one whose time no stated host has: "
            "give the most that any step takes, --host 200us"
        )
    return -(-spent * device.clock_mhz // 1000)


def bound(networks: Sequence[SharedNetwork], assumed: Sequence[str] = ()) -> Bound:
    """Of networks by descending priority. assumed: what the numbers rest on."""
    blocks = [BlockTimes(network.blocks, network.period) for network in networks]
    return Bound(networks, longest_responses(blocks), utilization(blocks), assumed)


def bounds_beside(
    artifact: Artifact, other: Artifact, device: Device, period: int
) -> tuple[int | None, int | None]:
    """The longest responses, in cycles, of a network that is released every `period`, and of one of
    lower priority that is released again when its run has ended; the host takes no time. Raises as
    blocks_of."""
    own, busy = (blocks_of(one, device, None, 0) for one in (artifact, other))
    # a run of the other one never waits for the one before
    first, second = longest_responses([BlockTimes(own, period), BlockTimes(busy, _FAR)])
    return first, second
