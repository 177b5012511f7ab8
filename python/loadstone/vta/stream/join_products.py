# SPDX-License-Identifier: Apache-2.0
"""Join products: GEMMs that differ in where they begin alone become one, with a loop more.

In:   GEMMs behind each other, whose order does not matter.
Out:  fewer of them, with the same steps.
Next: passes/skip_pads/skip_pads.py and operators/edges.py cut a sum into many small ones;
      passes/encode/encode.py writes the new loops out as micro-ops.

    for i<7 j<8:  acc[8 + ..] += inp[0 + ..] * wgt[0]      for n<2 i<7 j<8:
    for i<7 j<8:  acc[0 + ..] += inp[10 + ..] * wgt[3]       acc[8-8n + ..] += inp[10n + ..] * ...
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise

from loadstone.vta.stream.operations import Access, GemmNest

__all__ = ["joined"]


def joined(gemms: Sequence[GemmNest]) -> list[GemmNest]:
    """The same products in fewer GEMMs, the first of each kind where it was."""
    kinds: dict[tuple[object, ...], list[GemmNest]] = {}
    for gemm in gemms:
        accesses = (gemm.dst, gemm.src, gemm.wgt)
        kind = (gemm.extents, *((access.tile, access.strides) for access in accesses))
        kinds.setdefault(kind, []).append(gemm)
    if len(kinds) == len(gemms):
        return list(gemms)
    return joined([gemm for alike in kinds.values() for gemm in _with_loop(alike)])


def _with_loop(gemms: Sequence[GemmNest]) -> list[GemmNest]:
    """One GEMM where all begin equally far apart; else one for each two."""
    if len(gemms) == 1:
        return list(gemms)
    bases = [(gemm.dst.base, gemm.src.base, gemm.wgt.base) for gemm in gemms]
    moves = {
        tuple(b - a for a, b in zip(here, there, strict=True)) for here, there in pairwise(bases)
    }
    if len(moves) == 1:
        return [_moved(gemms[0], len(gemms), *moves)]
    pairs = (gemms[first : first + 2] for first in range(0, len(gemms), 2))
    return [gemm for pair in pairs for gemm in _with_loop(pair)]


def _moved(gemm: GemmNest, turns: int, move: tuple[int, ...]) -> GemmNest:
    """The GEMM so many times, each time further on."""
    dst, src, wgt = (
        Access(access.tile, access.base, (stride, *access.strides))
        for access, stride in zip((gemm.dst, gemm.src, gemm.wgt), move, strict=True)
    )
    return GemmNest((turns, *gemm.extents), dst, src, wgt)
