# SPDX-License-Identifier: Apache-2.0
"""verify_pieces.py: pieces that do not do what their region does are refused."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from copy import copy, deepcopy
from dataclasses import replace

import pytest

from loadstone.backend.region import Address
from loadstone.errors import VerificationError
from loadstone.numerics import Rounding
from loadstone.vta.isa.spec import AluOp, Memory
from loadstone.vta.passes.program import LayerOperation
from loadstone.vta.region.pieces import cut
from loadstone.vta.region.verify_pieces import verify_pieces
from loadstone.vta.stream.operations import (
    Access,
    AluNest,
    DramTile,
    FillNest,
    GemmNest,
    InpTiles,
    Operation,
    RequantizeNest,
    StoreRequantization,
    TileLoad,
    TileStore,
    VirtualTile,
)
from tests.vta.region.cut_layers import APART, CONFIG, SAME, layer_of, load_of

Piece = list[LayerOperation]
THREE = layer_of("a", 3)
WEIGHTS, INPUT, FILL, PRODUCT, CLAMP, STORE = range(6)  # of each piece


def pieces() -> list[Piece]:
    """Three, each with the weights loaded again; whatever is changed in them is nobody else's."""
    return cut(THREE, CONFIG, APART, 200)


def refused(operations: Piece, made: Sequence[Piece], said: str, where: object = None) -> None:
    with pytest.raises(VerificationError, match=said):
        verify_pieces(operations, made, CONFIG, where or APART)  # type: ignore[arg-type]


def changed(piece: Piece, number: int, **values: object) -> Piece:
    """One of its operations is another."""
    layer, operation = piece[number][0], copy(piece[number][1])
    for name, value in values.items():
        setattr(operation, name, value)
    return [*piece[:number], (layer, operation), *piece[number + 1 :]]


def on_own_tiles(*parts: Sequence[LayerOperation]) -> list[Piece]:
    """Each part a piece as it stands."""
    return [deepcopy(list(part)) for part in parts]


# --- whole pieces ---------------------------------------------------------------------------------
@pytest.mark.parametrize(
    ("said", "spoil"),
    [
        ("an operation of a is missing", lambda made: made[:2]),
        ("an operation of a is missing", lambda made: [*made[:2], made[2][:-1]]),
        ("a does something", lambda made: [made[0], made[2], made[1]]),
        ("a does something", lambda made: [made[0], made[2]]),
        ("a does something", lambda made: [made[0], made[1][1:], made[2]]),
        ("a does something", lambda made: [made[0], made[1][::-1], made[2]]),
        ("piece 1 is not as long", lambda made: [made[0], made[1][:1], made[2]]),
        ("piece 1 is not as long", lambda made: [made[0], [], *made[1:]]),
        ("piece 2 is not as long", lambda made: [*made[:2], [*made[2], made[2][-1]]]),
        ("piece 3 is not as long", lambda made: [*made, deepcopy(made[0])]),
        ("piece 1 uses a tile of another", lambda made: [made[0], made[0], made[2]]),
        ("piece 1 uses a tile", lambda made: [made[0], [made[0][0], *made[1][1:]], made[2]]),
    ],
)
def test_pieces_are_the_region_in_its_order(
    said: str, spoil: Callable[[list[Piece]], list[Piece]]
) -> None:
    verify_pieces(THREE, pieces(), CONFIG, APART)
    refused(THREE, spoil(pieces()), said)


def test_one_tile_of_another_piece_is_enough() -> None:
    first, second, third = pieces()
    wgt = getattr(first[PRODUCT][1], "wgt")  # noqa: B009
    made = changed(second, PRODUCT, wgt=wgt)
    refused(THREE, [first, made, third], "piece 1 uses a tile of another one")


def test_what_is_loaded_again_belongs_to_the_layer_that_a_piece_begins_with() -> None:
    """Also where this ends with the next operation."""
    w, acc = VirtualTile(Memory.WGT, 1, "w"), VirtualTile(Memory.ACC, 1, "acc")
    x = VirtualTile(Memory.INP, 1, "x")
    dst = Access(acc, 0, ())
    operations: Piece = [
        ("z", load_of(Memory.WGT, w, "w")),
        ("a", FillNest((), dst, 0)),
        ("b", load_of(Memory.INP, x, "x")),
        ("b", GemmNest((), dst, Access(x, 0, ()), Access(w, 0, ()))),
    ]
    for name in "zab":
        again = [(name, operations[0][1]), *operations[1:]]
        parts = on_own_tiles(operations[:1], again)
        if name == "a":
            verify_pieces(operations, parts, CONFIG, APART)
        else:
            refused(operations, parts, f"{name} does something")


# --- one operation --------------------------------------------------------------------------------
@pytest.mark.parametrize(
    ("number", "values"),
    [
        (WEIGHTS, {"dram": DramTile("w", 8)}),
        (WEIGHTS, {"offset": 1}),
        (INPUT, {"dram": DramTile("x", 0)}),
        (INPUT, {"dram": DramTile("y", 8)}),
        (INPUT, {"x_size": 7}),
        (INPUT, {"pad_value": 1}),
        (INPUT, {"memory": Memory.ACC_8BIT}),
        (FILL, {"value": 1}),
        (FILL, {"extents": (7,)}),
        (PRODUCT, {"extents": (99,)}),
        (CLAMP, {"op": AluOp.MIN}),
        (CLAMP, {"imm": 1}),
        (STORE, {"dram": DramTile("y", 0)}),
        (STORE, {"y_size": 2}),
        (STORE, {"whole": True}),
    ],
)
def test_an_operation_with_another_number_is_refused(
    number: int, values: dict[str, object]
) -> None:
    first, second, third = pieces()
    refused(THREE, [first, changed(second, number, **values), third], "a does something")


def test_an_operation_of_another_layer_is_refused() -> None:
    first, second, third = pieces()
    for number in (WEIGHTS, STORE):
        named = [(("b" if n == number else layer), o) for n, (layer, o) in enumerate(second)]
        refused(THREE, [first, named, third], "b does something")


def test_another_kind_of_operation_is_refused() -> None:
    first, second, third = pieces()
    layer, clamp = second[CLAMP]
    assert isinstance(clamp, AluNest)
    fill = FillNest(clamp.extents, clamp.dst, 0)
    made = [*second[:CLAMP], (layer, fill), *second[CLAMP + 1 :]]
    refused(THREE, [first, made, third], "a does something")


@pytest.mark.parametrize("tile", [(Memory.ACC, 8), (Memory.ACC, 9), (Memory.OUT, 8)])
@pytest.mark.parametrize("number", [FILL, PRODUCT, CLAMP])
def test_another_tile_is_refused(number: int, tile: tuple[Memory, int]) -> None:
    """One of the same memory and size as well, where others go on with the tile of before."""
    first, second, third = pieces()
    dst = getattr(second[number][1], "dst")  # noqa: B009
    other = replace(dst, tile=VirtualTile(*tile, "other"))
    refused(THREE, [first, changed(second, number, dst=other), third], "a does something")


@pytest.mark.parametrize("values", [{"base": 1}, {"strides": (1,)}])
@pytest.mark.parametrize("operand", ["dst", "src", "wgt"])
def test_another_place_in_a_tile_is_refused(operand: str, values: dict[str, object]) -> None:
    first, second, third = pieces()
    access = getattr(second[PRODUCT][1], operand)
    made = changed(second, PRODUCT, **{operand: replace(access, **values)})
    refused(THREE, [first, made, third], "a does something")


def test_two_tiles_of_a_region_are_two() -> None:
    """Of one memory and size: a sum of both is not twice the one."""
    one, other = (VirtualTile(Memory.ACC, 1, name) for name in ("one", "other"))
    dst, src = Access(one, 0, ()), Access(other, 0, ())
    operations: Piece = [
        ("a", FillNest((), dst, 1)),
        ("a", FillNest((), src, 2)),
        ("a", AluNest(AluOp.ADD, (), dst, src)),
        ("a", TileStore(one, 0, DramTile("y", 0), 1, 1, 1)),
    ]
    verify_pieces(operations, on_own_tiles(operations), CONFIG, APART)
    joined = [*operations[:1], ("a", FillNest((), dst, 2)), ("a", AluNest(AluOp.ADD, (), dst, dst))]
    refused(operations, on_own_tiles([*joined, operations[3]]), "a does something")


def test_what_stores_and_requantizations_say_is_compared() -> None:
    acc, operands = VirtualTile(Memory.ACC, 1, "acc"), VirtualTile(Memory.ACC, 6, "p")
    inp = VirtualTile(Memory.INP, 2, "to")
    by = StoreRequantization(operands, 0, 3, 0, -128, 127, Rounding.DOUBLE)
    access = Access(operands, 0, ())
    nest = RequantizeNest((), Access(acc, 0, ()), access, 0, -128, 127, Rounding.DOUBLE)
    store = TileStore(acc, 0, DramTile("y", 0), 1, 1, 1, by)
    to_inp = TileStore(acc, 0, DramTile("y", 0), 1, 1, 1, None, InpTiles(inp, 0))
    others: list[tuple[Operation, Operation]] = [
        (nest, replace(nest, operands=replace(access, base=3))),
        (nest, replace(nest, low=0)),
        (store, replace(store, requantization=None)),
        (store, replace(store, requantization=replace(by, step=0))),
        (store, replace(store, requantization=replace(by, tile=VirtualTile(Memory.ACC, 5, "p")))),
        (to_inp, replace(to_inp, inp=InpTiles(inp, 1))),
        (to_inp, replace(to_inp, inp=InpTiles(VirtualTile(Memory.INP, 3, "to"), 0))),
    ]
    for operation, other in others:
        verify_pieces([("a", operation)], on_own_tiles([("a", operation)]), CONFIG, APART)
        refused([("a", operation)], on_own_tiles([("a", other)]), "a does something")


# --- what lives across a cut ----------------------------------------------------------------------
def test_sums_do_not_pass_a_cut() -> None:
    """In front of the store, and of each operation that computes."""
    for place in (STORE, CLAMP, PRODUCT):
        parts = on_own_tiles(THREE[:place], [THREE[WEIGHTS], THREE[INPUT], *THREE[place:]])
        refused(THREE, parts, "a is cut where something computed is alive")


def test_what_was_stored_to_inp_does_not_pass_a_cut() -> None:
    acc, wgt = VirtualTile(Memory.ACC, 1, "acc"), VirtualTile(Memory.WGT, 1, "w")
    inp = VirtualTile(Memory.INP, 1, "to")
    dst, src = Access(acc, 0, ()), Access(inp, 0, ())
    operations: Piece = [
        ("a", FillNest((), dst, 1)),
        ("a", TileStore(acc, 0, DramTile("y", 0), 1, 1, 1, None, InpTiles(inp, 0))),
        ("b", load_of(Memory.WGT, wgt, "w")),
        (
            "b",
            GemmNest(
                (), replace(dst, tile=VirtualTile(Memory.ACC, 1, "b")), src, Access(wgt, 0, ())
            ),
        ),
    ]
    verify_pieces(operations, on_own_tiles(operations), CONFIG, APART)
    refused(operations, on_own_tiles(operations[:2], operations[2:]), "a is cut where something")


def test_all_loads_of_a_tile_are_done_again_in_their_order() -> None:
    """The second one overlaps the first, and another tile is alive behind the next piece alone."""
    w, x = VirtualTile(Memory.WGT, 2, "w"), VirtualTile(Memory.INP, 1, "x")
    late = load_of(Memory.INP, x, "x")
    whole = load_of(Memory.WGT, w, "w")
    part = TileLoad(Memory.WGT, w, 1, DramTile("w", 5), 1, 1, 1)

    def turn(at: int) -> Piece:
        acc = VirtualTile(Memory.ACC, 1, "acc")
        dst = Access(acc, 0, ())
        product = GemmNest((), dst, Access(x, 0, ()), Access(w, 1, ()))
        return [
            ("a", FillNest((), dst, 0)),
            ("a", product if at != 1 else FillNest((), dst, 1)),
            ("a", TileStore(acc, 0, DramTile("y", at), 1, 1, 1)),
        ]

    begin: Piece = [("a", whole), ("a", late), ("a", part)]
    turns = [turn(at) for at in range(3)]
    operations = [*begin, *turns[0], *turns[1], *turns[2]]
    parts = [[*begin, *each] for each in turns]
    verify_pieces(operations, on_own_tiles(*parts), CONFIG, APART)
    for wrong in (
        [("a", part), ("a", late), ("a", whole)],
        [("a", whole), ("a", late)],
        [("a", late), ("a", part)],
        [("a", whole), ("a", part)],
    ):
        refused(operations, on_own_tiles(parts[0], [*wrong, *turns[1]], parts[2]), "does something")
    # behind the last piece that needs them they are not alive
    ended = [*begin, *turns[0], *turns[1]]
    verify_pieces(ended, on_own_tiles(parts[0], turns[1]), CONFIG, APART)
    refused(ended, on_own_tiles(*parts[:2]), "piece 1 is not as long|does something")


def test_a_load_behind_a_cut_is_not_done_in_front_of_it() -> None:
    """It changes a part of what lives across the cut."""
    w, x, acc = (VirtualTile(m, 2, m.name) for m in (Memory.WGT, Memory.INP, Memory.ACC))
    product = GemmNest((), Access(acc, 0, ()), Access(x, 0, ()), Access(w, 0, ()))
    whole = ("a", load_of(Memory.WGT, w, "w"))
    part = ("a", TileLoad(Memory.WGT, w, 1, DramTile("w", 5), 1, 1, 1))
    turn: Piece = [("a", load_of(Memory.INP, x, "x")), ("a", product)]
    own = VirtualTile(Memory.ACC, 2, "own")
    first: Piece = [whole, ("a", FillNest((), Access(own, 0, ()), 0))]
    operations = [*first, part, *turn]
    verify_pieces(operations, on_own_tiles(first, [whole, part, *turn]), CONFIG, APART)
    refused(operations, on_own_tiles(first, [whole, part, part, *turn]), "is not as long|does some")


TILE = CONFIG.tile_bytes(Memory.INP)


@pytest.mark.parametrize(
    ("x", "y", "right"),
    [
        (Address(2, 0), Address(2, 8 * TILE), True),
        (Address(2, 0), Address(2, 7 * TILE), False),
        (Address(2, 0), Address(2, 2 * TILE), False),
        (Address(2, 0), Address(3, 2 * TILE), True),
        (Address(2, 16 * TILE), Address(2, 0), True),
        (Address(2, 16 * TILE), Address(2, TILE), False),
    ],
)
def test_what_is_stored_where_something_is_loaded_again(
    x: Address, y: Address, right: bool
) -> None:
    """All turns read the first eight tiles; the others stand beside them, or on them."""
    operations = _with_one_input(THREE, THREE[INPUT][1])
    made = cut(operations, CONFIG, APART, 200)
    assert len(made) == 3
    where = {**APART, "x": x, "y": y}
    if right:
        verify_pieces(operations, made, CONFIG, where)
    else:
        refused(operations, made, "a has stored where a would load again", where)


def test_what_is_stored_in_front_of_a_load_or_behind_a_cut_is_no_matter() -> None:
    """The input of the second turn stands where the first one stores; it is loaded behind that."""
    made = cut(THREE, CONFIG, SAME, 200)
    assert len(made) == 3
    verify_pieces(THREE, made, CONFIG, SAME)
    tail = [*THREE[:6], *_with_one_input(THREE[6:], THREE[6][1])]
    where = {**APART, "y": Address(2, 8 * TILE)}
    parts = [tail[:6], [tail[0], *tail[6:11]], [tail[0], tail[6], *tail[11:]]]
    verify_pieces(tail, on_own_tiles(*parts), CONFIG, where)


def _with_one_input(operations: Piece, x: Operation) -> Piece:
    """All products read what one load brings; the others are left out."""
    assert isinstance(x, TileLoad)
    made: Piece = []
    for layer, operation in operations:
        if isinstance(operation, GemmNest):
            made.append((layer, replace(operation, src=replace(operation.src, tile=x.tile))))
        elif (
            not isinstance(operation, TileLoad) or operation.memory is Memory.WGT or operation is x
        ):
            made.append((layer, operation))
    return made
