# SPDX-License-Identifier: Apache-2.0
"""Every tiling of a sum over weights, and the cycles that each should take.

In:   the loops of a convolution in tiles and pixels (`WeightedNest`), a HwConfig, a CostModel.
Out:  `Tilings`: whether each fits the scratchpads, and its cycles.
Next: tile.py chooses among them; plane_cost.py has those of sums that leave in planes.

All combinations of tile sizes are estimated together (NumPy arrays over the candidates):

    cycles = longest stage + a share of the others + ramp         load, compute and store overlap,
           but for the first load and the last store

The scratchpads must hold two sets of tiles, so that one is loaded while the other is used; where
nothing fits twice, one set is allowed. Resident data is not loaded again: weights if all of
them fit, an input tile over all output channels if the spatial loops are outside.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal, TypeAlias

import numpy as np
from numpy.typing import NDArray

from loadstone.vta.device.hw_config import HwConfig
from loadstone.vta.isa.spec import Capability, Memory
from loadstone.vta.schedule.lane_windows import micro_ops, row_strides_fit, rows_besides
from loadstone.vta.stream.cost import CostModel

__all__ = [
    "OPERANDS_SHARE",
    "Cycles",
    "EdgeWork",
    "Tiling",
    "Tilings",
    "WeightedNest",
    "totals_of",
]

#: Operand tiles stay among the accumulators where they take no more than this part of them.
OPERANDS_SHARE = 8

#: What work of the stages that are not the longest counts: it hides here, but delays the neighbours
#: that share the stage.
_HIDDEN_SHARE = 0.1

Cycles: TypeAlias = NDArray[np.int64]


@dataclass(frozen=True)
class EdgeWork:
    """What it saves and takes to leave padding out and add constants at the edges instead.

    skipped: products of each pair of blocks that are left out. added: products of constants of each
    output block. sides: at how many ends of rows and columns there are edges. cuts: into how many
    more instructions a sum falls at each, along rows and columns. inputs: INP tiles of constants;
    tiles: their weight tiles of each channel block.
    """

    skipped: int
    added: int
    sides: tuple[int, int]
    cuts: tuple[int, int]
    inputs: int
    tiles: int


@dataclass(frozen=True)
class WeightedNest:
    """Loop extents of a sum over weights. Spatial ones in pixels, channels in blocks, samples in
    batches.

    groups: independent convolutions side by side in the channel blocks; out and in_ are blocks of
        one group. taps: weight tiles per
    pair of blocks. Input pixels that an output tile of size t needs: (t - 1) * step + window.
    operands: what operand tiles belong to.
    product_rows: weight tiles of constants per channel block, for which INP holds one tile.
    tail_steps: for every ALU instruction after the sum, whether its operand is a tile. requantizes:
        whether one of them is RQ. acc_copies: accumulators per output tile. edges: None where
        padding is multiplied, or there is none. planes: how often an accumulator is stored.
    whole: with all its bits.
    lane_rows: rows of the window of a step, lane by lane; 0: a step is the product of one tap.
    """

    samples: int
    groups: int
    out: int
    in_: int
    height: int
    width: int
    taps: int
    step: tuple[int, int]
    window: tuple[int, int]
    padded_rows: bool
    shared_weights: bool
    operands: Literal["channel", "pixel", "all"]
    operand_rows: int
    tail_steps: tuple[bool, ...]
    acc_copies: int = 1
    product_rows: int = 0
    requantizes: bool = False
    edges: EdgeWork | None = None
    planes: int = 1
    lane_rows: int = 0
    whole: bool = False


@dataclass(frozen=True)
class Tiling:
    """Extents of the inner tile. spatial_outer: pixels are outside, output channels inside; else
    the other way round."""

    samples: int
    groups: int
    out: int
    in_: int
    height: int
    width: int
    spatial_outer: bool
    cycles: int


class Tilings:
    """Every combination of tile sizes and loop orders, as flat arrays of one length; what each
    needs and costs."""

    def __init__(
        self,
        nest: WeightedNest,
        config: HwConfig,
        cost: CostModel,
        axes: Sequence[Sequence[int] | NDArray[np.int64]] | None = None,
    ) -> None:
        """axes: the sizes of each loop, and whether pixels are outside; None: all of them."""
        self.nest, self.config, self.cost = nest, config, cost
        totals = totals_of(nest)
        axes = [*map(_parts, totals), [1, 0]] if axes is None else axes
        grid = np.meshgrid(*map(np.asarray, axes), indexing="ij")
        *sizes, outer = (axis.ravel().astype(np.int64) for axis in grid)
        self.spatial_outer = outer.astype(bool)
        self.sizes = np.stack(sizes)
        n, s, o, c, h, w = sizes

        rows, columns = (
            (h - 1) * nest.step[0] + nest.window[0],
            (w - 1) * nest.step[1] + nest.window[1],
        )
        self.inp = n * s * c * rows * columns  # tiles of one set
        self.wgt = np.ones_like(n) if nest.shared_weights else s * o * c * nest.taps
        edges = nest.edges or _NO_EDGES
        self.edges = edges
        self.constants = s * o * (nest.product_rows + edges.tiles)  # weight tiles of one set
        self.acc = n * s * o * h * w * nest.acc_copies
        self.operands = (
            nest.operand_rows
            * {"channel": s * o, "pixel": h * w, "all": np.ones_like(n)}[nest.operands]
        )  # tiles of one set

        turns = [-(-total // size) for total, size in zip(totals, sizes, strict=True)]
        self.turns_in = turns[3]
        self.turns_channels = turns[1] * turns[2]
        self.turns_groups = turns[1]
        self.turns_samples, self.turns_spatial = turns[0], turns[4:]
        self.turns_pixels = turns[0] * turns[4] * turns[5]

        self.all_wgt = 1 if nest.shared_weights else nest.groups * nest.out * nest.in_ * nest.taps
        self.all_operands = (
            nest.operand_rows
            * {"channel": nest.groups * nest.out, "pixel": nest.height * nest.width, "all": 1}[
                nest.operands
            ]
        )
        self.operands_resident = self.all_operands * OPERANDS_SHARE <= config.depth(Memory.ACC)
        all_constants = nest.groups * nest.out * (nest.product_rows + edges.tiles)
        self.wgt_resident = self.all_wgt + all_constants <= config.depth(Memory.WGT)

    def tiling(self, k: int) -> Tiling:
        """Candidate k."""
        n, s, o, c, h, w = self.sizes[:, k].tolist()
        return Tiling(n, s, o, c, h, w, bool(self.spatial_outer[k]), int(self.cycles()[k]))

    def fits(self, sets: int) -> NDArray[np.bool_]:
        """(candidates,): whether the scratchpads hold `sets` sets of tiles, or all there is."""
        config = self.config
        inp = (
            np.where(self.turns_pixels * self.turns_groups * self.turns_in == 1, 1, sets) * self.inp
        )
        wgt = np.where(self.turns_channels * self.turns_in == 1, 1, sets) * self.wgt
        wgt = np.minimum(wgt, self.all_wgt) if self.wgt_resident else wgt
        wgt = wgt + sets * self.constants
        inp = inp + min(1, self.nest.product_rows) + self.edges.inputs
        operands = self.all_operands if self.operands_resident else sets * self.operands
        acc = np.where(self.turns_pixels * self.turns_channels == 1, 1, sets) * self.acc + operands
        room = (
            (inp <= config.depth(Memory.INP))
            & (wgt <= config.depth(Memory.WGT))
            & (acc <= config.depth(Memory.ACC))
        )
        room &= row_strides_fit(self.sizes[5], self.nest, config)
        return np.asarray(
            room & (micro_ops(self.sizes, self.nest) <= config.depth(Memory.UOP) // 2), np.bool_
        )

    def cycles(self) -> Cycles:
        """(candidates,): estimated cycles of the whole operator."""
        inp_load, wgt_load, stages = self._inp_load(), self._wgt_load(), self._stages()
        longest = stages.max(axis=0)
        hidden = stages.sum(axis=0) - longest
        ramp = inp_load + wgt_load + self.acc * self.cost.store_tile + self.cost.load_overhead
        late = np.where(stages[0] > stages[1], self._edge_loads(), 0)
        return np.asarray(longest + hidden * _HIDDEN_SHARE + ramp + late, np.int64)

    def _stages(self) -> Cycles:
        """(3, candidates): of load, compute and store."""
        inputs = self._inp_loads() * self._inp_load()
        weights = self._wgt_loads() * self._wgt_load()
        return np.stack([inputs + weights + self._edge_loads(), self._compute(), self._store()])

    # --- load -------------------------------------------------------------------------------------
    def _inp_load(self) -> Cycles:
        n, s, _, c, _, w = self.sizes
        whole_rows = (w == self.nest.width) & (not self.nest.padded_rows)
        return np.asarray(
            self.inp * self.cost.inp_beats
            + self.cost.load_overhead * n * np.where(whole_rows, 1, s * c),
            np.int64,
        )

    def _wgt_load(self) -> Cycles:
        _, s, o, *_ = self.sizes
        return np.asarray(
            self.wgt * self.cost.wgt_beats
            + self.cost.load_overhead * np.where(self.turns_in == 1, 1, s * o),
            np.int64,
        )

    def _edge_loads(self) -> Cycles:
        """The weight tiles that add constants to edges; they are loaded after the weights of their
        sum."""
        _, s, o, *_ = self.sizes
        if not self.edges.tiles:
            return np.zeros_like(o)
        load = self.edges.tiles * s * o * self.cost.wgt_beats + self.cost.load_overhead
        return np.asarray(self._wgt_loads() // self.turns_in * load, np.int64)

    def _inp_loads(self) -> Cycles:
        """How often an input tile is loaded: once where it stays for all output channels."""
        nest = self.nest
        whole = (
            nest.samples
            * nest.groups
            * nest.in_
            * nest.height
            * nest.width
            * nest.step[0]
            * nest.step[1]
        )
        stays = np.where(
            self.spatial_outer, self.turns_in == 1, whole * 2 <= self.config.depth(Memory.INP)
        )
        turns = self.turns_pixels * self.turns_groups * self.turns_in
        return np.asarray(
            turns * np.where(stays, 1, self.turns_channels // self.turns_groups), np.int64
        )

    def _wgt_loads(self) -> Cycles:
        """How often a weight tile is loaded: once where all weights fit, or where the pixels are
        inside and the sum is whole."""
        if self.nest.shared_weights:
            return np.ones_like(self.turns_in)
        stays = self.wgt_resident | (~self.spatial_outer & (self.turns_in == 1))
        return np.asarray(
            self.turns_channels * self.turns_in * np.where(stays, 1, self.turns_pixels), np.int64
        )

    # --- compute and store ------------------------------------------------------------------------
    def _compute(self) -> Cycles:
        nest = self.nest
        clear = 0 if self.config.has(Capability.GEMM_OVERWRITE) else 1
        tail = sum(self.cost.alu_step(tensor) for tensor in nest.tail_steps)
        outputs = self._out_tiles()
        steps = outputs * ((nest.in_ * nest.taps + clear) * self.cost.gemm_step + tail)
        blocks = nest.samples * nest.groups * nest.out
        steps -= blocks * (self.edges.skipped * nest.in_ - self.edges.added) * self.cost.gemm_step
        turns = self.turns_pixels * self.turns_channels
        instructions = turns * (self.turns_in + 1 + len(nest.tail_steps)) + self._cuts()
        operand_loads = 1 if self.operands_resident else turns
        operands = self.all_operands if self.operands_resident else self.operands
        loads = (
            operand_loads * (operands * self.cost.acc_beats + self.cost.load_overhead)
            if nest.operand_rows
            else 0
        )
        lists = self.cost.uop_load(micro_ops(self.sizes, self.nest))
        return np.asarray(
            rows_besides(outputs, nest, self.turns_spatial[0]) * self.cost.gemm_step
            + steps
            + instructions * self.cost.gemm_overhead
            + turns * self._rq()
            + loads
            + lists,
            np.int64,
        )

    def _cuts(self) -> Cycles:
        """Instructions more at edges: each sum is cut into taps that read as many rows and columns,
        and constants are added to as many kinds of pixels less the inner ones."""
        ends = [
            count + np.minimum(count, sides) * cuts
            for count, sides, cuts in zip(
                self.turns_spatial, self.edges.sides, self.edges.cuts, strict=True
            )
        ]
        more = ends[0] * ends[1] - self.turns_spatial[0] * self.turns_spatial[1]
        return np.asarray(
            more * self.turns_samples * self.turns_channels * (self.turns_in + 1), np.int64
        )

    def _rq(self) -> Cycles:
        """The cycles of an RQ after the sum beyond its steps and beyond those of any other
        instruction: its longer latency, and its operand tiles, which it reads once for each channel
        or pixel."""
        if not self.nest.requantizes:
            return np.zeros_like(self.operands)
        moves = self.operands // self.nest.operand_rows
        longer = self.cost.rq_overhead - self.cost.gemm_overhead
        return np.asarray(longer + moves * self.cost.rq_operand, np.int64)

    def _store(self) -> Cycles:
        n, s, o, *_ = self.sizes
        stores = self.turns_pixels * self.turns_channels * n * s * o
        tile = self.cost.whole_tile if self.nest.whole else self.cost.store_tile
        once = self._out_tiles() * tile + stores * self.cost.store_overhead
        return np.asarray(self.nest.planes * once, np.int64)

    def _out_tiles(self) -> int:
        nest = self.nest
        return nest.samples * nest.groups * nest.out * nest.height * nest.width


_NO_EDGES = EdgeWork(0, 0, (0, 0), (0, 0), 0, 0)


def totals_of(nest: WeightedNest) -> tuple[int, ...]:
    """The extents that are cut into tiles."""
    return nest.samples, nest.groups, nest.out, nest.in_, nest.height, nest.width


def _parts(total: int) -> NDArray[np.int64]:
    """Sizes that cut `total` into nearly equal parts."""
    counts = (1, 2, 3, 4, 6, 8, 12, 16, 24, 32, 48, 64, 96, 128, 256, total)
    return np.array(sorted({-(-total // count) for count in counts if count <= total}), np.int64)
