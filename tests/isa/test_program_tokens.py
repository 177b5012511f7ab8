# SPDX-License-Identifier: Apache-2.0
"""isa/program_tokens.py: instructions without tokens as text in, with tokens as text out; addresses
by name; what the proof counts and refuses."""

from __future__ import annotations

from dataclasses import replace

import pytest

from loadstone.errors import LoweringError
from loadstone.isa.codec import At, TableInsn
from loadstone.isa.form import InstructionForm
from loadstone.isa.program_tokens import prove_tokens, with_tokens
from loadstone.isa.queues import UnitQueue
from loadstone.isa.text import assemble, disassemble
from tests.isa.tokened import CHAIN, device, no_names, table
from tests.passes.networks import plugins

#: Every pair of units has queues of its own, both ways.
MESH = (
    *CHAIN,
    UnitQueue("in", "back", "push_far", "pop_far"),
    UnitQueue("back", "in", "push_home", "pop_home"),
)


def test_addresses_by_name_are_places_of_a_region() -> None:
    """Two names of one place conflict, one name of two places does not."""
    table = device(MESH).table
    insns = [
        TableInsn("read", {"address": At("x"), "rows": 1}),
        TableInsn("write", {"address": At("y", 8), "rows": 1}),
        TableInsn("write", {"address": At("y", 16), "rows": 1}),
    ]
    where = {"x": 24, "y": 8}
    found = with_tokens(table, insns, lambda at: ("arena", where[at.symbol] + at.offset_bytes))
    assert [insn.fields.get("pop_far", 0) for insn, _ in found] == [0, 0, 1]


#: For the systolic array: two loads, a product, its store, and a load of what was stored.
PRODUCT = """\
mvin address=@x stride=8 rows=6
mvin address=@weights stride=8 rows=8 row=64
mvin_sums address=@lanes stride=32 rows=3
preload row=64
scale zero_point=5 low=-128 high=127 rounding=double
compute step=1 rows=6 target=3
mvout address=@y stride=8 rows=6 row=3
mvin address=@y stride=8 rows=6
"""
#: Store and load have no queue between them: what one must tell the other goes through a no-op of
#: the array.
PRODUCT_WITH_TOKENS = """\
mvin address=@x stride=8 rows=6
mvin address=@weights stride=8 rows=8 row=64 push_next=1
mvin_sums address=@lanes stride=32 rows=3 push_next=1
preload row=64 pop_prev=1
nop push_next=1 pop_prev=1
scale zero_point=5 low=-128 high=127 rounding=double pop_prev=1
compute step=1 rows=6 target=3 push_next=1
mvout address=@y stride=8 rows=6 row=3 pop_prev=1 push_prev=1
nop push_prev=1 pop_next=1
mvin address=@y stride=8 rows=6 pop_next=1
"""


def test_text_in_text_out() -> None:
    accelerator = plugins().backends["systolic"](dim=8, tokens=1).accelerator
    assert accelerator is not None
    table = accelerator.table
    found = with_tokens(table, assemble(table, PRODUCT), lambda at: (at.symbol, at.offset_bytes))
    assert disassemble(table, [insn for insn, _ in found]) == PRODUCT_WITH_TOKENS


#: Its three units, and an instruction of the last one that ends a program.
PLAIN = table()
ENDING = replace(
    PLAIN, forms=(*PLAIN.forms, InstructionForm("end", 9, unit="back", ends=True))
).ordered_by(CHAIN)


def read(row: int, **tokens: int) -> TableInsn:
    """Of a row that no other instruction needs."""
    return TableInsn("read", {"row": row, "rows": 1, **tokens})


def test_a_token_is_that_of_the_unit_s_own_queue() -> None:
    """Two queues have the same names for their fields."""
    insns = [
        read(0, push_next=1),
        TableInsn("mix", {"rows": 1, "pop_prev": 1, "push_next": 1}),
        TableInsn("write", {"rows": 1, "pop_prev": 1}),
    ]
    most = {"in -> core": 1, "core -> back": 1, "core -> in": 0, "back -> core": 0}
    assert prove_tokens(device(CHAIN).table, insns, no_names) == most


@pytest.mark.parametrize(
    ("name", "flag", "unit"),
    [
        ("read", "pop_prev", "in"),
        ("read", "push_prev", "in"),
        ("write", "pop_next", "back"),
        ("write", "push_next", "back"),
    ],
)
def test_a_token_without_a_queue_is_named(name: str, flag: str, unit: str) -> None:
    """At the ends of a chain nobody is before or behind."""
    insns = [read(0), TableInsn(name, {"row": 1, "rows": 1, flag: 1})]
    said = rf"^tokened: instruction 1 \({name}\) has {flag}=1, and unit {unit} has no queue for it$"
    with pytest.raises(LoweringError, match=said):
        prove_tokens(device(CHAIN).table, insns, no_names)


def end_behind(reads: int, told: int) -> list[TableInsn]:
    """Reads of which one tells the core, which tells the instruction that ends the program."""
    return [
        *(read(k, push_next=int(k == told)) for k in range(reads)),
        TableInsn("mix", {"row": 8, "rows": 1, "pop_prev": 1, "push_next": 1}),
        TableInsn("end", {"pop_prev": 1}),
    ]


def test_what_ends_a_program_waits_for_the_last_of_every_unit() -> None:
    prove_tokens(ENDING, [TableInsn("end", {})], no_names)
    prove_tokens(ENDING, end_behind(3, told=2), no_names)
    for told in (0, 1):
        said = r"instruction 4 \(end\) is not ordered after 2 \(read\)"
        with pytest.raises(LoweringError, match=said):
            prove_tokens(ENDING, end_behind(3, told), no_names)


def test_what_does_not_end_a_program_need_not_wait() -> None:
    insns = [read(0), TableInsn("mix", {"row": 8, "rows": 1}), TableInsn("end", {})]
    prove_tokens(ENDING, insns[:2], no_names)
    with pytest.raises(LoweringError, match=r"2 \(end\) is not ordered after 0 \(read\)"):
        prove_tokens(ENDING, insns, no_names)
