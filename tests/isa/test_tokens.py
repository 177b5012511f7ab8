# SPDX-License-Identifier: Apache-2.0
"""isa/tokens.py: tokens of random programs on several shapes of queues order everything."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import pytest

from loadstone.errors import LoweringError
from loadstone.isa.codec import TableInsn, encode
from loadstone.isa.hazards import NONE
from loadstone.isa.program_tokens import prove_code, with_tokens
from loadstone.isa.queues import UnitQueue, chained
from loadstone.isa.tokens import StepColumns, TokenRules, ordered
from tests.isa.tokened import BASE, CHAIN, device, no_names, random_program, run
from tests.repeat import times

ALL = ("in", "core", "back")
#: Every pair of units has queues of its own, both ways.
MESH = (
    *CHAIN,
    UnitQueue("in", "back", "push_far", "pop_far"),
    UnitQueue("back", "in", "push_home", "pop_home"),
)
#: Tokens go round one way: what the core must know of the way back comes through two units.
RING = (
    UnitQueue("in", "core", "push", "pop"),
    UnitQueue("core", "back", "push", "pop"),
    UnitQueue("back", "in", "push", "pop"),
)
SHAPES = {
    "chain": (CHAIN, ("core",)),
    "mesh": (MESH, ()),
    "ring": (RING, ALL),
    "two tokens": (chained(*ALL, most=2), ALL),
}


@pytest.mark.parametrize("shape", SHAPES)
def test_tokens_order_random_programs(shape: str, figure: Callable[[str], None]) -> None:
    queues, noops = SHAPES[shape]
    ordered, plain = device(queues, *noops), device(queue=0)
    added, cycles = 0, [0, 0]
    for seed in range(times(8, 300)):
        insns = random_program(seed, 60)
        found = with_tokens(ordered.table, insns, no_names)
        made = [insn for insn, _ in found]
        most = prove_code(ordered.table, encode(ordered.table, made))
        assert all(most[f"{q.pusher} -> {q.popper}"] <= q.most for q in queues)
        own = [insn for insn, _ in found if not insn.name.startswith("wait")]
        assert [{k: i.fields[k] for k in j.fields} for i, j in zip(own, insns, strict=True)] == [
            dict(insn.fields) for insn in insns
        ]
        added += len(found) - len(insns)
        (want, in_order), (got, result) = run(plain, insns), run(ordered, made)
        assert got == want
        assert set(result.busy_cycles) == set(ALL)
        cycles[0] += in_order.cycles
        cycles[1] += result.cycles
    figure(f"tokens, {shape}: {added} no-ops added, {cycles[1]} cycles, in order {cycles[0]}")
    assert cycles[1] < cycles[0] or "token" in shape


def test_queues_and_no_ops_that_are_missing_are_named() -> None:
    insns = [
        TableInsn("read", {"address": BASE, "rows": 1}),
        TableInsn("write", {"address": BASE, "rows": 1}),
    ]
    with pytest.raises(LoweringError, match="back must wait for in by way of core, and core has"):
        with_tokens(device(CHAIN).table, insns, no_names)
    one_way = (UnitQueue("in", "core", "push", "pop"),)
    with pytest.raises(LoweringError, match="no queue of tokens leads from in to back"):
        with_tokens(device(one_way).table, insns, no_names)


def test_columns_that_cannot_be_are_refused() -> None:
    """A unit, a conflict or cycles of no instruction before it would reach beyond the tables."""

    def found(unit: int, last: int, cycles: int) -> None:
        rules = TokenRules(units=ALL, queues=[_Ends(0, 1), _Ends(1, 0)], most=[8, 8])
        columns = StepColumns(
            np.array([0, unit], np.int32), np.full(2, cycles, np.int64), np.zeros(2, np.bool_)
        )
        ordered(columns, np.array([[NONE] * 3, [last, NONE, NONE]], np.int32), rules)

    found(1, 0, 1)
    for unit, last, cycles in ((3, 0, 1), (-1, 0, 1), (1, 1, 1), (1, -2, 1), (1, 0, -1)):
        with pytest.raises(AssertionError):
            found(unit, last, cycles)


@dataclass(frozen=True)
class _Ends:
    pusher: int
    popper: int
    push: str = "push"
    pop: str = "pop"
