# SPDX-License-Identifier: Apache-2.0
"""encode.py with expand.py, micro_op_cache.py and split_transfer.py: what one operation
becomes."""

from __future__ import annotations

from dataclasses import replace
from math import prod

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from loadstone.backend.region import Address
from loadstone.errors import LoweringError
from loadstone.numerics import Rounding
from loadstone.vta.device.hw_config import HwConfig, load_config
from loadstone.vta.isa.codec import bit_fields
from loadstone.vta.isa.insn import Alu, Config, Finish, Gemm, Insn, Load, Store
from loadstone.vta.isa.spec import AluOp, Capability, Memory, Opcode, Stage
from loadstone.vta.passes.encode.encode import Encode
from loadstone.vta.passes.encode.split_transfer import CopyLimits, split_load, split_store
from loadstone.vta.passes.program import UOP_TENSOR, VtaProgram
from loadstone.vta.stream.loop_nest import FoldingLimits, fold_nest, offsets
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
)
from tests.vta.passes.hand_lowered import (
    NEST_DEVICES,
    behind,
    compare_golden,
    nest_program,
    small_program,
)
from tests.vta.stream.nests import merged_nest

CONFIG = load_config("vtaq-1x16x16")
PLACES = {"x": Address(2, 0), "y": Address(2, 1 << 20), UOP_TENSOR: Address(1, 64)}
ACC, INP, WGT = (VirtualTile(m, 64, m.name) for m in (Memory.ACC, Memory.INP, Memory.WGT))
ADDRESS = {ACC: 100, INP: 200, WGT: 300}


def encoded(*operations: Operation, config: HwConfig = CONFIG) -> VtaProgram:
    before = VtaProgram(config, PLACES, [("layer", o) for o in operations], tile_address=ADDRESS)
    after = Encode().run(before)
    Encode().verify(before, after)
    return after


def insns(*operations: Operation, config: HwConfig = CONFIG) -> list[Insn]:
    return [pending.insn for pending in encoded(*operations, config=config).instructions]


def gemm(extents: tuple[int, ...], dst: tuple[int, ...], src: tuple[int, ...]) -> GemmNest:
    return GemmNest(extents, Access(ACC, 0, dst), Access(INP, 0, src), Access(WGT, 0, src))


def test_the_text_behind_the_pass_is_the_golden_one(update_golden: bool) -> None:
    compare_golden("encode", behind("encode", small_program()).text(), update_golden)


@pytest.mark.parametrize("device", NEST_DEVICES)
def test_text_in_text_out(device: str, update_golden: bool) -> None:
    compare_golden("encode", behind("encode", nest_program(device)).text(), update_golden, device)


# --- copies ---------------------------------------------------------------------------------------
def test_a_load_counts_tiles_from_the_start_of_its_region() -> None:
    load, finish = insns(TileLoad(Memory.INP, INP, 3, DramTile("y", 5), 2, 4, 8, x_pad_0=1))
    assert load == Load(
        memory_id=Memory.INP,
        sram_base=203,
        dram_base=(1 << 20) // CONFIG.tile_bytes(Memory.INP) + 5,
        region=2,
        y_size=2,
        x_size=4,
        x_stride=8,
        x_pad_0=1,
    )
    assert finish == Finish()


def test_a_pad_value_is_set_once_for_each_stage() -> None:
    def padded(memory: Memory, tile: VirtualTile) -> TileLoad:
        return TileLoad(memory, tile, 0, DramTile("x", 0), 1, 1, 1, x_pad_1=1, pad_value=-5)

    found = insns(*[padded(Memory.INP, INP), padded(Memory.ACC_8BIT, ACC)] * 2)
    assert [i.stage for i in found if isinstance(i, Config)] == [Stage.LOAD, Stage.COMPUTE]
    vta = load_config("vta-pynq")
    with pytest.raises(LoweringError, match=r"PAD_VALUE=-5 is needed.*has no config"):
        insns(padded(Memory.INP, INP), config=vta)


@given(
    y_size=st.integers(1, 6),
    x_size=st.integers(1, 3000),
    pads=st.tuples(*[st.integers(0, 15)] * 4),
    extra=st.integers(0, 70000),
)
def test_parts_of_a_load_write_what_the_whole_would(
    y_size: int, x_size: int, pads: tuple[int, int, int, int], extra: int
) -> None:
    """On VTA, where a load of INP moves less than 2048 tiles; strides may pass their field."""
    config = load_config("vta-pynq")
    tile = VirtualTile(Memory.INP, 1, "t")
    whole = TileLoad(Memory.INP, tile, 7, DramTile("x", 3), y_size, x_size, x_size + extra, *pads)
    if x_size > 2047 and (pads[0] or pads[1]):
        with pytest.raises(LoweringError, match="cannot be split"):
            list(split_load(whole, CopyLimits(config)))
        return
    parts = list(split_load(whole, CopyLimits(config)))
    for part in parts:
        assert part.x_size * part.y_size <= 2047
        assert part.y_size == 1 or part.x_stride <= 0xFFFF
    written = [cell for part in parts for cell in cells(part).items()]
    assert len(written) == len(dict(written))
    assert dict(written) == cells(whole)


def cells(o: TileLoad) -> dict[int, int | None]:
    """Scratchpad tile -> tile of DRAM, None for a pad."""
    width = o.x_pad_0 + o.x_size + o.x_pad_1
    found: dict[int, int | None] = {}
    for y in range(o.y_pad_0 + o.y_size + o.y_pad_1):
        for x in range(width):
            row, column = y - o.y_pad_0, x - o.x_pad_0
            inside = 0 <= row < o.y_size and 0 <= column < o.x_size
            place = o.dram.tile + row * o.x_stride + column
            found[o.offset + y * width + x] = place if inside else None
    return found


def test_rows_of_a_store_that_are_too_far_apart_are_stores_of_their_own() -> None:
    store = TileStore(ACC, 2, DramTile("y", 1), 3, 4, 1 << 16)
    parts = list(split_store(store, CopyLimits(CONFIG)))
    assert [(p.offset, p.dram.tile, p.y_size) for p in parts] == [
        (2 + 4 * row, 1 + (row << 16), 1) for row in range(3)
    ]
    assert list(split_store(replace(store, x_stride=0xFFFF), CopyLimits(CONFIG))) == [
        replace(store, x_stride=0xFFFF)
    ]
    assert isinstance(insns(store)[0], Store)


# --- nests ----------------------------------------------------------------------------------------
@st.composite
def nests(draw: st.DrawFn) -> tuple[tuple[int, ...], list[Access]]:
    extents = tuple(draw(st.lists(st.integers(1, 5), max_size=5)))
    strides = st.tuples(*[st.integers(0, 9)] * len(extents))
    return extents, [Access(t, draw(st.integers(0, 3)), draw(strides)) for t in (ACC, INP, WGT)]


@given(nests(), st.integers(2, 40), st.integers(1, 9), st.booleans())
def test_folded_loops_make_the_steps_of_the_nest(
    drawn: tuple[tuple[int, ...], list[Access]], uops: int, factor: int, in_order: bool
) -> None:
    extents, accesses = drawn
    limits = FoldingLimits(turns=4, factors=(factor, factor, factor), uops=uops)
    steps = []
    for folded in fold_nest(merged_nest(extents, accesses, ADDRESS), limits, in_order=in_order):
        assert len(folded.uops) <= uops
        for n, strides in (folded.outer, folded.inner):
            assert n <= 4
            assert max(strides) <= factor
        loops = offsets([folded.outer, folded.inner], 3)
        steps.append((loops[:, None, :] + folded.uops[None]).reshape(-1, 3))
    found = np.concatenate(steps)
    loops = [(n, tuple(a.strides[k] for a in accesses)) for k, n in enumerate(extents)]
    wanted = offsets(loops, 3) + [ADDRESS[a.tile] + a.base for a in accesses]
    assert len(found) == prod(extents)
    assert sorted(found.tolist()) == sorted(wanted.tolist())
    if in_order and len(steps) == 1:
        assert found.tolist() == wanted.tolist()


def test_limits_come_from_the_fields() -> None:
    """A loop of more turns than iter_in holds, and a stride that no factor holds, are written
    out."""
    most = bit_fields(CONFIG)[Opcode.GEMM]["iter_in"].high
    assert most == (1 << 14) - 1
    (one, _) = insns(gemm((most,), (0,), (0,)))[1:]
    assert isinstance(one, Gemm)
    assert (one.iter_in, one.uop_end - one.uop_bgn) == (most, 1)
    found = [i for i in insns(gemm((most + 1,), (0,), (0,))) if isinstance(i, Gemm)]
    assert sum(i.steps for i in found) == most + 1
    assert {i.iter_out * i.iter_in for i in found} == {1}


def test_a_fill_before_a_gemm_that_writes_all_of_it_is_left_out() -> None:
    fill = FillNest((8,), Access(ACC, 0, (1,)), 0)
    product = gemm((8, 3), (1, 0), (0, 1))
    first, second = (i for i in insns(fill, product) if isinstance(i, Gemm))
    assert (first.overwrite, first.steps, second.overwrite, second.steps) == (1, 8, 0, 16)
    half = gemm((4, 3), (1, 0), (0, 1))
    assert [i.reset for i in insns(fill, half) if isinstance(i, Gemm)] == [1, 0]
    without = replace(CONFIG, capabilities=CONFIG.capabilities & ~Capability.GEMM_OVERWRITE)
    found = [i for i in insns(fill, product, config=without) if isinstance(i, Gemm)]
    assert [i.reset for i in found] == [1, 0]


def test_an_immediate_has_sixteen_bits() -> None:
    def add(imm: int) -> AluNest:
        return AluNest(AluOp.ADD, (1,), Access(ACC, 0, (0,)), None, imm)

    for imm in (-(1 << 15), (1 << 15) - 1):
        (alu,) = (i for i in insns(add(imm)) if isinstance(i, Alu))
        assert alu.imm == imm
    with pytest.raises(LoweringError, match=r"imm=32768 does not fit 16 bits \[-32768, 32767\]"):
        insns(add(1 << 15))


def test_what_the_device_lacks_is_named() -> None:
    multiply = AluNest(AluOp.MUL, (1,), Access(ACC, 0, (0,)), None, 3)
    with pytest.raises(LoweringError, match="layer: MUL is needed, but .* has no alu_mul"):
        insns(multiply, config=load_config("vta-pynq"))


# --- micro-ops ------------------------------------------------------------------------------------
def uop_loads(program: VtaProgram) -> list[Load]:
    loads = [p.insn for p in program.instructions if isinstance(p.insn, Load)]
    return [insn for insn in loads if insn.memory_id == Memory.UOP]


def test_a_list_that_is_resident_is_not_loaded_again() -> None:
    a, b = gemm((2, 3), (1, 0), (0, 1)), gemm((5,), (1,), (0,))
    program = encoded(a, b, a, b, a)
    (load,) = uop_loads(program)
    assert load.dram_base == 64 // 4
    assert load.x_size == len(program.uops)
    ranges = [(p.insn.uop_bgn, p.insn.uop_end) for p in program.instructions[:-1][1:]]  # type: ignore[attr-defined]
    assert ranges == [ranges[0], ranges[1]] * 2 + [ranges[0]]


def test_the_ring_forgets_the_oldest_lists() -> None:
    """Lists of 60 micro-ops in a scratchpad of 256: each is loaded again when its turn comes."""
    config = replace(CONFIG, uop_depth=256)
    lists = [
        AluNest(AluOp.ADD, (2, 2, 60), Access(ACC, 0, (0, 0, 1)), Access(ACC, k, (3, 1, 0)))
        for k in range(8)
    ]
    once, twice = encoded(*lists, config=config), encoded(*lists, *lists, config=config)
    np.testing.assert_array_equal(once.uops, twice.uops)
    assert len(uop_loads(twice)) > len(uop_loads(once))


@pytest.mark.parametrize(("device", "instructions"), [("vta-pynq", 9), ("vtaq-1x16x16", 1)])
def test_a_reduction_into_few_tiles_is_an_instruction_for_each_turn(
    device: str, instructions: int
) -> None:
    """VTA's ALU does not see what the last two steps of the instruction wrote."""
    largest = AluNest(AluOp.MAX, (3, 3, 2), Access(ACC, 0, (0, 0, 1)), Access(ACC, 8, (6, 2, 1)))
    program = encoded(largest, config=load_config(device))
    assert sum(isinstance(p.insn, Alu) for p in program.instructions) == instructions


# --- the verifier ---------------------------------------------------------------------------------
def test_the_verifier_finds_spoilt_instructions() -> None:
    program = encoded(gemm((2, 3), (1, 0), (0, 1)))
    load, product, finish = program.instructions
    assert isinstance(product.insn, Gemm)
    for spoilt, why in (
        ((replace(product, insn=replace(product.insn, iter_in=1 << 14)),), "iter_in"),
        ((replace(product, insn=replace(product.insn, uop_end=200)),), "not all loaded"),
        ((replace(product, insn=replace(product.insn, dst_in=2)),), "other places than it claims"),
        ((replace(product, scratch=product.scratch[1:]),), "other places than it claims"),
    ):
        with pytest.raises(LoweringError, match=why):
            Encode().verify(program, replace(program, instructions=(load, *spoilt, finish)))
    with pytest.raises(LoweringError, match="not all loaded"):
        Encode().verify(program, replace(program, instructions=(product, finish)))
    rows = load.dram
    assert rows is not None
    for other in (
        None,
        rows._replace(region=rows.region + 1),
        rows._replace(start_bytes=rows.start_bytes + 4),
        rows._replace(row_bytes=rows.row_bytes + 4),
        rows._replace(written=True),
    ):
        spoilt_load = replace(load, dram=other)
        with pytest.raises(LoweringError, match="LOAD of layer. touches other places"):
            Encode().verify(program, replace(program, instructions=(spoilt_load, product, finish)))


def test_the_verifier_knows_where_a_scratchpad_begins_and_ends() -> None:
    program = encoded(gemm((2, 3), (1, 0), (0, 1)))
    load, *others = program.instructions
    depth, (touched,) = CONFIG.depth(Memory.UOP), load.scratch
    assert isinstance(load.insn, Load)
    for first in (0, 1, depth - touched.end, depth - touched.end + 1):
        moved = replace(load.insn, sram_base=first)
        claim = touched._replace(first=first, end=first + touched.end)
        after = replace(
            program, instructions=(replace(load, insn=moved, scratch=(claim,)), others[-1])
        )
        if claim.end <= depth:
            Encode().verify(program, after)
            continue
        with pytest.raises(LoweringError, match=f"LOAD of layer. leaves UOP of {depth} tiles"):
            Encode().verify(program, after)
    for first, end in ((-1, touched.end), (0, 0), (0, touched.end + 1), (1, touched.end + 1)):
        wrong = replace(load, scratch=(touched._replace(first=first, end=end),))
        with pytest.raises(LoweringError, match="LOAD of layer. touches other places"):
            Encode().verify(program, replace(program, instructions=(wrong, *others)))


def test_the_verifier_finds_an_instruction_without_micro_ops() -> None:
    program = encoded(gemm((2, 3), (1, 0), (0, 1)))
    load, product, finish = program.instructions
    assert isinstance(product.insn, Gemm)
    none = replace(product, insn=replace(product.insn, uop_end=product.insn.uop_bgn))
    with pytest.raises(LoweringError, match="instruction 1"):
        Encode().verify(program, replace(program, instructions=(load, none, finish)))


def test_the_verifier_reckons_with_the_three_operands_of_a_requantization() -> None:
    dst, operands = Access(ACC, 0, (1,)), Access(ACC, 8, (3,))
    program = encoded(RequantizeNest((2,), dst, operands, 0, -128, 127, Rounding.SINGLE))
    (number,) = (k for k, p in enumerate(program.instructions) if isinstance(p.insn, Alu))
    before, alu = program.instructions[:number], program.instructions[number]
    (claimed,) = (r for r in alu.scratch if r.memory is Memory.ACC and not r.written)
    assert (claimed.first, claimed.end) == (108, 108 + 2 * 3)
    for end in (claimed.end - 1, claimed.end + 1):
        scratch = tuple(r._replace(end=end) if r is claimed else r for r in alu.scratch)
        spoilt = (*before, replace(alu, scratch=scratch), *program.instructions[number + 1 :])
        with pytest.raises(LoweringError, match="other places than it claims"):
            Encode().verify(program, replace(program, instructions=spoilt))


@pytest.mark.parametrize("address", [0, 1, 2])
def test_the_verifier_takes_no_tile_for_a_micro_op_that_was_not_loaded(address: int) -> None:
    nest, at = gemm((2, 3), (1, 0), (0, 1)), {ACC: address, INP: 0, WGT: 0}
    before = VtaProgram(CONFIG, PLACES, [("layer", nest)], tile_address=at)
    Encode().verify(before, Encode().run(before))


def test_the_verifier_finds_micro_ops_that_are_not_in_the_table() -> None:
    """One behind the last, one before the first, those of another region, or of no table."""
    program = encoded(gemm((2, 3), (1, 0), (0, 1)))
    load, *others = program.instructions
    (touched,), dram = load.scratch, load.dram
    assert isinstance(load.insn, Load)
    assert dram is not None
    longer = replace(
        load,
        insn=replace(load.insn, x_size=load.insn.x_size + 1, x_stride=load.insn.x_size + 1),
        scratch=(touched._replace(end=touched.end + 1),),
        dram=dram._replace(row_bytes=dram.row_bytes + 4, stride_bytes=dram.stride_bytes + 4),
    )
    earlier = replace(
        load,
        insn=replace(load.insn, dram_base=load.insn.dram_base - 1),
        dram=dram._replace(start_bytes=dram.start_bytes - 4),
    )
    elsewhere = replace(
        load, insn=replace(load.insn, region=2), dram=dram._replace(region=dram.region + 1)
    )
    for wrong in (longer, earlier, elsewhere):
        with pytest.raises(LoweringError, match="instruction [01]"):
            Encode().verify(program, replace(program, instructions=(wrong, *others)))
    none = {name: place for name, place in PLACES.items() if name != UOP_TENSOR}
    with pytest.raises(LoweringError, match="instruction [01]"):
        Encode().verify(program, replace(program, places=none))
