# SPDX-License-Identifier: Apache-2.0
"""Devices on one bus: what each waits for, by hand; and an artifact's programs that start side by
side."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from loadstone.errors import SimulationError
from loadstone.simulator.programs import elapsed_cycles, program_runs
from loadstone.vta.device.hw_config import HwConfig
from loadstone.vta.isa.asm import assemble
from loadstone.vta.simulator.profile import profile
from loadstone.vta.simulator.result import Result
from loadstone.vta.simulator.sim import Simulator
from loadstone.vta.simulator.together import bus_companions, groups_of, time_together
from tests.further import FIRST, branches, expected, inputs
from tests.programs import BASE
from tests.simulated import VTA

FINISH = "nop load push(compute)\nnop store push(compute)\npop(load) nop compute\npop(store) finish"
#: 32 tiles are 512 bytes: 64 beats, in a burst of their own each time.
LOADS = "load inp[0] = dram[256 + x] for x<32\n" * 20
STORE = "store dram[320 + x] = out[0] for x<32\n"


def ran(text: str, config: HwConfig = VTA) -> tuple[Simulator, Result]:
    simulator = Simulator(config, strict=False, trace=True)
    simulator.map(BASE, np.zeros(1 << 16, np.uint8))
    return simulator, simulator.run(assemble(text + FINISH, config))


def test_one_alone_takes_what_it_takes() -> None:
    simulator, alone = ran(LOADS + STORE)
    events = list(simulator.events())
    assert time_together([simulator]) == [alone]
    assert list(simulator.events()) == events


@pytest.mark.parametrize("count", [2, 3, 4])
def test_reads_of_all_share_the_beats(count: int) -> None:
    """Each as many bursts, in turn: the bus never rests, and nobody is done long before another."""
    simulators, alone = zip(*(ran(LOADS) for _ in range(count)), strict=True)
    together = time_together(simulators)
    beats = sum(result.read_beats for result in together)
    cycles = [result.cycles for result in together]
    assert beats == count * alone[0].read_beats
    assert beats <= max(cycles) <= beats + 200
    assert max(cycles) - min(cycles) <= count * 64
    assert max(cycles) > 1.8 * alone[0].cycles or count == 2
    for result, before in zip(together, alone, strict=True):
        waited = result.stall_dram_cycles["load"] - before.stall_dram_cycles["load"]
        assert waited > (count - 1.5) * alone[0].cycles / 2
        assert replace(result, cycles=before.cycles).insns == before.insns


def test_a_short_program_is_not_held_up_by_a_long_one() -> None:
    """In turn: it waits for a burst of the other for each of its own, and no longer."""
    long, short = ran(LOADS * 4), ran(LOADS)
    first, second = time_together([long[0], short[0]])
    assert second.cycles < 2.2 * short[1].cycles
    gaps = long[1].cycles - long[1].read_beats  # in which the bus is free for the other
    assert long[1].cycles < first.cycles < long[1].cycles + short[1].read_beats
    assert first.cycles > long[1].cycles + short[1].read_beats - gaps


def test_stores_of_two_follow_each_other() -> None:
    """The second has the channel when the first has written its last beat."""
    one, two = ran(STORE), ran(STORE)
    starts = []
    for simulator, result in zip((one[0], two[0]), time_together([one[0], two[0]]), strict=True):
        event = next(e for e in simulator.events() if e.insn == 0)
        starts.append((event.end - event.start, result.stall_dram_cycles["store"]))
    (first, no_wait), (second, wait) = starts
    assert no_wait == 0
    assert 0 < wait <= 64
    assert second == first + wait


def test_what_cannot_be_timed_together_is_refused() -> None:
    simulator, _ = ran(LOADS)
    with pytest.raises(SimulationError, match="no run of it was timed"):
        time_together([simulator, Simulator(VTA)])
    with pytest.raises(SimulationError, match="stands there twice"):
        time_together([simulator, simulator])
    wide, _ = ran(LOADS, replace(VTA, bus_bits=128))
    with pytest.raises(SimulationError, match="a bus of 128 bits is not one of 64"):
        time_together([simulator, wide])


def test_programs_of_an_artifact_wait_for_each_other_on_a_shared_bus() -> None:
    beside = replace(FIRST, name="beside")
    graph, private = branches(FIRST, beside)
    _, shared = branches(FIRST, replace(beside, bus_of=FIRST.name))
    assert bus_companions(private, 0) == {}
    assert set(bus_companions(shared, 0)) == set(bus_companions(shared, 1)) == {0, 1}
    assert [len(group) for group in groups_of(shared)] == [2]
    alone, together = (program_runs(a, FIRST) for a in (private, shared))
    for step, run in together.items():
        assert run.cycles > alone[step].cycles
    assert elapsed_cycles(shared, together) == max(run.cycles for run in together.values())
    assert elapsed_cycles(shared, together) < sum(run.cycles for run in alone.values())
    (traced,) = profile(shared, FIRST)
    assert traced.result.cycles == max(event.end for event in traced.events)
    assert expected(graph, inputs(graph))


def test_programs_that_wait_for_others_are_groups_of_their_own() -> None:
    _, artifact = branches(FIRST, replace(FIRST, name="beside"))
    one, two = artifact.programs
    steps = list(artifact.steps)
    steps[steps.index(two)] = replace(two, beside=False)
    apart = replace(artifact, steps=tuple(steps))
    assert [len(group) for group in groups_of(apart)] == [1, 1]
    runs = program_runs(apart, FIRST)
    assert elapsed_cycles(apart, runs) == sum(run.cycles for run in runs.values())
    assert one.device != two.device
