# SPDX-License-Identifier: Apache-2.0
"""Tile sizes and loop order of a sum over weights, by a small cost model of the device.

In:   the loops of a convolution in tiles and pixels (`WeightedNest`), and a HwConfig.
Out:  `Tiling`: the tile of every loop, and which loops are outermost.
Next: schedule/conv.py splits the loops accordingly; tilings.py and plane_cost.py estimate.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache

import numpy as np
from numpy.typing import NDArray

from loadstone.errors import LoweringError
from loadstone.vta.device.hw_config import HwConfig
from loadstone.vta.isa.spec import Memory
from loadstone.vta.schedule.plane_cost import PlaneTilings
from loadstone.vta.schedule.tilings import (
    OPERANDS_SHARE,
    EdgeWork,
    Tiling,
    Tilings,
    WeightedNest,
    totals_of,
)
from loadstone.vta.stream.cost import CostModel, cost_model

__all__ = ["OPERANDS_SHARE", "EdgeWork", "Tiling", "WeightedNest", "cheapest", "choose", "given"]

#: Dearer than any tiling.
_REFUSED = 1 << 50
#: How much longer a tiling should take of which only one set fits.
_ONCE = 1.3


def choose(nest: WeightedNest, config: HwConfig) -> Tiling:
    """The cheapest tiling. Raises LoweringError where not even single tiles fit the scratchpads."""
    return _choose(nest, config, cost_model(config))


def given(nest: WeightedNest, sizes: Sequence[int], order: str, config: HwConfig) -> Tiling:
    """The tiling of these sizes, in the order of `Tiling`. order: "pixels" or "channels", which
    are outermost. Raises LoweringError where it does not fit."""
    totals = totals_of(nest)
    outer = [int(order == "pixels")]
    if len(sizes) == len(totals) and all(1 <= x <= n for x, n in zip(sizes, totals, strict=True)):
        axes = [*([size] for size in sizes), outer]
        one = _candidates(nest, config, cost_model(config), axes)
        if one.fits(1)[0]:
            return one.tiling(0)
    raise LoweringError(
        f"tile: {list(sizes)} of {list(totals)} (samples, groups, output blocks, input blocks, "
        f"rows, columns) fits no scratchpad of {config.name}"
    )


def cheapest(nest: WeightedNest, config: HwConfig, most: int) -> list[Tiling]:
    """The tilings that should take least, in this order. One that fits its scratchpads but once
    counts more: nothing is loaded beside it."""
    candidates = _candidates(nest, config, cost_model(config))
    dearer = np.where(candidates.fits(2), 1.0, _ONCE)
    cycles = np.where(candidates.fits(1), candidates.cycles() * dearer, _REFUSED)
    order = np.argsort(cycles, kind="stable")[:most]
    return [candidates.tiling(int(k)) for k in order if cycles[k] < _REFUSED]


@lru_cache(maxsize=4096)
def _choose(nest: WeightedNest, config: HwConfig, cost: CostModel) -> Tiling:
    candidates = _candidates(nest, config, cost)
    for sets in (2, 1):
        fits = candidates.fits(sets)
        if fits.any():
            return candidates.tiling(int(np.argmin(np.where(fits, candidates.cycles(), _REFUSED))))
    raise LoweringError(
        f"tile: one pixel of {nest.window[0]}x{nest.window[1]} taps fits no scratchpad of "
        f"{config.name} "
        f"(INP {config.depth(Memory.INP)}, WGT {config.depth(Memory.WGT)}, ACC "
        f"{config.depth(Memory.ACC)} tiles, "
        f"UOP {config.depth(Memory.UOP)} micro-ops)"
    )


def _candidates(
    nest: WeightedNest,
    config: HwConfig,
    cost: CostModel,
    axes: Sequence[Sequence[int] | NDArray[np.int64]] | None = None,
) -> Tilings:
    kind = PlaneTilings if nest.planes > 1 or nest.whole else Tilings
    return kind(nest, config, cost, axes)
