# SPDX-License-Identifier: Apache-2.0
"""Limits of GEMM, ALU and CONFIG: V10 to V13.

In:   one_instruction.py: programs that are about one instruction.
Out:  `computations`: rows for them.
Next: limits.py has all rules together.
"""

from __future__ import annotations

import dataclasses
from functools import partial

from loadstone.vta.device.hw_config import HwConfig
from loadstone.vta.isa.insn import Alu, Config, Finish, Gemm
from loadstone.vta.isa.spec import (
    MICRO_OPS,
    AluOp,
    Capability,
    ConfigRegister,
    Memory,
    Stage,
    layout,
)
from tests.vta.validator.limit_rows import Rows
from tests.vta.validator.one_instruction import (
    FLOATS,
    INTEGERS,
    STORING,
    Case,
    alu,
    computed,
    gemm,
    having,
    moved,
    without,
)


def computations(rows: Rows) -> None:
    """Rows of V10 to V13."""
    _loops(rows)
    _reach(rows)
    _registers(rows)


def _loops(rows: Rows) -> None:
    """V10 and V11."""
    for insn in (gemm(), alu()):
        for name in ("iter_out", "iter_in"):
            _no_turns(rows, insn, name)
        _micro_ops(rows, insn)
    both = computed(gemm(reset=1, overwrite=1))
    rows.switch("V10", "reset and overwrite", computed(gemm(overwrite=1)), both)
    for capability, insn in (
        (Capability.GEMM_OVERWRITE, gemm(overwrite=1)),
        (Capability.ALU_MUL, alu(AluOp.MUL)),
        (Capability.REQUANTIZE, alu(AluOp.RQ)),
    ):
        bad = computed(insn, config=without(capability))
        rows.switch("V10", f"{capability.name}", computed(insn), bad, "sr")
    rows.switch("V10", "reset of ALU", computed(alu()), computed(alu(reset=1)), "sr")
    bad = computed(alu(AluOp.RQ, use_imm=1))
    rows.switch("V10", "an immediate of RQ", computed(alu(AluOp.RQ)), bad, "sr")
    bad = computed(alu(AluOp.SHR, use_imm=1), config=FLOATS)
    rows.switch(
        "V10", "SHR of floats", computed(alu(AluOp.ADD, use_imm=1), config=FLOATS), bad, "sr"
    )


def _no_turns(rows: Rows, insn: Gemm | Alu, name: str) -> None:
    title = f"{name} of {insn.SPEC.name}"
    rows.limit("V10", title, lambda more: computed(having(insn, **{name: 1 - more})))


def _micro_ops(rows: Rows, insn: Gemm | Alu) -> None:
    depth, kind = INTEGERS.uop_depth, insn.SPEC.name

    def using(begin: int, end: int, loaded: int) -> Case:
        return computed(having(insn, uop_bgn=begin, uop_end=end), uops=((0, 0, 0),) * loaded)

    rows.limit(
        "V11",
        f"the last micro-op of {kind}",
        lambda more: using(depth - 2, depth + more, depth),
        "sr",
    )
    rows.limit("V11", f"micro-ops that were loaded, {kind}", lambda more: using(0, 3 + more, 3))
    rows.limit("V11", f"a range of micro-ops, {kind}", lambda more: using(1 + more, 2, 3))


def _reach(rows: Rows) -> None:
    """V12: micro-op, outer and inner loop of each operand."""
    for insn, operands in (
        (gemm(), ("dst", "src", "wgt")),
        (gemm(reset=1), ("dst", "src", "wgt")),
        (alu(), ("dst", "src")),
        (alu(use_imm=1), ("dst", "src")),
        (alu(AluOp.RQ), ("dst", "src")),
    ):
        for number, operand in enumerate(operands):
            _reach_of(rows, insn, number, operand)


def _reach_of(rows: Rows, insn: Gemm | Alu, number: int, operand: str) -> None:
    last = {
        "dst": INTEGERS.depth(Memory.ACC) - 1,
        "src": INTEGERS.depth(Memory.INP if isinstance(insn, Gemm) else Memory.ACC) - 1,
        "wgt": INTEGERS.depth(Memory.WGT) - 1,
    }[operand]
    is_rq = isinstance(insn, Alu) and insn.alu_op == AluOp.RQ
    if operand == "src" and is_rq:
        last -= 2
    unread = (isinstance(insn, Gemm) and insn.reset) or (isinstance(insn, Alu) and insn.use_imm)
    also = "" if unread and operand != "dst" else "sr"
    title = f"{operand} of {insn.SPEC.name}{', RQ' * is_rq}{', unread' * bool(unread)}"

    def from_uop(first: int) -> tuple[tuple[int, int, int], ...]:
        uop = [0, 0, 0]
        uop[number] = first
        return ((0, 0, 0), (uop[0], uop[1], uop[2]))

    def limit(name: str, value: int, first: int, **fields: int) -> None:
        def make(more: int) -> Case:
            other = {**fields, name: value + more, "uop_end": 2}
            return computed(having(insn, **other), uops=from_uop(first))

        rows.limit("V12", f"{name}, {title}", make, also)

    first = min(last, layout(MICRO_OPS, INTEGERS.widths)[operand].high) - 2
    far = last - first - 2  # what a micro-op cannot name is reached by the other loop
    for name, other in (("out", "in"), ("in", "out")):
        beside = {f"iter_{other}": 2, f"{operand}_{other}": far}
        limit(f"{operand}_{name}", 2, first, **{f"iter_{name}": 2}, **beside)
        limit(f"iter_{name}", 3, first, **{f"{operand}_{name}": 1}, **beside)
    if operand == "src" and is_rq:  # any other index that a micro-op can name is there
        two = having(insn, uop_end=2)
        rows.limit(
            "V12", f"micro-op, {title}", lambda m: computed(two, uops=from_uop(last + m)), also
        )


def _told(config: Config) -> Case:
    """A CONFIG of a store stage that requantizes."""
    return Case((having(config, push_prev=1), Finish(pop_next=1)), config=STORING)


def _registers(rows: Rows) -> None:
    """V13."""
    for stage in (Stage.LOAD, Stage.COMPUTE):
        for config, limit in ((INTEGERS, 127), (FLOATS, 32767)):
            for sign in (1, -1):
                most = limit if sign > 0 else -limit - 1

                def pad(
                    more: int,
                    stage: Stage = stage,
                    config: HwConfig = config,
                    most: int = most,
                    sign: int = sign,
                ) -> Case:
                    return moved(Config(stage=stage, value=most + sign * more), config=config)

                rows.limit("V13", f"PAD_VALUE {most} of {stage.name}", pad)
    rounding = partial(Config, stage=Stage.COMPUTE, register_id=ConfigRegister.RQ_ROUNDING)
    rows.limit("V13", "RQ_ROUNDING", lambda more: moved(rounding(value=2 + more)), "sr")
    rows.limit("V13", "RQ_ROUNDING below 0", lambda more: moved(rounding(value=-more)), "sr")
    good = moved(rounding())
    told = Case((Config(stage=Stage.STORE, push_prev=1), Finish(pop_next=1)))
    rows.switch("V13", "a register of store", good, told, "sr")
    low = partial(Config, stage=Stage.STORE, register_id=ConfigRegister.RQ_MIN)
    rounding_of_store = partial(low, register_id=ConfigRegister.RQ_ROUNDING)
    for name, value in (("RQ_ROUNDING", 2), ("RQ_ROUNDING below 0", 0)):
        sign = 1 if value else -1

        def rounded(more: int, value: int = value, sign: int = sign) -> Case:
            return _told(rounding_of_store(value=value + sign * more))

        rows.limit("V13", f"{name} of store", rounded, "sr")
    pad = _told(low(register_id=ConfigRegister.PAD_VALUE))
    rows.switch("V13", "PAD_VALUE of store", _told(low()), pad, "sr")
    other = moved(Config(stage=Stage.LOAD, register_id=ConfigRegister.RQ_ZERO_POINT))
    rows.switch("V13", "a register of load", good, other, "sr")
    plain = without(Capability.CONFIG | Capability.REQUANTIZE)
    rows.switch("V13", "no registers", good, dataclasses.replace(good, config=plain), "sr")
