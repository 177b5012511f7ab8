# SPDX-License-Identifier: Apache-2.0
"""vta/passes/encode/expand.py: parts do what the operation does, wherever its operands begin."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from loadstone.numerics import Rounding
from loadstone.vta.device.hw_config import load_config
from loadstone.vta.isa.insn import Alu, Gemm, Load, Store
from loadstone.vta.isa.instruction_columns import ScratchRange
from loadstone.vta.isa.spec import AluOp, Memory
from loadstone.vta.passes.encode.expand import (
    Expander,
    accesses_of,
    in_groups,
    in_planes,
    kind_of_copy,
    kind_of_nest,
)
from loadstone.vta.stream.loop_nest import offsets
from loadstone.vta.stream.operations import (
    Access,
    AluNest,
    DramTile,
    FillNest,
    GemmNest,
    InpTiles,
    Nest,
    RequantizeNest,
    StoreRequantization,
    TileLoad,
    TileStore,
    VirtualTile,
)

ACC, INP, WGT = (VirtualTile(m, 4096, m.name) for m in (Memory.ACC, Memory.INP, Memory.WGT))
DEVICES = {"vta-pynq": load_config("vta-pynq"), "vtaq-1x16x16": load_config("vtaq-1x16x16")}


@st.composite
def nests(draw: st.DrawFn) -> Nest:
    extents = tuple(draw(st.lists(st.integers(1, 5), max_size=4)))

    def access(tile: VirtualTile) -> Access:
        strides = draw(st.tuples(*[st.integers(0, 9)] * len(extents)))
        return Access(tile, draw(st.integers(0, 50)), strides)

    match draw(st.integers(0, 3)):
        case 0:
            return GemmNest(extents, access(ACC), access(INP), access(WGT))
        case 1:
            return FillNest(extents, access(ACC), 0)
        case 2:
            return AluNest(AluOp.ADD, extents, access(ACC), None, draw(st.integers(-99, 99)))
        case _:
            return AluNest(AluOp.MAX, extents, access(ACC), access(ACC))


@pytest.mark.parametrize("device", DEVICES)
@given(nests())
def test_parts_take_the_steps_of_the_nest(device: str, o: Nest) -> None:
    """Every step once, and what a part says that it touches is what it reaches."""
    steps = []
    for part in Expander(DEVICES[device]).nest(o, fresh=False):
        insn, uops = part.form.insn, part.uops
        assert isinstance(insn, Gemm | Alu)
        assert uops is not None
        assert (insn.uop_bgn, insn.uop_end) == (0, len(uops))
        wgt = (insn.wgt_out, insn.wgt_in) if isinstance(insn, Gemm) else (0, 0)
        loops = [
            (insn.iter_out, (insn.dst_out, insn.src_out, wgt[0])),
            (insn.iter_in, (insn.dst_in, insn.src_in, wgt[1])),
        ]
        made = (offsets(loops, 3)[:, None] + uops).reshape(-1, 3)
        operands = part.form.scratch[1:]
        for touched, reached in zip(operands, made.T, strict=False):
            assert (touched.first, touched.end) == (reached.min(), reached.max() + 1)
        assert [touched.written for touched in operands] == [True, False, False][: len(operands)]
        steps += made.tolist()
    strides = [access.strides for access in accesses_of(o)]
    strides += [(0,) * len(o.extents)] * (3 - len(strides))
    loops = [(n, tuple(of[k] for of in strides)) for k, n in enumerate(o.extents)]
    assert sorted(steps) == sorted(offsets(loops, 3).tolist())


def test_a_kind_says_all_that_parts_depend_on() -> None:
    """Whatever else changes, the kind does not, and the other way round."""
    one = Access(ACC, 3, (1, 2))
    nest = AluNest(AluOp.ADD, (2, 3), one, None, 5)
    assert kind_of_nest(nest) == kind_of_nest(replace(nest, dst=replace(one, base=9, tile=INP)))
    product = GemmNest((2, 3), one, Access(INP, 0, (1, 1)), Access(WGT, 0, (0, 1)))
    moved = RequantizeNest((2, 3), one, Access(ACC, 9, (0, 3)), 1, -8, 7, Rounding(0))
    other: list[Nest] = [
        nest,
        replace(nest, op=AluOp.MIN),
        replace(nest, imm=6),
        replace(nest, extents=(3, 2)),
        replace(nest, dst=replace(one, strides=(1, 3))),
        replace(nest, src=one),
        replace(nest, src=replace(one, strides=(0, 0))),
        product,
        replace(product, src=product.wgt),
        replace(product, wgt=product.src),
        FillNest((2, 3), one, 0),
        moved,
        replace(moved, operands=one),
    ]
    assert len({(type(o), kind_of_nest(o)) for o in other}) == len(other)
    assert kind_of_nest(moved) == kind_of_nest(replace(moved, zero_point=2))  # stands in registers

    load = TileLoad(Memory.INP, INP, 7, DramTile("x", 3), 4, 5, 6)
    assert kind_of_copy(load) == kind_of_copy(replace(load, offset=0, dram=DramTile("y", 0)))
    fields = ("y_size", "x_size", "x_stride", "y_pad_0", "y_pad_1", "x_pad_0", "x_pad_1")
    loads = [load, replace(load, memory=Memory.WGT)]
    loads += [replace(load, **{name: 9}) for name in fields]
    store = TileStore(ACC, 7, DramTile("x", 3), 4, 5, 6)
    assert len({kind_of_copy(o) for o in (*loads, store)}) == len(loads) + 1


def test_parts_of_a_copy_count_from_where_it_begins() -> None:
    load = TileLoad(Memory.INP, INP, 7, DramTile("x", 3), 100, 30, 40, x_pad_0=1)
    first, *more = Expander(DEVICES["vta-pynq"]).copy(load, 2)  # more tiles than VTA counts
    assert (first.at, first.dram) == (0, 0)
    rows, size = 0, DEVICES["vta-pynq"].tile_bytes(Memory.INP)
    for part in (first, *more):
        insn = part.form.insn
        assert isinstance(insn, Load)
        assert (part.at, part.dram) == (31 * rows, 40 * rows)
        assert part.form.scratch == (ScratchRange(Memory.INP, 0, 31 * insn.y_size, True),)
        assert part.form.dram == (2, 0, insn.y_size, 30 * size, 40 * size, False)
        assert part.form.tile_bytes == size
        rows += insn.y_size
    assert rows == 100


def test_a_load_of_weight_tiles_becomes_one_of_groups() -> None:
    """With blocks of 16 a group is two tiles, and nine steps of 32 bytes in DRAM."""
    config = load_config("vtaq2-1x16x16")
    load = TileLoad(Memory.WGT, WGT, 6, DramTile("w", 10), 3, 4, 8)
    made = in_groups(load, config)
    assert (made.dram.tile, made.offset, made.y_size) == (45, 6, 3)
    assert (made.memory, made.x_size, made.x_stride) == (Memory.WGT_4BIT, 2, 4)
    (part,) = Expander(config).copy(made, 2)
    assert part.form.scratch == (ScratchRange(Memory.WGT, 0, 12, True),)
    assert part.form.dram == (2, 0, 3, 2 * 288, 4 * 288, False)
    assert part.form.tile_bytes == 32


def test_a_load_of_a_part_of_a_group_is_a_mistake() -> None:
    config = load_config("vtaq2-1x16x16")
    load = TileLoad(Memory.WGT, WGT, 0, DramTile("w", 2), 1, 4, 7)
    assert in_groups(load, config).x_size == 2
    for bad in ({"x_size": 3}, {"dram": DramTile("w", 3)}, {"y_size": 2}):
        with pytest.raises(AssertionError, match="a LOAD of w is not of whole groups of 2 tiles"):
            in_groups(replace(load, **bad), config)


def test_a_load_of_weight_tiles_becomes_those_of_bit_planes() -> None:
    """One where its tiles follow each other, else one a row; and as many words as a field holds."""
    config = load_config("vtaq2-1x16x16")
    first = np.concatenate([[0], np.cumsum(np.arange(17, 33))])  # of 16 tiles
    whole = TileLoad(Memory.WGT, WGT, 6, DramTile("w", 2), 3, 4, 4)
    (made,) = in_planes(whole, first)
    assert (made.memory, made.offset, made.dram) == (Memory.WGT_PLANES, 6, DramTile("w", 35))
    assert (made.y_size, made.x_size, made.x_stride) == (12, first[14] - 35, 0)
    (part,) = Expander(config).copy(made, 2)
    assert part.form.scratch == (ScratchRange(Memory.WGT, 0, 12, True),)
    assert part.form.dram == (2, 0, 1, 8 * made.x_size, 0, False)
    assert part.form.tile_bytes == 8
    apart = replace(whole, x_stride=5)
    rows = [(m.offset, m.dram.tile, m.y_size, m.x_size) for m in in_planes(apart, first)]
    assert rows == [
        (6 + 4 * y, first[2 + 5 * y], 4, first[6 + 5 * y] - first[2 + 5 * y]) for y in range(3)
    ]
    long = np.arange(4001) * 33
    parts = list(in_planes(TileLoad(Memory.WGT, WGT, 0, DramTile("w", 0), 1, 4000, 4000), long))
    assert [(m.offset, m.y_size, m.x_size) for m in parts] == [
        (0, 1985, 65505),
        (1985, 1985, 65505),
        (3970, 30, 990),
    ]


@pytest.mark.parametrize(("step", "count"), [(None, 0), (0, 3), (3, 12)])
def test_a_store_to_inp_writes_its_rows_there_and_nothing_of_dram(
    step: int | None, count: int
) -> None:
    tile = VirtualTile(Memory.ACC, 20, "p")
    by = None if step is None else StoreRequantization(tile, 5, step, 0, -1, 1, Rounding.DOUBLE)
    store = TileStore(ACC, 2, DramTile("x", 3), 4, 5, 9, by, InpTiles(INP, 8))
    device = load_config("vtaq2-1x16x16")
    (part,) = Expander(device).copy(store, 0)
    insn, form = part.form.insn, part.form
    assert isinstance(insn, Store)
    assert (insn.memory_id, insn.region, insn.x_stride, insn.y_size) == (Memory.INP, 0, 9, 4)
    assert (form.dram, part.dram, part.at) == (None, 0, 0)
    operands = [ScratchRange(Memory.ACC, 0, count, False)] if count else []
    written = ScratchRange(Memory.INP, 0, 5, True, 4, 9)
    assert list(form.scratch) == [ScratchRange(Memory.ACC, 0, 20, False), *operands, written]
    assert kind_of_copy(store) != kind_of_copy(replace(store, inp=None))
    assert kind_of_copy(store) == kind_of_copy(replace(store, inp=InpTiles(INP, 0)))
