# SPDX-License-Identifier: Apache-2.0
"""pieces.py: operations are cut where nothing is wanted later, and nothing is lost."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import pytest

from loadstone.backend.region import Address
from loadstone.errors import VerificationError
from loadstone.vta.device.hw_config import load_config
from loadstone.vta.isa.spec import AluOp, Memory
from loadstone.vta.passes.program import LayerOperation
from loadstone.vta.region.pieces import cut, verify_pieces
from loadstone.vta.stream.operations import (
    Access,
    AluNest,
    DramTile,
    FillNest,
    GemmNest,
    TileLoad,
    TileStore,
    VirtualTile,
    tiles_of,
)

CONFIG = load_config("vtaq-1x16x16")
#: Of weights, and of what is stored: other regions, and both in one.
APART = {"w": Address(0, 0), "x": Address(2, 0), "y": Address(2, 1 << 20)}
SAME = {**APART, "y": Address(2, 64)}


def _load(memory: Memory, tile: VirtualTile, tensor: str, at: int = 0) -> TileLoad:
    return TileLoad(memory, tile, 0, DramTile(tensor, at), 1, tile.size_tiles, tile.size_tiles)


def _layer(name: str, turns: int, steps: int = 100) -> list[LayerOperation]:
    """Weights stay for all turns; in each, an input is loaded, multiplied and stored."""
    weights = VirtualTile(Memory.WGT, 8, "w")
    made: list[LayerOperation] = [(name, _load(Memory.WGT, weights, "w"))]
    for turn in range(turns):
        x, sums = VirtualTile(Memory.INP, 8, "x"), VirtualTile(Memory.ACC, 8, "y")
        dst, src, wgt = (Access(tile, 0, (0,)) for tile in (sums, x, weights))
        store = TileStore(sums, 0, DramTile("y", 8 * turn), 1, 8, 8)
        made += [
            (name, _load(Memory.INP, x, "x", 8 * turn)),
            (name, FillNest((8,), Access(sums, 0, (1,)), 0)),
            (name, GemmNest((steps,), dst, src, wgt)),
            (name, AluNest(AluOp.MAX, (8,), Access(sums, 0, (1,)), None)),
            (name, store),
        ]
    return made


def test_a_long_limit_cuts_nothing() -> None:
    operations = [*_layer("a", 2), *_layer("b", 2)]
    (piece,) = cut(operations, CONFIG, APART, 1_000_000)
    assert [layer for layer, _ in piece] == [layer for layer, _ in operations]
    verify_pieces(operations, [piece])


def test_layers_are_cut_without_any_load_of_the_other() -> None:
    operations = [*_layer("a", 1), *_layer("b", 1)]
    pieces = cut(operations, CONFIG, APART, 200)
    verify_pieces(operations, pieces)
    assert [[layer for layer, _ in piece] for piece in pieces] == [["a"] * 6, ["b"] * 6]


def test_inside_a_layer_its_weights_are_loaded_again() -> None:
    operations = _layer("a", 3)
    pieces = cut(operations, CONFIG, APART, 200)
    verify_pieces(operations, pieces)
    assert len(pieces) == 3
    for piece in pieces:
        loads = [o.dram.tensor for _, o in piece if isinstance(o, TileLoad)]
        assert loads == ["w", "x"]
    tiles = [{id(tile) for _, o in piece for tile in tiles_of(o)} for piece in pieces]
    assert not tiles[0] & tiles[1]
    assert not tiles[1] & tiles[2]


def test_sums_are_never_cut() -> None:
    """A second product into the same sums, whatever the limit."""
    (name, fill), gemm = ("a", _layer("a", 1)[2][1]), _layer("a", 1)[3]
    assert isinstance(fill, FillNest)
    assert isinstance(gemm[1], GemmNest)
    again = [
        (name, fill),
        *[(name, replace(gemm[1], dst=replace(gemm[1].dst, tile=fill.dst.tile)))] * 4,
    ]
    assert len(cut(again, CONFIG, APART, 1)) == 1


def test_what_is_overwritten_is_not_loaded_again() -> None:
    """The input of all turns stands where the first turn stores: with x[0:8] alive, no cut."""
    operations = _layer("a", 3)
    x = operations[1][1]
    assert isinstance(x, TileLoad)

    def with_one_input(entry: LayerOperation) -> LayerOperation:
        layer, operation = entry
        if isinstance(operation, GemmNest):
            return layer, replace(operation, src=replace(operation.src, tile=x.tile))
        return entry

    kept = [entry for entry in operations if not _is_other_input(entry, x)]
    one = [with_one_input(entry) for entry in kept]
    assert len(cut(one, CONFIG, APART, 200)) == 3
    assert len(cut(one, CONFIG, SAME, 200)) == 1


def _is_other_input(entry: LayerOperation, x: TileLoad) -> bool:
    operation = entry[1]
    return isinstance(operation, TileLoad) and operation.memory is Memory.INP and operation is not x


@pytest.mark.parametrize(
    ("what", "spoil"),
    [
        ("is missing", lambda pieces: [pieces[0], pieces[1][:-1]]),
        (
            "not asked for",
            lambda pieces: [pieces[0], [*pieces[1][:3], pieces[1][3], *pieces[1][3:]]],
        ),
        ("tile of another one", lambda pieces: [pieces[0], [*pieces[1], pieces[0][0]]]),
        ("not asked for", lambda pieces: [pieces[1], pieces[0]]),
    ],
)
def test_the_verifier_finds(
    what: str, spoil: Callable[[list[list[LayerOperation]]], list[list[LayerOperation]]]
) -> None:
    operations = [*_layer("a", 1), *_layer("b", 1)]
    pieces = cut(operations, CONFIG, APART, 200)
    with pytest.raises(VerificationError, match=what):
        verify_pieces(operations, spoil(pieces))
