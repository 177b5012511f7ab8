# SPDX-License-Identifier: Apache-2.0
"""flow.py: who reads what whom has stored, and what else reads it."""

from __future__ import annotations

from dataclasses import replace

from loadstone.backend.region import Address
from loadstone.vta.isa.spec import Memory
from loadstone.vta.passes.program import VtaProgram
from loadstone.vta.passes.store_inp.flow import flow_of
from loadstone.vta.stream.operations import (
    Access,
    DramTile,
    GemmNest,
    Operation,
    TileLoad,
    TileStore,
    VirtualTile,
)
from tests.vta.passes.store_inp.two_layers import TwoLayers

LAYERS = TwoLayers(again=True)


def beside(*operations: Operation, index: int | None = None) -> VtaProgram:
    """The two layers, with others behind them, or in front of an operation."""
    program = LAYERS.program()
    own = list(program.operations)
    at = len(own) if index is None else index
    return replace(program, operations=own[:at] + [("more", o) for o in operations] + own[at:])


def test_two_contents_of_two_tiles_each() -> None:
    flow = flow_of(LAYERS.program())
    first, second = flow.contents
    assert [tile.name for tile in first.tiles] == ["mid00", "mid01"]
    assert (first.size, len(first.loads), len(first.used), len(first.padded)) == (56, 2, 2, 1)
    stored = [n for n, (_, o) in enumerate(LAYERS.program().operations) if type(o) is TileStore]
    assert sorted(first.parts) == stored[:2]
    assert first.first == stored[0]
    assert flow.outside == set(stored[2:])
    # of the first store's two rows of blocks, the second goes to the other tile
    cells = second.parts[stored[0]]
    assert cells[:, 0].tolist() == list(range(20, 40))
    assert cells[:5, 1].tolist() == [8, 9, 10, 11, 12]


def test_whole_accumulators_stay_in_dram() -> None:
    """A quarter of one that is read as input is no tile that a store to INP could leave there."""
    acc, tile = VirtualTile(Memory.ACC, 2, "sums"), VirtualTile(Memory.INP, 1, "read")
    w, other = VirtualTile(Memory.WGT, 1, "w"), VirtualTile(Memory.ACC, 1, "more")
    access = Access(tile, 0, ())
    program = beside(
        TileStore(acc, 0, DramTile("late", 0), 1, 2, 2, whole=True),
        TileLoad(Memory.INP, tile, 0, DramTile("late", 5), 1, 1, 1),
        GemmNest((), Access(other, 0, ()), access, Access(w, 0, ())),
    )
    places = {**program.places, "late": Address(7, 0)}
    flow = flow_of(replace(program, places=places, inside=program.inside | {"late"}))
    assert len(flow.contents) == 2
    assert len(LAYERS.program().operations) in flow.outside


def test_what_is_read_as_weights_stays_in_dram() -> None:
    w = VirtualTile(Memory.WGT, 1, "read")
    flow = flow_of(beside(TileLoad(Memory.WGT, w, 0, DramTile("mid", 0), 1, 1, 1)))
    assert flow.contents[0].first in flow.outside
    assert len(flow.contents) == 2


def test_a_tile_that_others_fill_too_is_none() -> None:
    """Its stores stay in DRAM."""
    tile = VirtualTile(Memory.INP, 2, "both")
    loads = [
        TileLoad(Memory.INP, tile, 0, DramTile("mid", 0), 1, 1, 1),
        TileLoad(Memory.INP, tile, 1, DramTile("x", 0), 1, 1, 1),
    ]
    flow = flow_of(beside(*loads))
    assert len(flow.contents) == 2
    assert flow.contents[0].first in flow.outside


def test_a_tile_that_nobody_reads_is_none() -> None:
    """Products with weights of zeros are left out, and the load of what they would read stays."""
    tile = VirtualTile(Memory.INP, 1, "unread")
    flow = flow_of(beside(TileLoad(Memory.INP, tile, 0, DramTile("mid", 0), 1, 1, 1)))
    assert [len(each.tiles) for each in flow.contents] == [2, 2]
    assert flow.contents[0].first in flow.outside


def test_a_tile_that_nobody_reads_is_left_out_beside_one_of_its_content_that_is_read() -> None:
    """Its load goes with that of the other one, and nothing need be in DRAM for it."""
    index, load = next(
        (n, o)
        for n, (_, o) in enumerate(LAYERS.program().operations)
        if isinstance(o, TileLoad) and o.tile.name == "mid00"
    )
    tile = VirtualTile(Memory.INP, load.tile.size_tiles, "unread")
    alone, both = flow_of(LAYERS.program()), flow_of(beside(replace(load, tile=tile), index=index))
    first = both.contents[0]
    assert {each.name for each in first.tiles} == {"mid00", "mid01", "unread"}
    assert (len(first.loads), len(first.used)) == (3, 2)
    assert {n + (n >= index) for n in alone.outside} == both.outside


def test_a_tile_that_is_loaded_behind_its_use_is_none() -> None:
    tile, acc = VirtualTile(Memory.INP, 1, "t"), VirtualTile(Memory.ACC, 1, "s")
    w = VirtualTile(Memory.WGT, 1, "w")
    load = TileLoad(Memory.INP, tile, 0, DramTile("mid", 0), 1, 1, 1)
    use = GemmNest((1,), Access(acc, 0, (0,)), Access(tile, 0, (0,)), Access(w, 0, (0,)))
    assert len(flow_of(beside(load, use)).contents) == 3
    assert len(flow_of(beside(load, use, load, use)).contents) == 2


def test_tensors_in_one_place_are_one() -> None:
    """A reshape has another name, and its bytes are the same."""
    program = LAYERS.program()
    renamed: list[tuple[str, Operation]] = [
        (layer, replace(o, dram=replace(o.dram, tensor="also")))
        if isinstance(o, TileLoad) and o.dram.tensor == "mid"
        else (layer, o)
        for layer, o in program.operations
    ]
    places = {**program.places, "also": Address(2, 0)}
    flow = flow_of(replace(program, operations=renamed, places=places))
    assert [len(each.tiles) for each in flow.contents] == [2, 2]


def test_contents_before_and_behind_another_store_are_two() -> None:
    program = LAYERS.program()
    own = list(program.operations)
    store = next(n for n, (_, o) in enumerate(own) if type(o) is TileStore)
    again = [
        n for n, (_, o) in enumerate(own) if isinstance(o, TileLoad) and o.tile.name == "mid01"
    ]
    flow = flow_of(beside(own[store][1], index=again[0]))
    assert [len(each.tiles) for each in flow.contents] == [1, 1, 1, 1]
