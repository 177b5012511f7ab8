# SPDX-License-Identifier: Apache-2.0
"""tools/isa/c_names.py: structs and widths as C writes them."""

from __future__ import annotations

import pytest

from loadstone.vta.device.hw_config import load_config
from loadstone.vta.isa.spec import INSTRUCTIONS, TOKEN_FLAGS
from tools.isa.c_names import DEFAULT, c_width, distinct, own_fields, struct_of


def test_every_instruction_has_a_struct() -> None:
    names = ["LOAD", "STORE", "GEMM", "FINISH", "ALU", "CONFIG", "DEPTHWISE"]
    assert [insn.name for insn in distinct()] == names
    assert {insn.name: struct_of(insn) for insn in INSTRUCTIONS} == {
        "LOAD": "memory",
        "STORE": "store",
        "GEMM": "gemm",
        "ALU": "alu",
        "FINISH": "finish",
        "CONFIG": "config",
        "DEPTHWISE": "depthwise",
    }


def test_own_fields_leave_opcode_and_flags_out() -> None:
    for insn in INSTRUCTIONS:
        names = [field.name for field in own_fields(insn)]
        assert not {"opcode", *TOKEN_FLAGS} & set(names)
        assert [f.name for f in insn.fields] == ["opcode", *TOKEN_FLAGS, *names]


@pytest.mark.parametrize(
    ("width", "text"),
    [
        (3, "3u"),
        ("lu", "w.lu"),
        ("lu+1", "w.lu + 1u"),
        ("max(li,la)", "lds_max_u32(w.li, w.la)"),
    ],
)
def test_widths_are_expressions_of_the_devices_widths(width: int | str, text: str) -> None:
    assert c_width(width) == text


def test_the_default_widths_are_those_of_the_default_vta() -> None:
    assert load_config("vta-pynq").widths == DEFAULT
