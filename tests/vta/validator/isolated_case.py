# SPDX-License-Identifier: Apache-2.0
"""Programs for rule V17, and what runtime/isolated.c says of them.

In:   the instructions of each stage.
Out:  `staged`: a program in which each stage begins when the one before it has ended; `verdict`.
Next: test_isolated_limits.py, test_isolated_models.py.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import chain, pairwise

from loadstone.runtime.schedule import isolated
from loadstone.vta.isa.codec import Finish, Insn
from loadstone.vta.isa.spec import Memory
from tests.vta.validator.one_instruction import Case, having, load

__all__ = ["OK", "RESIDUE", "Uops", "staged", "verdict"]

RESIDUE = -27
#: Status, step and instruction of a model whose programs are isolated.
OK = (0, 0, 0)
Uops = Sequence[tuple[int, int, int]]


def staged(
    loads: Sequence[Insn], computes: Sequence[Insn], stores: Sequence[Insn] = (), uops: Uops = ()
) -> Case:
    """In order: load; compute, which begins with a LOAD of all micro-ops; store; FINISH."""
    stages = [list(loads), [load(Memory.UOP, x_size=len(uops)), *computes], list(stores)]
    for before, behind in pairwise(stages):
        if before and behind:
            before[-1] = having(before[-1], push_next=1)
            behind[0] = having(behind[0], pop_prev=1)
    return Case((*chain(*stages), Finish()), uops=tuple(uops) or ((0, 0, 0),))


def verdict(case: Case) -> tuple[int, int, int]:
    """(status, step, instruction)."""
    found = isolated(case.artifact())
    return found if found[0] else OK
