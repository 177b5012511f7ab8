# SPDX-License-Identifier: Apache-2.0
"""tools/isa/c_words.py: the words of the C++ assembler are the spec's. What they mean is compared
with Python by tests/lab/test_text.py."""

from __future__ import annotations

import re

from loadstone.vta.isa.spec import INSTRUCTIONS, ConfigRegister, Memory
from tools.isa.c_words import words


def test_every_field_and_value_has_its_place() -> None:
    text = words()
    for insn in INSTRUCTIONS:
        rows = re.search(rf"kFieldsOf{insn.name}\[\] = {{\n(.*?)}};", text, re.DOTALL)
        assert rows is not None
        assert re.findall(r'^    {"(\w+)"', rows[1], re.MULTILINE) == [
            f.name for f in insn.fields[1:]
        ]
    for member in (*Memory, *ConfigRegister):
        assert f'{{"{member.name.lower()}", {int(member)}u}}' in text


def test_a_width_is_a_number_and_what_the_device_adds() -> None:
    assert (
        '{"uop_end", offsetof(lds_insn, u.gemm.uop_end), 4u, false, 1u, &lds_isa_widths::lu}'
        in words()
    )
    assert '{"imm", offsetof(lds_insn, u.alu.imm), 4u, true, 16u, nullptr}' in words()
