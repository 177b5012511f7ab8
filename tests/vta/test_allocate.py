"""allocate.py: windows, reuse of content, and what does not fit, each rule alone."""

from __future__ import annotations

import pytest

from loadstone.errors import LoweringError
from loadstone.vta.allocate import allocate
from loadstone.vta.hw_config import load_config
from loadstone.vta.isa.spec import Memory
from loadstone.vta.stream import (
    Access,
    DramTile,
    GemmNest,
    Operation,
    TileLoad,
    TileStore,
    VirtualTile,
)

CONFIG = load_config("vtaq-tiny")  # 256 tiles in each scratchpad


def tile(memory: Memory, size: int, name: str = "t") -> VirtualTile:
    return VirtualTile(memory, size, name)


def load(into: VirtualTile, tensor: str, first: int = 0) -> TileLoad:
    return TileLoad(
        into.memory, into, 0, DramTile(tensor, first), 1, into.size_tiles, into.size_tiles
    )


def gemm(acc: VirtualTile, inp: VirtualTile, wgt: VirtualTile, steps: int = 1) -> GemmNest:
    return GemmNest((steps,), Access(acc, 0, (0,)), Access(inp, 0, (0,)), Access(wgt, 0, (0,)))


def use(inp: VirtualTile, acc: VirtualTile, wgt: VirtualTile) -> Operation:
    return gemm(acc, inp, wgt)


def test_tiles_rotate_through_the_scratchpad() -> None:
    acc, wgt = tile(Memory.ACC, 1), tile(Memory.WGT, 1)
    tiles = [tile(Memory.INP, 100, f"x{k}") for k in range(4)]
    operations: list[Operation] = [load(wgt, "w")]
    for k, x in enumerate(tiles):
        operations += [load(x, "x", 100 * k), use(x, acc, wgt)]
    address = allocate(operations, CONFIG).address
    assert [address[x] for x in tiles] == [0, 100, 0, 100]


def test_content_that_is_still_there_is_not_loaded_again() -> None:
    acc, first, again = tile(Memory.ACC, 1), tile(Memory.WGT, 9), tile(Memory.WGT, 9)
    x = tile(Memory.INP, 4)
    operations = [
        load(x, "x"),
        load(first, "w"),
        use(x, acc, first),
        load(again, "w"),
        use(x, acc, again),
    ]
    result = allocate(operations, CONFIG)
    assert result.kept == [0, 1, 2, 4]
    assert result.address[first] == result.address[again]
    assert (result.loads_dropped, result.tiles_dropped) == (1, 9)


def test_other_content_of_the_same_size_is_loaded() -> None:
    acc, first, other, x = (
        tile(Memory.ACC, 1),
        tile(Memory.WGT, 9),
        tile(Memory.WGT, 9),
        tile(Memory.INP, 4),
    )
    operations = [
        load(x, "x"),
        load(first, "w"),
        use(x, acc, first),
        load(other, "w", 9),
        use(x, acc, other),
    ]
    assert allocate(operations, CONFIG).loads_dropped == 0


def test_content_that_is_wanted_again_is_given_away_last() -> None:
    acc, x = tile(Memory.ACC, 1), tile(Memory.INP, 1)
    kept, once, new, again = (tile(Memory.WGT, 120, n) for n in ("kept", "once", "new", "again"))
    operations: list[Operation] = [
        load(x, "x"),
        load(kept, "k"),
        use(x, acc, kept),
        load(once, "o"),
        use(x, acc, once),
    ]
    operations += [load(new, "n"), use(x, acc, new), load(again, "k"), use(x, acc, again)]
    result = allocate(operations, CONFIG)
    assert result.address[new] == result.address[once]
    assert result.address[again] == result.address[kept]
    assert result.loads_dropped == 1


def test_a_tile_that_alu_or_gemm_writes_is_no_content() -> None:
    wgt, x = tile(Memory.WGT, 1), tile(Memory.INP, 1)
    a, b = tile(Memory.ACC, 2), tile(Memory.ACC, 2)
    operations: list[Operation] = [load(wgt, "w"), load(x, "x")]
    for acc in (a, b):
        operations += [
            load(acc, "bias"),
            use(x, acc, wgt),
            TileStore(acc, 0, DramTile("y", 0), 1, 2, 2),
        ]
    assert allocate(operations, CONFIG).loads_dropped == 0


def test_what_does_not_fit_is_named_with_the_room_there_is() -> None:
    acc, wgt, x = tile(Memory.ACC, 1), tile(Memory.WGT, 200, "kernel"), tile(Memory.INP, 1)
    more = tile(Memory.WGT, 57, "more")
    operations = [
        load(x, "x"),
        load(wgt, "w"),
        load(more, "m"),
        use(x, acc, wgt),
        use(x, acc, more),
    ]
    with pytest.raises(
        LoweringError, match="WGT has no room for more of 57 tiles: 200 of 256 are in use"
    ):
        allocate(operations, CONFIG)
