# SPDX-License-Identifier: Apache-2.0
"""How long a sum takes whose bytes leave in planes.

In:   the cycles of load, compute and store stage for every candidate of a tiling.
Out:  the cycles of the whole operator.
Next: tile.py chooses by it.
"""

from __future__ import annotations

from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray

__all__ = ["cycles_of_planes"]

_Cycles: TypeAlias = NDArray[np.int64]


def cycles_of_planes(
    planes: int, stages: _Cycles, first: tuple[_Cycles, _Cycles], turns: _Cycles
) -> _Cycles:
    """A plane is shifted when the one below it has been stored: compute waits for all stores but
    the last. What nothing hides is the first load or the last turn, whichever stage is the longest.

    stages: (3, candidates), load, compute and store. first: loads of the inputs and of the weights
    of one turn. Each array is (candidates,).
    """
    load, compute, store = stages
    inputs, weights = first
    busy = compute + store * (planes - 1) // planes
    last = (busy + store) // turns
    ramp = np.where(load > busy, inputs + last, inputs + weights + store // turns)
    return np.asarray(np.maximum(load, busy) + ramp, np.int64)
