# SPDX-License-Identifier: Apache-2.0
"""Text of instructions and back."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from loadstone.errors import AssemblerError
from loadstone.isa.codec import At, TableInsn, encode
from loadstone.isa.table import InstructionTable
from loadstone.isa.text import assemble, disassemble, parsed_lines
from tests.isa.tables import NPU, random_insns, tables


@given(tables(), st.integers(0, 2**32))
def test_round_trip(table: InstructionTable, seed: int) -> None:
    insns = random_insns(table, 20, seed)
    again = assemble(table, disassemble(table, insns))
    assert encode(table, again) == encode(table, insns)


def test_addresses_and_names() -> None:
    text = (
        'copy address=@"a = #1"+64 stride=16 rows=2  # a comment\n\nwork mode=max gain=-3\n'
        "copy address=@x rows=0x10\n"
    )
    insns = assemble(NPU, text)
    assert insns[0].fields["address"] == At("a = #1", 64)
    assert insns[1] == TableInsn("work", {"mode": 1, "gain": -3})
    assert insns[2].fields == {"address": At("x"), "rows": 16}
    assert assemble(NPU, disassemble(NPU, insns))[0] == insns[0]


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("end\njump", "line 2: npu has no instruction 'jump'"),
        ("copy rows", "line 1: 'rows' is not FIELD=VALUE"),
        ("copy rows=1 rows=2", "rows stands twice"),
        ("work mode=mul", "'mul' is no number nor one of add, max, relu"),
        ("copy rows=@x", "rows is no address"),
    ],
)
def test_refuses(text: str, said: str) -> None:
    with pytest.raises(AssemblerError, match=said):
        assemble(NPU, text)


def test_a_numbered_listing_assembles() -> None:
    text = "    0: copy rows=1  # first\n\n   12:\n    1: end\n"
    assert [insn.name for insn in assemble(NPU, text)] == ["copy", "end"]
    with pytest.raises(AssemblerError, match="line 4: npu has no instruction .jump."):
        assemble(NPU, "# one\n1:\n\n2: jump")
    assert parsed_lines("# one\n1:\n\n2: jump # far", str.upper) == ["JUMP"]
