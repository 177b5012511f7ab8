# SPDX-License-Identifier: Apache-2.0
"""The tile of a rescaled convolution, by the cost model.

In:   a RescaledSpec whose tile is open, how many blocks the layer has, a HwConfig.
Out:  `TileChoice`: rows, columns and input blocks of the tile, and estimated cycles of the kernel.
Next: operators/rescaled.py puts it into the spec.

Several tiles are in flight, one in each phase (operators/slots.py): the accumulators hold a tile
for each, the input scratchpad two of inputs and two of digits.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache

import numpy as np
from numpy.typing import NDArray

from loadstone.errors import LoweringError
from loadstone.vta.device.hw_config import HwConfig
from loadstone.vta.isa.spec import Memory
from loadstone.vta.schedule.rescaled_spec import ChainShape, RescaledSpec
from loadstone.vta.stream.cost import CostModel, cost_model

__all__ = ["TileChoice", "cheapest", "choose"]

IntArray = NDArray[np.int64]
BoolArray = NDArray[np.bool_]
#: Instructions of a tile's compute stage besides those of the chain's levels.
_FIXED_INSTRUCTIONS = 6
#: Of a stair besides its constants: clear, copy, shift twice, add to the others.
_STAIR_INSTRUCTIONS = 5
#: Columns that always fit in one tile, or in few; and by how much tiles of which the last hangs
#: over must be better than equal ones: waiting, which the model does not know, takes as much.
_SMALL, _GAIN = 8, 1.1


@dataclass(frozen=True)
class TileChoice:
    """tile: rows, columns, input blocks. cycles: of the whole kernel."""

    tile: tuple[int, int, int]
    cycles: int


def choose(
    spec: RescaledSpec,
    layer_blocks: int,
    config: HwConfig,
    wanted: tuple[int, ...] | None = None,
) -> TileChoice:
    """The cheapest tile, or the one that is wanted, of every kernel in which it fits. Raises
    LoweringError where not even a pixel fits."""
    cost = cost_model(config)
    if wanted is not None:
        if len(wanted) != 3 or not all(wanted):
            raise LoweringError(f"tile: {list(wanted)} is not rows, columns and input blocks")
        tile = (wanted[0], wanted[1], wanted[2])
        estimate, places = _Estimate(spec, layer_blocks, config, cost), np.array(tile)
        if _is_part(spec, tile) and estimate.fits(places):
            return TileChoice(tile, int(estimate.cycles(places)))
    best = _choose(spec, layer_blocks, config, cost)
    if best is None:
        raise LoweringError(
            f"tile: one pixel of {spec.window.kernel[0]}x{spec.window.kernel[1]} taps and its "
            f"digits fit no scratchpad of {config.name}"
        )
    return best


def cheapest(
    spec: RescaledSpec, layer_blocks: int, config: HwConfig, most: int
) -> list[TileChoice]:
    """The tiles that should take least, in this order."""
    tiles, cycles = _candidates(_Estimate(spec, layer_blocks, config, cost_model(config)))
    return [_choice(tiles, cycles, at) for at in np.argsort(cycles, kind="stable")[:most]]


def _is_part(spec: RescaledSpec, tile: tuple[int, int, int]) -> bool:
    """Whether it is within the output, and rows are several only where they are whole."""
    rows, columns, chunk = tile
    height, width = spec.window.output
    whole = rows == 1 or columns == width
    return whole and rows <= height and columns <= width and chunk <= spec.window.in_blocks


@lru_cache(maxsize=4096)
def _choose(
    spec: RescaledSpec, layer_blocks: int, config: HwConfig, cost: CostModel
) -> TileChoice | None:
    tiles, cycles = _candidates(_Estimate(spec, layer_blocks, config, cost))
    return _choice(tiles, cycles, cycles.argmin()) if cycles.size else None


def _choice(tiles: IntArray, cycles: IntArray, at: np.intp) -> TileChoice:
    rows, columns, chunk = tiles[:, at].tolist()
    return TileChoice((rows, columns, chunk), int(cycles[at]))


def _candidates(estimate: _Estimate) -> tuple[IntArray, IntArray]:
    """The tiles that fit, as columns, and the cycles of each: all as wide, except where the last
    one of a row must hang over: a width without divisors, such as 257, would be cut into single
    columns."""
    tiles, cycles = _fitting(estimate, True)
    if cycles.size and estimate.spec.window.output[1] <= _SMALL:
        return tiles, cycles
    others, more = _fitting(estimate, False)
    if more.size and not (cycles.size and cycles.min() <= more.min() * _GAIN):
        return others, more
    return tiles, cycles


def _fitting(estimate: _Estimate, equal: bool) -> tuple[IntArray, IntArray]:
    """equal: as of _tiles."""
    window = estimate.spec.window
    tiles = _tiles(window.in_blocks, window.output, equal)
    tiles = tiles[:, estimate.fits(tiles)]
    return tiles, estimate.cycles(tiles)


@lru_cache(maxsize=256)
def _tiles(in_blocks: int, output: tuple[int, int], equal: bool) -> IntArray:
    """Every tile of an output: rows, columns and input blocks as columns. equal: all have as many
    columns; else the last may hang over."""
    height, width = output
    tiles = [
        (rows, columns, chunk)
        for chunk in _parts(in_blocks)
        for columns in (_divisors(width) if equal else _parts(width))
        for rows in (_parts(height) if columns == width else (1,))
    ]
    return np.array(tiles, np.int64).T


class _Estimate:
    """Which tiles of a kernel fit, and the cycles that they need; quantities that do not depend on
    the tile are computed once. tiles: rows, columns and input blocks, as arrays of any shape."""

    def __init__(
        self, spec: RescaledSpec, layer_blocks: int, config: HwConfig, cost: CostModel
    ) -> None:
        window, blocks, chain = spec.window, spec.blocks, spec.chain
        self.spec, self.cost, self.layer_blocks = spec, cost, layer_blocks
        self.depth = config.depth
        self.stored, self.taps = spec.stored, window.taps
        self.matrices = 1 if spec.factors is None else window.output[0]
        self.zero_points = (0, 0) if spec.factors is None else spec.factors.parts
        self.groups = blocks if spec.own_input else 1
        self.pixels = blocks * window.output[0] * window.output[1]
        self.sums = max(2, self.stored + 1) + chain.accumulators
        self.operands = blocks * spec.operand_rows
        #: Weight tiles of bias, chain and zero points; input tiles of constants.
        self.fixed_weights = blocks * spec.bias + spec.multipliers * spec.chain_tiles
        self.fixed_weights += self.zero_points[1] * window.in_blocks
        self.fixed_inputs = 1 + self.zero_points[0] * window.in_blocks
        self.compute = self.pixels * _steps(spec, cost)
        parts = (*chain.levels, *chain.upper)
        levels = sum(1 + len(level.runs) + level.constants for level in parts)
        stairs = sum(_STAIR_INSTRUCTIONS + stair.tiles for stair in chain.stairs)
        self.instructions = _FIXED_INSTRUCTIONS + levels + stairs + 3 * self.stored
        whole = self.groups * window.in_blocks * window.input[0] * window.input[1]
        self.input_stays = (
            not spec.own_input and layer_blocks > blocks and whole * 2 < self.depth(Memory.INP)
        )
        self.padded = any(window.padding) and window.pad_value != 0

    def fits(self, tiles: IntArray) -> BoolArray:
        """Whether the scratchpads hold all that is in flight."""
        rows, columns, chunk = tiles
        window, depth = self.spec.window, self.depth
        blocks, pixels = self.spec.blocks, self.spec.blocks * rows * columns
        loaded = window.loaded(rows, columns)
        inputs = self.groups * chunk * loaded[0] * loaded[1]
        taps = self.taps // window.in_blocks * chunk
        whole = chunk == window.in_blocks
        height, width = window.output
        weights = blocks * taps * (1 if self.matrices == 1 else rows)
        once = whole & (rows == height) & (columns == width)
        room: BoolArray = (
            (self.sums * pixels + self.operands <= depth(Memory.ACC))
            & (2 * inputs + 2 * self.stored * pixels + self.fixed_inputs <= depth(Memory.INP))
            & (weights * (2 - once) + self.fixed_weights <= depth(Memory.WGT))
            & (taps * blocks <= depth(Memory.UOP) // 2)
            & (whole | (self.spec.digits > 0))
        )
        return room

    def cycles(self, tiles: IntArray) -> IntArray:
        """Of the whole kernel."""
        rows, columns, chunk = tiles
        cost, window, blocks = self.cost, self.spec.window, self.spec.blocks
        turns = -(-window.output[0] // rows) * -(-window.output[1] // columns)
        chunks = -(-window.in_blocks // chunk)
        compute = self.compute + turns * (self.instructions + chunks) * cost.gemm_overhead
        loaded = window.loaded(rows, columns)
        inputs = self.groups * window.in_blocks * loaded[0] * loaded[1]
        loads = chunks * self.groups * (loaded[0] + 2 if self.padded else 1) + blocks
        load = turns * (inputs * cost.inp_beats + loads * cost.load_overhead)
        if self.input_stays:
            load = load * blocks // self.layer_blocks
        load += self.pixels * self.stored * cost.inp_beats
        # Weights of chunks come anew in every turn, where other kernels' may have taken their
        # places.
        weights = blocks * self.taps * self.matrices
        alone = blocks == self.layer_blocks
        stay = alone and weights + self.fixed_weights <= self.depth(Memory.WGT)
        load += weights * cost.wgt_beats * (1 if stay else np.where(chunks == 1, 1, turns))
        store = (self.stored + 1) * (self.pixels * cost.store_tile + turns * cost.store_overhead)
        # Where there are several chunks, one goes into one half while the other is multiplied, and
        # other turns' digits stand in the way of the first: what a chunk's load takes longer than
        # its sum, compute waits.
        part = self.groups * chunk * loaded[0] * loaded[1] * cost.inp_beats
        sums = blocks * rows * columns * self.spec.sum_steps * chunk // window.in_blocks
        waits = part + cost.load_overhead - sums * cost.gemm_step
        compute += turns * (chunks - 1) * np.maximum(0, waits)
        # What nothing hides, once in a layer: the first tile's way in and the last one's way out.
        tile_pixels = self.pixels // turns
        out = tile_pixels * (cost.store_tile + self.stored * cost.inp_beats) // 4
        ramp = load // turns + out
        longest = np.maximum(np.maximum(compute, load), store)
        total: IntArray = longest + ramp * blocks // self.layer_blocks
        return total


def _steps(spec: RescaledSpec, cost: CostModel) -> int:
    """Cycles of the compute stage for one tile of output."""
    gemm, immediate = cost.gemm_step, cost.alu_step(False)
    tensor = cost.alu_step(True)
    total = (1 + spec.bias + spec.sum_steps + spec.chain_tiles) * gemm
    total += 2 * (max(0, spec.digits - 1) + spec.clamped + 1) * immediate
    total += (spec.signed + (spec.left != 0)) * immediate + (spec.right + spec.added) * tensor
    levels = (*spec.chain.levels, *spec.chain.upper)
    total += sum(level.shift > 0 for level in levels) * immediate
    if spec.chain.stairs:
        return total + _stair_steps(spec.chain, cost)
    return total + (tensor if spec.chain.shift is None else (spec.chain.shift > 0) * immediate)


def _stair_steps(chain: ChainShape, cost: CostModel) -> int:
    """Of the stairs: each but the last is a copy on a cleared tile; then all are added up."""
    immediate, tensor = cost.alu_step(False), cost.alu_step(True)
    count = len(chain.stairs)
    total = count * cost.gemm_step + (2 * count - 1) * tensor
    for stair in chain.stairs:
        bounds = (stair.low is not None) + (stair.high is not None)
        total += (2 + (stair.add != 0) + bounds) * immediate
    return total


def _parts(total: int) -> list[int]:
    """Sizes that cut `total` into nearly equal parts, largest first."""
    return sorted({-(-total // count) for count in range(1, total + 1)}, reverse=True)


def _divisors(total: int) -> list[int]:
    return [size for size in range(total, 0, -1) if total % size == 0]
