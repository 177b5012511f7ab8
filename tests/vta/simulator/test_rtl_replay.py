# SPDX-License-Identifier: Apache-2.0
"""Vectors on the hardware: the simulator's own, byte for byte and cycle for cycle, and what is
said of one that differs."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from loadstone.cli import main
from loadstone.simulator.vector_files import DramRegion
from loadstone.vta.simulator.rtl_replay import RtlReplay
from loadstone.vta.simulator.vectors import (
    Stimulus,
    Vector,
    load_vectors,
    measure,
    save_vectors,
)
from tests.programs import BASE, random_program
from tests.repeat import more
from tests.vta.simulator.test_rtl import TINY

pytestmark = pytest.mark.usefixtures("verilator")


def vector(seed: int) -> Vector:
    """A random program of vtaq-tiny with what the simulator makes of it."""
    p = random_program(TINY, np.random.default_rng(seed))
    regions = [DramRegion(BASE, p.memory.size)]
    return measure(Stimulus(f"r{seed}", TINY, p.insns, BASE, p.memory, regions, group="random"))


def test_vectors_of_the_simulator_are_exact_on_the_hardware() -> None:
    hardware = RtlReplay()
    for seed in (3, 4):
        replayed = hardware.replay(vector(seed))
        assert (replayed.exact, replayed.message) == (True, "")
        assert replayed.cycles == replayed.measured


def test_a_byte_that_differs_is_named() -> None:
    right = vector(3)
    wrong = replace(right, out=right.out ^ np.eye(1, right.out.size, dtype=np.uint8)[0])
    replayed = RtlReplay().replay(wrong)
    where = right.dram_base + int(right.out_regions[0, 0])
    assert not replayed.exact
    assert replayed.message.startswith(f"1 bytes differ, the first at 0x{where:x}")


def test_beats_and_bursts_that_differ_are_named() -> None:
    right = vector(3)
    beats = right.counters["rd_beats"]
    replayed = RtlReplay().replay(
        replace(right, counters={**right.counters, "rd_beats": beats + 1})
    )
    assert (replayed.exact, replayed.message) == (False, f"rd_beats {beats} instead of {beats + 1}")
    assert RtlReplay().replay(replace(right, counters={"rd_beats": -1})).exact  # not counted


@more
@pytest.mark.parametrize(("folder", "programs"), [("vta_rtl", 200), ("vta_exact", 15)])
def test_as_vta_it_takes_the_cycles_of_vtas_rtl(shared: Path, folder: str, programs: int) -> None:
    """Bytes, beats, bursts, and cycles at both latencies, of every program that was recorded."""
    hardware = RtlReplay()
    replayed = [hardware.replay(v) for v in load_vectors([shared / folder])]
    assert len(replayed) == programs
    assert [(r.name, r.message) for r in replayed if not r.exact] == []
    assert [r.name for r in replayed if any(r.errors().values())] == []


def test_the_command_replays_on_the_hardware(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    save_vectors(tmp_path, [vector(6)])
    words = ["replay", str(tmp_path), "--device"]
    assert main([*words, "rtl", "--max-error", "0"]) == 0
    assert "exact" in capsys.readouterr().out
    assert main([*words, "rtl", "--strict"]) == 2
    assert "--strict" in capsys.readouterr().err
