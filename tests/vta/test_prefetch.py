# SPDX-License-Identifier: Apache-2.0
"""prefetch.py: weights come early where the load stage would wait, and only there."""

from __future__ import annotations

from dataclasses import replace

import pytest

from loadstone.backend.region import Address
from loadstone.errors import LoweringError
from loadstone.vta.hw_config import load_config
from loadstone.vta.isa.spec import Memory
from loadstone.vta.prefetch import Prefetch
from loadstone.vta.program import VtaProgram
from loadstone.vta.stream import DramTile, Operation, TileLoad, TileStore
from tests.vta.hand_lowered import behind, compare_golden, small_program
from tests.vta.test_allocate import gemm, load, tile

CONFIG = load_config("vtaq-tiny")  # 256 tiles in each scratchpad


def order_of(operations: list[Operation]) -> list[int]:
    """Numbers of the operations behind the pass; its verifier has run."""
    before = VtaProgram(CONFIG, {}, [("layer", operation) for operation in operations])
    after = Prefetch().run(before)
    Prefetch().verify(before, after)
    assert after.source_order == before.operations
    number = {id(operation): k for k, operation in enumerate(operations)}
    return [number[id(operation)] for _, operation in after.operations]


def two_layers(tiles: int, late: bool) -> list[Operation]:
    """Layer 2 reads what layer 1 stores. late: it uses the weights of layer 1 once more."""
    w1, w2 = tile(Memory.WGT, tiles, "w1"), tile(Memory.WGT, tiles, "w2")
    x1, x2 = tile(Memory.INP, 8, "x1"), tile(Memory.INP, 8, "x2")
    a1, a2 = tile(Memory.ACC, 8), tile(Memory.ACC, 8)
    return [
        load(x1, "x"),
        load(w1, "w1"),
        gemm(a1, x1, w1, 5000),
        TileStore(a1, 0, DramTile("y", 0), 1, 8, 8),
        load(x2, "y"),
        *([gemm(a2, x2, w1)] if late else []),
        load(w2, "w2"),
        gemm(a2, x2, w2, 5000),
        TileStore(a2, 0, DramTile("z", 0), 1, 8, 8),
    ]


def test_the_text_behind_the_pass_is_the_golden_one(update_golden: bool) -> None:
    compare_golden("prefetch", behind("prefetch", small_program()).text(), update_golden)


def test_weights_are_pulled_into_the_gap_before_an_input_that_waits() -> None:
    order = order_of(two_layers(8, late=False))
    assert sorted(order) == list(range(8))
    assert order.index(3) < order.index(5) < order.index(4)


def test_weights_are_not_pulled_where_there_is_no_room() -> None:
    assert order_of(two_layers(150, late=True)) == list(range(9))


def test_weights_stay_where_no_load_waits() -> None:
    operations = two_layers(8, late=False)
    other = tile(Memory.INP, 8, "other")
    operations[4] = load(other, "not stored by anybody")
    assert order_of(operations) == list(range(8))


def test_the_verifier_finds_what_may_not_move() -> None:
    operations = [("layer", operation) for operation in two_layers(8, late=False)]
    before = VtaProgram(CONFIG, {}, operations)
    swapped = [*operations[:3], operations[4], operations[3], *operations[5:]]
    with pytest.raises(LoweringError, match="other than a load of weights moved"):
        Prefetch().verify(before, replace(before, operations=swapped))
    late = [*operations[:5], operations[6], operations[5], operations[7]]
    with pytest.raises(LoweringError, match="w2 is used before its load"):
        Prefetch().verify(before, replace(before, operations=late))
    copied = [*operations[:5], ("layer", load(tile(Memory.WGT, 8), "w2")), *operations[6:]]
    assert isinstance(copied[5][1], TileLoad)
    with pytest.raises(LoweringError, match="other than a load of weights moved"):
        Prefetch().verify(before, replace(before, operations=copied))


def test_what_the_program_stores_does_not_come_early_as_weights() -> None:
    """An activation that the GEMM core reads as weights is there when its store is done; also
    under the name of a tensor that it is a part of."""
    operations = [
        *two_layers(8, late=False)[:4],
        load(tile(Memory.INP, 8, "x2"), "y"),
        load(tile(Memory.WGT, 8, "w2"), "y"),
    ]
    assert order_of(operations) == list(range(6))
    renamed = [*operations[:5], load(tile(Memory.WGT, 8, "w2"), "whole")]
    places = {name: Address(2, 0) for name in ("y", "whole")}
    before = VtaProgram(CONFIG, places, [("layer", operation) for operation in renamed])
    assert Prefetch().run(before).operations == before.operations
