# SPDX-License-Identifier: Apache-2.0
"""Energy and area: the published constants, times what was counted."""

from __future__ import annotations

from dataclasses import asdict, replace

import pytest

from loadstone.errors import ConfigError
from loadstone.search.assumptions import (
    SOURCES,
    Assumptions,
    Counts,
    area_mm2,
    assumptions_of,
    clock_limit_mhz,
    energy_uj,
)
from loadstone.vta.device.hw_config import HwConfig, load_config
from loadstone.vta.isa.spec import Capability, Memory


def test_every_constant_has_a_source() -> None:
    assert set(SOURCES) == set(asdict(Assumptions()))
    named = ("[", "assumed", "NanGate", "Stillmaker", "the highest clock")
    assert all(any(word in source for word in named) for source in SOURCES.values())


def test_a_step_costs_what_horowitz_says() -> None:
    """One million steps of GEMM on 1x16x16, with scratchpads of published sizes: 32 KiB of INP and
    of micro-ops at 2.5 pJ a byte."""
    config = load_config("vtaq-1x16x16")
    free = replace(Assumptions(), sram_scale=0.0, flipflop_fj=0.0, logic_at_limit=0.0)
    steps = Counts(macs=256_000_000, gemm_steps=1_000_000)
    energy = energy_uj(steps, config, free, 0)
    assert energy == {
        "multipliers": 76.8,
        "alu": 0.0,
        "scratchpads": 0.0,
        "dram": 0.0,
        "clock": 0.0,
    }
    energy = energy_uj(Counts(read_inp=1_000_000), config, Assumptions(), 0)
    assert energy["scratchpads"] == pytest.approx(2.5)
    assert energy["dram"] == 244.0
    lanes = energy_uj(Counts(alu_steps=1_000_000), config, free, 0)
    assert lanes["alu"] == pytest.approx(16 * 3.2)


def test_a_larger_scratchpad_costs_more() -> None:
    larger = load_config("vtaq-1x16x16")
    config = replace(larger, log_wgt_buff=16)
    counts = Counts(macs=256, gemm_steps=1, read_wgt=256, write=16)
    small, large = (energy_uj(counts, c, Assumptions(), 9) for c in (config, larger))
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
    slow = replace(Assumptions(), logic_at_limit=0.0)
    energies = [energy_uj(counts, c, slow, 0)["multipliers"] for c in (whole, real)]
    assert energies == [pytest.approx(0.3), pytest.approx(2.0)]
    assert area_mm2(real, slow)["multipliers"] == pytest.approx(256 * 5824 / 1e6)


def changed(**fields: object) -> HwConfig:
    return replace(load_config("vtaq-1x16x16"), **fields)  # type: ignore[arg-type]


def with_timing(name: str, value: int) -> HwConfig:
    known = load_config("vtaq-1x16x16").timing
    return changed(timing={**known, name: replace(known[name], value=value)})


@pytest.mark.parametrize(
    ("dear", "cheap"),
    [
        (changed(bus_bits=128), changed(bus_bits=64)),
        (changed(clock_mhz=400), changed(clock_mhz=100)),
        (with_timing("alu_tensor_step_cycles", 1), with_timing("alu_tensor_step_cycles", 2)),
    ],
)
def test_bus_clock_and_ports_are_no_free_lunch(dear: HwConfig, cheap: HwConfig) -> None:
    """For the same counts and cycles, in area and in energy."""
    counts, a = Counts(macs=1_000_000, gemm_steps=1000, alu_steps=10), Assumptions()
    assert sum(area_mm2(dear, a).values()) > sum(area_mm2(cheap, a).values())
    energies = [sum(energy_uj(counts, c, a, 1000).values()) for c in (dear, cheap)]
    assert energies[0] > energies[1]


def with_capability(capability: Capability) -> HwConfig:
    return changed(capabilities=changed().capabilities | capability)


def test_capabilities_take_the_area_that_synthesis_counts() -> None:
    """1x16x16: 16 lanes and 256 multipliers. Gates and registers at their smallest."""
    a, plain = replace(Assumptions(), logic_at_limit=0.0), changed()

    def more(config: HwConfig) -> dict[str, float]:
        found, base = area_mm2(config, a), area_mm2(plain, a)
        return {part: found[part] - base[part] for part in base if found[part] != base[part]}

    assert more(with_capability(Capability.STORE_REQUANTIZE)) == pytest.approx(
        {
            "alu": 16 * 3632 / 1e6,
            "registers": 16 * 912 * 4.52 / 1e6,
            "scratchpads": 2048 * (64 - 16) * 5.54 / 1e6,
        }
    )
    windows = more(with_capability(Capability.DEPTHWISE))
    assert windows == pytest.approx(
        {"multipliers": 4 * 1722 * 3.19 / 1e6, "registers": 4 * 698 * 4.52 / 1e6}
    )
    ahead = more(with_timing("loads_in_flight", 4))
    assert ahead == pytest.approx({"queues": 2339 * 3.19 / 1e6, "registers": 3 * 502 * 4.52 / 1e6})
    stored = more(with_capability(Capability.STORE_INP))
    second = (32 << 10) + 2048 // 2  # bytes of INP, and four bits a tile
    assert stored == pytest.approx(
        {"scratchpads": second * 5.54 / 1e6, "queues": 1092 * 3.19 / 1e6}
    )
    planes = more(with_capability(Capability.WEIGHT_CODE))
    assert planes == pytest.approx(
        {"queues": (785 + (678 + 825) / 4) * 3.19 / 1e6, "registers": 467 * 4.52 / 1e6}
    )
    packed = more(with_capability(Capability.WEIGHTS4))
    assert packed == pytest.approx(
        {"queues": ((1921 + 678 / 4) * 3.19 + 9 * 419) / 1e6, "registers": 548 * 4.52 / 1e6}
    )


def test_each_product_reads_both_memories_of_inp() -> None:
    """What a LOAD writes goes to one of them only."""
    steps, a = Counts(gemm_steps=1_000_000), replace(Assumptions(), logic_at_limit=0.0)
    second = with_capability(Capability.STORE_INP)
    more = (
        energy_uj(steps, second, a, 0)["scratchpads"]
        - energy_uj(steps, changed(), a, 0)["scratchpads"]
    )
    assert more == pytest.approx(16 * 2.5)
    loaded = Counts(read_inp=1_000_000)
    assert energy_uj(loaded, second, a, 0) == energy_uj(loaded, changed(), a, 0)


def test_a_store_that_requantizes_takes_energy_for_it() -> None:
    stored, a = Counts(write=1_000_000), replace(Assumptions(), logic_at_limit=0.0)
    plain, second = changed(), with_capability(Capability.STORE_REQUANTIZE)
    first, then = (energy_uj(stored, config, a, 0) for config in (plain, second))
    assert (first["alu"], then["alu"]) == (0.0, pytest.approx(3.2))
    assert then["scratchpads"] == pytest.approx(4 * first["scratchpads"], rel=0.2)


def test_whole_accumulators_widen_out() -> None:
    """From 8 bits a lane to 32; beside a store that requantizes it is as wide already."""
    a, acc = replace(Assumptions(), logic_at_limit=0.0), Capability.STORE_ACC
    both = with_capability(Capability.STORE_REQUANTIZE)
    more = area_mm2(with_capability(acc), a)["scratchpads"] - area_mm2(changed(), a)["scratchpads"]
    lanes = changed().depth(Memory.ACC) * changed().batch * changed().block
    assert more == pytest.approx(3 * lanes * a.sram_um2_per_byte / 1e6)
    wide = replace(both, capabilities=both.capabilities | acc)
    assert area_mm2(wide, a)["scratchpads"] == area_mm2(both, a)["scratchpads"]


def test_whole_accumulators_choose_words() -> None:
    """In each of 16 lanes as in each of `vtaq-1x8x8`'s 8."""
    a, acc = replace(Assumptions(), logic_at_limit=0.0), Capability.STORE_ACC
    plain, whole = area_mm2(changed(), a), area_mm2(with_capability(acc), a)
    assert whole["queues"] - plain["queues"] == pytest.approx(2 * 457 * 3.19 / 1e6)
    assert whole["registers"] - plain["registers"] == pytest.approx(2 * 48 * 4.52 / 1e6)


def test_queues_take_area() -> None:
    long, short = (with_timing("stage_queue_entries", n) for n in (512, 4))
    a = Assumptions()
    extra = area_mm2(long, a)["queues"] - area_mm2(short, a)["queues"]
    assert extra == pytest.approx(3 * 508 * 16 * 5.54 / 1e6)


def test_the_highest_clock_depends_on_the_device() -> None:
    """On its block, its largest scratchpad, its numbers, and the node."""
    a, config = Assumptions(), load_config("vtaq-1x8x8")
    assert clock_limit_mhz(config, a) == pytest.approx(1e6 / (73 * 25))
    assert clock_limit_mhz(changed(), a) == pytest.approx(1e6 / (81 * 25))
    slow = replace(a, sram_ps=2 * a.sram_ps)  # 256 KiB of weights are the longest then
    assert clock_limit_mhz(changed(), slow) == pytest.approx(1e6 / (1200 * 8**0.5))
    assert clock_limit_mhz(load_config("vtab-1x16x16"), a) < clock_limit_mhz(changed(), a)
    fine = assumptions_of("s.yaml", {"node_nm": 16})
    assert clock_limit_mhz(config, fine) > 1.9 * clock_limit_mhz(config, a)
    assert clock_limit_mhz(config, replace(a, clock_limit_mhz=50)) == 50


def test_a_node_scales_what_is_published_and_not_what_is_given() -> None:
    fine = assumptions_of("s.yaml", {"node_nm": 7, "int8_mac_pj": 0.01})
    assert (fine.int8_mac_pj, fine.dram_pj_per_byte) == (0.01, 244.0)
    assert fine.int8_mac_um2 == pytest.approx(419 * 0.059)
    with pytest.raises(ConfigError, match="node_nm=5 is not one of 65, 45, 32, 20"):
        assumptions_of("s.yaml", {"node_nm": 5})


def test_counts_add_up() -> None:
    assert Counts(1, 2, 3, 4, 5, 6, 7, 8, 9) + Counts(read_fetch=1) == Counts(
        1, 2, 3, 5, 5, 6, 7, 8, 9
    )
    assert Counts(1, 2, 3, 4, 5, 6, 7, 8, 9).read == 30
