"""Share one arena between tensors whose lifetimes do not meet.

In:   buffers with a size and the first and last step that needs them.
Out:  an offset for each, the size of the arena, and what it is to be compared with.
Next: the offsets become places in the artifact's arena regions.

    step      0    1    2    3
    offset 0  [ a     ][ c     ]          a and c never live together
         n         [ b      ]
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

__all__ = ["ArenaPlan", "Lifetime", "plan"]


@dataclass(frozen=True)
class Lifetime:
    """A tensor's claim on the arena: needed from step `first` to step `last`, both included."""

    name: str
    size_bytes: int
    first: int
    last: int


@dataclass(frozen=True)
class ArenaPlan:
    """offset_bytes by name. sum_bytes: without sharing. bound_bytes: what is alive at the busiest
    step; no plan is smaller."""

    offset_bytes: dict[str, int]
    size_bytes: int
    sum_bytes: int
    bound_bytes: int


def plan(buffers: Sequence[Lifetime], align_bytes: int = 64) -> ArenaPlan:
    """Greedy by size: the largest first, each at the lowest offset where no buffer alive with it
    lies.

    Offsets are multiples of `align_bytes`. Deterministic: ties go by first step, then by name.
    """
    placed: list[tuple[int, int, Lifetime]] = []  # (start, end, buffer), by start
    for buffer in sorted(buffers, key=lambda b: (-b.size_bytes, b.first, b.name)):
        size = _round_up(buffer.size_bytes, align_bytes)
        start = 0
        for low, high, other in placed:
            if other.last < buffer.first or buffer.last < other.first:
                continue
            if start + size <= low:
                break
            start = max(start, high)
        placed.append((start, start + size, buffer))
        placed.sort(key=lambda entry: (entry[0], entry[1], entry[2].name))
    return ArenaPlan(
        {buffer.name: start for start, _, buffer in placed},
        max((end for _, end, _ in placed), default=0),
        sum(_round_up(b.size_bytes, align_bytes) for b in buffers),
        _busiest(buffers, align_bytes),
    )


def _busiest(buffers: Sequence[Lifetime], align_bytes: int) -> int:
    steps = {b.first for b in buffers}
    return max(
        (
            sum(_round_up(b.size_bytes, align_bytes) for b in buffers if b.first <= s <= b.last)
            for s in steps
        ),
        default=0,
    )


def _round_up(value: int, multiple: int) -> int:
    return -(-value // multiple) * multiple
