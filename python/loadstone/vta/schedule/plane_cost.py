# SPDX-License-Identifier: Apache-2.0
"""How long a sum takes whose bytes leave in planes.

In:   a WeightedNest with planes: an operator that has its program to itself.
Out:  PlaneTilings: the cycles of each tiling.
Next: tile.py chooses by it.

Nothing stands in front of such a sum or behind it, so its first loads and last stores count, and a
sum is often cut into parts, which makes both short. In a longer program the neighbours hide them:
the estimates here, used for convolutions, made keyword spotting 4 % slower, and a MobileNet 1 %.
"""

from __future__ import annotations

import numpy as np

from loadstone.vta.isa.spec import UOP_BYTES, Memory
from loadstone.vta.schedule.lane_windows import micro_ops
from loadstone.vta.schedule.tilings import Cycles, Tilings

__all__ = ["PlaneTilings", "cycles_of_planes"]


class PlaneTilings(Tilings):
    """Behind each part of a sum comes a plane of the tiles before it
    (operators/slots.py: between_products)."""

    def cycles(self) -> Cycles:
        """(candidates,): estimated cycles of the whole operator. Each instruction has micro-ops of
        its own, for which the bus has to wait."""
        stages, parts = self._stages(), self.turns_in
        turns = self.turns_pixels * self.turns_channels
        stages[0] += (
            turns * parts * micro_ops(self.sizes, self.nest) * UOP_BYTES // self.cost.bus_bytes
        )
        first = self._inp_load() + self._wgt_load()
        return cycles_of_planes(stages, first, turns, parts, self.nest.planes)

    def _wgt_load(self) -> Cycles:
        """One LOAD for each group of a tile that holds some of the output blocks and of the input
        blocks; all others are rows of one."""
        _, s, o, *_ = self.sizes
        rows = (self.turns_in == 1) | (o == self.nest.out)
        loads = np.where(rows, 1, s)
        return np.asarray(
            self.wgt * self.cost.wgt_beats + self.cost.load_overhead * loads, np.int64
        )

    def _inp_loads(self) -> Cycles:
        """How often an input tile is loaded: once where it stays for all output channels, as a sum
        in parts does where INP holds all of them. Of those that do not fit, the last turn finds
        all that INP holds but two, which alternate (isa/residency.py)."""
        depth = self.config.depth(Memory.INP)
        inputs = self.turns_pixels * self.turns_groups
        again = self.turns_channels // self.turns_groups
        held = depth // self.inp
        found = np.where(again > 1, np.maximum(0, held - 2), 0)
        cut = np.where(held >= self.turns_in, self.turns_in, self.turns_in * again - found)
        return np.asarray(
            np.where(self.spatial_outer, inputs * cut, super()._inp_loads()), np.int64
        )


def cycles_of_planes(
    stages: Cycles, first: Cycles, turns: Cycles, chunks: Cycles, planes: int
) -> Cycles:
    """Behind each chunk of products comes one more plane of every tile that is summed, so the
    planes of most tiles leave beside the products of others. Nothing hides the first chunk's loads
    and what those of the first tile's other chunks take longer than products, since the inputs are
    among them; or, where loads take longer in all, the last chunk's products. Nor do products hide
    the planes that have none behind them, one after the other.

    stages: (3, candidates), load, compute and store. first: loads of one chunk. turns, chunks: of
    the tiles, and of each sum. Each array is (candidates,).
    """
    load, compute, store = stages
    products = compute // (turns * chunks)
    begin = first + (chunks - 1) * np.maximum(0, first - products)
    summed = np.maximum(load + products, compute + begin)
    left = np.zeros_like(turns)
    for tile in range(planes):  # counted from the last one
        left += np.where(tile < turns, np.maximum(0, planes - tile * chunks), 0)
    return np.asarray(np.maximum(summed, store) + left * store // (turns * planes), np.int64)
