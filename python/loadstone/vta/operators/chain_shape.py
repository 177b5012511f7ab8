# SPDX-License-Identifier: Apache-2.0
"""The chains of blocks that one kernel does: their common shape, and the weight tiles of each.

In:   DigitPlans of one kind (rescale/plan.py).
Out:  a ChainShape that has room for each of them; a block's tiles in the order of the shape.
Next: rescaled_layer.py.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import groupby

import numpy as np
from numpy.typing import NDArray

from loadstone.vta.rescale.levels import constant_steps
from loadstone.vta.rescale.proof import DigitPlan, Level, PartPlan
from loadstone.vta.rescale.runs import IntArray
from loadstone.vta.rescale.steps import BlockPlan
from loadstone.vta.schedule.rescaled_spec import ChainShape, LevelShape, StairShape

__all__ = ["chain_tiles", "common_shift", "digit_shape", "kind_of"]

Int8Array = NDArray[np.int8]


def common_shift(shifts: Sequence[IntArray]) -> int | None:
    """What all lanes of all blocks (lanes,) are shifted by; None where they differ."""
    values = {int(shift) for own in shifts for shift in own}
    return values.pop() if len(values) == 1 else None


def kind_of(plan: BlockPlan) -> tuple[object, ...]:
    """What plans of one kernel have in common: plans of one kind have one shape, so that no kernel
    does for all blocks what one of them needs."""
    if isinstance(plan, PartPlan):
        return ("parts", plan.exponents, common_shift([plan.shift]))
    levels = (*plan.chain.levels, *plan.chain.upper)
    shifts = tuple(level.shift for level in levels)
    even = common_shift([plan.chain.shift])
    split = (plan.digits, plan.signed, plan.clamped, plan.left, bool(plan.right.any()))
    lowest = len(levels[0].products)  # the third digit may have none there
    return (*split, shifts, even, lowest, *(stair.shape for stair in plan.chain.stairs))


def digit_shape(plans: Sequence[DigitPlan]) -> ChainShape:
    """The chain of several blocks: at each level what any of them needs."""
    chains = [plan.chain for plan in plans]
    stored, first = plans[0].stored, chains[0]
    levels = zip(*(chain.levels for chain in chains), strict=True)
    upper = zip(*(chain.upper for chain in chains), strict=True)
    stairs = zip(*(chain.stairs for chain in chains), strict=True)
    return ChainShape(
        tuple(_level_shape(own, stored) for own in levels),
        common_shift([chain.shift for chain in chains]),
        first.low,
        first.high,
        tuple(_level_shape(own, stored) for own in upper),
        tuple(
            StairShape(
                max(len(stair.constants) for stair in own),
                own[0].sign is not None,
                own[0].shifts,
                own[0].add,
                own[0].low,
                own[0].high,
            )
            for own in stairs
        ),
    )


def _level_shape(own: Sequence[Level], stored: int) -> LevelShape:
    """What any of the blocks needs at one level."""
    counts = [
        max(sum(number == digit for number, _ in level.products) for level in own)
        for digit in range(stored)
    ]
    runs = tuple(_runs_of_digits(counts))
    return LevelShape(own[0].shift, runs, max(len(level.constants) for level in own))


def _runs_of_digits(counts: Sequence[int]) -> Iterator[tuple[int, int]]:
    """Neighbouring digits (first, how many) with one weight tile each, until all have theirs."""
    for turn in range(max(counts, default=0)):
        digits = [digit for digit, count in enumerate(counts) if count > turn]
        for _, group in groupby(enumerate(digits), key=lambda entry: entry[1] - entry[0]):
            run = [digit for _, digit in group]
            yield run[0], len(run)


def chain_tiles(plan: DigitPlan, shape: ChainShape, block: int) -> Int8Array:
    """(tiles, block, block): the weight tiles of a block's chain, in the order of its shape."""
    tiles = np.zeros((shape.tiles, block, block), np.int8)
    at = 0
    levels = (*plan.chain.levels, *plan.chain.upper)
    for level, own in zip((*shape.levels, *shape.upper), levels, strict=True):
        _place_constants(tiles[at : at + level.constants], own.constants)
        at += level.constants
        left: dict[int, list[Int8Array]] = {}
        for digit, weights in own.products:
            left.setdefault(digit, []).append(weights)
        for first, count in level.runs:
            for digit in range(first, first + count):
                if left.get(digit):
                    _place_diagonal(tiles[at], left[digit].pop(0))
                at += 1
        assert not any(left.values()), "a product has no place in the shape"
    for stair, part in zip(shape.stairs, plan.chain.stairs, strict=True):
        _place_constants(tiles[at : at + stair.constants], part.constants)
        at += stair.constants
        if part.sign is not None:
            _place_diagonal(tiles[at], part.sign)
            at += 1
    return tiles


def _place_constants(tiles: Int8Array, values: Sequence[IntArray]) -> None:
    """The weight tiles (tiles, block, block) of constants (lanes,), one each."""
    for number, value in enumerate(values):
        for tile in constant_steps(value, tiles.shape[-1]):
            tiles[number, : len(value)] = tile


def _place_diagonal(tile: Int8Array, weights: Int8Array) -> None:
    diagonal = np.arange(len(weights))
    tile[diagonal, diagonal] = weights
