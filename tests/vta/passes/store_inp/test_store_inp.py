# SPDX-License-Identifier: Apache-2.0
"""store_inp.py: what the next layer reads is stored where it reads it, and computes the same."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from loadstone.compiler import compile as compile_model
from loadstone.errors import LoweringError
from loadstone.runtime import device
from loadstone.simulator.programs import program_cycles
from loadstone.vta.isa.spec import Memory
from loadstone.vta.passes.program import VtaProgram
from loadstone.vta.passes.store_inp.store_inp import StoreInp
from loadstone.vta.stream.operations import TileLoad, TileStore
from tests.compiled import golden
from tests.vta.passes.store_inp.two_layers import KEEPING, SECOND, TwoLayers


def behind(layers: TwoLayers) -> VtaProgram:
    """The program behind the pass; its verifier has run, and both compute the same."""
    before = layers.program()
    after = StoreInp().run(before)
    StoreInp().verify(before, after)
    assert np.array_equal(layers.result(after.operations), layers.result(before.operations))
    return after


def loads(program: VtaProgram, tensor: str) -> int:
    """How many loads read a tensor from DRAM."""
    of = [o for _, o in program.operations if isinstance(o, TileLoad)]
    return sum(o.memory is Memory.INP and o.dram.tensor == tensor for o in of)


def stores(program: VtaProgram, *, to_inp: bool) -> list[TileStore]:
    """Of the first layer."""
    every = [o for _, o in program.operations if isinstance(o, TileStore)]
    return [o for o in every if o.dram.tensor == "mid" and (o.inp is not None) == to_inp]


@pytest.mark.parametrize(("height", "width", "rows"), [(6, 5, 4), (4, 4, 4), (9, 3, 1), (40, 7, 9)])
def test_a_tensor_stays_in_inp(height: int, width: int, rows: int) -> None:
    after = behind(TwoLayers(height, width, rows))
    assert loads(after, "mid") == 0
    assert not stores(after, to_inp=False)
    assert len(stores(after, to_inp=True)) == 2 * -(-height // rows)


def test_what_is_read_twice_is_stored_once() -> None:
    after = behind(TwoLayers(again=True))
    assert loads(after, "mid") == 0
    assert len(stores(after, to_inp=True)) == 4


def test_what_others_see_goes_to_dram_as_well() -> None:
    layers = TwoLayers(inside=False)
    program = replace(layers.program(), inside=frozenset({"nothing"}))
    after = StoreInp().run(program)
    StoreInp().verify(program, after)
    assert np.array_equal(layers.result(after.operations), layers.result(program.operations))
    assert len(stores(after, to_inp=False)) == 2


def test_what_has_no_room_stays_in_dram() -> None:
    after = behind(TwoLayers(height=40, width=38, rows=5))
    assert loads(after, "mid") == 2
    assert not stores(after, to_inp=True)


def test_a_device_that_cannot_keeps_its_program() -> None:
    before = TwoLayers(config=SECOND).program()
    assert StoreInp().run(before) is before


def test_a_program_that_reads_otherwise_is_refused_behind_the_pass() -> None:
    before = TwoLayers().program()
    after = StoreInp().run(before)
    with pytest.raises(LoweringError):
        StoreInp().verify(before, replace(after, operations=after.operations[:-1]))


def test_keywords_on_the_simulator_are_litert_s(shared: Path) -> None:
    file = "mlpt_kws_int8.tflite"
    model = shared / "models" / file
    artifact = compile_model(model, KEEPING).artifact
    inputs, outputs = golden(shared, file, 3)
    with device.open("sim") as opened, opened.load(artifact) as session:
        found = session.run(inputs)
    for got, wanted in zip(found, outputs, strict=True):
        assert np.array_equal(got, wanted)
    before = compile_model(model, SECOND).artifact
    assert sum(program_cycles(artifact, KEEPING)) < 0.8 * sum(program_cycles(before, SECOND))
