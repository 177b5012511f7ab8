# SPDX-License-Identifier: Apache-2.0
"""vta/operators/slots.py: phases of neighbouring tiles side by side, nothing lost."""

from __future__ import annotations

from loadstone.numerics import Rounding
from loadstone.vta.device.hw_config import load_config
from loadstone.vta.isa.spec import AluOp, Memory
from loadstone.vta.operators import lower_operator
from loadstone.vta.operators.slots import Slot, between_products, interleaved, slots_of
from loadstone.vta.stream.operations import (
    Access,
    AluNest,
    DramTile,
    GemmNest,
    TileLoad,
    TileRole,
    TileStore,
    VirtualTile,
)
from tests.vta.operators.test_rescaled import convolution


def test_every_operation_comes_once_and_a_digit_is_stored_before_it_is_loaded() -> None:
    op = convolution(80, 3, 0.0012, Rounding.DOUBLE)
    operations = lower_operator(op, load_config("vta-pynq")).operations
    assert len({id(o) for o in operations}) == len(operations)
    stored: set[int] = set()
    for operation in operations:
        if isinstance(operation, TileStore) and operation.dram.role is TileRole.DIGITS:
            for row in range(operation.y_size):
                first = operation.dram.tile + row * operation.x_stride
                stored |= set(range(first, first + operation.x_size))
        if isinstance(operation, TileLoad) and operation.dram.role is TileRole.DIGITS:
            for row in range(operation.y_size):
                first = operation.dram.tile + row * operation.x_stride
                assert stored >= set(range(first, first + operation.x_size))


def test_the_next_sum_comes_between_a_tile_s_digits() -> None:
    op = convolution(80, 3, 0.0012, Rounding.DOUBLE)
    operations = lower_operator(op, load_config("vta-pynq")).operations
    inputs = {
        o.tile
        for o in operations
        if isinstance(o, TileLoad) and o.memory is Memory.INP and o.dram.role is TileRole.PLAIN
    }
    sums = [o.dst.tile for o in operations if isinstance(o, GemmNest) and o.src.tile in inputs]
    assert len(set(map(id, sums))) > 1
    place = {
        id(tile): next(
            n
            for n, o in enumerate(operations)
            if isinstance(o, GemmNest) and o.dst.tile is tile and o.src.tile in inputs
        )
        for tile in sums
    }
    first, second = sums[0], sums[1]
    last = max(n for n, o in enumerate(operations) if isinstance(o, TileStore) and o.tile is first)
    assert place[id(second)] < last


def test_no_slots_are_no_operations() -> None:
    assert list(interleaved(slots_of([]))) == []


def _between(tiles: int, gemms: int) -> str:
    """Of tiles whose sums are as many GEMMs and leave in three planes, each GEMM and each plane as
    number of the tile and number of its own."""
    names, slots = dict[int, str](), []
    for number in range(tiles):
        tile = VirtualTile(Memory.ACC, 1, f"acc{number}")
        at, to = Access(tile, 0, ()), DramTile("out", number)
        sums = [GemmNest((), at, at, at) for _ in range(gemms)]
        stores = [TileStore(tile, 0, to, 1, 1, 1) for _ in range(3)]
        shifts = [AluNest(AluOp.SHR, (), at, None, 8) for _ in range(2)]
        names |= {id(gemm): f"{number}g{n}" for n, gemm in enumerate(sums)}
        names |= {id(store): f"{number}p{n}" for n, store in enumerate(stores)}
        later = [[shift, store] for shift, store in zip(shifts, stores[1:], strict=True)]
        slots.append(Slot(phases=[[*sums, stores[0]], *later]))
    return " ".join(names[id(o)] for o in between_products(slots) if id(o) in names)


def test_planes_come_behind_parts_of_the_next_sum() -> None:
    assert _between(3, 3) == (
        "0g0 0g1 0g2 0p0 1g0 0p1 1g1 0p2 1g2 1p0 2g0 1p1 2g1 1p2 2g2 2p0 2p1 2p2"
    )


def test_planes_come_behind_whole_sums_and_in_front_of_the_last_one() -> None:
    assert _between(4, 1) == ("0g0 0p0 1g0 1p0 0p1 2g0 2p0 0p2 1p1 1p2 2p1 3g0 3p0 2p2 3p1 3p2")
    assert _between(1, 1) == "0g0 0p0 0p1 0p2"
    assert list(between_products([])) == []
