# SPDX-License-Identifier: Apache-2.0
"""Energy and area: the published constants, times what was counted."""

from __future__ import annotations

from dataclasses import asdict, replace

import pytest

from loadstone.search.assumptions import SOURCES, Assumptions, Counts, area_mm2, energy_uj
from loadstone.vta.device.hw_config import load_config


def test_every_constant_has_a_source() -> None:
    assert set(SOURCES) == set(asdict(Assumptions()))
    assert all("[" in source for source in SOURCES.values())


def test_a_step_costs_what_horowitz_says() -> None:
    """One million steps of GEMM on 1x16x16, with scratchpads of published sizes: 32 KiB of INP and
    of micro-ops at 2.5 pJ a byte."""
    config = load_config("vtaq-1x16x16")
    free = replace(Assumptions(), sram_scale=0.0)
    steps = Counts(macs=256_000_000, gemm_steps=1_000_000)
    energy = energy_uj(steps, config, free)
    assert energy == {"multipliers": 76.8, "alu": 0.0, "scratchpads": 0.0, "dram": 0.0}
    energy = energy_uj(Counts(read_inp=1_000_000), config, Assumptions())
    assert energy["scratchpads"] == pytest.approx(2.5)
    assert energy["dram"] == 244.0
    lanes = energy_uj(Counts(alu_steps=1_000_000), config, free)
    assert lanes["alu"] == pytest.approx(16 * 3.2)


def test_a_larger_scratchpad_costs_more() -> None:
    larger = load_config("vtaq-1x16x16")
    config = replace(larger, log_wgt_buff=16)
    counts = Counts(macs=256, gemm_steps=1, read_wgt=256, write=16)
    small, large = (energy_uj(counts, c, Assumptions()) for c in (config, larger))
    assert small["scratchpads"] < large["scratchpads"]
    assert {k: v for k, v in small.items() if k != "scratchpads"} == {
        k: v for k, v in large.items() if k != "scratchpads"
    }
    extra = area_mm2(larger, Assumptions())["scratchpads"]
    extra -= area_mm2(config, Assumptions())["scratchpads"]
    assert extra == pytest.approx(((1 << 18) - (1 << 16)) * 5.54 / 1e6)


def test_number_formats_differ() -> None:
    whole, real = load_config("vtaq-1x16x16"), load_config("vtab-1x16x16")
    counts = Counts(macs=1_000_000)
    energies = [energy_uj(counts, c, Assumptions())["multipliers"] for c in (whole, real)]
    assert energies == [pytest.approx(0.3), pytest.approx(2.0)]
    assert area_mm2(real, Assumptions())["multipliers"] == pytest.approx(256 * 5824 / 1e6)


def test_counts_add_up() -> None:
    assert Counts(1, 2, 3, 4, 5, 6, 7, 8, 9) + Counts(read_fetch=1) == Counts(
        1, 2, 3, 5, 5, 6, 7, 8, 9
    )
    assert Counts(1, 2, 3, 4, 5, 6, 7, 8, 9).read == 30
