# SPDX-License-Identifier: Apache-2.0
"""isa/program_tokens.py: addresses by name."""

from __future__ import annotations

from loadstone.isa.codec import At, TableInsn
from loadstone.isa.program_tokens import with_tokens
from loadstone.isa.queues import UnitQueue
from tests.isa.tokened import CHAIN, device

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
