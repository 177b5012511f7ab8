# SPDX-License-Identifier: Apache-2.0
"""runtime/isolated.c: no program that it accepts reads what another one left in a scratchpad. The
simulator, which marks every tile that is written, is the judge."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable

import pytest

from loadstone.runtime.schedule import isolated
from loadstone.vta.isa.codec import Alu, Gemm, Load, Store, decode_stream, encode_stream
from loadstone.vta.isa.spec import AluOp, Memory
from tests.sample_model import dense_model
from tests.validated import (
    CONFIG,
    GEMM,
    LOAD_ACC,
    LOAD_INP,
    LOAD_UOP,
    LOAD_WGT,
    RESET,
    RQ,
    STORE,
    Program,
    replace,
    with_program,
)
from tests.vta.validator.validate import STATUS

RESIDUE, SRAM, DRAM = -27, STATUS["SRAM"], STATUS["DRAM"]
TOKEN, UOP, INSTRUCTION = STATUS["TOKEN"], STATUS["UOP"], STATUS["INSTRUCTION"]


def _program() -> Program:
    return list(decode_stream(dense_model(CONFIG).artifact.programs[0].instructions, CONFIG))


def _verdict(program: Program) -> tuple[int, int]:
    model = with_program(dense_model(CONFIG).artifact, encode_stream(program, CONFIG).tobytes())
    status, _, instruction = isolated(model)
    return status, instruction if status else 0


def _changed(*changes: Callable[[Program], object]) -> tuple[int, int]:
    program = _program()
    for change in changes:
        change(program)
    return _verdict(program)


def _emptied(at: int) -> Callable[[Program], None]:
    """A transfer that moves nothing, with its tokens."""

    def change(program: Program) -> None:
        old = program[at]
        flags = {name: getattr(old, name) for name in FLAGS}
        kind = Store if isinstance(old, Store) else Load
        memory = Memory.OUT if kind is Store else Memory.INP if at == LOAD_INP else Memory.UOP
        memory = Memory.WGT if at == LOAD_WGT else Memory.ACC if at == LOAD_ACC else memory
        program[at] = kind(memory_id=memory, **flags)

    return change


FLAGS = ("pop_prev", "pop_next", "push_prev", "push_next")


@pytest.mark.parametrize(
    ("missing", "reader"), [(LOAD_INP, GEMM), (LOAD_WGT, GEMM), (LOAD_ACC, RQ)]
)
def test_what_is_not_loaded_is_what_another_left(missing: int, reader: int) -> None:
    assert _changed() == (0, 0)
    assert _changed(_emptied(missing)) == (RESIDUE, reader)
    assert _changed(replace(missing, sram_base=1)) == (RESIDUE, reader)


def test_sums_begin_with_a_reset_or_overwrite() -> None:
    program = _program()
    gemm = program[GEMM]
    assert isinstance(gemm, Gemm)
    flags = {name: getattr(program[RESET], name) for name in FLAGS}
    program[RESET] = Load(memory_id=Memory.ACC, **flags)
    assert _verdict(program) == (RESIDUE, GEMM)
    program[GEMM] = dataclasses.replace(gemm, overwrite=1)
    assert _verdict(program) == (0, 0)


def test_a_reset_gives_no_value_to_store() -> None:
    """OUT is written by products and by the ALU alone."""
    program = _program()
    for at in (GEMM, RQ):
        flags = {name: getattr(program[at], name) for name in FLAGS}
        program[at] = Load(memory_id=Memory.ACC, **flags)
    assert _verdict(program) == (RESIDUE, STORE)
    program = _program()
    flags = {name: getattr(program[RQ], name) for name in FLAGS}
    program[RQ] = Load(memory_id=Memory.ACC, **flags)
    assert _verdict(program) == (0, 0)  # the product has


def test_an_immediate_reads_no_second_operand() -> None:
    program = _program()
    rq = program[RQ]
    assert isinstance(rq, Alu)
    _emptied(LOAD_ACC)(program)
    program[RQ] = dataclasses.replace(rq, alu_op=AluOp.ADD, use_imm=1)
    assert _verdict(program) == (0, 0)
    program[RQ] = dataclasses.replace(rq, alu_op=AluOp.ADD, use_imm=0)
    assert _verdict(program) == (RESIDUE, RQ)


@pytest.mark.parametrize("tiles", [1, 2])
def test_rq_reads_three_tiles(tiles: int) -> None:
    assert _changed(replace(LOAD_ACC, y_size=1, x_size=tiles)) == (RESIDUE, RQ)


@pytest.mark.parametrize(
    ("change", "reader"),
    [
        (replace(RESET, pop_prev=0), GEMM),
        (replace(STORE, pop_prev=0), STORE),
        (replace(LOAD_WGT, push_next=0), None),
    ],
)
def test_what_no_token_orders_is_not_certain(
    change: Callable[[Program], None], reader: int | None
) -> None:
    status, instruction = _changed(change)
    assert status in (RESIDUE, TOKEN)
    assert reader is None or (status, instruction) == (RESIDUE, reader)


def test_only_what_came_before_the_token_counts() -> None:
    """Load pushes before it loads the weights: the product may be earlier than they."""
    program = _program()
    program[LOAD_INP] = dataclasses.replace(program[LOAD_INP], push_next=1)  # type: ignore[type-var]
    program[LOAD_WGT] = dataclasses.replace(program[LOAD_WGT], push_next=0)  # type: ignore[type-var]
    assert _verdict(program) == (RESIDUE, GEMM)


@pytest.mark.parametrize(
    ("change", "wanted"),
    [
        (replace(LOAD_UOP, region=2), (UOP, LOAD_UOP)),
        (replace(LOAD_UOP, region=7), (DRAM, LOAD_UOP)),
        (replace(LOAD_UOP, dram_base=1 << 31), (DRAM, LOAD_UOP)),
        (replace(LOAD_UOP, sram_base=CONFIG.depth(Memory.UOP)), (SRAM, LOAD_UOP)),
        (replace(LOAD_INP, sram_base=CONFIG.depth(Memory.INP)), (SRAM, None)),
        (replace(GEMM, uop_bgn=5, uop_end=5), (UOP, GEMM)),
        (replace(GEMM, uop_end=CONFIG.depth(Memory.UOP) + 1), (UOP, GEMM)),
        (replace(GEMM, iter_out=0), (INSTRUCTION, GEMM)),
        (replace(GEMM, iter_in=0), (INSTRUCTION, GEMM)),
        (replace(GEMM, iter_out=1 << 13, src_out=(1 << 11) - 1), (SRAM, GEMM)),
        (replace(GEMM, iter_in=1 << 13, wgt_in=(1 << 10) - 1), (SRAM, GEMM)),
        (replace(RQ, iter_in=1 << 13, dst_in=(1 << 11) - 1), (SRAM, RQ)),
        (replace(STORE, sram_base=CONFIG.depth(Memory.OUT)), (SRAM, STORE)),
    ],
)
def test_nothing_is_assumed_of_a_hostile_program(
    change: Callable[[Program], None], wanted: tuple[int, int | None]
) -> None:
    """The validator would refuse each of these; this check does not rely on it."""
    status, instruction = _changed(change)
    assert (status, instruction if wanted[1] is not None else None) == wanted
