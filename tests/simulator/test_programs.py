# SPDX-License-Identifier: Apache-2.0
"""simulator/programs.py: every program of an artifact, whatever its device."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from loadstone.backend.builtin import load_config
from loadstone.backend.device import NO_DEVICE
from loadstone.errors import SimulationError
from loadstone.isa import accelerator as accelerators
from loadstone.isa.accelerator import register_accelerator
from loadstone.simulator.programs import (
    further_runs,
    layer_figures,
    own_simulator,
    program_cycles,
    program_runs,
    saved_us,
    simulators,
    trace,
)
from tests.artifact.test_program_step import program_model
from tests.compiled import network
from tests.further import FIRST, SECOND, branches, chain
from tests.isa.tables import npu
from tests.sample_model import copy_model

VTAQ = load_config("vtaq-1x16x16")


def test_a_device_that_is_not_simulated_is_named() -> None:
    for ask in (program_cycles, program_runs):
        with pytest.raises(SimulationError, match="device none has no simulator: its back end"):
            ask(copy_model(), NO_DEVICE)


def test_an_artifact_without_programs_of_its_own_asks_nobody_for_them(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """A table's programs need no simulator of the device that the artifact names."""
    monkeypatch.setattr(accelerators, "_FACTORIES", {})
    register_accelerator("npu", lambda _: npu(clock_mhz=200))
    model = program_model()
    assert [run.cycles for run in program_runs(model, NO_DEVICE).values()] == [11]
    assert [run.device for run in further_runs(model)] == ["npu"]


def test_a_trace_is_of_the_first_device_that_has_programs(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(accelerators, "_FACTORIES", {})
    register_accelerator("npu", lambda _: npu(clock_mhz=200))
    assert trace(program_model(), NO_DEVICE).startswith(b'{"traceEvents"')
    assert b"copy" in trace(copy_model(), VTAQ)
    with pytest.raises(SimulationError, match="has no program of a device, and so no trace"):
        trace(replace(copy_model(), steps=()), NO_DEVICE)


def test_runs_are_by_step() -> None:
    model = copy_model()
    (run,) = program_runs(model, VTAQ).values()
    assert [run.cycles] == program_cycles(model, VTAQ)
    ((step,),) = [simulator.steps(model) for simulator in simulators(model, VTAQ)]
    assert (run.number, run.device, run.clock_mhz) == (step.number, step.device, step.clock_mhz)
    assert further_runs(model) == []


def test_programs_side_by_side_save_all_but_the_longest_each_by_its_own_clock() -> None:
    slow = replace(SECOND, clock_mhz=50)
    _, both = branches(FIRST, slow)
    first, second = (run.cycles for run in program_runs(both, FIRST).values())
    assert first / FIRST.clock_mhz < second / 50
    found = saved_us(both, program_runs(both, FIRST))
    assert found == pytest.approx(first / FIRST.clock_mhz)
    _, after = chain(FIRST, slow)
    assert saved_us(after, program_runs(after, FIRST)) == 0


def test_what_a_program_means_needs_its_fingerprint_alone() -> None:
    model = copy_model()
    assert own_simulator(model).races(model) == []


def test_cycles_of_layers_are_the_profiles(shared: Path) -> None:
    """What `--explain` shows: in all, they sum to the run's; the compute stage works in some."""
    compiled = network(shared, "mlpt_resnet8_int8.tflite", "vtaq-1x16x16")
    counted = layer_figures(compiled.artifact, compiled.device)
    report = compiled.profile()
    assert {row.name: row.cycles for row in report.rows if row.cycles} == {
        name: layer.cycles for name, layer in counted.items()
    }
    assert all(0 < layer.working_cycles <= layer.cycles for layer in counted.values())
    shown = [row["cycles"] or 0 for row in compiled.explain()]
    assert sum(shown) == report.cycles
