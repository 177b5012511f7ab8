# SPDX-License-Identifier: Apache-2.0
"""bounds.py: networks on the simulated device, released at random and together: no response is
above its bound, which is near the longest that is seen, and all compute what they compute alone."""

from __future__ import annotations

import json
import random
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cache
from itertools import accumulate
from pathlib import Path

import numpy as np
import pytest

from loadstone.analysis.bounds import SharedNetwork, blocks_of, bound
from loadstone.artifact.format import Artifact
from loadstone.compiler import compile
from loadstone.errors import ConfigError
from loadstone.library.native import lib
from loadstone.numerics import Array
from loadstone.runtime.device import OpenedDevice, Session
from loadstone.runtime.schedule import Schedule, Task
from loadstone.simulator.programs import program_cycles
from loadstone.vta.device.hw_config import load_config
from loadstone.vta.simulator import profile
from tests import compiled
from tests.repeat import times

CONFIG = load_config("vtaq-1x16x16")
_EXTRA = "read_burst_extra_cycles"
#: The device with the memory that bounds assume.
SLOW = replace(
    CONFIG,
    timing={
        **CONFIG.timing,
        _EXTRA: replace(
            CONFIG.timing[_EXTRA], value=CONFIG.timing["worst_burst_extra_cycles"].value
        ),
    },
)
#: By descending priority, with the distance of switches, and the share of the device's time.
NETWORKS = (
    ("mlpt_kws_int8", 30_000, 0.25),
    ("mlpt_ad_int8", 30_000, 0.25),
    ("mlpt_resnet8_int8", 30_000, 0.3),
)
SAMPLES = 4


@cache
def artifacts(shared: Path) -> tuple[Artifact, ...]:
    return tuple(
        compile(shared / "models" / f"{name}.tflite", CONFIG.name, switch_cycles=cycles).artifact
        for name, cycles, _ in NETWORKS
    )


@cache
def networks(shared: Path) -> tuple[SharedNetwork, ...]:
    found = []
    for artifact, (_, _, share) in zip(artifacts(shared), NETWORKS, strict=True):
        blocks = blocks_of(artifact, CONFIG, None, 0)
        period = int(sum(blocks) / share)
        found.append(SharedNetwork(artifact, blocks, period, period))
    return tuple(found)


@dataclass
class Fed:
    """A session that gets one sample after the other, and counts outputs that are not its own."""

    inputs: list[Array]
    wanted: list[list[Array]]
    runs: int = 0
    wrong: int = 0

    def begin(self, session: Session) -> None:
        session.inputs[0][...] = self.inputs[self.runs % SAMPLES]

    def done(self, session: Session) -> None:
        wanted = self.wanted[self.runs % SAMPLES]
        self.wrong += not all(map(np.array_equal, session.outputs, wanted))
        self.runs += 1


class Shared:
    """The three on one simulated device."""

    def __init__(self, shared: Path) -> None:
        self.device = OpenedDevice("sim", "", SLOW)
        self.feeds: list[Fed] = []
        self.schedule = Schedule()
        self.tasks: list[Task] = []
        for place, artifact in enumerate(artifacts(shared)):
            session = self.device.load(artifact)
            self.feeds.append(_alone(session, place))
            feed = self.feeds[-1]
            self.tasks.append(
                self.schedule.add(session, priority=9 - place, begin=feed.begin, done=feed.done)
            )

    def worst(self) -> list[int]:
        return [task.worst_response for task in self.tasks]


def _alone(session: Session, seed: int) -> Fed:
    rng = np.random.default_rng(seed)
    shape, dtype = session.inputs[0].shape, session.inputs[0].dtype
    feed = Fed([], [])
    for _ in range(SAMPLES):
        x = rng.integers(-128, 128, shape).astype(dtype)
        session.inputs[0][...] = x
        session.execute()
        feed.inputs.append(x)
        feed.wanted.append([y.copy() for y in session.outputs])
    return feed


def _together(made: Shared, found: Sequence[SharedNetwork]) -> None:
    """All at once; and all of higher priority right after the longest block of one began."""
    for place in range(len(found)):
        alone = [*accumulate(made_cycles(made, place), initial=0)]
        longest = max(range(len(alone) - 1), key=lambda n: alone[n + 1] - alone[n])
        begin = made.schedule.now
        others = [(begin + alone[longest] + 1, task) for task in made.tasks[:place]]
        if place == len(found) - 1:
            _run(made, [(begin, task) for task in made.tasks])
            begin = made.schedule.now
            others = [(begin + alone[longest] + 1, task) for task in made.tasks[:place]]
        _run(made, [(begin, made.tasks[place]), *others])


def made_cycles(made: Shared, place: int) -> list[int]:
    """Of each block of a run alone."""
    found: list[int] = []
    made.tasks[place].release(made.schedule.now)
    busy = True
    while busy:
        before = made.schedule.cycles
        busy = made.schedule.step(made.schedule.now)
        spent = made.schedule.cycles - before
        made.schedule.now += spent
        found += [spent] if spent else []
    return found


def _run(made: Shared, releases: Sequence[tuple[int, Task]]) -> None:
    made.schedule.run(releases, until=max(time for time, _ in releases) + 1)


def _sporadic(
    found: Sequence[SharedNetwork], tasks: Sequence[Task], begin: int, count: int
) -> list[tuple[int, Task]]:
    """Releases at least a period apart, often no more than that."""
    rng = random.Random(count)
    releases = []
    for network, task in zip(found, tasks, strict=True):
        now = begin + rng.randrange(network.period)
        for _ in range(count):
            releases.append((now, task))
            late = rng.random() < 0.5
            now += network.period + int(late * rng.expovariate(3 / network.period))
    return releases


def test_no_response_is_above_its_bound_which_is_near(shared: Path) -> None:
    found = networks(shared)
    said = bound(found)
    assert said.schedulable
    made = Shared(shared)
    with made.device:
        _together(made, found)
        count = times(100, 33_400)
        releases = _sporadic(found, made.tasks, made.schedule.now, count)
        before = [len(task.responses) for task in made.tasks]
        _run(made, releases)
        for place, task in enumerate(made.tasks):
            assert len(task.responses) - before[place] == count
            assert made.feeds[place].wrong == 0
            assert all(response.error is None for response in task.responses)
        for seen, most in zip(made.worst(), said.responses, strict=True):
            assert most is not None
            assert seen <= most <= 1.3 * seen


def test_faults_of_one_are_its_own(shared: Path) -> None:
    """The second fails again and again: the two others are exact, and within their bounds."""
    found = networks(shared)
    said = bound(found)
    made = Shared(shared)
    count = times(30, 1000)
    with made.device:
        core = lib().lds_hal_sim_device(made.device.sim)
        ordered = 0

        def spoil(_session: Session) -> None:
            nonlocal ordered
            ordered += 1
            assert lib().lds_simdev_fault(core, lib().LDS_FAULT_BUS_ERROR, 0, ordered % 9) == 0

        bad = made.schedule.add(made.device.load(artifacts(shared)[1]), priority=8, begin=spoil)
        tasks = [made.tasks[0], bad, made.tasks[2]]
        _run(made, _sporadic(found, tasks, 0, count))
        assert len(bad.responses) == ordered == count
        assert all("bus" in str(response.error) for response in bad.responses)
        for place in (0, 2):
            assert made.feeds[place].runs == count
            assert made.feeds[place].wrong == 0
            assert made.tasks[place].worst_response <= (said.responses[place] or 0)


@pytest.mark.parametrize("extra", [0, 1, 5, 17, 33, 63])
def test_a_faster_memory_makes_no_program_slower_than_its_bound(shared: Path, extra: int) -> None:
    faster = replace(CONFIG.timing[_EXTRA], value=extra)
    config = replace(CONFIG, timing={**CONFIG.timing, _EXTRA: faster})
    for artifact, network in zip(artifacts(shared), networks(shared), strict=True):
        most = [cycles for cycles in network.blocks if cycles]
        spent = program_cycles(artifact, config)
        assert all(a <= b for a, b in zip(spent, most, strict=True))


@cache
def on_two(shared: Path, bus: str) -> tuple[Artifact, ...]:
    """For two devices with a bus each, or with one; the second network for one device alone."""
    target = f"{CONFIG.name} -count=2 -bus={bus}"
    named = zip(("kws", "resnet8", "ad"), (target, target, CONFIG.name), strict=True)
    return tuple(
        compile(shared / f"models/mlpt_{name}_int8.tflite", to, switch_cycles=30_000).artifact
        for name, to in named
    )


def _critical(
    found: Sequence[SharedNetwork], tasks: Sequence[Task], place: int, begin: int
) -> list[tuple[int, Task]]:
    """For which the bound of one is computed: it comes with all of higher priority, right after the
    longest block of lower priority began."""
    lower = found[place + 1 :]
    together = tasks[: place + 1]
    if not lower:
        return [(begin, task) for task in together]
    blocks = [network.blocks for network in lower]
    longest = max(range(len(lower)), key=lambda n: max(blocks[n]))
    until = blocks[longest].index(max(blocks[longest]))
    now = begin + sum(blocks[longest][:until]) + 1
    return [(begin, tasks[place + 1 + longest]), *((now, task) for task in together)]


def with_slow_further(artifact: Artifact) -> Artifact:
    """Its other devices have the memory that bounds assume: an artifact names the timing of each,
    which its fingerprint leaves out."""
    devices = list(artifact.devices)
    for number in artifact.further:
        said = json.loads(devices[number].attributes)
        worst = {"value": SLOW.timing[_EXTRA].value, "source": "what bounds assume"}
        said["timing"] = {"base": said["timing"], _EXTRA: worst}
        devices[number] = replace(devices[number], attributes=json.dumps(said))
    return replace(artifact, devices=tuple(devices))


@pytest.mark.parametrize("bus", ["private", "shared"])
def test_networks_of_several_devices_are_within_their_bounds(shared: Path, bus: str) -> None:
    """A block has all devices; on one bus its programs are timed together."""
    artifacts = on_two(shared, bus)
    assert all(len(one.further) == 1 for one in artifacts[:2])
    blocks = [blocks_of(artifact, SLOW, None, 0) for artifact in artifacts]
    found = [
        SharedNetwork(a, b, 5 * sum(b), 5 * sum(b)) for a, b in zip(artifacts, blocks, strict=True)
    ]
    said = bound(found)
    assert said.schedulable
    schedule = Schedule()
    with OpenedDevice("sim", "", SLOW) as opened:
        slow = [with_slow_further(artifact) for artifact in artifacts]
        tasks = [schedule.add(opened.load(a), priority=9 - n) for n, a in enumerate(slow)]
        for place in range(len(found)):
            releases = _critical(found, tasks, place, schedule.now)
            schedule.run(releases, until=max(time for time, _ in releases) + 1)
        releases = _sporadic(found, tasks, schedule.now, times(20, 10_000))
        schedule.run(releases, until=max(time for time, _ in releases) + 1)
    for task, most in zip(tasks, said.responses, strict=True):
        assert all(response.error is None for response in task.responses)
        assert most is not None
        assert task.worst_response <= most
        assert most <= 1.05 * task.worst_response


def test_steps_of_the_host_and_overhead_are_counted(shared: Path) -> None:
    artifact = artifacts(shared)[0]
    bare = blocks_of(artifact, CONFIG, None, 0)
    timed = blocks_of(artifact, CONFIG, lambda _step, _artifact: 1001, 7)
    for step, before, after in zip(artifact.steps, bare, timed, strict=True):
        spent = 0 if step in artifact.programs else -(-1001 * CONFIG.clock_mhz // 1000)
        assert after == before + 7 + spent
    with pytest.raises(ConfigError, match="no stated host has"):
        blocks_of(artifact, CONFIG, lambda _step, _artifact: None, 0)


def longer_at_random(artifact: Artifact, drawn: random.Random) -> Artifact:
    """What is placed behind a region moves."""
    regions = [
        replace(r, size_bytes=r.size_bytes + 256 * drawn.randrange(8)) if r.on_device else r
        for r in artifact.regions
    ]
    return replace(artifact, regions=tuple(regions))


@pytest.mark.parametrize("device", ["vtaq-1x16x16", "vtaq2-1x16x16", "vtaq-tiny", "vta-pynq"])
@pytest.mark.parametrize("name", ["mlpt_kws_int8", "mlpt_ad_int8"])
def test_a_network_that_may_stand_anywhere_is_within_its_bound(
    shared: Path, monkeypatch: pytest.MonkeyPatch, name: str, device: str
) -> None:
    """Compiled without --switch-within, its memory begins where bursts do not."""
    config = load_config(device)
    made = compiled.network(shared, f"{name}.tflite", device).artifact
    burst = config.timing["burst_boundary_bytes"].value
    assert any(r.align_bytes % burst for r in made.regions if r.on_device)
    (most,) = [n for n in blocks_of(made, config, None, 0) if n]
    slow = replace(
        config, timing={**config.timing, _EXTRA: config.timing["worst_burst_extra_cycles"]}
    )
    drawn = random.Random(device + name)
    seen = list[int]()
    for _ in range(times(4, 100)):
        monkeypatch.setattr(profile, "_POOL", (1 << 28) + 256 * drawn.randrange(8))
        seen += program_cycles(longer_at_random(made, drawn), slow)
    assert max(seen) <= most <= 1.3 * max(seen)
