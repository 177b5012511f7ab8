# SPDX-License-Identifier: Apache-2.0
"""What programs of other devices cost, without a host."""

from __future__ import annotations

import json
from dataclasses import replace

import pytest

from loadstone.errors import SimulationError
from loadstone.simulator.table_profile import TableSimulator, relocated
from tests.artifact.test_program_step import CODE, RELOCATIONS, program_model
from tests.isa.tables import npu


@pytest.fixture
def simulator() -> TableSimulator:
    return TableSimulator({1: npu(clock_mhz=200)})


def test_addresses_are_filled_in() -> None:
    code = relocated(CODE, RELOCATIONS, [0x10_0000, 0])
    assert code[1:6] == (0x10_0040 >> 4).to_bytes(5, "little")
    assert int.from_bytes(code[12:20], "little") >> 20 & 0xFFFFFFFF == 0x10_0080
    for bases in ([0x10_0001], [1 << 45]):
        with pytest.raises(SimulationError, match="does not fit"):
            relocated(CODE, RELOCATIONS, bases)


def test_cycles_of_programs_and_layers(simulator: TableSimulator) -> None:
    (run,) = simulator.runs(program_model(), trace=True)
    assert (run.number, run.name, run.device, run.cycles) == (0, "run", "npu", 1 + 8 + 1 + 1)
    (layer,) = run.layers()
    assert (layer.name, layer.instructions) == ("layer", 2)
    assert (layer.cycles, layer.working_cycles) == (run.cycles, 10)
    assert (layer.kind, layer.bound, layer.first_cycle) == ("program", "dma", 0)
    timeline = run.timeline(program_model())
    assert timeline is not None
    assert [(t.insn, run.units[t.unit], t.layer) for t in timeline.instructions] == [
        (0, "dma", "layer"),
        (1, "dma", "layer"),
        (2, "all", ""),
    ]


def test_what_decides_the_cycles_of_a_program(simulator: TableSimulator) -> None:
    model = program_model()
    (step,) = simulator.steps(model)
    said = model.devices[1]
    assert (step.number, step.device, step.clock_mhz) == (0, "npu", 200)
    assert step.decisive == (said.attributes, CODE, said.fingerprint)


def test_a_program_that_leaves_its_memory(simulator: TableSimulator) -> None:
    far = (RELOCATIONS[0], replace(RELOCATIONS[1], addend_bytes=240))
    with pytest.raises(SimulationError, match="run, instruction 1: an access outside the memory"):
        list(simulator.runs(program_model(CODE, far)))


def test_a_trace_for_perfetto(simulator: TableSimulator) -> None:
    events = json.loads(simulator.trace(program_model()))["traceEvents"]
    slices = [event for event in events if event["ph"] == "X"]
    assert [(e["name"], e["cat"], e["ts"], e["dur"]) for e in slices] == [
        ("copy", "layer", 0, 9 / 200),
        ("store", "layer", 9 / 200, 1 / 200),
        ("end", "", 10 / 200, 1 / 200),
    ]
    names = [event["args"]["name"] for event in events if event["ph"] == "M"]
    assert names == ["npu: run", "dma", "all"]
