# SPDX-License-Identifier: Apache-2.0
"""table.py: columns say what the operations do."""

from __future__ import annotations

from dataclasses import replace
from math import prod

import numpy as np
import pytest

from loadstone.isa.residency import NO_CONTENT
from loadstone.numerics import Rounding
from loadstone.vta.isa.spec import AluOp, Memory
from loadstone.vta.passes.allocate.verify import contents
from loadstone.vta.stream.operations import (
    Access,
    AluNest,
    DramTile,
    FillNest,
    GemmNest,
    Operation,
    RequantizeNest,
    TileLoad,
    TileStore,
    VirtualTile,
    tiles_of,
)
from loadstone.vta.stream.table import NO_TILE, StreamColumns, columns_of, joined
from tests.repeat import times


def random_operation(rng: np.random.Generator, tiles: list[VirtualTile]) -> Operation:
    """Any, on any tiles, from few different numbers."""

    def access() -> Access:
        return Access(tiles[int(rng.integers(len(tiles)))], int(rng.integers(4)), (1,))

    def few() -> int:
        return int(rng.choice([0, 0, 0, 1, -7]))

    place = DramTile("xyz"[int(rng.integers(3))], int(rng.integers(2)))
    size = (int(rng.integers(1, 3)), int(rng.integers(1, 3)), 2)
    tile = access().tile
    makers = [
        lambda: GemmNest((2, 3), access(), access(), access()),
        lambda: FillNest((2,), access(), 0),
        lambda: AluNest(AluOp.MUL, (2,), access(), None, 3),
        lambda: AluNest(AluOp.ADD, (2,), access(), access()),
        lambda: RequantizeNest((2,), access(), access(), 0, 0, 9, Rounding.DOUBLE),
        lambda: TileStore(tile, few(), place, *size),
        *4 * [lambda: TileLoad(tile.memory, tile, few(), place, *size, few(), 0, few(), 0, few())],
    ]
    return makers[int(rng.integers(len(makers)))]()


def random_operations(seed: int) -> list[Operation]:
    rng = np.random.default_rng(seed)
    memories = (Memory.INP, Memory.WGT, Memory.ACC)
    tiles = [VirtualTile(memories[k % 3], 8 + k % 2, f"t{k}") for k in range(40)]
    return [random_operation(rng, tiles) for _ in range(int(rng.integers(60)))]


def held(columns: StreamColumns) -> dict[VirtualTile, int]:
    pairs = zip(columns.tiles.tiles, columns.tiles.content.tolist(), strict=True)
    return {tile: content for tile, content in pairs if content != NO_CONTENT}


@pytest.mark.parametrize("seed", range(times(20, 500)))
def test_columns_say_what_the_operations_do(seed: int) -> None:
    operations = random_operations(seed)
    columns = columns_of(operations)
    tiles = columns.tiles.tiles
    assert len(tiles) == len(set(tiles))
    for tile, memory, size in zip(tiles, columns.tiles.memory, columns.tiles.size, strict=True):
        assert (tile.memory, tile.size_tiles) == (memory, size)
    for number, operation in enumerate(operations):
        touched = columns.touched[number]
        assert [tiles[n] for n in touched if n != NO_TILE] == list(tiles_of(operation))
        assert number in columns.kinds[type(operation)]
        if isinstance(operation, TileLoad | TileStore):
            tensor, *copy = columns.copies[number].tolist()
            size = [operation.y_size, operation.x_size]
            memory = operation.memory if isinstance(operation, TileLoad) else Memory.OUT
            assert columns.tensors[tensor] == operation.dram.tensor
            assert copy == [operation.dram.tile, *size, operation.x_stride, memory]
            assert columns.copied[number] == size[0] * size[1]
            assert columns.steps[number] == 0
        else:
            assert columns.steps[number] == prod(operation.extents)
    some = np.array([tile.memory is Memory.WGT for tile in tiles], np.bool_)
    loads = [isinstance(o, TileLoad) and o.memory is Memory.WGT for o in operations]
    assert columns.loads_of(some).tolist() == loads


@pytest.mark.parametrize("seed", range(times(20, 500)))
def test_contents_are_equal_where_all_loads_are(seed: int) -> None:
    operations = random_operations(seed)
    found = held(columns_of(operations))
    wanted = contents([("layer", operation) for operation in operations])
    assert found.keys() == wanted.keys()
    for one, content in wanted.items():
        assert all((wanted[t] == content) == (found[t] == found[one]) for t in found)


@pytest.mark.parametrize("seed", range(times(5, 100)))
def test_lives_are_from_the_first_to_the_last_use(seed: int) -> None:
    operations = random_operations(seed)
    order = np.random.default_rng(seed).permutation(len(operations))[: len(operations) // 2]
    columns = columns_of(operations)
    lives = columns.lives(order)
    wanted: dict[VirtualTile, list[int]] = {}
    for number, n in enumerate(order.tolist()):
        for tile in tiles_of(operations[n]):
            wanted.setdefault(tile, []).append(number)
    assert list(lives.tiles.tiles) == list(wanted)
    assert lives.first.tolist() == [uses[0] for uses in wanted.values()]
    assert lives.last.tolist() == [uses[-1] for uses in wanted.values()]
    assert [columns.tiles.tiles[n] for n in lives.number.tolist()] == list(wanted)


def same(one: StreamColumns, other: StreamColumns) -> None:
    """But for what number something has."""
    assert list(one.tiles.tiles) == sorted(other.tiles.tiles, key=list(one.tiles.tiles).index)
    number = {tile: n for n, tile in enumerate(one.tiles.tiles)}
    renumbered = [number[tile] for tile in other.tiles.tiles] + [NO_TILE]
    assert (one.touched == np.array(renumbered)[other.touched]).all()
    assert (one.classes == other.classes).all()
    assert (one.steps == other.steps).all()
    for copies in zip(one.copies.tolist(), other.copies.tolist(), strict=True):
        (first, *here), (second, *there) = copies
        assert here == there
        assert here[-1] == 0 or one.tensors[first] == other.tensors[second]
    assert (one.tiles.size == other.tiles.size[np.argsort(renumbered[:-1])]).all()
    found, wanted = held(one), held(other)
    assert found.keys() == wanted.keys()
    for tile in found:
        equal = [(found[t] == found[tile]) == (wanted[t] == wanted[tile]) for t in found]
        assert all(equal)
    said = zip(one.said[one.brought].tolist(), other.said[other.brought].tolist(), strict=True)
    for (first, *here), (second, *there) in said:
        assert (one.tensors[first], here) == (other.tensors[second], there)


@pytest.mark.parametrize("seed", range(times(10, 300)))
def test_joined_columns_are_those_of_all_operations(seed: int) -> None:
    parts = [random_operations(10 * seed + k) for k in range(seed % 4)]
    whole = [operation for part in parts for operation in part]
    same(joined([columns_of(part) for part in parts]), columns_of(whole))


@pytest.mark.parametrize("seed", range(times(10, 300)))
def test_columns_in_another_order_are_those_of_the_operations_in_it(seed: int) -> None:
    operations = random_operations(seed)
    order = np.random.default_rng(seed).permutation(len(operations))
    same(columns_of(operations).taken(order), columns_of([operations[n] for n in order.tolist()]))


@pytest.mark.parametrize("seed", range(times(10, 300)))
def test_columns_with_gemms_cut_are_those_of_the_new_operations(seed: int) -> None:
    operations = random_operations(seed)
    cuts = {
        number: [replace(o, extents=(2, k)) for k in range(2, 2 + number % 3)]
        for number, o in enumerate(operations)
        if isinstance(o, GemmNest) and number % 5
    }
    made = [part for n, o in enumerate(operations) for part in cuts.get(n, [o])]
    written = dict.fromkeys(t for o in operations if isinstance(o, GemmNest) for t in tiles_of(o))
    others: list[Operation] = [AluNest(AluOp.ADD, (), Access(t, 0, ()), None) for t in written]
    same(columns_of([*operations, *others]).cut(cuts), columns_of([*made, *others]))
