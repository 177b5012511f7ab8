# SPDX-License-Identifier: Apache-2.0
"""folded_input.py: loads of the input become loads of its folded form, and nothing else changes."""

from __future__ import annotations

from dataclasses import replace

from loadstone.vta.isa.spec import Memory
from loadstone.vta.region.folded_input import folded_name, on_folded
from loadstone.vta.stream.operations import DramTile, TileLoad, TileStore, VirtualTile
from tests.vta.region.blocks import Block


def test_loads_of_the_input_alone_change_their_tensor() -> None:
    operator = Block().operators[0]
    inp, acc = (VirtualTile(memory, 4, "t") for memory in (Memory.INP, Memory.ACC))
    load = TileLoad(Memory.INP, inp, 0, DramTile("x", 3), 1, 4, 4, x_pad_0=1)
    weights = replace(load, dram=DramTile("w", 0))
    store = TileStore(acc, 0, DramTile("x", 0), 1, 4, 4)
    assert folded_name(operator) == "x for a ="
    wanted = [replace(load, dram=DramTile("x for a =", 3)), weights, store]
    assert on_folded(operator, [load, weights, store]) == wanted
