# SPDX-License-Identifier: Apache-2.0
"""vta/isa/insn.py: instructions as objects: their fields, what they need, who executes them."""

from __future__ import annotations

import pytest

from loadstone.vta.isa.insn import CLASSES, KINDS, Alu, Config, Gemm, Insn, Load, Store, stage_of
from loadstone.vta.isa.spec import AluOp, Capability, Memory, Opcode, Stage


@pytest.mark.parametrize("opcode", Opcode)
def test_values_stand_in_the_order_of_the_spec(opcode: Opcode) -> None:
    insn = CLASSES[opcode]()
    assert insn.SPEC is KINDS[opcode]
    assert list(insn.values()) == [field.name for field in insn.SPEC.fields[1:]]
    assert CLASSES[opcode](**insn.values()) == insn


@pytest.mark.parametrize(
    ("insn", "stage"),
    [
        (Load(memory_id=Memory.INP), Stage.LOAD),
        (Load(memory_id=Memory.UOP), Stage.COMPUTE),
        (Load(memory_id=Memory.ACC_8BIT), Stage.COMPUTE),
        (Store(), Stage.STORE),
        (Gemm(), Stage.COMPUTE),
        (Config(stage=Stage.LOAD), Stage.LOAD),
        (Config(stage=Stage.COMPUTE), Stage.COMPUTE),
    ],
)
def test_a_stage_follows_from_the_fields(insn: Insn, stage: Stage) -> None:
    assert stage_of(insn) is stage


def test_what_an_instruction_needs_is_told_with_its_field() -> None:
    assert list(Alu(alu_op=AluOp.ADD).needs()) == []
    assert list(Alu(alu_op=AluOp.MUL).needs()) == [("ALU.alu_op=MUL", Capability.ALU_MUL)]
    assert dict(Gemm(overwrite=1).needs())["GEMM.overwrite=1"] == Capability.GEMM_OVERWRITE
    assert Capability.CONFIG in dict(Config().needs()).values()
    assert Capability.REGIONS in dict(Load(region=1).needs()).values()


def test_steps_are_turns_times_micro_ops() -> None:
    loops = {"uop_bgn": 2, "uop_end": 5, "iter_out": 4, "iter_in": 7}
    assert Gemm(**loops).steps == Alu(**loops).steps == 3 * 4 * 7
