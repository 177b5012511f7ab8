# SPDX-License-Identifier: Apache-2.0
"""Samples of a network while another one keeps the device busy: how long each takes to answer.

In:   two artifacts for one simulated device; samples of the first, which has the higher priority.
Out:  their outputs, which are those of the network alone; the responses of both, in cycles.
Next: `loadstone run --with`; `loadstone bound` says how long a response takes at most.

The other network is released again when its run has ended, so that the device never waits; its
inputs are zeros, on which no cycle depends. A sample is released when the other network is at
another place of its run each time: from one release to the next pass a run of each, and of the
other network the golden ratio's share of one more. The host takes no time.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from fractions import Fraction

from loadstone.artifact.format import Artifact
from loadstone.backend.device import Device
from loadstone.errors import DeviceError
from loadstone.numerics import Array
from loadstone.runtime.counters import Totals
from loadstone.runtime.device import OpenedDevice
from loadstone.runtime.schedule import Schedule, Task
from loadstone.runtime.session import Session

__all__ = ["Beside", "Responses", "run_beside"]

#: Multiples of it, without their whole part, lie evenly from 0 to 1, however many there are.
_GOLDEN = Fraction(1346269, 2178309)


@dataclass(frozen=True)
class Responses:
    """Of one network, in cycles from a release to the end of its run. alone_cycles: of a run when
    nobody else is on the device."""

    model: str
    alone_cycles: int
    cycles: tuple[int, ...]


@dataclass(frozen=True)
class Beside:
    """outputs: (samples, ...) each. totals: of the first network's runs. own, other: responses.
    period: cycles from one release of the first network to the next."""

    outputs: list[Array]
    totals: Totals
    device: Device
    own: Responses
    other: Responses
    period: int


def run_beside(
    artifact: Artifact,
    inputs: Sequence[Array],
    other: Artifact,
    open_device: Callable[[], OpenedDevice],
    progress: Callable[[int], None] | None = None,
    *,
    trust: bool = False,
) -> Beside:
    """Runs all samples of `artifact`, with `other` at a lower priority on the same device.

    inputs: (samples, ...) each, as for a session, which are not looked through for NaN. progress:
        called with the number of samples done. trust: see SECURITY.md.
    Raises DeviceError as a session does, and where a network does not use the device; ArtifactError
    for artifacts of two devices, and where a program depends on what ran before it.
    """
    own_alone, other_alone = (_alone(a, open_device, trust) for a in (artifact, other))
    with ExitStack() as closing:
        opened = closing.enter_context(open_device())
        session, busy = (
            closing.enter_context(opened.load(a, trust=trust)) for a in (artifact, other)
        )
        feed = _Feed(session, inputs, progress)
        schedule = Schedule()
        first = schedule.add(session, priority=1, begin=feed.begin, done=feed.done)

        def again(_session: Session) -> None:
            if feed.left:
                second.release(schedule.now)

        second = schedule.add(busy, priority=0, done=again)
        gap = own_alone + other_alone + int(other_alone * _GOLDEN)
        releases = [(0, second), *((gap * k, first) for k in range(1, feed.groups + 1))]
        schedule.run(releases, until=gap * (feed.groups + 1))
        return Beside(
            feed.outputs,
            session.totals + feed.totals,
            opened.device,
            Responses(artifact.name, own_alone, _responses(first)),
            Responses(other.name, other_alone, _responses(second)),
            gap,
        )


class _Feed:
    """Brings samples to a session, in groups as large as one of its runs, and takes its outputs."""

    def __init__(
        self,
        session: Session,
        inputs: Sequence[Array],
        progress: Callable[[int], None] | None,
    ) -> None:
        self._ports = session.ports[0]
        self._arrays = self._ports.checked(inputs, allow_nan=True)
        self._size = session.artifact.samples
        self._count = len(self._arrays[0]) if self._arrays else 1
        self._done, self._progress = 0, progress
        self.groups = -(-self._count // self._size)
        self.outputs = self._ports.empty_outputs(self._count)
        self.totals = Totals()

    @property
    def left(self) -> int:
        """Samples that are not done."""
        return self._count - self._done

    @property
    def _end(self) -> int:
        return min(self._done + self._size, self._count)

    def begin(self, _session: Session) -> None:
        self._ports.bring(self._arrays, self._done, self._end)

    def done(self, session: Session) -> None:
        self._ports.take(self.outputs, self._done, self._end)
        self.totals += Totals(1, session.counters)
        self._done = self._end
        if self._progress is not None:
            self._progress(self._done)


def _alone(artifact: Artifact, open_device: Callable[[], OpenedDevice], trust: bool) -> int:
    """The cycles of a run on zeros when nobody else is on the device: of programs that run side by
    side the most."""
    with open_device() as opened, opened.load(artifact, trust=trust) as session:
        schedule = Schedule()
        task = schedule.add(session)
        schedule.run([(0, task)], until=1)
        _responses(task)
        cycles = schedule.cycles
    if cycles == 0:
        raise DeviceError(
            f"model {artifact.name!r} takes no cycles of the device: it has nothing to share"
        )
    return cycles


def _responses(task: Task) -> tuple[int, ...]:
    """Raises what a run raised that failed."""
    for response in task.responses:
        if response.error is not None:
            raise response.error
    return tuple(response.time for response in task.responses)
