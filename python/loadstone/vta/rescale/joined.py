# SPDX-License-Identifier: Apache-2.0
"""Proofs of many blocks side by side: NumPy's cost of a call is paid once for several.

In:   DigitPlans of blocks (block_plan.py), runs of their channels.
Out:  which of them are proven, as proof.py proves each of them.
Next: plan.py takes the cheapest of these.

A proof looks at each lane on its own. So plans that differ in their integers alone are one plan of
more lanes; where one block has a product or a constant more than another, that is zero there.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from loadstone.numerics import Array
from loadstone.vta.rescale.proof import DigitPlan, Level, prove_digits
from loadstone.vta.rescale.runs import Runs

__all__ = ["prove_blocks"]

#: So many blocks are proven together: their ends still fit the processor's cache.
_TOGETHER = 4


def prove_blocks(
    plans: Sequence[DigitPlan], runs: Runs, spans: Sequence[tuple[int, int]]
) -> list[bool]:
    """Whether every lane of each plan is proven, as prove_digits says it. spans: of each plan, its
    first lane in runs, and the one behind its last. Plans that differ in their integers alone are
    proven side by side."""
    kinds: dict[tuple[object, ...], list[int]] = {}
    for number, plan in enumerate(plans):
        kinds.setdefault(_kind(plan), []).append(number)
    proven = [False] * len(plans)
    for numbers in kinds.values():
        for at in range(0, len(numbers), _TOGETHER):
            some = numbers[at : at + _TOGETHER]
            lanes = np.concatenate([np.arange(*spans[number]) for number in some])
            good = prove_digits(_joined([plans[number] for number in some]), runs.take(lanes))
            first = 0
            for number in some:
                last = first + len(plans[number].dead)
                proven[number] = bool(good[first:last].all())
                first = last
    return proven


def _kind(plan: DigitPlan) -> tuple[object, ...]:
    """What plans that are proven together have in common."""
    chain = plan.chain
    alone = id(plan) if chain.upper or chain.stairs else None
    form = (plan.left, plan.digits, plan.clamped, plan.signed)
    return (*form, *(level.shift for level in chain.levels), chain.low, chain.high, alone)


def _joined(plans: Sequence[DigitPlan]) -> DigitPlan:
    """One plan of the lanes of all, which are of one kind: what another block has more of is zero
    in a lane."""
    if len(plans) == 1:
        return plans[0]
    none = [np.zeros(len(plan.dead), np.int8) for plan in plans]
    levels = []
    for own in zip(*(plan.chain.levels for plan in plans), strict=True):
        products: list[tuple[int, NDArray[np.int8]]] = []
        for digit in range(plans[0].stored):
            steps = [[step for number, step in level.products if number == digit] for level in own]
            products += [(digit, np.concatenate(row)) for row in _rows(steps, none)]
        constants = _rows([level.constants for level in own], none)
        added = tuple(np.concatenate(row).astype(np.int64) for row in constants)
        levels.append(Level(own[0].shift, tuple(products), added))
    first = plans[0]
    return replace(
        first,
        offset=np.concatenate([plan.offset for plan in plans]),
        right=np.concatenate([plan.right for plan in plans]),
        dead=np.concatenate([plan.dead for plan in plans]),
        chain=replace(
            first.chain,
            levels=tuple(levels),
            shift=np.concatenate([plan.chain.shift for plan in plans]),
        ),
    )


def _rows(columns: Sequence[Sequence[Array]], none: Sequence[Array]) -> list[list[Array]]:
    """The first of every column, the second ..., with `none` where a column has no more."""
    count = max(map(len, columns))
    return [
        [
            column[row] if row < len(column) else nothing
            for column, nothing in zip(columns, none, strict=True)
        ]
        for row in range(count)
    ]
