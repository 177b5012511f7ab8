# SPDX-License-Identifier: Apache-2.0
"""Blocks of channels that one kernel can compute: their common form, and the tiles of each.

In:   the plans of a layer's blocks, its weights and biases.
Out:  `Kind`: a form of blocks, and the weight tiles of their chains and biases, computed together.
Next: rescaled_layer.py joins neighbours of a kind; operators/rescaled.py places the tiles.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from loadstone import graph as g
from loadstone.vta.integers.lanes import Lanes
from loadstone.vta.integers.levels import (
    constant_limit,
    constant_steps,
    split_constants,
    split_levels,
)
from loadstone.vta.integers.proof import DigitPlan, PartPlan
from loadstone.vta.integers.runs import IntArray
from loadstone.vta.integers.steps import BlockPlan
from loadstone.vta.operators import constants
from loadstone.vta.operators.chain_shape import chain_tiles, common_shift, digit_shape, kind_of
from loadstone.vta.schedule.rescaled_spec import ChainShape, LevelShape

__all__ = [
    "MOST_BIAS",
    "Form",
    "Kind",
    "biases_of",
    "digit_kind",
    "kinds_of",
    "last_shift",
    "part_levels",
]

Int8Array = NDArray[np.int8]
#: A tile that is added takes as long as so many products of constants.
MOST_BIAS = 2


@dataclass(frozen=True, eq=False)
class Form:
    """What blocks of one kind have in common: their chain, and how many weight tiles their biases
    take."""

    shape: ChainShape
    bias: int


@dataclass(frozen=True, eq=False)
class Kind:
    """Blocks of one form, by their numbers, ascending. chains, biases: (blocks, tiles, block,
    block) the weight tiles of their chains, and of their biases where these are products."""

    numbers: list[int]
    form: Form
    chains: Int8Array
    biases: Int8Array


def biases_of(plans: Sequence[BlockPlan], op: g.Weighted, block: int) -> IntArray:
    """(blocks, block) what is added to the sum of each lane, or to that times the multiplier. Lanes
    that belong to no channel, in whole blocks, are padded."""
    dead = np.concatenate([plan.dead for plan in plans])
    own = np.where(dead, 0, constants.folded_bias(op))
    biases = np.zeros(len(plans) * block, np.int64)
    for number, plan in enumerate(plans):
        lanes = slice(number * block, number * block + len(plan.dead))
        if isinstance(plan, PartPlan):
            biases[lanes] = own[lanes] * plan.multiplier + plan.constant
        else:
            biases[lanes] = own[lanes] + plan.offset
    return biases.reshape(-1, block)


def kinds_of(plans: Sequence[BlockPlan], biases: IntArray, op: g.Weighted) -> list[Kind]:
    """All blocks of a layer. biases: (blocks, block) of biases_of."""
    kinds: dict[tuple[object, ...], list[int]] = {}
    for number, plan in enumerate(plans):
        kinds.setdefault(kind_of(plan), []).append(number)
    result = []
    for numbers in kinds.values():
        own = [plans[number] for number in numbers]
        parts = [plan for plan in own if isinstance(plan, PartPlan)]
        if parts:
            levels = part_levels(plans, numbers, constants.centred_weights(op), biases.shape[1])
            result.append(_part_kind(numbers, parts, biases[numbers], levels))
        else:
            digits = [plan for plan in own if isinstance(plan, DigitPlan)]
            result.append(digit_kind(numbers, digits, biases[numbers]))
    return result


def digit_kind(numbers: list[int], plans: Sequence[DigitPlan], biases: IntArray) -> Kind:
    """Of blocks whose sums are split into digits. biases: (blocks, block) of these."""
    block = biases.shape[1]
    shape = digit_shape(plans)
    bias = -(-int(np.abs(biases).max()) // constant_limit(block))
    steps = constant_steps(biases.ravel(), block) if bias <= MOST_BIAS else []
    return Kind(
        numbers, Form(shape, bias), chain_tiles(plans, shape, block), _stacked(steps, biases)
    )


def _part_kind(
    numbers: list[int],
    plans: Sequence[PartPlan],
    biases: IntArray,
    parts: Sequence[Sequence[Int8Array]],
) -> Kind:
    """Of blocks whose weights are multiplied. biases: (blocks, block) of these. parts: of each
    level the parts of the weights."""
    first, block = plans[0], biases.shape[1]
    lanes = Lanes.of(range(len(plans)), block, biases.size)
    split = split_constants(biases.ravel(), lanes, first.exponents, block)
    added = [constant_steps(level, block) for level in split]
    levels, at, before = [], 0, 0
    for position, exponent in enumerate(first.exponents):
        # Constant channels alone: a part of zeros.
        count = max(len(parts[position]), int(position == 0))
        runs = ((at, count),) if count else ()
        levels.append(LevelShape(exponent - before, runs, len(added[position])))
        at, before = at + count, exponent
    shift = common_shift([plan.shift for plan in plans])
    shape = ChainShape(tuple(levels), shift, first.low, first.high)
    chains = _stacked([step for steps in added for step in steps], biases)
    return Kind(numbers, Form(shape, 0), chains, _stacked([], biases))


def _stacked(steps: Sequence[Int8Array], biases: IntArray) -> Int8Array:
    """(blocks, steps, block, block) of steps (lanes, block)."""
    blocks, block = biases.shape
    tiles = np.zeros((blocks, len(steps), block, block), np.int8)
    for number, step in enumerate(steps):
        tiles[:, number] = step.reshape(blocks, block, block)
    return tiles


def last_shift(plan: BlockPlan) -> IntArray:
    """(lanes,) what each lane is shifted by at the end."""
    return plan.shift if isinstance(plan, PartPlan) else plan.chain.shift


def part_levels(
    plans: Sequence[BlockPlan], numbers: Sequence[int], weights: IntArray, block: int
) -> list[list[Int8Array]]:
    """Of blocks of one kind whose weights are multiplied: for each level the parts of their
    weights, each of the shape (lanes, ...) of the weights. plans: of all blocks. weights: of the
    layer, as they are folded."""
    own = [plan for number in numbers if isinstance(plan := plans[number], PartPlan)]
    # Nothing is left of dead lanes.
    factor = np.concatenate([np.where(plan.dead, 0, plan.multiplier) for plan in own])
    lanes = [
        number * block + np.arange(len(plan.dead))
        for number, plan in zip(numbers, own, strict=True)
    ]
    product = weights[np.concatenate(lanes)] * factor.reshape(-1, *[1] * (weights.ndim - 1))
    exponents = own[0].exponents
    levels = split_levels(product, exponents)
    total: IntArray = np.zeros_like(product)
    for steps, exponent in zip(levels, exponents, strict=True):
        for step in steps:
            total += step.astype(np.int64) << exponent
    if not np.array_equal(total, product):
        raise AssertionError("the parts do not add up to the product")
    return levels
