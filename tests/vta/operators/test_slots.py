# SPDX-License-Identifier: Apache-2.0
"""vta/operators/slots.py: phases of neighbouring tiles side by side, nothing lost."""

from __future__ import annotations

from loadstone.numerics import Rounding
from loadstone.vta.device.hw_config import load_config
from loadstone.vta.isa.spec import Memory
from loadstone.vta.operators import lower_operator
from loadstone.vta.operators.slots import interleaved, slots_of
from loadstone.vta.stream.operations import GemmNest, TileLoad, TileRole, TileStore
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
