# SPDX-License-Identifier: Apache-2.0
"""isa/token_proof.py: a token that is taken away, or does not match, is found."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import pytest

from loadstone.errors import LoweringError
from loadstone.isa.codec import TableInsn
from loadstone.isa.hazards import NONE
from loadstone.isa.program_tokens import prove_tokens, with_tokens
from loadstone.isa.queues import chained
from loadstone.isa.token_proof import QueueEnds, TokenStream, prove_order
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


@dataclass(frozen=True)
class _Queue:
    pusher: int
    popper: int
    push: str = "push"
    pop: str = "pop"


def _stream(unit: list[int], pops: list[list[int]], pushes: list[list[int]]) -> TokenStream:
    """Two units, `a` and `b`; queues from each to the other. pops, pushes: by queue, numbers."""

    def flags(numbers: list[list[int]]) -> np.ndarray:
        return np.array([[n in of_queue for of_queue in numbers] for n in range(len(unit))])

    names = [f"i{n}" for n in range(len(unit))]
    units = np.array(unit, np.int32)
    return TokenStream("proof", "ab", units, names.__getitem__, flags(pops), flags(pushes))


QUEUES: tuple[QueueEnds, ...] = (_Queue(0, 1), _Queue(1, 0))


def _after(count: int, *hazards: tuple[int, int, int]) -> np.ndarray:
    """Conflicts: (instruction, unit, last instruction of it)."""
    found = np.full((count, 2), NONE, np.int32)
    for number, unit, last in hazards:
        found[number, unit] = last
    return found


def test_the_first_hazard_without_order_is_named() -> None:
    """a a b b: what the second of b knows is what the first one's token says."""
    stream = _stream([0, 0, 1, 1], [[2], []], [[0], []])
    for last in (NONE, 0):
        assert prove_order(stream, _after(4, (2, 0, last), (3, 0, 0)), QUEUES, [1, 1]) == {
            0: 1,
            1: 0,
        }
    with pytest.raises(LoweringError, match=r"instruction 2 \(i2\) is not .* after 1 \(i1\)"):
        prove_order(stream, _after(4, (2, 0, 1), (3, 0, 1)), QUEUES, [1, 1])
    with pytest.raises(LoweringError, match=r"instruction 3 \(i3\) is not .* after 1 \(i1\)"):
        prove_order(stream, _after(4, (2, 0, 0), (3, 0, 1)), QUEUES, [1, 1])


def test_an_instruction_stands_behind_that_in_front_of_it_in_its_unit() -> None:
    stream = _stream([0, 1, 0, 0], [[], []], [[], []])
    assert prove_order(stream, _after(4, (2, 0, 0), (3, 0, 2)), QUEUES, [0, 0]) == {0: 0, 1: 0}
    with pytest.raises(LoweringError, match="instruction 1 .* after 0"):
        prove_order(stream, _after(4, (1, 0, 0)), QUEUES, [0, 0])
    with pytest.raises(LoweringError, match="instruction 2 .* after 1"):
        prove_order(stream, _after(4, (2, 1, 1)), QUEUES, [0, 0])


@pytest.mark.parametrize("most", [1, 2, 3])
def test_a_queue_holds_as_many_tokens_as_it_may(most: int) -> None:
    """a a b b, two tokens; and a b a b, of which the second a does not know that the first token is
    taken, unless b says so."""
    for unit, pops, pushes, held in (
        ([0, 0, 1, 1], [[2, 3], []], [[0, 1], []], 2),
        ([0, 1, 0, 1], [[1, 3], []], [[0, 2], []], 2),
        ([0, 1, 0, 1], [[1, 3], [2]], [[0, 2], [1]], 1),
    ):
        stream = _stream(unit, pops, pushes)
        if held <= most:
            found = prove_order(stream, _after(4), QUEUES, [most, 1])
            assert found[0] == held
            continue
        with pytest.raises(LoweringError, match=f"a -> b may hold 2 tokens; the limit is {most}"):
            prove_order(stream, _after(4), QUEUES, [most, 1])
