# SPDX-License-Identifier: Apache-2.0
"""Nests of tiles whose addresses are known, for tests of what folds them.

In:   loops, accesses to tiles, an address of each tile.
Out:  a LoopNest with absolute bases.
Next: test_loop_nest.py, and the tests of the encoder.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np

from loadstone.vta.stream.loop_nest import LoopNest, merged_loops
from loadstone.vta.stream.operations import Access, VirtualTile

__all__ = ["merged_nest"]


def merged_nest(
    extents: tuple[int, ...], accesses: Sequence[Access], address: Mapping[VirtualTile, int]
) -> LoopNest:
    """Absolute bases, and merged loops."""
    bases = np.array([address[a.tile] + a.base for a in accesses], np.int64)
    return LoopNest(merged_loops(extents, [a.strides for a in accesses]), bases)
