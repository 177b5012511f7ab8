# SPDX-License-Identifier: Apache-2.0
"""The tile of a rescaled convolution, by the cost model.

In:   a RescaledSpec whose tile is open, how many blocks the layer has, a HwConfig.
Out:  `TileChoice`: rows, columns and input blocks of the tile, and estimated cycles of the kernel.
Next: operators/rescaled.py puts it into the spec.

Several tiles are in flight, one in each phase (operators/slots.py): the accumulators hold a tile
for each, the input scratchpad two of inputs and two of digits.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import lru_cache

from loadstone.errors import LoweringError
from loadstone.vta.cost import CostModel, cost_model
from loadstone.vta.hw_config import HwConfig
from loadstone.vta.isa.spec import Memory
from loadstone.vta.schedule.rescaled_spec import ChainShape, RescaledSpec

__all__ = ["TileChoice", "cheapest", "choose"]

#: Instructions of a tile's compute stage besides those of the chain's levels.
_FIXED_INSTRUCTIONS = 6
#: Of a stair besides its constants: clear, copy, shift twice, add to the others.
_STAIR_INSTRUCTIONS = 5


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
        if _is_part(spec, tile) and _fits(spec, tile, config):
            return TileChoice(tile, _cycles(spec, tile, layer_blocks, config, cost))
    return _choose(spec, layer_blocks, config, cost)


def cheapest(
    spec: RescaledSpec, layer_blocks: int, config: HwConfig, most: int
) -> list[TileChoice]:
    """The tiles that should take least, in this order."""
    candidates = _candidates(spec, layer_blocks, config, cost_model(config))
    return sorted(candidates, key=lambda choice: choice.cycles)[:most]


def _is_part(spec: RescaledSpec, tile: tuple[int, int, int]) -> bool:
    """Whether the columns divide the output's, and rows are several only where they are whole."""
    rows, columns, chunk = tile
    height, width = spec.window.output
    whole = rows == 1 or columns == width
    return whole and rows <= height and width % columns == 0 and chunk <= spec.window.in_blocks


@lru_cache(maxsize=4096)
def _choose(spec: RescaledSpec, layer_blocks: int, config: HwConfig, cost: CostModel) -> TileChoice:
    candidates = _candidates(spec, layer_blocks, config, cost)
    best = min(candidates, key=lambda choice: choice.cycles, default=None)
    if best is None:
        raise LoweringError(
            f"tile: one pixel of {spec.window.kernel[0]}x{spec.window.kernel[1]} taps and its "
            f"digits fit no scratchpad of {config.name}"
        )
    return best


def _candidates(
    spec: RescaledSpec, layer_blocks: int, config: HwConfig, cost: CostModel
) -> Iterator[TileChoice]:
    window = spec.window
    height, width = window.output
    for chunk in _parts(window.in_blocks):
        for columns in _divisors(width):
            for rows in _parts(height) if columns == width else (1,):
                tile = (rows, columns, chunk)
                if _fits(spec, tile, config):
                    yield TileChoice(tile, _cycles(spec, tile, layer_blocks, config, cost))


def _fits(spec: RescaledSpec, tile: tuple[int, int, int], config: HwConfig) -> bool:
    rows, columns, chunk = tile
    window = spec.window
    pixels = spec.blocks * rows * columns
    loaded = window.loaded(rows, columns)
    inputs = (spec.blocks if spec.own_input else 1) * chunk * loaded[0] * loaded[1]
    taps = window.taps // window.in_blocks * chunk
    once = chunk == window.in_blocks and (rows, columns) == window.output
    own = spec.blocks * (taps * (1 if once else 2) + spec.bias)
    own += spec.multipliers * spec.chain_tiles
    if not spec.digits and chunk < window.in_blocks:
        return False
    sums = (max(2, spec.stored + 1) + spec.chain.accumulators) * pixels
    sums += spec.blocks * spec.operand_rows
    return (
        sums <= config.depth(Memory.ACC)
        and (2 * inputs + 2 * spec.stored * pixels + 1) <= config.depth(Memory.INP)
        and own <= config.depth(Memory.WGT)
        and taps * spec.blocks <= config.depth(Memory.UOP) // 2
    )


def _cycles(
    spec: RescaledSpec,
    tile: tuple[int, int, int],
    layer_blocks: int,
    config: HwConfig,
    cost: CostModel,
) -> int:
    rows, columns, chunk = tile
    window = spec.window
    turns = -(-window.output[0] // rows) * -(-window.output[1] // columns)
    pixels = spec.blocks * window.output[0] * window.output[1]
    chunks = -(-window.in_blocks // chunk)
    compute = pixels * _steps(spec, cost)
    parts = (*spec.chain.levels, *spec.chain.upper)
    levels = sum(1 + len(level.runs) + level.constants for level in parts)
    stairs = sum(_STAIR_INSTRUCTIONS + stair.tiles for stair in spec.chain.stairs)
    instructions = _FIXED_INSTRUCTIONS + chunks + levels + stairs + 3 * spec.stored
    compute += turns * instructions * cost.gemm_overhead
    loaded = window.loaded(rows, columns)
    groups = spec.blocks if spec.own_input else 1
    inputs = groups * window.in_blocks * loaded[0] * loaded[1]
    whole = groups * window.in_blocks * window.input[0] * window.input[1]
    stays = (
        not spec.own_input and layer_blocks > spec.blocks and whole * 2 < config.depth(Memory.INP)
    )
    padded = any(window.padding) and window.pad_value != 0
    loads = chunks * groups * (loaded[0] + 2 if padded else 1) + spec.blocks
    load = turns * (inputs * cost.inp_beats + loads * cost.load_overhead)
    if stays:
        load = load * spec.blocks // layer_blocks
    load += pixels * spec.stored * cost.inp_beats
    # Weights of chunks come anew in every turn, where other kernels' may have taken their places.
    own = spec.blocks * (window.taps + spec.bias) + spec.multipliers * spec.chain_tiles
    stay = chunks == 1 or (spec.blocks == layer_blocks and own <= config.depth(Memory.WGT))
    load += spec.blocks * window.taps * cost.wgt_beats * (1 if stay else turns)
    store = (spec.stored + 1) * (pixels * cost.store_tile + turns * cost.store_overhead)
    if chunks > 1:
        # A chunk goes into one half while the other is multiplied, and other turns' digits stand in
        # the way of the first: what a chunk's load takes longer than its sum, compute waits.
        part = groups * chunk * loaded[0] * loaded[1] * cost.inp_beats + cost.load_overhead
        sums = spec.blocks * rows * columns * window.taps * chunk // window.in_blocks
        compute += turns * (chunks - 1) * max(0, part - sums * cost.gemm_step)
    # What nothing hides, once in a layer: the first tile's way in and the last one's way out.
    tile_pixels = pixels // turns
    ramp = load // turns + tile_pixels * (cost.store_tile + spec.stored * cost.inp_beats) // 4
    return int(max(compute, load, store) + ramp * spec.blocks // layer_blocks)


def _steps(spec: RescaledSpec, cost: CostModel) -> int:
    """Cycles of the compute stage for one tile of output."""
    gemm, immediate = cost.gemm_step, cost.alu_step(False)
    tensor = cost.alu_step(True)
    total = (1 + spec.bias + spec.window.taps + spec.chain_tiles) * gemm
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
