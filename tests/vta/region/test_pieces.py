# SPDX-License-Identifier: Apache-2.0
"""pieces.py: operations are cut where nothing is wanted later, and nothing is lost."""

from __future__ import annotations

from dataclasses import replace

from loadstone.vta.isa.spec import Memory
from loadstone.vta.passes.program import LayerOperation
from loadstone.vta.region.pieces import cut
from loadstone.vta.region.verify_pieces import verify_pieces
from loadstone.vta.stream.operations import FillNest, GemmNest, TileLoad, tiles_of
from tests.vta.region.cut_layers import APART, CONFIG, SAME, layer_of


def test_a_long_limit_cuts_nothing() -> None:
    operations = [*layer_of("a", 2), *layer_of("b", 2)]
    (piece,) = cut(operations, CONFIG, APART, 1_000_000)
    assert [layer for layer, _ in piece] == [layer for layer, _ in operations]
    verify_pieces(operations, [piece], CONFIG, APART)


def test_layers_are_cut_without_any_load_of_the_other() -> None:
    operations = [*layer_of("a", 1), *layer_of("b", 1)]
    pieces = cut(operations, CONFIG, APART, 200)
    verify_pieces(operations, pieces, CONFIG, APART)
    assert [[layer for layer, _ in piece] for piece in pieces] == [["a"] * 6, ["b"] * 6]


def test_inside_a_layer_its_weights_are_loaded_again() -> None:
    operations = layer_of("a", 3)
    pieces = cut(operations, CONFIG, APART, 200)
    verify_pieces(operations, pieces, CONFIG, APART)
    assert len(pieces) == 3
    for piece in pieces:
        loads = [o.dram.tensor for _, o in piece if isinstance(o, TileLoad)]
        assert loads == ["w", "x"]
    tiles = [{id(tile) for _, o in piece for tile in tiles_of(o)} for piece in pieces]
    assert not tiles[0] & tiles[1]
    assert not tiles[1] & tiles[2]


def test_sums_are_never_cut() -> None:
    """A second product into the same sums, whatever the limit."""
    (name, fill), gemm = ("a", layer_of("a", 1)[2][1]), layer_of("a", 1)[3]
    assert isinstance(fill, FillNest)
    assert isinstance(gemm[1], GemmNest)
    again: list[LayerOperation] = [
        (name, fill),
        *[(name, replace(gemm[1], dst=replace(gemm[1].dst, tile=fill.dst.tile)))] * 4,
    ]
    assert len(cut(again, CONFIG, APART, 1)) == 1


def test_what_is_overwritten_is_not_loaded_again() -> None:
    """The input of all turns stands where the first turn stores: with x[0:8] alive, no cut."""
    operations = layer_of("a", 3)
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
