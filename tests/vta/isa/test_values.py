# SPDX-License-Identifier: Apache-2.0
"""vta/isa/values.py: the tables behind the enumerations agree with each other."""

from __future__ import annotations

import pytest

from loadstone.vta.isa.spec import INSTRUCTIONS
from loadstone.vta.isa.values import (
    CONFIG_DEFAULTS,
    LOAD_STAGE,
    SCRATCHPAD_OF,
    STAGE_REGISTERS,
    TOKEN_QUEUES,
    VALUE_NEEDS,
    AluOp,
    Capability,
    ConfigRegister,
    Memory,
    Opcode,
    Stage,
    TokenQueue,
    initial_registers,
)


@pytest.mark.parametrize("cls", [Opcode, Memory, AluOp, Stage, ConfigRegister])
def test_values_are_consecutive_and_fit_their_fields(cls: type) -> None:
    values = [member.value for member in cls]  # type: ignore[attr-defined]
    assert values == list(range(len(values)))
    widths = [f.width for i in INSTRUCTIONS for f in i.fields if f.enum is cls]
    assert widths or cls is Opcode
    assert all(len(values) <= 1 << int(width) for width in widths)


def test_capabilities_are_one_bit_each() -> None:
    bits = [int(c) for c in Capability]
    assert bits == sorted(set(bits))
    assert all(bit.bit_count() == 1 for bit in bits)


def test_scratchpads_are_their_own_and_are_loaded_by_one_stage() -> None:
    for memory in Memory:
        assert SCRATCHPAD_OF[SCRATCHPAD_OF[memory]] is SCRATCHPAD_OF[memory]
    assert {m for m in Memory if SCRATCHPAD_OF[m] is Memory.ACC} == {
        Memory.ACC,
        Memory.OUT,
        Memory.ACC_8BIT,
    }
    assert {m for m in Memory if SCRATCHPAD_OF[m] is Memory.WGT} == {
        Memory.WGT,
        Memory.WGT_4BIT,
        Memory.WGT_PLANES,
    }
    assert {m for m in Memory if LOAD_STAGE[m] is Stage.LOAD} == {
        Memory.INP,
        Memory.WGT,
        Memory.WGT_4BIT,
        Memory.WGT_PLANES,
    }
    assert Stage.STORE not in LOAD_STAGE.values()


def test_every_stage_begins_with_registers_of_its_own() -> None:
    found = initial_registers()
    assert {stage: {r for s, r in found if s is stage} for stage in Stage} == {
        stage: set(registers) for stage, registers in STAGE_REGISTERS.items()
    }
    assert all(value == CONFIG_DEFAULTS[register] for (_, register), value in found.items())


def test_queues_join_neighbours_in_both_directions() -> None:
    pairs = {(queue.pusher, queue.popper) for queue in TOKEN_QUEUES}
    assert pairs == {(a, b) for a in Stage for b in Stage if abs(a - b) == 1}
    forward, back = TokenQueue(Stage.LOAD, Stage.COMPUTE), TokenQueue(Stage.COMPUTE, Stage.LOAD)
    assert (str(forward), forward.push, forward.pop) == ("load->compute", "push_next", "pop_prev")
    assert (str(back), back.push, back.pop) == ("compute->load", "push_prev", "pop_next")


def test_registers_belong_to_stages_and_have_defaults() -> None:
    assert set(CONFIG_DEFAULTS) == {r for rs in STAGE_REGISTERS.values() for r in rs}
    assert CONFIG_DEFAULTS[ConfigRegister.RQ_MIN] < CONFIG_DEFAULTS[ConfigRegister.RQ_MAX]


def test_values_that_need_a_capability_are_members() -> None:
    for cls, needs in VALUE_NEEDS.items():
        assert set(needs) <= set(cls)
        assert all(capability in Capability for capability in needs.values())
