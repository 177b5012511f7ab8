# SPDX-License-Identifier: Apache-2.0
"""synchronize.py and hazards.py: every hazard has its token, and no token is superfluous."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from loadstone.errors import LoweringError
from loadstone.vta.device.hw_config import load_config
from loadstone.vta.isa.insn import Finish, Gemm, Load, Store, stage_of
from loadstone.vta.isa.instruction_columns import (
    InstructionColumns,
    PendingInstruction,
    ScratchRange,
)
from loadstone.vta.isa.spec import LOAD_STAGE, TOKEN_FLAGS, TOKEN_QUEUES, Memory, Stage
from loadstone.vta.passes.program import VtaProgram
from loadstone.vta.passes.synchronize.hazards import conflicts_between, prove
from loadstone.vta.passes.synchronize.synchronize import Synchronize
from tests import ordering, program_tokens
from tests.ordering import tokens_of
from tests.vta.passes.hand_lowered import (
    NEST_DEVICES,
    behind,
    compare_golden,
    nest_program,
    network,
    small_program,
    unbuilt,
)

CONFIG = load_config("vtaq-1x16x16")


def synchronized() -> VtaProgram:
    layers = network(CONFIG, np.random.default_rng(0), [2, 3, 2], 6, [3, 1])
    return behind("synchronize", unbuilt(layers, CONFIG, 2, 2)[0])


def test_the_text_behind_the_pass_is_the_golden_one(update_golden: bool) -> None:
    compare_golden("synchronize", behind("synchronize", small_program()).text(), update_golden)


@pytest.mark.parametrize("device", NEST_DEVICES)
def test_text_in_text_out(device: str, update_golden: bool) -> None:
    compare_golden(
        "synchronize", behind("synchronize", nest_program(device)).text(), update_golden, device
    )


def test_every_token_is_needed() -> None:
    """Taking a token away (its push and its pop) leaves a hazard that the proof finds."""
    program = synchronized()
    prove(program.instructions)
    tokens = tokens_of([pending.insn for pending in program.instructions])
    assert tokens is not None
    finish = len(program.instructions) - 1
    taken = 0
    for push, pop in tokens:
        if pop[0] == finish:
            continue  # FINISH waits for the end of the other stages, which no tile shows
        with pytest.raises(LoweringError, match="not ordered"):
            prove(without(program, push, pop))
        taken += 1
    assert taken > 10


def without(program: VtaProgram, *flags: tuple[int, str]) -> list[PendingInstruction]:
    """The instructions with these flags cleared."""
    changed = list(program.instructions)
    for number, flag in flags:
        assert getattr(changed[number].insn, flag) == 1
        changed[number] = replace(changed[number], insn=replace(changed[number].insn, **{flag: 0}))
    return changed


def test_finish_waits_for_the_last_instruction_of_each_stage() -> None:
    program = synchronized()
    insns = [pending.insn for pending in program.instructions]
    assert isinstance(insns[-1], Finish)
    tokens = tokens_of(insns)
    assert tokens is not None
    waits = {push for (push, _), (pop, _) in tokens if pop == len(insns) - 1}
    last = {stage: n for n, i in enumerate(insns) for stage in [stage_of(i)]}
    assert waits == {last[Stage.STORE]}  # which comes after all that load did


def test_one_push_too_few_or_too_many_is_found() -> None:
    program = synchronized()
    tokens = tokens_of([pending.insn for pending in program.instructions])
    assert tokens is not None
    push, pop = tokens[-1]
    with pytest.raises(LoweringError, match="which nothing before it pushes"):
        prove(without(program, push))
    with pytest.raises(LoweringError, match="1 tokens from .* are never taken"):
        prove(without(program, pop))


def test_a_queue_that_may_overflow_is_found() -> None:
    loads = [PendingInstruction(Load(memory_id=Memory.INP, push_next=1), "l")] * 256
    pops = [PendingInstruction(Gemm(pop_prev=1), "g")] * 256
    assert prove([*loads[:255], *pops[:255]])["load->compute"] == 255
    with pytest.raises(LoweringError, match="may hold 256 tokens; the limit is 255"):
        prove([*loads, *pops])


def test_what_reads_after_a_write_waits_and_what_only_reads_does_not() -> None:
    def touching(insn: Load | Gemm, *tiles: tuple[int, bool]) -> PendingInstruction:
        scratch = tuple(ScratchRange(Memory.INP, t, t + 1, written) for t, written in tiles)
        return PendingInstruction(insn, "layer", scratch)

    load, product = Load(memory_id=Memory.INP), Gemm()
    end = PendingInstruction(Finish(), "finish")
    stream = [touching(load, (0, True)), touching(product, (1, False)), end]
    apart = VtaProgram(CONFIG, {}, [], instructions=stream)
    flags = [p.insn.push_next for p in Synchronize().run(apart).instructions]
    assert flags == [1, 0, 0]  # for FINISH
    meets = replace(apart, instructions=[stream[0], touching(product, (0, False)), end])
    assert [p.insn.pop_prev for p in Synchronize().run(meets).instructions] == [0, 1, 0]


@pytest.mark.parametrize("rows", [1, 2, 3])
def test_rows_that_are_apart_are_each_waited_for_and_what_is_between_is_not(rows: int) -> None:
    """A STORE to INP writes `rows` times two tiles, eight apart; a product reads one tile."""
    written = ScratchRange(Memory.INP, 4, 6, True, rows, 8)
    store = PendingInstruction(Store(memory_id=Memory.INP), "layer", (written,))
    for tile in range(30):
        reads = (ScratchRange(Memory.INP, tile, tile + 1, False),)
        conflicts = conflicts_between(
            InstructionColumns.of([store, PendingInstruction(Gemm(), "next", reads)])
        )
        waits = any(4 + 8 * row <= tile < 6 + 8 * row for row in range(rows))
        assert conflicts.tolist()[1] == [-1, -1, 0 if waits else -1], tile


def test_the_verifier_finds_changed_instructions() -> None:
    program = synchronized()
    plain = [
        replace(p, insn=replace(p.insn, **dict.fromkeys(TOKEN_FLAGS, 0)))
        for p in program.instructions
        if not (isinstance(p.insn, Load) and p.insn.is_noop)
    ]
    before = replace(program, instructions=plain)
    Synchronize().verify(before, program)
    with pytest.raises(LoweringError, match="lost, changed"):
        Synchronize().verify(replace(before, instructions=plain[1:]), program)
    stream = list(program.instructions)
    copies = [k for k, p in enumerate(stream) if p.dram is not None]
    for number, changed in (
        (copies[0], {"scratch": ()}),
        (copies[-1], {"dram": None}),
        (copies[0], {"layer": "another"}),
    ):
        claims = [replace(p, **changed) if k == number else p for k, p in enumerate(stream)]
        with pytest.raises(LoweringError, match="lost, changed|must wait"):
            Synchronize().verify(before, replace(program, instructions=claims))


def test_the_verifier_proves_the_tokens_and_finds_an_end_that_is_none() -> None:
    program = synchronized()
    stream = list(program.instructions)
    plain = [
        replace(p, insn=replace(p.insn, **dict.fromkeys(TOKEN_FLAGS, 0)))
        for p in stream
        if not (isinstance(p.insn, Load) and p.insn.is_noop)
    ]
    before = replace(program, instructions=plain)
    with pytest.raises(LoweringError, match="^synchronize: "):
        Synchronize().verify(before, replace(program, instructions=plain))
    pending = PendingInstruction(Gemm(), "layer")
    for end, good in ((PendingInstruction(Finish(), "finish"), True), (pending, False)):
        same = replace(program, instructions=[pending, end])
        if good:
            Synchronize().verify(same, same)
            continue
        with pytest.raises(LoweringError, match="the last instruction is not FINISH"):
            Synchronize().verify(same, same)


def test_the_verifier_finds_no_ops_that_claim_tiles() -> None:
    program = synchronized()
    copy = next(p for p in program.instructions if p.dram is not None)
    noop = PendingInstruction(Load(memory_id=Memory.UOP), "layer")
    before = replace(program, instructions=[PendingInstruction(Finish(), "finish")])
    end = list(before.instructions)
    Synchronize().verify(before, replace(program, instructions=[noop, *end]))
    for claim in ({"scratch": copy.scratch}, {"dram": copy.dram}):
        claims = replace(noop, **claim)
        with pytest.raises(LoweringError, match="an instruction that does nothing claims tiles"):
            Synchronize().verify(before, replace(program, instructions=[claims, *end]))


def test_the_table_of_queues_is_that_of_the_oracles() -> None:
    """vta/isa/spec.py, and what the tests wrote down for themselves."""
    assert [(q.pusher, q.push, q.popper, q.pop) for q in TOKEN_QUEUES] == list(ordering._QUEUES)
    assert {(q.pusher, q.popper): q.push for q in TOKEN_QUEUES} == program_tokens._PUSH
    assert {(q.pusher, q.popper): q.pop for q in TOKEN_QUEUES} == program_tokens._POP
    assert {m for m, stage in LOAD_STAGE.items() if stage is Stage.LOAD} == {
        Memory.INP,
        Memory.WGT,
        Memory.WGT_4BIT,
        Memory.WGT_PLANES,
    }
