"""Vectors on the hardware: the simulator's own, byte for byte and cycle for cycle, and what is
said of one that differs."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from loadstone.cli import main
from loadstone.simulator.rtl_build import missing
from loadstone.simulator.rtl_replay import RtlReplay
from loadstone.simulator.vectors import DramRegion, Stimulus, Vector, measure, save_vectors
from tests.programs import BASE, random_program
from tests.simulator.test_rtl import TINY

pytestmark = pytest.mark.skipif(bool(missing()), reason=missing() or "the RTL can be built")


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


def test_the_command_replays_on_the_hardware(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    save_vectors(tmp_path, [vector(6)])
    words = ["replay", str(tmp_path), "--device"]
    assert main([*words, "rtl", "--max-error", "0"]) == 0
    assert "exact" in capsys.readouterr().out
    assert main([*words, "rtl", "--strict"]) == 2
    assert "--strict" in capsys.readouterr().err
