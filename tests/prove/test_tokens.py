# SPDX-License-Identifier: Apache-2.0
"""prove/tokens.py: programs with a token for every hazard are in order; without one of them they
are not."""

from __future__ import annotations

import numpy as np
import pytest

from loadstone.prove.tokens import CellAccess, Tokens
from loadstone.prove.verdict import NotProved
from loadstone.vta.isa.insn import Finish, Gemm, Insn, Load, Store
from loadstone.vta.isa.spec import Memory

Step = tuple[Insn, CellAccess]
ONE = np.array([1])


def cells(*names: str) -> list[tuple[str, np.ndarray]]:
    return [(name, ONE) for name in names]


def load(**flags: int) -> Step:
    insn = Load(memory_id=Memory.INP, x_size=1, y_size=1, **flags)
    return insn, CellAccess(cells("input"), cells("INP"))


def gemm(**flags: int) -> Step:
    return Gemm(**flags), CellAccess(cells("INP", "ACC"), cells("ACC"))


def store(**flags: int) -> Step:
    insn = Store(memory_id=Memory.OUT, x_size=1, y_size=1, **flags)
    return insn, CellAccess(cells("ACC"), cells("output"))


def finish(**flags: int) -> Step:
    return Finish(**flags), CellAccess()


def check(*steps: Step) -> None:
    tokens = Tokens(dict.fromkeys(("input", "output", "INP", "ACC"), 2))
    for instruction, access in steps:
        tokens.step(instruction, access)
    tokens.end()


#: Two rounds of load, product and store, with every token that they need: pairs of a push and its
#: pop, each as (step, flag).
ROUND = [load, gemm, store, load, gemm, store, finish]
PAIRS = [
    ((0, "push_next"), (1, "pop_prev")),
    ((1, "push_next"), (2, "pop_prev")),
    ((1, "push_prev"), (3, "pop_next")),
    ((3, "push_next"), (4, "pop_prev")),
    ((2, "push_prev"), (4, "pop_next")),
    ((4, "push_next"), (5, "pop_prev")),
    ((5, "push_prev"), (6, "pop_next")),
]


def built(pairs: list[tuple[tuple[int, str], tuple[int, str]]]) -> list[Step]:
    flags: list[dict[str, int]] = [{} for _ in ROUND]
    for pair in pairs:
        for step, flag in pair:
            flags[step][flag] = 1
    return [make(**own) for make, own in zip(ROUND, flags, strict=True)]


def test_a_program_in_order() -> None:
    check(*built(PAIRS))


@pytest.mark.parametrize("missing", range(len(PAIRS)))
def test_each_pair_of_push_and_pop_is_needed(missing: int) -> None:
    with pytest.raises(NotProved):
        check(*built(PAIRS[:missing] + PAIRS[missing + 1 :]))


def test_what_stalls_overflows_or_is_left() -> None:
    with pytest.raises(NotProved, match="waits for a token load->compute that nobody pushed"):
        check(gemm(pop_prev=1), finish())
    with pytest.raises(NotProved, match="left over: compute->store"):
        check(gemm(push_next=1), finish())
    with pytest.raises(NotProved, match="more than 255 tokens compute->load"):
        check(*[gemm(push_prev=1)] * 256, finish())
    with pytest.raises(NotProved, match="pop_prev of a queue that stage LOAD has not"):
        check(load(pop_prev=1), finish())
    with pytest.raises(NotProved, match="push_next of a queue that stage STORE has not"):
        check(store(push_next=1), finish())


def test_finish_is_last_and_behind_every_queue() -> None:
    with pytest.raises(NotProved, match="behind FINISH"):
        check(finish(), gemm())
    with pytest.raises(NotProved, match="no FINISH"):
        check(gemm())
    with pytest.raises(NotProved, match="before another queue has ended"):
        check(gemm(push_next=1), store(pop_prev=1), finish())


def touching(step: Step, reads: tuple[int, ...] = (), writes: tuple[int, ...] = ()) -> Step:
    """An instruction that touches other cells of INP than it does."""
    return step[0], CellAccess([("INP", np.array(reads, int))], [("INP", np.array(writes, int))])


def test_a_pop_takes_the_first_token_that_waits() -> None:
    first, second = (touching(load(push_next=1), writes=(cell,)) for cell in (0, 1))
    for early, late in ((0, 1), (1, 0)):
        reading = [touching(gemm(pop_prev=1), reads=(cell,)) for cell in (early, late)]
        if early == 0:
            check(first, second, *reading, finish())
        else:
            with pytest.raises(NotProved, match="it reads INP that may not be written yet"):
                check(first, second, *reading, finish())


def test_each_cell_that_is_touched_counts() -> None:
    """The second one is in order already."""
    with pytest.raises(NotProved, match="it reads INP that may not be written yet"):
        check(
            touching(load(push_next=1), writes=(1,)),
            touching(load(), writes=(0,)),
            touching(gemm(pop_prev=1), reads=(0, 1)),
        )
    with pytest.raises(NotProved, match="it overwrites INP that may not be read yet"):
        check(
            touching(gemm(push_prev=1), reads=(1,)),
            touching(gemm(), reads=(0,)),
            touching(load(pop_next=1), writes=(0, 1)),
        )
    with pytest.raises(NotProved, match="it overwrites INP that may not be written yet"):
        check(
            touching(load(push_next=1), writes=(1,)),
            touching(load(), writes=(0,)),
            touching(gemm(pop_prev=1), writes=(0, 1)),
        )


def test_as_many_tokens_wait_as_a_queue_holds() -> None:
    pushes, pops = ([touching(step)] * 255 for step in (gemm(push_prev=1), load(pop_next=1)))
    check(*pushes, *pops, touching(load(push_next=1)), finish(pop_prev=1))
