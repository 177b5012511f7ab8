# SPDX-License-Identifier: Apache-2.0
"""Races and uninitialised reads: found where they are, and only there; held against an oracle of
plain sets and graphs."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

import numpy as np
import pytest

from loadstone.vta.device.hw_config import HwConfig
from loadstone.vta.isa.asm import assemble
from loadstone.vta.isa.codec import decode_stream, encode_stream
from loadstone.vta.isa.insn import Insn
from loadstone.vta.isa.spec import Capability
from loadstone.vta.simulator.sim import Simulator
from loadstone.vta.simulator.vectors import load_vectors
from tests.ordering import conflicts_of, tokens_of, unordered, without
from tests.programs import BASE, random_program
from tests.simulated import TINY, TINY_INP, TINY_STORING, TINY_WINDOWS, VTA, simulate_text


def races_of(
    insns: list[Insn], config: HwConfig, memory: np.ndarray, base: int
) -> set[tuple[int, int]] | None:
    """Pairs that the simulator reports; None for a deadlock, also one of load or store that FINISH
    does not wait for."""
    simulator = Simulator(config, strict=False, races=True, timing=False)
    simulator.map(base, memory.copy())
    if config.has(Capability.REGIONS):
        simulator.set_region(0, base, memory.size)
    result = simulator.run(encode_stream(insns, config), check=False)
    assert result.status in ("NONE", "DEADLOCK")
    found = simulator.findings()
    assert len(found) == result.findings
    return (
        None
        if result.insns_done < len(insns)
        else {(min(f.insn, f.other), max(f.insn, f.other)) for f in found if f.other is not None}
    )


def agree(
    found: set[tuple[int, int]] | None, oracle: set[tuple[int, int]] | None, what: str
) -> None:
    """The check names only real races, and is silent only when there is none."""
    assert (found is None) == (oracle is None), what
    if found is not None and oracle is not None:
        assert found <= oracle, what
        assert bool(found) == bool(oracle), what


@pytest.mark.parametrize(
    "name",
    [
        "conv1x1_v1",
        "conv1x1_v2",
        "conv3x3_v1",
        "conv3x3_v2",
        "conv3x3s2_v1",
        "conv3x3s2_v2",
        "conv5x5_v1",
        "conv5x5_v2",
    ],
)
def test_a_missing_token_of_a_convolution_is_a_race_or_a_deadlock_or_proven_redundant(
    shared: Path, name: str
) -> None:
    vector = load_vectors([shared / "vta_rtl" / f"conv_{name}.npz"])[0]
    insns = list(decode_stream(vector.insns, vector.config))
    tokens = tokens_of(insns)
    assert tokens
    conflicts = conflicts_of(insns, vector.config, vector.dram_in, vector.dram_base)
    outcomes = Counter[str]()
    for push, pop in tokens:
        for removed in ((push, pop), (push,), (pop,)):
            mutant = without(insns, *removed)
            found = races_of(mutant, vector.config, vector.dram_in, vector.dram_base)
            agree(found, unordered(mutant, conflicts), f"{name} without {removed}")
            outcomes["deadlock" if found is None else "race" if found else "redundant"] += 1
    assert outcomes["race"] > 0
    assert outcomes["deadlock"] > 0


def test_every_token_of_a_convolution_counts_or_another_covers_it(shared: Path) -> None:
    """The tokens that a removal finds redundant can all be gone, one after the other, as long as
    each stays redundant."""
    vector = load_vectors([shared / "vta_rtl" / "conv_conv3x3_v2.npz"])[0]
    insns = list(decode_stream(vector.insns, vector.config))
    changed = True
    while changed:
        changed = False
        for token in tokens_of(insns) or []:
            fewer = without(insns, *token)
            if races_of(fewer, vector.config, vector.dram_in, vector.dram_base) == set():
                insns, changed = fewer, True
                break
    memory = vector.dram_in.copy()
    simulator = vector.simulator(memory, strict=False)
    assert simulator.run(encode_stream(insns, vector.config), check=False).status == "NONE"
    np.testing.assert_array_equal(memory, vector.dram_out())


@pytest.mark.parametrize(
    "config", [VTA, TINY, TINY_STORING, TINY_WINDOWS, TINY_INP], ids=lambda c: c.name
)
def test_race_check_is_exact_on_random_programs_with_tokens_removed(config: HwConfig) -> None:
    outcomes = Counter[str]()
    for seed in range(60):
        rng = np.random.default_rng(seed)
        program = random_program(config, rng, 16)
        tokens = tokens_of(program.objects) or []
        base = 0 if config.has(Capability.REGIONS) else BASE
        conflicts = conflicts_of(program.objects, config, program.memory, base)
        for _ in range(3):
            flags = [flag for token in tokens for flag in token if rng.random() < 0.15]
            mutant = without(program.objects, *flags)
            found = races_of(mutant, config, program.memory, BASE)
            agree(found, unordered(mutant, conflicts), f"seed {seed}")
            outcomes["deadlock" if found is None else "race" if found else "none"] += 1
    assert min(outcomes.values()) > 5
    assert len(outcomes) == 3


@pytest.mark.parametrize(("first", "step"), [(8, ""), (5, " + 3y")])
def test_operands_of_a_store_are_read_by_it(first: int, step: str) -> None:
    """A LOAD that writes one of them, behind the STORE, must wait for it."""
    text = (
        "load acc[0] = dram[0 + x] for x<16 push(store)\n"
        f"pop(compute) store dram[256 + 1y + x] = out[0] rq acc[{first}{step}] for y<2 x<1 "
        "push(compute)\n{}load acc[10] = dram[0 + x] for x<1\n{}finish"
    )
    late, early = (text.format(*pops) for pops in (("pop(store) ", ""), ("", "pop(store) ")))
    assert simulate_text(late, TINY_STORING, races=True)[0].findings() == []
    (found,) = simulate_text(early, TINY_STORING, races=True)[0].findings()
    assert "ACC tiles 10 to 10" in found.text
    simulator, _ = simulate_text(text.format("pop(store) ", ""), TINY_STORING, uninitialised=True)
    assert simulator.findings() == []
    bare = text.replace("x<16", "x<8").format("pop(store) ", "")
    (found,) = simulate_text(bare, TINY_STORING, uninitialised=True)[0].findings()
    assert "reads ACC tiles 8 to 10, never written" in found.text


def test_what_load_and_store_both_write_in_inp_is_a_race_that_compute_orders() -> None:
    text = (
        "{}load inp[4] = dram[0 + x] for x<3 push(compute)\n{}{}nop compute{}{}\n"
        "{}store inp[6 + x] = out[0] for x<2 push(compute)\n{}pop(store) finish"
    )
    stored_late = text.format("", "pop(load) ", "", "", " push(store)", "pop(compute) ", "")
    stored_early = text.format("", "", "", "", "", "", "pop(load) nop compute\n")
    assert simulate_text(stored_late, TINY_INP, races=True)[0].findings() == []
    (found,) = simulate_text(stored_early, TINY_INP, races=True)[0].findings()
    assert "INP tiles 6 to 6" in found.text
    assert found.writes == (True, True)


def test_what_store_wrote_in_inp_is_read_behind_its_token() -> None:
    product = "gemm acc[u] += inp[u+4i] * wgt[u] for i<2 j<1 u in 0..1"
    text = (
        "load uop[0] = dram[1024 + x] for x<1\nload acc[0] = dram[0 + x] for x<4\n"
        "load wgt[0] = dram[0 + x] for x<1 push(compute)\npop(load) nop compute push(store)\n"
        "pop(compute) store inp[0 + 4y + x] = out[0] for y<2 x<1 push(compute)\n{}\n{}finish"
    )
    late, early = (text.format(*parts) for parts in ((f"pop(store) {product}", ""), (product, "")))
    early = early.replace("finish", "pop(store) finish")
    ordered, result = simulate_text(late, TINY_INP, races=True, uninitialised=True)
    assert (ordered.findings(), result.status) == ([], "NONE")
    findings = simulate_text(early, TINY_INP, races=True)[0].findings()
    (found,) = (f for f in findings if f.memory == "INP")  # the product also writes ACC
    assert "INP tiles 0 to 4" in found.text
    assert found.writes in ((False, True), (True, False))


def test_uninitialised_reads_are_told_once_an_instruction() -> None:
    text = (
        "load uop[0] = dram[1024 + x] for x<1\ngemm acc[u] += inp[u+1i] * wgt[u] for i<4 "
        "j<1 u in 0..1\nfinish"
    )
    simulator, result = simulate_text(text, VTA, uninitialised=True)
    assert result.status == "NONE"
    texts = [f.text for f in simulator.findings()]
    assert any("reads INP tiles 0 to 3, never written" in t for t in texts)
    assert any("WGT tiles 0 to 0" in t for t in texts)
    assert any("ACC tiles 0 to 0" in t for t in texts)
    assert len(texts) == 3
    loads = (
        "load inp[0] = dram[256 + x] for x<4\nload wgt[0] = dram[16 + x] for x<1 "
        "push(compute)\nload acc[0] = dram[64 + x] for x<1\n"
    )
    simulator, _ = simulate_text(
        loads + text.replace("gemm", "pop(load) gemm"), VTA, uninitialised=True
    )
    assert simulator.findings() == []


def test_what_was_written_in_an_earlier_run_stays_written() -> None:
    simulator = Simulator(VTA, strict=False, uninitialised=True)
    simulator.map(BASE, np.zeros(4096, np.uint8))
    read = assemble("store dram[256 + x] = out[5] for x<1\nfinish", VTA)
    write = assemble("load acc[5] = dram[64 + x] for x<1\nfinish", VTA)
    assert simulator.run(read).findings == 1
    simulator.run(write)
    assert simulator.run(read).findings == 0
    simulator.reset()
    assert simulator.run(read).findings == 1
