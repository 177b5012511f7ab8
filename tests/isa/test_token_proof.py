# SPDX-License-Identifier: Apache-2.0
"""isa/token_proof.py: a token that is taken away, or does not match, is found."""

from __future__ import annotations

import pytest

from loadstone.errors import LoweringError
from loadstone.isa.codec import TableInsn
from loadstone.isa.program_tokens import prove_tokens, with_tokens
from loadstone.isa.queues import chained
from tests.isa.tokened import CHAIN, device, no_names, random_program, run

ALL = ("in", "core", "back")


def test_a_missing_token_is_found_and_shows() -> None:
    """Each token taken away: the proof names two instructions or a queue; some results differ."""
    accelerator = device(CHAIN, "core")
    insns = random_program(5, 40)
    made = [insn for insn, _ in with_tokens(accelerator.table, insns, no_names)]
    want, _ = run(accelerator, made)
    wrong = pairs = 0
    # a push and the pop that takes it, so that the rest still comes out even
    for queue in CHAIN:
        units = {f.name: f.unit for f in accelerator.table.forms}
        pushes = [k for k, i in enumerate(made) if _is(i, units, queue.pusher, queue.push)]
        pops = [k for k, i in enumerate(made) if _is(i, units, queue.popper, queue.pop)]
        for push, pop in zip(pushes, pops, strict=True):
            spoiled = list(made)
            for at, name in ((push, queue.push), (pop, queue.pop)):
                fields = {**spoiled[at].fields, name: 0}
                spoiled[at] = TableInsn(spoiled[at].name, fields)
            with pytest.raises(LoweringError, match="is not ordered after"):
                prove_tokens(accelerator.table, spoiled, no_names)
            pairs += 1
            wrong += run(accelerator, spoiled)[0] != want
    assert pairs > 10
    assert wrong > 0


def _is(insn: TableInsn, units: dict[str, str], unit: str, name: str) -> bool:
    return units[insn.name] == unit and bool(insn.fields.get(name))


def test_tokens_that_do_not_match_are_named() -> None:
    table = device(CHAIN, "core").table
    takes = TableInsn("mix", {"rows": 1, "pop_prev": 1})
    with pytest.raises(LoweringError, match="waits for token 0 of in, which nothing before it"):
        prove_tokens(table, [takes], no_names)
    gives = TableInsn("mix", {"rows": 1, "push_next": 1})
    with pytest.raises(LoweringError, match="1 tokens from core to back are never taken"):
        prove_tokens(table, [gives], no_names)
    short = device(chained(*ALL, most=2), *ALL).table
    takes = TableInsn("write", {"row": 8, "rows": 1, "pop_prev": 1})
    with pytest.raises(LoweringError, match="core -> back may hold 3 tokens; the limit is 2"):
        prove_tokens(short, [gives] * 3 + [takes] * 3, no_names)
