# SPDX-License-Identifier: Apache-2.0
"""Runs of steps that may be done at once.

In:   the tiles that steps write and read, in their order.
Out:  `independent_runs`.
Next: reference.py executes instructions run by run.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
from numpy.typing import NDArray

__all__ = ["independent_runs"]


def independent_runs(
    dst: NDArray[np.int64], src: NDArray[np.int64], operands: int
) -> Iterator[slice]:
    """Cuts steps into runs in which none reads what an earlier one of the run wrote: such a run may
    be done at once.

    dst, src (steps,): a step reads acc[dst] and `operands` tiles from acc[src] on.
    """
    begin = 0
    written: set[int] = set()
    for step, (d, s) in enumerate(zip(dst.tolist(), src.tolist(), strict=True)):
        if d in written or any(s + k in written for k in range(operands)):
            yield slice(begin, step)
            begin = step
            written.clear()
        written.add(d)
    yield slice(begin, len(dst))
