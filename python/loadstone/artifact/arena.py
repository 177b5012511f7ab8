# SPDX-License-Identifier: Apache-2.0
"""Share one arena between tensors whose lifetimes do not meet.

In:   lifetimes: a size, and the first and last step that needs it.
Out:  an offset for each, the size of the arena, and what it is to be compared with.
Next: memory_layout.py, which alone imports it, makes addresses of the offsets. The algorithm knows
      neither graph nor artifact, and so has a file to itself.

    step      0    1    2    3
    offset 0  [ a     ][ c     ]          a and c never live together
         n         [ b      ]
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from loadstone.artifact.lifetimes import Lifetime

__all__ = ["ArenaPlan", "plan"]


@dataclass(frozen=True)
class ArenaPlan:
    """offset_bytes by name. sum_bytes: without sharing. bound_bytes: what is alive at the busiest
    step; no plan is smaller."""

    offset_bytes: dict[str, int]
    size_bytes: int
    sum_bytes: int
    bound_bytes: int


def plan(lifetimes: Sequence[Lifetime], align_bytes: int = 64) -> ArenaPlan:
    """Greedy by size: the largest first, each at the lowest offset where nothing alive with it
    lies.

    Offsets are multiples of `align_bytes`. Deterministic: ties go by first step, then by name.
    """
    placed: list[tuple[int, int, Lifetime]] = []  # (start, end, claim), by start
    for claim in sorted(lifetimes, key=lambda b: (-b.size_bytes, b.first, b.name)):
        size = _round_up(claim.size_bytes, align_bytes)
        start = 0
        for low, high, other in placed:
            if other.last < claim.first or claim.last < other.first:
                continue
            if start + size <= low:
                break
            start = max(start, high)
        placed.append((start, start + size, claim))
        placed.sort(key=lambda entry: (entry[0], entry[1], entry[2].name))
    return ArenaPlan(
        {claim.name: start for start, _, claim in placed},
        max((end for _, end, _ in placed), default=0),
        sum(_round_up(b.size_bytes, align_bytes) for b in lifetimes),
        _busiest(lifetimes, align_bytes),
    )


def _busiest(lifetimes: Sequence[Lifetime], align_bytes: int) -> int:
    steps = {b.first for b in lifetimes}
    return max(
        (
            sum(_round_up(b.size_bytes, align_bytes) for b in lifetimes if b.first <= s <= b.last)
            for s in steps
        ),
        default=0,
    )


def _round_up(value: int, multiple: int) -> int:
    return -(-value // multiple) * multiple
