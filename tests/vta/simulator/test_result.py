# SPDX-License-Identifier: Apache-2.0
"""vta/simulator/result.py: what a run tells, and how it is added up."""

from __future__ import annotations

from dataclasses import replace

import pytest

from loadstone.vta.device.hw_config import load_config
from loadstone.vta.simulator.result import SimulationStopped
from tests.simulated import VTA, run_text, simulate_text

GEMM = "gemm acc[u] += inp[u] * wgt[u] for i<4 j<2 u in 0..1\nfinish"


def test_macs_are_steps_times_the_core() -> None:
    result = run_text(GEMM)
    assert (result.status, result.gemm_steps) == ("NONE", 8)
    assert result.macs == 8 * VTA.macs_per_cycle
    assert result.insns_done == sum(result.insns.values()) == 2


def test_utilisation_is_a_part_of_what_the_cycles_could_do() -> None:
    result = run_text(GEMM)
    assert result.cycles > 0
    assert result.utilisation(VTA) == result.macs / (result.cycles * VTA.macs_per_cycle)
    assert replace(result, cycles=8).utilisation(VTA) == 1
    assert replace(result, cycles=0).utilisation(VTA) == 0  # run without the timing model
    half = load_config("vtaq-1x32x32")
    assert result.utilisation(half) == result.utilisation(VTA) / 4


def test_a_program_that_stops_carries_how_far_it_came() -> None:
    _, result = simulate_text("nop load\npop(load) nop compute\nfinish", VTA)
    assert result.status == "DEADLOCK"
    with pytest.raises(SimulationStopped, match="waits for a token from load") as caught:
        raise SimulationStopped(result)
    assert caught.value.result.insns_done < 3
