# SPDX-License-Identifier: Apache-2.0
"""Which steps of a product do something: boxes of a loop nest that leave padding out.

In:   a loop nest, as an array that says of each step whether its input is more than padding.
Out:  Boxes that hold all steps that do something, and few others.
Next: skip_pads.py makes a GEMM of each.

The rows that a tap of a kernel reads are the same for a whole row of pixels, and so is whether they
are padding. So the nest is cut along the loops over taps, and for each tap the pixels are bounded:

    for ky<3 kx<3 i<8 j<8                   ky=0 kx=0: i in 1..8, j in 1..8
      acc[i,j] += x[i+ky-1, j+kx-1] ...     ky=0 kx=1: i in 1..8, j in 0..8        and so on

Taps beside each other that are bounded alike stay together.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from itertools import combinations, product
from math import prod

import numpy as np
from numpy.typing import NDArray

__all__ = ["Box", "fewest_steps"]

#: Loops that are cut have few turns: taps, not pixels.
_MOST_TURNS = 16


@dataclass(frozen=True, slots=True)
class Box:
    """Turns [first, first + extent) of each loop."""

    first: tuple[int, ...]
    extents: tuple[int, ...]

    @property
    def steps(self) -> int:
        """How many steps it has."""
        return prod(self.extents)


def fewest_steps(
    live: NDArray[np.bool_], reductions: Sequence[int], cost: Callable[[Sequence[Box]], int]
) -> list[Box]:
    """The cheapest boxes that hold every live step, by `cost`; the whole nest where no cut pays.

    live: (outermost, ..., innermost loop); reductions: numbers of the loops that may be cut.
    """
    whole = [Box((0,) * live.ndim, live.shape)]
    if live.all():
        return whole
    cuttable = [k for k in reductions if 1 < live.shape[k] <= _MOST_TURNS and _differs(live, k)]
    tried = [(), *((k,) for k in cuttable), *combinations(cuttable, 2)]
    return min([whole, *(_cut(live, loops) for loops in tried)], key=cost)


def _differs(live: NDArray[np.bool_], loop: int) -> bool:
    """Whether some turn of a loop has other live steps than the first."""
    return bool((live != live.take([0], loop)).any())


def _cut(live: NDArray[np.bool_], loops: tuple[int, ...]) -> list[Box]:
    """A box for each turn of some loops, those that follow each other joined where they can be."""
    found = []
    for turns in product(*(range(live.shape[k]) for k in loops)):
        at = dict(zip(loops, turns, strict=True))
        box = _bounded(live, at)
        if box is not None:
            found.append(box)
    for loop in reversed(loops):
        found = list(_joined(found, loop))
    return found


def _bounded(live: NDArray[np.bool_], at: dict[int, int]) -> Box | None:
    """The least box around what is live at these turns."""
    part = live[
        tuple(slice(at[k], at[k] + 1) if k in at else slice(None) for k in range(live.ndim))
    ]
    first, extents = [], []
    for loop in range(live.ndim):
        others = tuple(k for k in range(live.ndim) if k != loop)
        turns = np.flatnonzero(part.any(axis=others))
        if not turns.size:
            return None
        first.append(at.get(loop, int(turns[0])))
        extents.append(int(turns[-1] - turns[0]) + 1)
    return Box(tuple(first), tuple(extents))


def _joined(boxes: Sequence[Box], loop: int) -> Iterator[Box]:
    """Boxes with those behind them that go on along a loop, and are alike along all others."""
    left = list(boxes)
    while left:
        box = left.pop(0)
        for other in list(left):
            begins = box.first[loop] + box.extents[loop]
            moved = (*box.first[:loop], begins, *box.first[loop + 1 :])
            alike = (*box.extents[:loop], other.extents[loop], *box.extents[loop + 1 :])
            if other.first == moved and other.extents == alike:
                left.remove(other)
                longer = box.extents[loop] + other.extents[loop]
                extents = (*box.extents[:loop], longer, *box.extents[loop + 1 :])
                box = Box(box.first, extents)
        yield box
