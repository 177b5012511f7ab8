# SPDX-License-Identifier: Apache-2.0
"""store_requantize.py: stores requantize what is only stored, and nothing else changes."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np
import pytest

from loadstone.errors import LoweringError
from loadstone.numerics import Rounding
from loadstone.vta.device.hw_config import HwConfig, load_config
from loadstone.vta.isa.spec import AluOp, Memory
from loadstone.vta.passes.program import VtaProgram
from loadstone.vta.passes.store_requantize.store_requantize import StoreRequantize
from loadstone.vta.stream.operations import (
    Access,
    AluNest,
    DramTile,
    FillNest,
    Operation,
    RequantizeNest,
    TileLoad,
    TileStore,
    VirtualTile,
)
from tests.vta.stream.meaning import execute

FIRST, SECOND = load_config("vtaq-1x16x16"), load_config("vtaq2-1x16x16")
TILES = 64


class Stream:
    """A tile of sums, and operands of four requantizations."""

    def __init__(self) -> None:
        self.acc = VirtualTile(Memory.ACC, TILES, "acc")
        self.operands = VirtualTile(Memory.ACC, 12, "operands")
        self.load = TileLoad(Memory.ACC, self.operands, 0, DramTile("p", 0), 1, 12, 12)
        self.sums = TileLoad(Memory.ACC, self.acc, 0, DramTile("sums", 0), 1, TILES, TILES)

    def rq(
        self, extents: tuple[int, ...], to: Sequence[int], by: Sequence[int], *, at: int = 0
    ) -> RequantizeNest:
        """Strides of what is requantized, and of the operands."""
        access = Access(self.operands, 0, tuple(by))
        double = Rounding.DOUBLE
        return RequantizeNest(extents, Access(self.acc, at, tuple(to)), access, 3, -90, 100, double)

    def store(self, y: int, x: int, stride: int, *, offset: int = 0) -> TileStore:
        return TileStore(self.acc, offset, DramTile("out", 5), y, x, stride)

    def begin(self) -> list[Operation]:
        return [self.load, self.sums]


def behind(operations: Sequence[Operation], config: HwConfig = SECOND) -> list[Operation]:
    """The operations behind the pass; its verifier has run, and both compute the same."""
    before = VtaProgram(config, {}, [("layer", operation) for operation in operations])
    after = StoreRequantize().run(before)
    StoreRequantize().verify(before, after)
    made = [operation for _, operation in after.operations]
    assert np.array_equal(result(made), result(operations))
    return made


def result(operations: Sequence[Operation]) -> np.ndarray:
    rng = np.random.default_rng(0)
    block = SECOND.block
    operands = rng.integers(-5000, 5000, (12, 1, block))
    operands[1::3] = rng.integers(1 << 30, (1 << 31) - 1, (4, 1, block))
    operands[2::3] = rng.integers(-12, -2, (4, 1, block)) & 255
    dram = {
        "p": operands.astype(np.int32),
        "sums": rng.integers(-90_000, 90_000, (TILES, 1, block)).astype(np.int32),
        "out": np.zeros((1000, 1, block), np.int8),
    }
    execute(list(operations), dram, SECOND)
    return dram["out"]


def stores(operations: Sequence[Operation]) -> list[tuple[int, int, int, int, int, int]]:
    """Of those that requantize: offset, rows, columns, stride, operands, their step."""
    return [
        (o.offset, o.y_size, o.x_size, o.x_stride, o.requantization.offset, o.requantization.step)
        for o in operations
        if isinstance(o, TileStore) and o.requantization is not None
    ]


def test_a_store_takes_the_place_of_an_rq_and_a_store() -> None:
    s = Stream()
    operations = [*s.begin(), s.rq((TILES,), (1,), (0,)), s.store(8, 8, 20)]
    made = behind(operations)
    assert made[:2] == s.begin()
    assert stores(made) == [(0, 8, 8, 20, 0, 0)]
    assert len(made) == 3


def test_whole_accumulators_are_requantized_by_themselves() -> None:
    """All 32 bits of what requantization gives, where they go beside what goes in 8 bits, too."""
    s = Stream()
    whole = replace(s.store(4, 8, 8), whole=True)
    for last in ([whole], [whole, s.store(4, 8, 20, offset=32)]):
        operations = [*s.begin(), s.rq((TILES,), (1,), (0,)), *last]
        before = VtaProgram(SECOND, {}, [("layer", operation) for operation in operations])
        after = StoreRequantize().run(before)
        StoreRequantize().verify(before, after)
        assert [operation for _, operation in after.operations] == operations


def test_a_program_that_stores_otherwise_is_refused_behind_the_pass() -> None:
    s = Stream()
    operations = [*s.begin(), s.rq((TILES,), (1,), (0,)), s.store(8, 8, 20)]
    before = VtaProgram(SECOND, {}, [("layer", operation) for operation in operations])
    after = StoreRequantize().run(before)
    with pytest.raises(LoweringError):
        StoreRequantize().verify(before, replace(after, operations=after.operations[:-1]))


def test_a_device_that_cannot_keeps_its_program() -> None:
    s = Stream()
    operations = [*s.begin(), s.rq((TILES,), (1,), (0,)), s.store(8, 8, 20)]
    before = VtaProgram(FIRST, {}, [("layer", operation) for operation in operations])
    assert StoreRequantize().run(before) is before


def test_rows_of_two_blocks_of_channels_are_two_stores() -> None:
    s = Stream()
    made = behind([*s.begin(), s.rq((2, 32), (32, 1), (3, 0)), s.store(16, 4, 9)])
    assert stores(made) == [(0, 8, 4, 9, 0, 0), (32, 8, 4, 9, 3, 0)]


def test_rows_with_operands_of_their_own_are_one_store() -> None:
    s = Stream()
    made = behind([*s.begin(), s.rq((4, 16), (16, 1), (3, 0)), s.store(4, 16, 40)])
    assert stores(made) == [(0, 4, 16, 40, 0, 3)]


def test_a_row_of_several_blocks_becomes_rows() -> None:
    s = Stream()
    made = behind([*s.begin(), s.rq((4, 16), (16, 1), (3, 0)), s.store(1, TILES, TILES)])
    assert stores(made) == [(0, 4, 16, 16, 0, 3)]


def test_what_would_take_longer_stays() -> None:
    """Tiles that take turns with two operands: each would be a store."""
    s = Stream()
    operations = [*s.begin(), s.rq((32, 2), (2, 1), (0, 3)), s.store(1, TILES, TILES)]
    assert behind(operations) == operations


def test_several_rqs_and_stores_of_a_tile() -> None:
    """The second requantization has other operands; each store takes a part of both."""
    s = Stream()
    second = replace(
        s.rq((32,), (1,), (0,), at=32), operands=Access(s.operands, 6, (0,)), zero_point=5
    )
    made = behind(
        [
            *s.begin(),
            s.rq((32,), (1,), (0,)),
            second,
            replace(s.store(1, 48, 48), dram=DramTile("out", 100)),
            s.store(1, 16, 16, offset=48),
        ]
    )
    assert stores(made) == [(0, 1, 32, 32, 0, 0), (32, 1, 16, 16, 6, 0), (48, 1, 16, 16, 6, 0)]


@pytest.mark.parametrize("what", ["read", "summed", "again", "partly", "stored", "operands"])
def test_what_is_not_only_stored_stays(what: str) -> None:
    s = Stream()
    requantized, store = s.rq((TILES,), (1,), (0,)), s.store(1, TILES, TILES)
    other = VirtualTile(Memory.ACC, TILES, "other")
    adds = AluNest(AluOp.ADD, (TILES,), Access(other, 0, (1,)), Access(s.acc, 0, (1,)))
    keeps = TileStore(other, 0, DramTile("out", 200), 1, TILES, TILES)
    fill = FillNest((TILES,), Access(other, 0, (1,)), 7)
    changed = replace(s.load, dram=DramTile("p", 0))
    operations: dict[str, list[Operation]] = {
        "read": [fill, requantized, store, adds, keeps],
        "summed": [
            requantized,
            AluNest(AluOp.ADD, (TILES,), Access(s.acc, 0, (1,)), None, 1),
            store,
        ],
        "again": [requantized, requantized, store],
        "partly": [s.rq((TILES - 1,), (1,), (0,)), store],
        "stored": [store, requantized, replace(store, dram=DramTile("out", 300))],
        "operands": [requantized, changed, store],
    }
    stream = [*s.begin(), *operations[what]]
    assert behind(stream) == stream


def test_the_first_of_two_requantizations_stays_in_compute() -> None:
    """Of an addition: each input is requantized, the sum is, and only that is stored."""
    s = Stream()
    adds = AluNest(AluOp.ADD, (TILES,), Access(s.acc, 0, (1,)), None, 40)
    first, second = s.rq((TILES,), (1,), (0,)), s.rq((TILES,), (1,), (0,))
    made = behind([*s.begin(), first, adds, second, s.store(1, TILES, TILES)])
    assert made[2:4] == [first, adds]
    assert stores(made) == [(0, 1, TILES, TILES, 0, 0)]
