# SPDX-License-Identifier: Apache-2.0
"""In which order units could start instructions."""

from __future__ import annotations

from loadstone.isa.codec import At
from loadstone.isa.tile_order import early
from loadstone.isa.tiles import InTile, LocalTile, TiledInsn, reached
from tests.isa.tiled_device import random_program, table

ROWS = 8


def order(insns: list[TiledInsn], layers: list[int], quarters: int = 4) -> list[int]:
    made = table(ROWS)
    return early(made, insns, [reached(made, insn) for insn in insns], layers, None, quarters)


def turn(source: str, target: str) -> list[TiledInsn]:
    pad, out = InTile(LocalTile("pad", 4, source)), InTile(LocalTile("out", 4, target))
    mix = TiledInsn("mix", {"row": pad, "target": out, "rows": 4})
    return [
        TiledInsn("read", {"address": At(source), "rows": 4, "row": pad}),
        mix,
        mix,
        TiledInsn("write", {"address": At(target), "rows": 4, "row": out}),
    ]


def test_a_load_comes_before_work_that_it_need_not_wait_for() -> None:
    insns = [*turn("a", "x"), *turn("b", "y")]
    assert order(insns, [0] * 8) == [0, 1, 4, 2, 3, 5, 6, 7]


def test_it_waits_for_room() -> None:
    """Half the memory holds one tile: the second waits for the last use of the first."""
    insns = [*turn("a", "x"), *turn("b", "y")]
    assert order(insns, [0] * 8, quarters=2) == list(range(8))


def test_it_waits_for_the_store_of_what_it_reads() -> None:
    insns = [*turn("a", "x"), *turn("x", "y")]
    assert order(insns, [0] * 8) == list(range(8))


def test_layers_stay_apart() -> None:
    insns = [*turn("a", "x"), *turn("b", "y")]
    assert order(insns, [0] * 4 + [1] * 4) == list(range(8))


def test_a_store_stays_behind_what_touches_memory_before_it() -> None:
    """The planner may put what is written where something stood that is not needed any more."""
    for seed in range(20):
        insns, layers = random_program(seed)
        found = order(insns, layers)
        stores = [n for n in found if insns[n].name == "write"]
        assert stores == sorted(stores)
        for store in stores:
            before = set(found[: found.index(store)])
            assert {n for n in range(store) if insns[n].name == "read"} <= before
