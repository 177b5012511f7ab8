# SPDX-License-Identifier: Apache-2.0
"""validate.py and runtime/validate.c: tokens: deadlocks, queues that overflow, tokens left."""

from __future__ import annotations

import dataclasses

import pytest

from loadstone.vta.isa.codec import Finish, Load, Store
from loadstone.vta.isa.spec import MAX_TOKENS, Memory
from tests.validated import (
    FINISH,
    LOAD_INP,
    LOAD_UOP,
    LOAD_WGT,
    RESET,
    STORE,
    Program,
    changed,
    replace,
)


def test_a_pop_without_a_push_is_a_deadlock() -> None:
    assert changed(replace(LOAD_WGT, push_next=0)) == ("TOKEN", RESET)
    assert changed(replace(FINISH, pop_prev=1)) == ("TOKEN", FINISH)


def test_a_push_that_comes_after_its_pop_is_a_deadlock_for_a_short_queue() -> None:
    def swap(program: Program) -> None:
        program[LOAD_WGT], program[LOAD_UOP], program[RESET] = (
            program[LOAD_UOP],
            program[RESET],
            program[LOAD_WGT],
        )

    assert changed(swap) == ("TOKEN", 2)


def test_tokens_left_over() -> None:
    assert changed(replace(LOAD_INP, push_next=1)) == ("TOKEN", FINISH)


def test_finish_waits_for_load_and_store() -> None:
    def later(program: Program) -> None:
        program.insert(RESET + 1, Load(memory_id=Memory.INP, region=1, y_size=1, x_size=1))

    assert changed(later) == ("FINISH", FINISH + 1)

    def store_again(program: Program) -> None:
        program.insert(STORE + 1, dataclasses.replace(program[STORE], pop_prev=0, push_prev=0))  # type: ignore[type-var]

    assert changed(store_again) == ("FINISH", FINISH + 1)


def runs_ahead(pushes: int, every: int) -> Program:
    """`pushes` no-ops of load that push, each popped later by compute; every `every`-th waits for
    compute."""
    program: Program = []
    for k in range(pushes):
        wait = int(every > 0 and k >= every and k % every == 0)
        program.append(Load(memory_id=Memory.INP, push_next=1, pop_next=wait))
        program.append(
            Load(
                memory_id=Memory.UOP,
                pop_prev=1,
                push_prev=int(every > 0 and k % every == every - 1),
            )
        )
    back = sum(getattr(i, "push_prev", 0) for i in program) - sum(
        getattr(i, "pop_next", 0) for i in program
    )
    program += [Load(memory_id=Memory.INP, pop_next=1) for _ in range(back)]
    return [*program, Load(memory_id=Memory.INP, push_next=1), Finish(pop_prev=1)]


@pytest.mark.parametrize(
    ("pushes", "every", "status"),
    [(254, 0, "OK"), (255, 0, "TOKEN"), (600, 100, "OK"), (600, 255, "OK"), (600, 256, "TOKEN")],
)
def test_a_stage_that_can_run_255_tokens_ahead(pushes: int, every: int, status: str) -> None:
    """In the stream's order never more than one token waits; load could all the same run ahead of
    compute."""

    def change(program: Program) -> None:
        program[:] = runs_ahead(pushes, every)

    assert changed(change)[0] == status


@pytest.mark.parametrize(("pushes", "status"), [(254, "OK"), (255, "TOKEN")])
def test_a_token_tells_what_was_known_when_it_was_pushed(pushes: int, status: str) -> None:
    """Compute pushes to load before it has popped anything; that load pops it late says nothing of
    what compute has popped since."""

    def change(program: Program) -> None:
        pair = [Load(memory_id=Memory.INP, push_next=1), Load(memory_id=Memory.UOP, pop_prev=1)]
        late = [Load(memory_id=Memory.INP, pop_next=1)]
        end = [Load(memory_id=Memory.INP, push_next=1), Finish(pop_prev=1)]
        program[:] = [
            Load(memory_id=Memory.UOP, push_prev=1),
            *pair * 200,
            *late,
            *pair * (pushes - 200),
            *end,
        ]

    assert changed(change)[0] == status


@pytest.mark.parametrize("told", [("prev", "next"), ("next", "prev"), ("both",)])
@pytest.mark.parametrize(("more", "status"), [(9, "OK"), (10, "OK"), (11, "TOKEN")])
def test_what_one_neighbour_told_is_not_forgotten_with_the_other(
    told: tuple[str, ...], more: int, status: str
) -> None:
    """Load has popped ten, and tells compute so; store, which tells it something, too, knows
    nothing of load."""

    def change(program: Program) -> None:
        give, take = Load(memory_id=Memory.UOP, push_prev=1), Load(memory_id=Memory.INP, pop_next=1)
        listen = {
            "prev": Load(memory_id=Memory.UOP, pop_prev=1),
            "next": Load(memory_id=Memory.UOP, pop_next=1),
            "both": Load(memory_id=Memory.UOP, pop_prev=1, pop_next=1),
        }
        program[:] = [
            *[give] * MAX_TOKENS,
            *[take] * 9,
            dataclasses.replace(take, push_next=1),
            take,  # which is not told
            Store(memory_id=Memory.UOP, push_prev=1),
            *(listen[each] for each in told),
            *[give] * more,
            *[take] * (MAX_TOKENS + more - 11),
            Load(memory_id=Memory.INP, push_next=1),
            Finish(pop_prev=1),
        ]

    assert changed(change)[0] == status
