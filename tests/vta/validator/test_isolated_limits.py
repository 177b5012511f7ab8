# SPDX-License-Identifier: Apache-2.0
"""runtime/isolated.c at its limits, in the smallest programs: of every kind of instruction each
tile that it reads is needed, and no other; what it writes counts, and nothing beside it."""

from __future__ import annotations

from collections.abc import Sequence

import pytest

from loadstone.vta.isa.codec import Config, Finish, Insn
from loadstone.vta.isa.spec import AluOp, Memory, Stage
from tests.vta.validator.isolated_case import OK, RESIDUE, Uops, staged, verdict
from tests.vta.validator.one_instruction import (
    ARENA,
    INTEGERS,
    Case,
    alu,
    depthwise,
    gemm,
    having,
    load,
    store,
)
from tests.vta.validator.validate import STATUS

INP, WGT, ACC, OUT = Memory.INP, Memory.WGT, Memory.ACC, Memory.OUT
SRAM, UOP, DRAM, TOKEN = (STATUS[name] for name in ("SRAM", "UOP", "DRAM", "TOKEN"))
INSTRUCTION = STATUS["INSTRUCTION"]
LAST = {memory: INTEGERS.depth(memory) - 1 for memory in (INP, WGT, ACC)}
Tiles = dict[Memory, Sequence[int]]
#: The micro-op behind those of an instruction: it names tiles that nobody has written.
FURTHER: Uops = ((200, 201, 202),)


def _loaded(tiles: Tiles, without: object = None) -> tuple[list[Insn], list[Insn]]:
    """A LOAD for each tile but one: those of the stage load, and those of compute."""
    made = [(m, load(m, sram_base=t)) for m in tiles for t in tiles[m] if (m, t) != without]
    return [i for m, i in made if m is not ACC], [i for m, i in made if m is ACC]


def _reading(insn: Insn, uops: Uops, tiles: Tiles, without: object = None) -> Case:
    before, own = _loaded(tiles, without)
    return staged(before, [*own, insn], uops=(*uops, *FURTHER))


STEP: Uops = ((3, 5, 7),)
READS: dict[str, tuple[Insn, Uops, Tiles]] = {
    "gemm": (gemm(), STEP, {INP: [5], WGT: [7], ACC: [3]}),
    "gemm of the first tiles": (gemm(), ((0, 0, 0),), {INP: [0], WGT: [0], ACC: [0]}),
    "gemm that overwrites": (gemm(overwrite=1), STEP, {INP: [5], WGT: [7]}),
    "gemm that resets": (gemm(reset=1), STEP, {}),
    "gemm of two micro-ops": (
        gemm(uop_bgn=1, uop_end=3),
        ((9, 9, 9), (3, 40, 7), (1, 2, 30)),
        {INP: [2, 40], WGT: [7, 30], ACC: [1, 3]},
    ),
    "gemm, outer loop across words": (
        gemm(iter_out=3, src_out=1, wgt_out=32, dst_out=33),
        ((1, 31, 0),),
        {INP: [31, 32, 33], WGT: [0, 32, 64], ACC: [1, 34, 67]},
    ),
    "gemm, inner loop across words": (
        gemm(iter_in=3, src_in=31, wgt_in=2, dst_in=64),
        ((0, 0, 29),),
        {INP: [0, 31, 62], WGT: [29, 31, 33], ACC: [0, 64, 128]},
    ),
    "gemm, two loops": (
        gemm(iter_out=2, iter_in=3, src_out=40, src_in=1, wgt_out=1, wgt_in=20),
        ((7, 1, 0),),
        {INP: [1, 2, 3, 41, 42, 43], WGT: [0, 1, 20, 21, 40, 41], ACC: [7]},
    ),
    "gemm of five turns": (
        gemm(iter_out=5, src_out=7, dst_out=17),
        ((0, 3, 2),),
        {INP: [3, 10, 17, 24, 31], WGT: [2], ACC: [0, 17, 34, 51, 68]},
    ),
    "gemm of the last tiles": (
        gemm(iter_out=2, iter_in=2, src_out=300, src_in=LAST[INP] - 300, wgt_in=LAST[WGT]),
        ((LAST[ACC], 0, 0),),
        {INP: [0, 300, LAST[INP] - 300, LAST[INP]], WGT: [0, LAST[WGT]], ACC: [LAST[ACC]]},
    ),
    "depthwise": (
        depthwise(rows=3, columns=2, row_stride=10),
        STEP,
        {INP: [5, 6, 15, 16, 25, 26], WGT: [7], ACC: [3]},
    ),
    "depthwise of one column": (
        depthwise(rows=2, row_stride=31, overwrite=1),
        STEP,
        {INP: [5, 36], WGT: [7]},
    ),
    "depthwise, two loops": (
        depthwise(
            iter_out=2, iter_in=2, src_out=64, src_in=2, wgt_out=5, dst_out=8, dst_in=1, columns=3
        ),
        ((0, 30, 1),),
        {
            INP: [*range(30, 35), *range(94, 99)],
            WGT: [1, 6],
            ACC: [0, 1, 8, 9],
        },
    ),
    "depthwise of the last tiles": (
        depthwise(rows=3, columns=3, row_stride=100, overwrite=1),
        ((0, LAST[INP] - 202, LAST[WGT]),),
        {INP: [LAST[INP] - n - c for n in (0, 100, 200) for c in range(3)], WGT: [LAST[WGT]]},
    ),
    "alu": (alu(), STEP, {ACC: [3, 5]}),
    "alu with an immediate": (alu(use_imm=1), STEP, {ACC: [3]}),
    "alu, loops": (
        alu(iter_out=2, iter_in=2, dst_out=1, dst_in=100, src_out=33, src_in=0),
        ((0, 500, 0),),
        {ACC: [0, 1, 100, 101, 500, 533]},
    ),
    "requantize": (alu(AluOp.RQ), ((3, 62, 0),), {ACC: [3, 62, 63, 64]}),
    "requantize, last tiles": (
        alu(AluOp.RQ, iter_out=2, src_out=3),
        ((0, LAST[ACC] - 5, 0),),
        {ACC: [0, *range(LAST[ACC] - 5, LAST[ACC] + 1)]},
    ),
}


@pytest.mark.parametrize("name", READS)
def test_an_instruction_needs_each_tile_that_it_reads_and_no_other(name: str) -> None:
    insn, uops, tiles = READS[name]
    whole = _reading(insn, uops, tiles)
    assert verdict(whole) == OK
    for memory, numbers in tiles.items():
        for tile in numbers:
            case = _reading(insn, uops, tiles, (memory, tile))
            assert verdict(case) == (RESIDUE, 0, len(case.program) - 2), (memory, tile)


# --- STORE ----------------------------------------------------------------------------------------
STORES: dict[str, tuple[Insn, Tiles]] = {
    "one": (store(), {OUT: [0]}),
    "across words": (store(sram_base=30, y_size=2, x_size=3), {OUT: range(30, 36)}),
    "a word": (store(sram_base=32, x_size=32), {OUT: range(32, 64)}),
    "the last": (store(sram_base=LAST[ACC]), {OUT: [LAST[ACC]]}),
    "no tiles": (store(sram_base=9, x_size=0), {}),
    "whole accumulators": (
        store(memory_id=ACC, sram_base=30, y_size=2, x_size=3),
        {ACC: range(30, 36)},
    ),
    "requantized": (store(requantize=1, sram_base=4, operands=61), {ACC: [4, 61, 62, 63]}),
    "requantized, of one for all": (
        store(requantize=1, sram_base=4, y_size=2, operands=LAST[ACC] - 2),
        {ACC: [4, 5, *range(LAST[ACC] - 2, LAST[ACC] + 1)]},
    ),
    "requantized, of one for each row": (
        store(requantize=1, sram_base=4, y_size=2, x_size=2, operands=20, operand_step=1),
        {ACC: [*range(4, 8), *range(20, 26)]},
    ),
}


def _stored(insn: Insn, tiles: Tiles, without: object = None) -> Case:
    """What OUT needs, the ALU writes, with a micro-op for each tile."""
    _, computes = _loaded({ACC: tiles.get(ACC, tiles.get(OUT, ()))}, without)
    out = [tile for tile in tiles.get(OUT, ()) if (OUT, tile) != without]
    computes += [alu(use_imm=1, uop_bgn=k, uop_end=k + 1) for k in range(len(out))]
    return staged([], [*computes, Config(stage=Stage.COMPUTE)], [insn], [(t, 0, 0) for t in out])


@pytest.mark.parametrize("name", STORES)
def test_a_store_needs_each_tile_that_it_reads_and_no_other(name: str) -> None:
    insn, tiles = STORES[name]
    assert verdict(_stored(insn, tiles)) == OK
    for memory, numbers in tiles.items():
        for tile in numbers:
            case = _stored(insn, tiles, (memory, tile))
            assert verdict(case) == (RESIDUE, 0, len(case.program) - 2), (memory, tile)


# --- what is written ------------------------------------------------------------------------------
def _holds(
    memory: Memory, tile: int, loads: Sequence[Insn], computes: Sequence[Insn], uops: Uops = ()
) -> bool:
    """Whether instructions have written a tile: by one more, which reads it."""
    span = {"uop_bgn": len(uops), "uop_end": len(uops) + 1}
    rows = {INP: (0, tile, 0), WGT: (0, 0, tile), ACC: (tile, 0, 0), OUT: (0, 0, 0)}
    reader = alu(AluOp.ADD, use_imm=1, **span) if memory is ACC else gemm(overwrite=1, **span)
    if memory is OUT:
        case = staged(loads, computes, [store(sram_base=tile)], uops)
    else:
        case = staged(loads, [*computes, reader], uops=(*uops, rows[memory]))
    found = verdict(case)
    assert found in (OK, (RESIDUE, 0, len(case.program) - 2))
    return found == OK


PADDED = {"y_pad_0": 1, "y_size": 2, "y_pad_1": 2, "x_pad_0": 1, "x_size": 3, "x_pad_1": 3}
LOADS = {
    "one": ({}, 1),
    "a word": ({"x_size": 32}, 32),
    "a word and one": ({"x_size": 33}, 33),
    "rows": ({"y_size": 3, "x_size": 13}, 39),
    "pads": (PADDED, 35),
    "nothing": ({"x_size": 0}, 0),
}


@pytest.mark.parametrize("base", [32, 62])
@pytest.mark.parametrize("name", LOADS)
@pytest.mark.parametrize("memory", [INP, WGT, ACC, Memory.ACC_8BIT])
def test_a_load_writes_its_tiles_with_their_pads(memory: Memory, name: str, base: int) -> None:
    fields, count = LOADS[name]
    insn = load(memory, sram_base=base, **fields)
    of = memory if memory in (INP, WGT) else ACC
    loads, computes = [load(INP), load(WGT)], [insn]
    if of is not ACC:
        loads, computes = [insn, *loads], []
    for tile in {base - 1, base, base + count - 1, base + count}:
        is_one = base <= tile < base + count
        assert _holds(of, tile, loads, computes) is is_one, tile


LOOPS = {"iter_out": 2, "iter_in": 2, "dst_out": 31, "dst_in": 2}
#: What it writes from micro-op (1, 0, 0) on.
WRITTEN = (1, 3, 32, 34)
WRITERS: dict[str, tuple[Insn, bool]] = {
    "gemm": (gemm(**LOOPS), True),
    "gemm that overwrites": (gemm(overwrite=1, **LOOPS), True),
    "gemm that resets": (gemm(reset=1, **LOOPS), False),
    "depthwise": (depthwise(**LOOPS), True),
    "depthwise that overwrites": (depthwise(overwrite=1, **LOOPS), True),
    "alu": (alu(AluOp.ADD, **LOOPS), True),
    "alu with an immediate": (alu(AluOp.ADD, use_imm=1, **LOOPS), True),
}


@pytest.mark.parametrize("name", WRITERS)
def test_compute_writes_acc_and_unless_it_resets_out(name: str) -> None:
    insn, has_out = WRITERS[name]
    starts = "overwrites" in name or not has_out
    before = [] if starts else [load(ACC, sram_base=t) for t in (0, *WRITTEN)]
    for tile in (0, *WRITTEN, 2, 4, 33, 65):
        is_written = tile in WRITTEN
        done = [load(INP), load(WGT)], [*before, insn], ((1, 0, 0),)
        assert _holds(OUT, tile, *done) is (is_written and has_out), tile
        if starts:
            assert _holds(ACC, tile, *done) is is_written, tile


def test_what_is_before_a_set_is_not_moved_into_it() -> None:
    """The last tile of OUT is written; to move the tiles of INP brings nothing of it."""
    last = gemm(overwrite=1)
    for source in ({"src_in": 1}, {"src_in": 33}, {"src_in": 63}):
        tiles: Tiles = {INP: [2, 2 + source["src_in"], 0], WGT: [0]}
        loads, _ = _loaded(tiles)
        moved = gemm(uop_bgn=1, uop_end=2, overwrite=1, iter_in=2, **source)
        uops = ((LAST[ACC], 0, 0), (0, 2, 0))
        assert verdict(staged(loads, [last, moved], uops=uops)) == OK


# --- what no device has ---------------------------------------------------------------------------
def _bad(insn: Insn, uops: Uops = ((0, 0, 0),), tiles: Tiles | None = None) -> tuple[int, bool]:
    """The status, and whether it is this instruction's; it reads tiles 0 to 2 of all memories."""
    loads, computes = _loaded(tiles or {INP: range(3), WGT: [0], ACC: range(3)})
    case = staged(loads, [*computes, insn], uops=uops)
    status, _, at = verdict(case)
    return status, at == len(case.program) - 2


REFUSED: dict[str, tuple[Insn, int]] = {
    "micro-ops from none on": (gemm(uop_bgn=1, uop_end=1), UOP),
    "micro-ops backwards": (gemm(uop_bgn=2, uop_end=1), UOP),
    "a micro-op beyond the last": (gemm(uop_bgn=255, uop_end=257), UOP),
    "no outer turns": (gemm(iter_out=0), INSTRUCTION),
    "no inner turns": (gemm(iter_in=0), INSTRUCTION),
    "no rows": (depthwise(rows=0), INSTRUCTION),
    "no columns": (depthwise(columns=0), INSTRUCTION),
    "an outer loop": (gemm(iter_out=3, src_out=256), SRAM),
    "an inner loop": (gemm(iter_in=3, src_in=256), SRAM),
    "both loops": (gemm(iter_out=2, iter_in=2, src_out=500, src_in=12), SRAM),
    "of WGT": (gemm(iter_out=3, wgt_out=128), SRAM),
    "of ACC": (gemm(iter_out=3, dst_out=512), SRAM),
    "of ACC, to write": (gemm(iter_out=3, dst_out=512, overwrite=1), SRAM),
    "of ACC, to reset": (gemm(iter_out=3, dst_out=512, reset=1), SRAM),
    "of ACC, by a window": (depthwise(iter_out=3, dst_out=512, overwrite=1), SRAM),
    "a window's rows": (depthwise(iter_out=2, src_out=2, rows=3, row_stride=255), SRAM),
    "a window's columns": (
        depthwise(iter_in=2, src_in=256, rows=2, row_stride=255, columns=2),
        SRAM,
    ),
    "operands": (alu(AluOp.RQ, iter_out=2, src_out=LAST[ACC] - 1), SRAM),
}


@pytest.mark.parametrize("name", REFUSED)
def test_what_no_device_has_is_refused(name: str) -> None:
    insn, status = REFUSED[name]
    assert _bad(insn) == (status, True)


@pytest.mark.parametrize(
    ("insn", "status"),
    [
        (gemm(iter_out=2, src_out=LAST[INP]), RESIDUE),
        (gemm(iter_out=3, iter_in=2, src_out=255, src_in=1), RESIDUE),
        (gemm(iter_out=3, iter_in=2, src_out=255, src_in=2), SRAM),
        (depthwise(rows=3, row_stride=255, columns=2), RESIDUE),
        (depthwise(rows=3, row_stride=255, columns=3), SRAM),
        (alu(AluOp.RQ, iter_out=2, src_out=LAST[ACC] - 2), RESIDUE),
    ],
)
def test_the_last_tile_is_there_and_was_not_written(insn: Insn, status: int) -> None:
    assert _bad(insn) == (status, True)


@pytest.mark.parametrize(
    ("insn", "status"),
    [
        (load(ACC, sram_base=LAST[ACC]), 0),
        (load(ACC, sram_base=LAST[ACC], x_size=2), SRAM),
        (load(ACC, sram_base=LAST[ACC] - 4, y_size=2, x_size=3), SRAM),
        (load(Memory.UOP, sram_base=255), 0),
        (load(Memory.UOP, sram_base=255, x_size=2), SRAM),
        (load(Memory.UOP, dram_base=255), 0),
        (load(Memory.UOP, dram_base=255, x_size=2), DRAM),
        (load(Memory.UOP, region=ARENA), UOP),
        (load(Memory.UOP, region=4), DRAM),
        (gemm(uop_bgn=255, uop_end=256), 0),
    ],
)
def test_ends_of_transfers(insn: Insn, status: int) -> None:
    assert _bad(insn) == (status, status != 0)


@pytest.mark.parametrize(("more", "status"), [(0, RESIDUE), (1, SRAM)])
def test_ends_of_stores(more: int, status: int) -> None:
    case = staged([], [Config(stage=Stage.COMPUTE)], [store(sram_base=LAST[ACC], x_size=1 + more)])
    assert verdict(case) == (status, 0, 2)


def test_micro_ops_are_those_that_were_loaded_last() -> None:
    """Each place for itself, from each place of the constants."""
    uops = ((1, 0, 0), (2, 0, 0), (3, 0, 0), (4, 0, 0))
    again = load(Memory.UOP, dram_base=2, sram_base=1)  # now 1, 3, 3, 4
    for at, tile in enumerate((1, 3, 3, 4)):
        insn = alu(use_imm=1, uop_bgn=at, uop_end=at + 1)
        for there, status in ((tile, 0), (tile % 4 + 1, RESIDUE)):
            case = staged([], [load(ACC, sram_base=there), again, insn], uops=uops)
            assert verdict(case)[0] == status, (at, there)


# --- tokens ---------------------------------------------------------------------------------------
def test_a_token_says_what_was_done_when_it_was_pushed() -> None:
    reads = gemm(overwrite=1)
    uops = load(Memory.UOP)
    for first, second, status in ((0, 1, 0), (1, 0, RESIDUE), (0, 0, TOKEN)):
        loads = load(INP, push_next=first), load(WGT, push_next=second)
        case = Case((*loads, uops, having(reads, pop_prev=1), Finish()))
        assert verdict(case) == (status, 0, 3 if status else 0)
    for pops, status in ((1, RESIDUE), (2, 0), (3, TOKEN)):  # the second token is needed
        loads = load(INP, push_next=1), load(WGT, push_next=1)
        waits = [Config(stage=Stage.COMPUTE, pop_prev=1) for _ in range(pops)]
        case = Case((*loads, uops, *waits, reads, Finish()))
        at = {0: 0, RESIDUE: 3 + pops, TOKEN: 2 + pops}[status]
        assert verdict(case) == (status, 0, at)


def test_an_instruction_pops_before_it_begins() -> None:
    """And its own push is behind what it does; the order of the stream alone says nothing."""
    loads = load(WGT), load(INP, push_next=1)
    own = load(Memory.UOP), gemm(overwrite=1, pop_prev=1)
    assert verdict(Case((*loads, *own, Finish()))) == OK
    assert verdict(Case((*loads, own[0], gemm(overwrite=1), Finish()))) == (RESIDUE, 0, 3)
    assert verdict(Case((*own, *loads, Finish()))) == OK  # it waits for what comes later


def test_a_register_of_a_stage_has_its_tokens() -> None:
    loads = load(WGT), load(INP), Config(stage=Stage.LOAD, push_next=1)
    own = load(Memory.UOP), Config(stage=Stage.COMPUTE, pop_prev=1), gemm(overwrite=1)
    done = Config(stage=Stage.COMPUTE, push_next=1)
    waits = Config(stage=Stage.STORE, pop_prev=1)
    assert verdict(Case((*loads, *own, done, waits, store(), Finish()))) == OK
    assert verdict(Case((*loads, *own, done, store(), waits, Finish()))) == (RESIDUE, 0, 7)
    assert verdict(Case((*own[:1], own[2], *loads, own[1], Finish()))) == (RESIDUE, 0, 1)


def test_store_knows_of_compute_alone() -> None:
    """A token of load is none of compute, and what compute reads is not asked again."""
    case = staged([load(INP), load(WGT)], [gemm(overwrite=1)], [store(), store()], ((0, 0, 0),))
    assert verdict(case) == OK
    loads = load(INP), load(WGT, push_next=1)
    own = load(Memory.UOP, pop_prev=1), gemm(overwrite=1)
    assert verdict(Case((*loads, *own, store(pop_prev=1), Finish()))) == (TOKEN, 0, 4)


def test_the_first_instruction_is_checked() -> None:
    """It reads the micro-op with which the memory begins."""
    assert verdict(Case((alu(use_imm=1), Finish()))) == (RESIDUE, 0, 0)
    assert verdict(Case((store(), Finish()))) == (RESIDUE, 0, 0)
    assert verdict(Case((gemm(reset=1), alu(use_imm=1), Finish()))) == OK


# --- what a STORE writes to INP -------------------------------------------------------------------
def _read_back(stores: Sequence[Insn], tile: int, **pops: int) -> tuple[int, int, int]:
    """Of a product that reads a tile of INP behind the tokens of `stores`."""
    told = [having(insn, push_prev=1) for insn in stores]
    told[0] = having(told[0], pop_prev=1)
    return verdict(
        Case(
            (
                load(Memory.UOP),
                having(load(WGT), push_next=1),
                load(ACC, x_size=64, push_next=1),
                *told,
                gemm(overwrite=1, pop_prev=1, **pops),
                Finish(),
            ),
            uops=((0, tile, 0),),
        )
    )


def _to_inp(**fields: int) -> Insn:
    return store(**{"memory_id": INP, "region": 0, "requantize": 1, "operands": 40, **fields})


TO_INP: dict[str, tuple[Insn, set[int]]] = {
    "one": (_to_inp(dram_base=31), {31}),
    "rows across words": (
        _to_inp(dram_base=30, y_size=3, x_size=2, x_stride=32),
        {30, 31, 62, 63, 94, 95},
    ),
    "rows that overlap": (_to_inp(dram_base=5, y_size=3, x_size=3, x_stride=1), {*range(5, 10)}),
    "one row again and again": (_to_inp(dram_base=5, y_size=3, x_size=2), {5, 6}),
    "the last": (
        _to_inp(dram_base=LAST[INP] - 4, y_size=2, x_size=2, x_stride=3),
        {LAST[INP] - 4, LAST[INP] - 3, LAST[INP] - 1, LAST[INP]},
    ),
    "no rows": (_to_inp(dram_base=7, y_size=0), set()),
    "no tiles": (_to_inp(dram_base=7, x_size=0), set()),
    "DRAM": (_to_inp(dram_base=7, memory_id=OUT, region=ARENA), set()),
}


@pytest.mark.parametrize("name", TO_INP)
def test_a_store_to_inp_writes_its_tiles_and_no_other(name: str) -> None:
    insn, tiles = TO_INP[name]
    near = {tile + more for tile in tiles | {7} for more in (-1, 0, 1)}
    for tile in near & {*range(LAST[INP] + 1)}:
        found = _read_back([insn], tile, pop_next=1)
        assert found == (OK if tile in tiles else (RESIDUE, 0, 4)), tile


@pytest.mark.parametrize("base", [LAST[INP] - 3, LAST[INP] + 1, (1 << 32) - 1])
def test_a_store_beyond_inp_is_refused(base: int) -> None:
    insn = _to_inp(dram_base=base, y_size=2, x_size=2, x_stride=3)
    assert _read_back([insn], 0, pop_next=1) == (SRAM, 0, 4)


def test_only_a_store_whose_token_compute_has_popped_has_certainly_written() -> None:
    first, second = _to_inp(dram_base=3), _to_inp(dram_base=4)
    assert _read_back([first], 3, pop_next=1) == OK
    assert _read_back([first], 3) == (RESIDUE, 0, 4)
    assert _read_back([first, second], 3, pop_next=1) == OK
    assert _read_back([first, second], 4, pop_next=1) == (RESIDUE, 0, 5)


def test_what_load_does_behind_a_store_to_inp_is_followed_too() -> None:
    """And what store does behind a LOAD: each stage is followed on its own."""
    first, second = _to_inp(dram_base=3), _to_inp(dram_base=4)
    product = gemm(overwrite=1, pop_prev=1, pop_next=1)
    program = (
        load(Memory.UOP, x_size=3),
        having(load(WGT), push_next=1),
        load(ACC, x_size=64, push_next=1),
        having(first, pop_prev=1, push_prev=1),
        having(product, uop_bgn=0, uop_end=1),
        having(load(INP, sram_base=50), push_next=1),
        having(second, push_prev=1),
        having(product, uop_bgn=1, uop_end=3),
        Finish(),
    )
    uops = ((0, 3, 0), (0, 4, 0), (0, 50, 0))
    assert verdict(Case(program, uops=uops)) == OK
    for missing in (5, 6):
        idle = having(program[missing], x_size=0, y_size=0)
        case = Case((*program[:missing], idle, *program[missing + 1 :]), uops=uops)
        assert verdict(case) == (RESIDUE, 0, 7)
