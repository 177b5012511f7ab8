# SPDX-License-Identifier: Apache-2.0
"""allocate.py: windows, reuse of content, and what does not fit, each rule alone."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from loadstone.errors import LoweringError
from loadstone.vta.device.hw_config import load_config
from loadstone.vta.isa.spec import AluOp, Memory
from loadstone.vta.passes.allocate.allocate import Allocate, allocate
from loadstone.vta.passes.program import SourceOrder, VtaProgram
from loadstone.vta.stream.operations import (
    Access,
    AluNest,
    DramTile,
    GemmNest,
    Operation,
    TileLoad,
    TileStore,
    VirtualTile,
)
from loadstone.vta.stream.table import columns_of
from tests.vta.passes.hand_lowered import (
    NEST_DEVICES,
    behind,
    compare_golden,
    nest_program,
    small_program,
)

CONFIG = load_config("vtaq-tiny")  # 256 tiles in each scratchpad


def tile(memory: Memory, size: int, name: str = "t") -> VirtualTile:
    return VirtualTile(memory, size, name)


def load(into: VirtualTile, tensor: str, first: int = 0) -> TileLoad:
    return TileLoad(
        into.memory, into, 0, DramTile(tensor, first), 1, into.size_tiles, into.size_tiles
    )


def gemm(acc: VirtualTile, inp: VirtualTile, wgt: VirtualTile, steps: int = 1) -> GemmNest:
    return GemmNest((steps,), Access(acc, 0, (0,)), Access(inp, 0, (0,)), Access(wgt, 0, (0,)))


def use(inp: VirtualTile, acc: VirtualTile, wgt: VirtualTile) -> Operation:
    return gemm(acc, inp, wgt)


def test_tiles_rotate_through_the_scratchpad() -> None:
    acc, wgt = tile(Memory.ACC, 1), tile(Memory.WGT, 1)
    tiles = [tile(Memory.INP, 100, f"x{k}") for k in range(4)]
    operations: list[Operation] = [load(wgt, "w")]
    for k, x in enumerate(tiles):
        operations += [load(x, "x", 100 * k), use(x, acc, wgt)]
    address = allocate(columns_of(operations), CONFIG).address
    assert [address[x] for x in tiles] == [0, 100, 0, 100]


def test_content_that_is_still_there_is_not_loaded_again() -> None:
    acc, first, again = tile(Memory.ACC, 1), tile(Memory.WGT, 9), tile(Memory.WGT, 9)
    x = tile(Memory.INP, 4)
    operations = [
        load(x, "x"),
        load(first, "w"),
        use(x, acc, first),
        load(again, "w"),
        use(x, acc, again),
    ]
    result = allocate(columns_of(operations), CONFIG)
    assert result.kept.tolist() == [0, 1, 2, 4]
    assert result.address[first] == result.address[again]
    assert (result.loads_dropped, result.tiles_dropped) == (1, 9)


def test_weights_that_nothing_multiplies_are_not_loaded() -> None:
    acc, inp = tile(Memory.ACC, 1), tile(Memory.INP, 1)
    used, unused = tile(Memory.WGT, 4), tile(Memory.WGT, 4)
    wanted = [load(inp, "x"), load(used, "w"), use(inp, acc, used)]
    operations = [*wanted[:2], load(unused, "w", 4), wanted[2]]
    before = VtaProgram(CONFIG, {}, [("layer", operation) for operation in operations])
    after = Allocate().run(before)
    Allocate().verify(before, after)
    assert [operation for _, operation in after.operations] == wanted
    assert unused not in (after.tile_address or {})


def test_other_content_of_the_same_size_is_loaded() -> None:
    acc, first, other, x = (
        tile(Memory.ACC, 1),
        tile(Memory.WGT, 9),
        tile(Memory.WGT, 9),
        tile(Memory.INP, 4),
    )
    operations = [
        load(x, "x"),
        load(first, "w"),
        use(x, acc, first),
        load(other, "w", 9),
        use(x, acc, other),
    ]
    assert allocate(columns_of(operations), CONFIG).loads_dropped == 0


def test_content_that_is_wanted_again_is_given_away_last() -> None:
    acc, x = tile(Memory.ACC, 1), tile(Memory.INP, 1)
    kept, once, new, again = (tile(Memory.WGT, 120, n) for n in ("kept", "once", "new", "again"))
    operations: list[Operation] = [
        load(x, "x"),
        load(kept, "k"),
        use(x, acc, kept),
        load(once, "o"),
        use(x, acc, once),
    ]
    operations += [load(new, "n"), use(x, acc, new), load(again, "k"), use(x, acc, again)]
    result = allocate(columns_of(operations), CONFIG)
    assert result.address[new] == result.address[once]
    assert result.address[again] == result.address[kept]
    assert result.loads_dropped == 1


def test_a_tile_that_alu_or_gemm_writes_is_no_content() -> None:
    wgt, x = tile(Memory.WGT, 1), tile(Memory.INP, 1)
    a, b = tile(Memory.ACC, 2), tile(Memory.ACC, 2)
    operations: list[Operation] = [load(wgt, "w"), load(x, "x")]
    for acc in (a, b):
        operations += [
            load(acc, "bias"),
            use(x, acc, wgt),
            TileStore(acc, 0, DramTile("y", 0), 1, 2, 2),
        ]
    assert allocate(columns_of(operations), CONFIG).loads_dropped == 0


def test_what_does_not_fit_is_named_with_the_room_there_is() -> None:
    acc, wgt, x = tile(Memory.ACC, 1), tile(Memory.WGT, 200, "kernel"), tile(Memory.INP, 1)
    more = tile(Memory.WGT, 57, "more")
    operations = [
        load(x, "x"),
        load(wgt, "w"),
        load(more, "m"),
        use(x, acc, wgt),
        use(x, acc, more),
    ]
    with pytest.raises(
        LoweringError, match="WGT has no room for more of 57 tiles: 200 of 256 are in use"
    ):
        allocate(columns_of(operations), CONFIG)


def test_what_neither_spreading_nor_packing_places_is_fitted() -> None:
    """Tiles of several sizes, of which at most 240 live at a time."""
    acc, wgt = tile(Memory.ACC, 1), tile(Memory.WGT, 1)
    x = [tile(Memory.INP, size, f"x{k}") for k, size in enumerate((80, 30, 30, 80, 80, 80, 30))]
    operations: list[Operation] = [load(wgt, "w")]
    for kind, k in zip("lllululululuuu", (0, 1, 2, 2, 3, 1, 4, 3, 5, 5, 6, 0, 4, 6), strict=True):
        operations.append(load(x[k], "x", 100 * k) if kind == "l" else use(x[k], acc, wgt))
    verified(operations, allocate(columns_of(operations), CONFIG).address)


def test_layers_that_need_different_orders_have_them() -> None:
    """The first layer has room only when spread, the second only when it is not."""
    acc, wgt = tile(Memory.ACC, 1), tile(Memory.WGT, 1)
    operations: list[tuple[str, Operation]] = [("first", load(wgt, "w"))]
    for layer, kinds, numbers, sizes in (
        ("first", "lulluluu", (0, 0, 1, 2, 1, 3, 3, 2), (100, 60, 90, 110)),
        ("second", "lulluu", (0, 0, 1, 2, 2, 1), (60, 120, 100)),
    ):
        x = [tile(Memory.INP, size, f"{layer}{k}") for k, size in enumerate(sizes)]
        for kind, k in zip(kinds, numbers, strict=True):
            operation = load(x[k], layer, 200 * k) if kind == "l" else use(x[k], acc, wgt)
            operations.append((layer, operation))
    with pytest.raises(LoweringError, match="INP has no room"):
        allocate(columns_of([operation for _, operation in operations]), CONFIG)
    program = VtaProgram(CONFIG, {}, operations)
    Allocate().verify(program, Allocate().run(program))


def test_the_text_behind_the_pass_is_the_golden_one(update_golden: bool) -> None:
    compare_golden("allocate", behind("allocate", small_program()).text(), update_golden)


@pytest.mark.parametrize("device", NEST_DEVICES)
def test_text_in_text_out(device: str, update_golden: bool) -> None:
    compare_golden(
        "allocate", behind("allocate", nest_program(device)).text(), update_golden, device
    )


def test_weights_come_late_again_where_early_ones_leave_no_room() -> None:
    """Two tiles of 200 fit one after the other, not side by side."""
    acc, x = tile(Memory.ACC, 1), tile(Memory.INP, 1)
    first, second = tile(Memory.WGT, 200, "first"), tile(Memory.WGT, 200, "second")
    late = [load(x, "x"), load(first, "a"), use(x, acc, first), load(second, "b")]
    late.append(use(x, acc, second))
    early = [late[0], late[1], late[3], late[2], late[4]]
    source = SourceOrder([("l", o) for o in late], columns_of(late), np.array([0, 1, 3, 2, 4]))
    program = VtaProgram(CONFIG, {}, [("l", o) for o in early], source=source)
    after = Allocate().run(program)
    assert [operation for _, operation in after.operations] == late
    with pytest.raises(LoweringError, match="no room for second"):
        Allocate().run(replace(program, source=None))


def verified(operations: list[Operation], address: dict[VirtualTile, int]) -> None:
    """Runs the verifier on addresses that this test chose."""
    before = VtaProgram(CONFIG, {}, [("l", operation) for operation in operations])
    Allocate().verify(before, replace(before, tile_address=address))


def test_the_verifier_finds_tiles_that_overwrite_each_other() -> None:
    acc, wgt = tile(Memory.ACC, 1), tile(Memory.WGT, 1)
    x, y = tile(Memory.INP, 100, "x"), tile(Memory.INP, 100, "y")
    operations = [load(wgt, "w"), load(x, "x"), load(y, "y"), use(x, acc, wgt), use(y, acc, wgt)]
    others = {acc: 0, wgt: 0}
    verified(operations, {**others, x: 0, y: 100})
    with pytest.raises(LoweringError, match="x is used after y took its place in INP"):
        verified(operations, {**others, x: 0, y: 99})
    with pytest.raises(LoweringError, match=r"y at \[200, 300\) leaves INP of 256 tiles"):
        verified(operations, {**others, x: 0, y: 200})


def test_the_verifier_finds_loads_that_should_not_have_been_left_out() -> None:
    acc, x = tile(Memory.ACC, 1), tile(Memory.INP, 4)
    first, again = tile(Memory.WGT, 9, "first"), tile(Memory.WGT, 9, "again")
    address = {acc: 0, x: 0, first: 0, again: 0}
    for tensor, held in (("w", True), ("v", False)):
        loads = [load(x, "x"), load(first, "w"), load(again, tensor)]
        before = VtaProgram(CONFIG, {}, [("l", o) for o in (*loads, use(x, acc, again))])
        kept = [before.operations[n] for n in (0, 1, 3)]
        after = replace(before, operations=kept, tile_address=address)
        if held:
            Allocate().verify(before, after)
            continue
        with pytest.raises(LoweringError, match="loads of again were left out"):
            Allocate().verify(before, after)


def test_the_verifier_knows_where_a_scratchpad_begins_and_ends() -> None:
    acc, wgt, x = tile(Memory.ACC, 1), tile(Memory.WGT, 1), tile(Memory.INP, 56, "x")
    operations = [load(wgt, "w"), load(x, "x"), use(x, acc, wgt)]
    for first, end in ((-1, 55), (0, None), (200, None), (201, 257)):
        address = {acc: 0, wgt: 0, x: first}
        if end is None:
            verified(operations, address)
            continue
        with pytest.raises(LoweringError, match=rf"x at \[{first}, {end}\) leaves INP of 256"):
            verified(operations, address)


@pytest.mark.parametrize(
    ("tensor", "address", "in_place"),
    [("w", 0, True), ("w", 5, False), ("v", 0, False), ("v", 9, True)],
)
def test_the_verifier_lets_a_tile_stand_for_another_of_its_content_alone(
    tensor: str, address: int, in_place: bool
) -> None:
    """One that is loaded over another: the first is used again."""
    acc, x = tile(Memory.ACC, 1), tile(Memory.INP, 4)
    first, over = tile(Memory.WGT, 9, "first"), tile(Memory.WGT, 9, "over")
    operations = [load(x, "x"), load(first, "w"), load(over, tensor), use(x, acc, first)]
    addresses = {acc: 0, x: 0, first: 0, over: address}
    if in_place:
        verified(operations, addresses)
        return
    with pytest.raises(LoweringError, match="first is used after over took its place in WGT"):
        verified(operations, addresses)


@pytest.mark.parametrize("size", [1, 2, 9])
def test_the_verifier_lets_all_of_a_tile_be_taken_over(size: int) -> None:
    """Its loads were left out: it may stand where the other one is, not beside it."""
    acc, x = tile(Memory.ACC, 1), tile(Memory.INP, 4)
    first, again = tile(Memory.WGT, size, "first"), tile(Memory.WGT, size, "again")
    loads = [load(x, "x"), load(first, "w"), load(again, "w")]
    before = VtaProgram(CONFIG, {}, [("l", o) for o in (*loads, use(x, acc, again))])
    kept = [before.operations[n] for n in (0, 1, 3)]
    for place in range(size + 1):
        address = {acc: 0, x: 0, first: 0, again: place}
        after = replace(before, operations=kept, tile_address=address)
        if place == 0:
            Allocate().verify(before, after)
            continue
        with pytest.raises(LoweringError, match="again were left out, but WGT does not"):
            Allocate().verify(before, after)


def test_the_verifier_knows_that_results_are_no_content() -> None:
    """Sums begin with the same bias; what stands there later is theirs alone."""
    wgt, x = tile(Memory.WGT, 1), tile(Memory.INP, 1)
    a, b = tile(Memory.ACC, 2, "a"), tile(Memory.ACC, 2, "b")
    store = TileStore(a, 0, DramTile("y", 0), 1, 2, 2)
    both = [load(wgt, "w"), load(x, "x"), load(a, "bias"), use(x, a, wgt), load(b, "bias")]
    operations = [*both, use(x, b, wgt), store]
    verified(operations, {wgt: 0, x: 0, a: 0, b: 2})
    with pytest.raises(LoweringError, match="a is used after b took its place in ACC"):
        verified(operations, {wgt: 0, x: 0, a: 0, b: 0})
    alone = [*both, replace(store, tile=b)]
    before = VtaProgram(CONFIG, {}, [("l", operation) for operation in alone])
    kept = [before.operations[n] for n in (0, 1, 2, 3, 5)]  # b is stored, and nobody loads it
    after = replace(before, operations=kept, tile_address={wgt: 0, x: 0, a: 0, b: 0})
    with pytest.raises(LoweringError, match="loads of b were left out, but ACC does not"):
        Allocate().verify(before, after)


def test_the_verifier_finds_what_is_no_load_and_left_out_or_new_or_moved() -> None:
    acc, wgt, x = tile(Memory.ACC, 1), tile(Memory.WGT, 1), tile(Memory.INP, 2, "x")
    halves = [TileLoad(Memory.INP, x, k, DramTile("x", k), 1, 1, 1) for k in (0, 1)]
    store = TileStore(acc, 0, DramTile("y", 0), 1, 1, 1)
    operations = [load(wgt, "w"), *halves, use(x, acc, wgt), use(x, acc, wgt), store]
    before = VtaProgram(CONFIG, {}, [("l", operation) for operation in operations])
    address = {acc: 0, wgt: 0, x: 0}
    moved = "an operation is new, or stands in another order"
    for kept, why in (
        ((0, 1, 2, 3, 4, 5), ""),
        ((0, 1, 2, 4, 5), "l: something other than a load is left out"),
        ((0, 1, 2, 3, 4), "l: something other than a load is left out"),
        ((0, 1, 3, 4, 5), "l: a part of x is left out"),
        ((0, 2, 3, 4, 5), "l: a part of x is left out"),
        ((0, 3, 4, 5), "the loads of x were left out"),
        ((0, 2, 1, 3, 4, 5), moved),
        ((0, 1, 2, 3, 4, 4, 5), moved),
        ((0, 1, 2, 3, 5, 4), moved),
    ):
        held = [before.operations[n] for n in kept]
        after = replace(before, operations=held, tile_address=address)
        if not why:
            Allocate().verify(before, after)
            continue
        with pytest.raises(LoweringError, match=f"^allocate: {why}"):
            Allocate().verify(before, after)
    for other in (("other", operations[3]), ("l", replace(operations[3]))):  # type: ignore[type-var]
        held = [*before.operations[:3], other, *before.operations[4:]]
        with pytest.raises(LoweringError, match=moved):
            Allocate().verify(before, replace(before, operations=held, tile_address=address))


def test_the_verifier_takes_the_order_of_the_source_as_well() -> None:
    """Weights that were to be loaded early are not where they leave no room."""
    acc, wgt, x = tile(Memory.ACC, 1), tile(Memory.WGT, 1), tile(Memory.INP, 2, "x")
    operations = [("l", o) for o in (load(x, "x"), load(wgt, "w"), use(x, acc, wgt))]
    early = [operations[n] for n in (1, 0, 2)]
    source = SourceOrder(operations, columns_of([o for _, o in operations]), np.array([1, 0, 2]))
    before = VtaProgram(CONFIG, {}, early, source=source)
    address = {acc: 0, wgt: 0, x: 0}
    for order in (operations, early):
        Allocate().verify(before, replace(before, operations=order, tile_address=address))
    late = [operations[n] for n in (0, 2, 1)]
    with pytest.raises(LoweringError, match="stands in another order"):
        Allocate().verify(before, replace(before, operations=late, tile_address=address))


def test_operands_that_stay_leave_room_for_two_sums() -> None:
    """The window that nobody used yet would part what is left into 100 and 150 tiles, where sums of
    110 could not take turns."""
    x, wgt = tile(Memory.INP, 1), tile(Memory.WGT, 1)
    before, operands = tile(Memory.ACC, 100), tile(Memory.ACC, 6)
    sums = [tile(Memory.ACC, 110, f"sum{k}") for k in range(3)]
    operations: list[Operation] = [load(x, "x"), load(wgt, "w"), gemm(before, x, wgt)]
    operations.append(load(operands, "p"))
    for each in sums:
        operations.append(gemm(each, x, wgt))
        operations.append(
            AluNest(AluOp.ADD, (1,), Access(each, 0, (0,)), Access(operands, 0, (0,)))
        )
    assert allocate(columns_of(operations), CONFIG).address[operands] == 250


def test_a_constant_input_that_stays_leaves_room_for_two_large_ones() -> None:
    """The window that nobody used yet would part what is left into 100 and 153 tiles."""
    acc, wgt = tile(Memory.ACC, 1), tile(Memory.WGT, 1)
    before, constant = tile(Memory.INP, 100), tile(Memory.INP, 3)
    inputs = [tile(Memory.INP, 110, f"x{k}") for k in range(3)]
    operations: list[Operation] = [load(wgt, "w"), load(before, "x"), use(before, acc, wgt)]
    operations.append(load(constant, "one"))
    for k, each in enumerate(inputs):
        operations += [load(each, "x", 100 * k), use(each, acc, wgt), use(constant, acc, wgt)]
    address = allocate(columns_of(operations), CONFIG).address
    assert address[constant] == 253
    assert address[inputs[0]] != address[inputs[1]]
