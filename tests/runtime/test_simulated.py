# SPDX-License-Identifier: Apache-2.0
"""Simulated devices: a second one has the memory of the first, and constants of its own."""

from __future__ import annotations

import dataclasses

import numpy as np
import pytest

from loadstone.backend.device import TimingConstant
from loadstone.errors import DeviceError
from loadstone.library.native import ffi, lib
from loadstone.runtime import device
from loadstone.runtime.accelerators import sim_memory
from loadstone.runtime.simulated import open_simulated, open_simulated_beside
from loadstone.simulator.programs import program_runs
from tests.further import FIRST, SECOND, branches, expected, inputs


@pytest.mark.parametrize("shadow", [False, True])
def test_memory_is_shared(shadow: bool) -> None:
    first = open_simulated(FIRST, 1 << 16, shadow=shadow, timing=True)
    second = open_simulated_beside(first, SECOND, timing=True)
    hal, buffer = lib().lds_hal_sim_hal(second), ffi.new("lds_dma_buffer *")
    assert hal.dma_alloc(hal.ctx, 64, 64, 3, buffer) == 0
    buffer.size_bytes = 64
    seen = np.frombuffer(ffi.buffer(buffer.cpu, 64), np.uint8)
    seen[:] = np.arange(64)
    assert (hal.dma_sync != ffi.NULL) == shadow
    if shadow:
        assert hal.dma_sync(hal.ctx, buffer, 0, 64, 1) == 0
    window = sim_memory(first)
    at = int(buffer.bus) - window.bus
    np.testing.assert_array_equal(window.data[at : at + 64], np.arange(64))
    hal.dma_free(hal.ctx, buffer)


def test_an_unknown_constant_is_told() -> None:
    strange = dataclasses.replace(SECOND, timing={"no_such_constant": TimingConstant(1, "here")})
    first = open_simulated(FIRST, 1 << 16, shadow=False, timing=False)
    with pytest.raises(DeviceError, match="vtaq-1x8x8: .*no_such_constant"):
        open_simulated_beside(first, strange, timing=False)


def _run(bus_of: str, *, faults: bool = False) -> tuple[list[int], int]:
    """Cycles of five runs of two programs that start side by side, and of the simulator's both."""
    graph, artifact = branches(FIRST, dataclasses.replace(FIRST, name="beside", bus_of=bus_of))
    given = inputs(graph)
    spent = []
    with device.open("sim") as opened, opened.load(artifact) as session:
        for turn in range(5):
            if faults and turn == 2:
                assert session.accelerators is not None
                beside = lib().lds_hal_sim_device(session.accelerators.further["beside"])
                assert lib().lds_simdev_fault(beside, lib().LDS_FAULT_BUS_ERROR, 0, 3) == 0
                with pytest.raises(DeviceError, match="BUS"):
                    session.run([x[None] for x in given])
            got = session.run([x[None] for x in given])
            for out, want in zip(got, expected(graph, given), strict=True):
                np.testing.assert_array_equal(out[0], want)
            spent.append(session.counters.cycles)
    return spent, sum(run.cycles for run in program_runs(artifact, FIRST).values())


@pytest.mark.parametrize("faults", [False, True])
def test_programs_on_one_bus_wait_for_each_other_in_every_run_alike(faults: bool) -> None:
    """And one that fails leaves the bus to the other."""
    alone, simulated = _run("")
    assert set(alone) == {simulated}
    shared, together = _run(FIRST.name, faults=faults)
    assert set(shared) == {together}
    assert together > simulated


def test_a_job_that_hangs_does_not_hold_the_bus() -> None:
    graph, artifact = branches(FIRST, dataclasses.replace(FIRST, name="beside", bus_of=FIRST.name))
    given = [x[None] for x in inputs(graph)]
    with device.open("sim") as opened, opened.load(artifact, hang_seconds=0.2) as session:
        assert session.accelerators is not None
        beside = lib().lds_hal_sim_device(session.accelerators.further["beside"])
        assert lib().lds_simdev_fault(beside, lib().LDS_FAULT_HANG, 0, 2) == 0
        with pytest.raises(DeviceError, match="hung"):
            session.run(given)
        assert session.run(given)[0].shape == (1, *graph.outputs[0].shape)
