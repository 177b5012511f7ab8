# SPDX-License-Identifier: Apache-2.0
"""verify.py: what stores otherwise, or lets others read otherwise, is refused."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import pytest

from loadstone.errors import LoweringError
from loadstone.numerics import Rounding
from loadstone.vta.isa.spec import AluOp, Memory
from loadstone.vta.passes.program import LayerOperation, VtaProgram
from loadstone.vta.passes.store_requantize.store_requantize import StoreRequantize
from loadstone.vta.passes.store_requantize.verify import verify_stores
from loadstone.vta.stream.operations import (
    Access,
    AluNest,
    DramTile,
    InpTiles,
    StoreRequantization,
    TileStore,
    VirtualTile,
)
from tests.vta.passes.store_requantize.test_store_requantize import SECOND, TILES, Stream

S = Stream()
BEFORE: list[LayerOperation] = [
    ("layer", operation)
    for operation in (
        *S.begin(),
        S.rq((4, 16), (16, 1), (3, 0)),
        S.store(4, 16, 40),
    )
]
AFTER = StoreRequantize().run(VtaProgram(SECOND, {}, BEFORE)).operations


def changed(**values: object) -> list[LayerOperation]:
    """What is behind the pass, with another store."""
    layer, store = AFTER[-1]
    assert isinstance(store, TileStore)
    return [*AFTER[:-1], (layer, replace(store, **values))]


def requantized(**values: object) -> list[LayerOperation]:
    store = AFTER[-1][1]
    assert isinstance(store, TileStore)
    by: StoreRequantization | None = store.requantization
    assert by is not None
    return changed(requantization=replace(by, **values))


def test_what_the_pass_makes_is_accepted() -> None:
    verify_stores(BEFORE, AFTER)
    verify_stores(AFTER, AFTER)


def reads_what_is_no_longer_requantized() -> list[LayerOperation]:
    other = VirtualTile(Memory.ACC, TILES, "other")
    adds = AluNest(AluOp.ADD, (TILES,), Access(other, 0, (1,)), Access(S.acc, 0, (1,)))
    reader = ("layer", adds)
    with pytest.raises(LoweringError):
        verify_stores([*BEFORE, reader], [*AFTER, reader])
    return changed(requantization=None)


MISTAKES: dict[str, Callable[[], list[LayerOperation]]] = {
    "not requantized": lambda: changed(requantization=None),
    "other operands": lambda: requantized(offset=3),
    "no step": lambda: requantized(step=0),
    "another tile": lambda: requantized(tile=S.acc),
    "whole accumulators": lambda: changed(whole=True),
    "to INP": lambda: changed(inp=InpTiles(VirtualTile(Memory.INP, TILES, "inp"), 0)),
    "another zero point": lambda: requantized(zero_point=4),
    "another least": lambda: requantized(low=-91),
    "another largest": lambda: requantized(high=99),
    "another rounding": lambda: requantized(rounding=Rounding.SINGLE),
    "another place in ACC": lambda: changed(offset=1, y_size=3),
    "another place in DRAM": lambda: changed(dram=DramTile("out", 6)),
    "another stride": lambda: changed(x_stride=41),
    "fewer rows": lambda: changed(y_size=3),
    "twice": lambda: [*AFTER, AFTER[-1]],
    "requantized by both": lambda: [*AFTER[:-1], BEFORE[2], AFTER[-1]],
    "before the sums": lambda: [AFTER[0], AFTER[2], AFTER[1]],
    "before its operands": lambda: [AFTER[1], AFTER[2], AFTER[0]],
    "of another layer": lambda: [*AFTER[:-1], ("other", AFTER[-1][1])],
    "a read of what compute no longer requantizes": reads_what_is_no_longer_requantized,
}


def test_operands_that_were_loaded_again_are_others() -> None:
    """Compute requantized by the first ones, the store by the second ones."""
    again: LayerOperation = ("layer", replace(S.load, dram=DramTile("p", 12)))
    with pytest.raises(LoweringError, match="something else is stored"):
        verify_stores([*BEFORE[:-1], again, BEFORE[-1]], [*AFTER[:-1], again, AFTER[-1]])


@pytest.mark.parametrize("mistake", MISTAKES)
def test_a_mistake_is_found(mistake: str) -> None:
    with pytest.raises(LoweringError, match=r"store_requantize: (layer|other): something else"):
        verify_stores(BEFORE, MISTAKES[mistake]())
