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
    stages: _Cycles, first: tuple[_Cycles, _Cycles], turns: _Cycles, chunks: _Cycles
) -> _Cycles:
    """The planes of a turn leave between the products of the next ones. Nothing hides the first
    load, or the products of the last chunk, whichever stage is longer; nor the planes of the last
    turn, one after the other.

    stages: (3, candidates), load, compute and store. first: loads of the inputs and of the weights
    of one chunk. turns, chunks: of the tiles, and of each sum. Each array is (candidates,).
    """
    load, compute, store = stages
    inputs, weights = first
    longest = stages.max(axis=0)
    begin = np.where(load > compute, inputs + compute // (turns * chunks), inputs + weights)
    return np.asarray(longest + begin + store // turns, np.int64)
