# SPDX-License-Identifier: Apache-2.0
"""The chains of blocks that one kernel computes: their common shape, and the weight tiles of each.

In:   DigitPlans of one kind (integers/plan.py).
Out:  a ChainShape that covers each of them; a block's tiles in the order of the shape.
Next: block_kinds.py.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import groupby

import numpy as np
from numpy.typing import NDArray

from loadstone.vta.integers.levels import constant_steps
from loadstone.vta.integers.proof import DigitPlan, Level, PartPlan
from loadstone.vta.integers.runs import IntArray
from loadstone.vta.integers.steps import BlockPlan
from loadstone.vta.schedule.rescaled_spec import ChainShape, LevelShape, StairShape

__all__ = ["chain_tiles", "common_shift", "digit_shape", "kind_of"]

Int8Array = NDArray[np.int8]
#: No digit.
_TAKEN = -1


def common_shift(shifts: Sequence[IntArray]) -> int | None:
    """The shift that all lanes of all blocks (lanes,) share; None where they differ."""
    values = {shift for own in shifts for shift in own.tolist()}
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
    """The common chain of several blocks: each level has the products and shifts that any of the
    blocks needs."""
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
    """The products and shifts that any of the blocks needs at one level."""
    orders = {tuple(number for number, _ in level.products) for level in own}
    counts = [max(order.count(digit) for order in orders) for digit in range(stored)]
    runs = tuple(_runs_of_digits(counts))
    return LevelShape(own[0].shift, runs, max(len(level.constants) for level in own))


def _runs_of_digits(counts: Sequence[int]) -> Iterator[tuple[int, int]]:
    """Neighbouring digits (first, how many) with one weight tile each, until all have theirs."""
    for turn in range(max(counts, default=0)):
        digits = [digit for digit, count in enumerate(counts) if count > turn]
        for _, group in groupby(enumerate(digits), key=lambda entry: entry[1] - entry[0]):
            run = [digit for _, digit in group]
            yield run[0], len(run)


def chain_tiles(plans: Sequence[DigitPlan], shape: ChainShape, block: int) -> Int8Array:
    """The weight tiles of each block's chain, (plans, tiles, block, block), in the order of the
    shape. Tiles that a block does not need are zero."""
    tiles = np.zeros((len(plans), shape.tiles, block, block), np.int8)
    at = 0
    levels = zip(*((*plan.chain.levels, *plan.chain.upper) for plan in plans), strict=True)
    for level, own in zip((*shape.levels, *shape.upper), levels, strict=True):
        _place_constants(tiles[:, at : at + level.constants], [x.constants for x in own])
        at += level.constants
        digits = [digit for first, count in level.runs for digit in range(first, first + count)]
        _place_products(tiles[:, at : at + len(digits)], digits, [x.products for x in own])
        at += len(digits)
    stairs = zip(*(plan.chain.stairs for plan in plans), strict=True)
    for stair, parts in zip(shape.stairs, stairs, strict=True):
        _place_constants(tiles[:, at : at + stair.constants], [x.constants for x in parts])
        at += stair.constants
        if stair.signed:
            signs = [() if x.sign is None else ((0, x.sign),) for x in parts]
            _place_products(tiles[:, at : at + 1], [0], signs)
            at += 1
    return tiles


def _place_constants(tiles: Int8Array, values: Sequence[Sequence[IntArray]]) -> None:
    """tiles: (plans, constants, block, block). values: of each plan (lanes,) each, which one
    product makes."""
    if not tiles.size:
        return
    lanes = np.zeros(tiles.shape[:3], np.int64)
    for own, constants in zip(lanes, values, strict=True):
        for row, value in zip(own, constants, strict=False):
            row[: len(value)] = value
    for steps in constant_steps(lanes.ravel(), tiles.shape[-1]):
        tiles[:] = steps.reshape(tiles.shape)


def _place_products(
    tiles: Int8Array, digits: Sequence[int], products: Sequence[Sequence[tuple[int, Int8Array]]]
) -> None:
    """tiles: (plans, digits, block, block). digits: which digit each multiplies. products: of each
    plan, as of a Level."""
    rows = np.zeros(tiles.shape[:3], np.int8)
    for own, pairs in zip(rows, products, strict=True):
        free = list(digits)
        for digit, weights in pairs:
            place = free.index(digit)
            free[place] = _TAKEN
            own[place, : len(weights)] = weights
    diagonal = np.arange(tiles.shape[-1])
    tiles[:, :, diagonal, diagonal] = rows
