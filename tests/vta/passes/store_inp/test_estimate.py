# SPDX-License-Identifier: Apache-2.0
"""estimate.py: near the simulator's cycles, and nothing where a program has no room."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import pytest

from loadstone.compiler import compile as compile_model
from loadstone.simulator.programs import program_cycles
from loadstone.vta.passes.allocate.allocate import Allocate
from loadstone.vta.passes.encode.encode import Encode
from loadstone.vta.passes.prefetch import Prefetch
from loadstone.vta.passes.program import ProgramPass, VtaProgram
from loadstone.vta.passes.store_inp import store_inp
from loadstone.vta.passes.store_inp.estimate import estimate
from loadstone.vta.passes.synchronize.synchronize import Synchronize
from tests.vta.passes.store_inp.two_layers import KEEPING, TwoLayers

FOLLOWING = (Prefetch(), Allocate(), Encode(), Synchronize())


def test_a_program_without_room_has_none() -> None:
    assert estimate(TwoLayers().program(), FOLLOWING) is not None
    assert estimate(TwoLayers(height=60, width=60, rows=1).program(), FOLLOWING) is None


@pytest.mark.parametrize("name", ["mlpt_kws_int8.tflite", "mlpt_resnet8_int8.tflite"])
def test_the_least_estimate_is_near_the_simulators_cycles(
    shared: Path, name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    found: dict[int, list[int]] = {}  # by the number of layers: chains are estimated alone

    def watched(program: VtaProgram, following: Sequence[ProgramPass]) -> int | None:
        cycles = estimate(program, following)
        own = found.setdefault(len({layer for layer, _ in program.operations}), [])
        own.extend([] if cycles is None else [cycles])
        return cycles

    monkeypatch.setattr(store_inp, "estimate", watched)
    artifact = compile_model(shared / "models" / name, KEEPING).artifact
    (cycles,) = program_cycles(artifact, KEEPING)
    assert 0.9 * cycles < min(found[max(found)]) < 1.1 * cycles
