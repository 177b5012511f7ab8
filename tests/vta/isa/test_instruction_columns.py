# SPDX-License-Identifier: Apache-2.0
"""vta/isa/instruction_columns.py: columns say what instructions by themselves do."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from loadstone.vta.device.hw_config import load_config
from loadstone.vta.isa.codec import encode, encode_stream
from loadstone.vta.isa.insn import Load
from loadstone.vta.isa.instruction_columns import InsnForm, InstructionColumns, PendingInstruction
from loadstone.vta.isa.spec import Memory
from loadstone.vta.passes.program import VtaProgram
from tests.vta.passes.hand_lowered import behind, network, unbuilt

CONFIG = load_config("vtaq-1x16x16")


@pytest.fixture(scope="module")
def program() -> VtaProgram:
    layers = network(CONFIG, np.random.default_rng(0), [2, 3, 2], 6, [3, 1])
    return behind("synchronize", unbuilt(layers, CONFIG, 2, 2)[0])


def test_instructions_by_themselves_make_the_same_columns(program: VtaProgram) -> None:
    columns = program.instructions
    assert isinstance(columns, InstructionColumns)
    assert InstructionColumns.of(columns) is columns
    alone = list(columns)
    again = InstructionColumns.of(alone)
    assert list(again) == alone == list(columns[:])
    assert columns[-1] == alone[-1]
    assert len(columns.forms) < len(columns) == len(again.forms)
    assert again.stages.tolist() == columns.stages.tolist() == [p.stage for p in alone]
    for ours, theirs in (
        (columns.tiles_touched(), again.tiles_touched()),
        (columns.rows_touched(), again.rows_touched()),
    ):
        np.testing.assert_array_equal(ours[0], theirs[0])
        np.testing.assert_array_equal(ours[1], theirs[1])
    assert columns.rows_touched()[1].T.tolist() == [list(p.dram) for p in alone if p.dram]
    assert columns.tiles_touched()[1].T.tolist() == [list(r) for p in alone for r in p.scratch]


def test_the_bytes_are_those_of_each_instruction(program: VtaProgram) -> None:
    alone = b"".join(encode(pending.insn, CONFIG) for pending in program.instructions)
    assert program.instruction_bytes().tobytes() == alone
    plain = replace(program, instructions=list(program.instructions))
    assert plain.instruction_bytes().tobytes() == alone
    assert plain.source_map() == program.source_map()
    by_kind = InstructionColumns.of(program.instructions).stream()
    assert list(by_kind) == [pending.insn for pending in program.instructions]
    assert encode_stream(by_kind, CONFIG).tobytes() == alone


def test_what_is_put_between_belongs_to_the_layer_of_what_stood_there(program: VtaProgram) -> None:
    columns = InstructionColumns.of(program.instructions)
    source = np.insert(np.arange(len(columns)), [3, 5], [3, 5])
    new = np.array([3, 6])
    form = InsnForm(Load(memory_id=Memory.UOP, x_size=1))
    made = columns.rearranged(source, new, [form, form], np.array([7, 8]), np.array([1, 2]))
    assert [made[k] for k in new] == [
        PendingInstruction(
            Load(memory_id=Memory.UOP, x_size=1, sram_base=at, dram_base=dram),
            columns[before].layer,
        )
        for at, dram, before in ((7, 1, 3), (8, 2, 5))
    ]
    assert [made[k] for k in range(len(made)) if k not in new] == list(columns)
