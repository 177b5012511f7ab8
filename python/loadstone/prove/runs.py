# SPDX-License-Identifier: Apache-2.0
"""Which steps of an instruction can be carried out at once.

In:   the tiles that steps write and read, in their order.
Out:  runs: stretches of steps.
Next: machine.py carries out each.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import pairwise

import numpy as np

from loadstone.prove.fingerprints import Integers

__all__ = ["runs"]


def runs(dst: Integers, src: Integers, operands: int) -> Iterator[slice]:
    """Stretches of steps none of which reads or writes what an earlier one of it wrote. dst, src
    (steps,): the tile that each writes, and the first of the `operands` that it reads."""
    if len(np.unique(dst)) == len(dst):
        step_of = np.full(int(max(dst.max(), src.max() + operands)) + 1, len(dst))
        step_of[dst] = np.arange(len(dst))
        reads = step_of[src[:, None] + np.arange(operands)]
        if not (reads < np.arange(len(dst))[:, None]).any():
            yield slice(0, len(dst))
            return
    ends, written = [0], set[int]()
    for step, (d, s) in enumerate(zip(dst.tolist(), src.tolist(), strict=True)):
        if d in written or any(s + k in written for k in range(operands)):
            ends.append(step)
            written = set()
        written.add(d)
    for begin, end in pairwise([*ends, len(dst)]):
        yield slice(begin, end)
