# SPDX-License-Identifier: Apache-2.0
"""isa/program_tokens.py: instructions without tokens as text in, with tokens as text out; addresses
by name."""

from __future__ import annotations

from loadstone.isa.codec import At, TableInsn
from loadstone.isa.program_tokens import with_tokens
from loadstone.isa.queues import UnitQueue
from loadstone.isa.text import assemble, disassemble
from tests.isa.tokened import CHAIN, device
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
