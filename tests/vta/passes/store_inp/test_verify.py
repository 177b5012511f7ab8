# SPDX-License-Identifier: Apache-2.0
"""verify.py: what reads or leaves something else is refused."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import pytest

from loadstone.backend.region import Address
from loadstone.errors import LoweringError
from loadstone.numerics import Rounding
from loadstone.vta.device.hw_config import HwConfig
from loadstone.vta.isa.spec import Memory
from loadstone.vta.passes.program import LayerOperation, VtaProgram
from loadstone.vta.passes.store_inp.store_inp import StoreInp
from loadstone.vta.passes.store_inp.verify import verify_reads
from loadstone.vta.stream.operations import (
    Access,
    DramTile,
    FillNest,
    GemmNest,
    InpTiles,
    Operation,
    StoreRequantization,
    TileLoad,
    TileStore,
    VirtualTile,
)
from tests.vta.passes.store_inp.two_layers import KEEPING, TwoLayers

BEFORE = TwoLayers().program()
AFTER = StoreInp().run(BEFORE)
Operations = list[LayerOperation]


def is_load(o: Operation, memory: Memory) -> bool:
    return isinstance(o, TileLoad) and o.memory is memory


def numbers(kind: type[object]) -> list[int]:
    return [n for n, (_, o) in enumerate(AFTER.operations) if type(o) is kind]


def with_store(number: int, **values: object) -> Operations:
    """One of the stores to INP is another."""
    made = list(AFTER.operations)
    at = [n for n in numbers(TileStore) if getattr(made[n][1], "inp", None) is not None][number]
    layer, o = made[at]
    assert isinstance(o, TileStore)
    made[at] = (layer, replace(o, **values))
    return made


def first_store() -> TileStore:
    return next(o for _, o in AFTER.operations if isinstance(o, TileStore) and o.inp)


def elsewhere() -> Operations:
    to = first_store().inp
    assert to is not None
    return with_store(0, inp=InpTiles(to.tile, to.offset + 1))


def other_cells() -> Operations:
    return with_store(0, offset=first_store().offset + 1)


def other_rows() -> Operations:
    return with_store(0, x_stride=first_store().x_stride + 1)


def other_operands() -> Operations:
    by = first_store().requantization
    assert by is not None
    return with_store(0, requantization=replace(by, offset=by.offset + 3))


def other_clamp() -> Operations:
    by = first_store().requantization
    assert by is not None
    return with_store(0, requantization=replace(by, low=0))


def no_padding() -> Operations:
    fills = [n for n in numbers(TileLoad) if getattr(AFTER.operations[n][1], "y_pad_0", 0)]
    return [one for n, one in enumerate(AFTER.operations) if n != fills[0]]


def padding_behind() -> Operations:
    fills = [n for n in numbers(TileLoad) if getattr(AFTER.operations[n][1], "y_pad_0", 0)]
    made = list(AFTER.operations)
    last = max(n for n in numbers(TileStore) if getattr(made[n][1], "inp", None) is not None)
    made.insert(last, made.pop(fills[0]))
    return made


def no_store() -> Operations:
    at = next(n for n in numbers(TileStore) if getattr(AFTER.operations[n][1], "inp", None))
    return [one for n, one in enumerate(AFTER.operations) if n != at]


def no_result() -> Operations:
    return list(AFTER.operations[:-1])


def other_product() -> Operations:
    made = list(AFTER.operations)
    at = numbers(GemmNest)[-1]
    layer, o = made[at]
    assert isinstance(o, GemmNest)
    made[at] = (layer, replace(o, src=replace(o.src, base=o.src.base + 1)))
    return made


def other_window() -> Operations:
    """The same first pixel, rows and columns exchanged."""
    made = list(AFTER.operations)
    at = numbers(GemmNest)[-1]
    layer, o = made[at]
    assert isinstance(o, GemmNest)
    made[at] = (layer, replace(o, src=replace(o.src, strides=o.src.strides[::-1])))
    return made


def weights(number: int) -> int:
    """Of the loads of weights."""
    return [n for n, (_, o) in enumerate(AFTER.operations) if is_load(o, Memory.WGT)][number]


def no_weights() -> Operations:
    made = list(AFTER.operations)
    del made[weights(-1)]
    return made


def weights_behind() -> Operations:
    """The product reads the tile before it is loaded."""
    made = list(AFTER.operations)
    made.insert(numbers(GemmNest)[-1], made.pop(weights(-1)))
    return made


def more_is_computed() -> Operations:
    """In a tile of its own, which nobody stores."""
    tile = VirtualTile(Memory.ACC, 1, "more")
    return [*AFTER.operations, ("three", FillNest((1,), Access(tile, 0, (1,)), 0))]


WRONG = (
    *(elsewhere, other_cells, other_rows, other_operands, other_clamp),
    *(no_padding, padding_behind, no_store, no_result, other_product, other_window),
    *(no_weights, weights_behind, more_is_computed),
)


def test_what_the_pass_makes_is_accepted() -> None:
    verify_reads(BEFORE, AFTER)
    verify_reads(BEFORE, BEFORE)


@pytest.mark.parametrize("wrong", WRONG, ids=lambda each: str(each.__name__))
def test_what_is_wrong_is_refused(wrong: Callable[[], Operations]) -> None:
    made: VtaProgram = replace(AFTER, operations=wrong())
    with pytest.raises(LoweringError, match="store_inp"):
        verify_reads(BEFORE, made)


def test_all_that_was_computed_is() -> None:
    """In a tile of its own, too, which nobody stores; the layer has its name."""
    more = replace(BEFORE, operations=[*BEFORE.operations, more_is_computed()[-1]])
    with pytest.raises(LoweringError, match="^store_inp: three: something else is read"):
        verify_reads(more, AFTER)


def test_one_place_has_many_names() -> None:
    """A load reads the same of the tensor that begins in the middle of another one."""
    at = max(n for n, (_, o) in enumerate(BEFORE.operations) if is_load(o, Memory.INP))
    made = list(BEFORE.operations)
    layer, o = made[at]
    assert isinstance(o, TileLoad)
    assert o.dram.tile > 5
    mid = BEFORE.places["mid"]
    late = replace(mid, offset_bytes=mid.offset_bytes + 5 * KEEPING.tile_bytes(Memory.INP))
    program = replace(BEFORE, places={**BEFORE.places, "late": late})
    for tile, right in ((o.dram.tile - 5, True), (o.dram.tile, False)):
        made[at] = (layer, replace(o, dram=DramTile("late", tile)))
        if right:
            verify_reads(BEFORE, replace(program, operations=made))
        else:
            with pytest.raises(LoweringError, match="two: something else is read"):
                verify_reads(BEFORE, replace(program, operations=made))


#: A tile of WGT is 16 of OUT; and half of one.
WIDE = replace(KEEPING, name="wide", log_batch=5)


@pytest.mark.parametrize(
    ("config", "memory", "tile", "first", "count"),
    [
        (KEEPING, Memory.WGT, 1, 16, 16),
        (KEEPING, Memory.ACC, 2, 8, 4),
        (KEEPING, Memory.ACC_8BIT, 3, 3, 1),
        (WIDE, Memory.WGT, 2, 1, 1),
        (WIDE, Memory.WGT, 3, 1, 1),
    ],
)
def test_what_is_loaded_elsewhere_is_what_was(
    config: HwConfig, memory: Memory, tile: int, first: int, count: int
) -> None:
    """Weights and accumulators that a layer has stored: all cells of the tile, and no others."""
    acc = VirtualTile(Memory.ACC, 32, "acc")
    to = VirtualTile(Memory.WGT if memory is Memory.WGT else Memory.ACC, 1, "to")
    load = TileLoad(memory, to, 0, DramTile("mid", tile), 1, 1, 1)

    def stored(*cells: range) -> VtaProgram:
        parts = [(c.start, DramTile("mid", c.start), 1, len(c), len(c)) for c in cells if c]
        operations = [("one", TileStore(acc, *part)) for part in parts]
        places = {"mid": Address(0, 1 << 14)}
        return VtaProgram(config, places, [*operations, ("two", load)], inside=frozenset({"mid"}))

    whole = stored(range(32))
    verify_reads(whole, stored(range(first, first + count)))
    for missing in (first, first + count - 1):
        with pytest.raises(LoweringError, match="two: something else is read"):
            verify_reads(whole, stored(range(missing), range(missing + 1, 32)))


def test_a_whole_accumulator_has_four_cells() -> None:
    """Of two that are stored whole, a load reads the second, or a quarter of it."""
    acc, to = VirtualTile(Memory.ACC, 2, "acc"), VirtualTile(Memory.ACC, 1, "to")
    weights = VirtualTile(Memory.WGT, 1, "w")
    places = {"mid": Address(0, 0), "late": Address(0, 7 * KEEPING.tile_bytes(Memory.OUT))}
    load = TileLoad(Memory.ACC, to, 0, DramTile("mid", 1), 1, 1, 1)
    quarter = TileLoad(Memory.ACC_8BIT, to, 0, DramTile("late", 0), 1, 1, 1)
    every = TileLoad(Memory.WGT, weights, 0, DramTile("mid", 0), 1, 1, 1)
    both = TileStore(acc, 0, DramTile("mid", 0), 1, 2, 2, whole=True)
    by = StoreRequantization(acc, 0, 3, 3, -128, 127, Rounding.DOUBLE)

    def program(store: TileStore, then: TileLoad) -> VtaProgram:
        operations = [("one", store), ("two", then)]
        return VtaProgram(KEEPING, places, operations, inside=frozenset(places))

    for then in (load, quarter, every):
        verify_reads(program(both, then), program(both, then))
        for wrong in (
            replace(both, x_size=1),
            replace(both, offset=1, x_size=1),
            replace(both, x_size=1, dram=DramTile("mid", 1)),
            replace(both, whole=False),
            replace(both, whole=False, x_size=8, x_stride=8, requantization=by),
        ):
            with pytest.raises(LoweringError, match="two: something else is read"):
                verify_reads(program(both, then), program(wrong, then))
    # what nobody reads may be left out, and the second alone brings what a load of it reads
    second = replace(both, x_size=1, offset=1, dram=DramTile("mid", 1))
    verify_reads(program(both, load), program(second, load))
    verify_reads(program(both, quarter), program(second, quarter))
    with pytest.raises(LoweringError, match="two: something else is read"):
        verify_reads(program(both, every), program(second, every))


def test_what_others_see_must_be_in_dram() -> None:
    seen = replace(BEFORE, inside=frozenset())
    with pytest.raises(LoweringError, match="left in DRAM"):
        verify_reads(seen, replace(AFTER, inside=frozenset()))
