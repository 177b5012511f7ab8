# SPDX-License-Identifier: Apache-2.0
"""isa/queues.py: queues of a table, and what a table refuses of them."""

from __future__ import annotations

from dataclasses import replace

import pytest

from loadstone.errors import ConfigError
from loadstone.isa.queues import UnitQueue, chained, token_fields
from loadstone.isa.table import InstructionForm
from tests.isa.tokened import CHAIN, device, table


def test_a_chain_has_queues_both_ways() -> None:
    assert [(q.pusher, q.popper, q.push, q.pop) for q in chained("a", "b", "c")] == [
        ("a", "b", "push_next", "pop_prev"),
        ("b", "c", "push_next", "pop_prev"),
        ("b", "a", "push_prev", "pop_next"),
        ("c", "b", "push_prev", "pop_next"),
    ]
    names = [bits.name for bits in token_fields(CHAIN)]
    assert names == ["push_next", "pop_prev", "push_prev", "pop_next"]


def test_queues_change_the_fingerprint_and_fields() -> None:
    plain, ordered = table(), table(CHAIN, "core")
    assert plain.fingerprint != ordered.fingerprint
    assert ordered.fingerprint != table(chained("in", "core", "back", most=9), "core").fingerprint
    assert [bits.name for bits in ordered.by_name["wait_core"].fields] == [
        bits.name for bits in token_fields(CHAIN)
    ]


@pytest.mark.parametrize(
    ("queue", "said"),
    [
        (UnitQueue("sea", "in", "row", "row"), "unit sea: not one of in, core, back"),
        (
            UnitQueue("in", "core", "push", "pop"),
            "field push of read: not a field of one bit, as all of unit in",
        ),
        (UnitQueue("in", "core", "rows", "rows"), "field rows of read: not a field of one bit"),
    ],
)
def test_a_queue_that_cannot_be(queue: UnitQueue, said: str) -> None:
    with pytest.raises(ConfigError, match=said):
        replace(table(), queues=(queue,))


def test_queues_that_contradict_each_other() -> None:
    ordered = table(CHAIN, "core")
    with pytest.raises(ConfigError, match="push_next of unit in: not of one queue alone"):
        replace(ordered, queues=(*CHAIN, CHAIN[0]))
    with pytest.raises(ConfigError, match="in -> in: not between two units, once"):
        replace(ordered, queues=(UnitQueue("in", "in", "push_next", "pop_prev"),))
    with pytest.raises(ConfigError, match="most 1: not 2 to 65536"):
        replace(ordered, queues=(replace(CHAIN[0], most=1),))
    with pytest.raises(ConfigError, match="noop mix: not an instruction that touches nothing"):
        replace(ordered, noops=("mix",))
    with pytest.raises(ConfigError, match="noop rest: not one of read, mix"):
        replace(ordered, noops=("rest",))
    with pytest.raises(ConfigError, match="queue=0: say how many instructions"):
        device(CHAIN, "core", queue=0)
    silent = replace(table(), forms=(*table().forms, InstructionForm("rest", 9)))
    with pytest.raises(ConfigError, match="rest has no meaning"):
        replace(device(), table=silent)
