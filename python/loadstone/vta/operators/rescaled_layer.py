# SPDX-License-Identifier: Apache-2.0
"""A layer of any scale in kernels: which blocks of channels go together, and what each kernel is.

In:   a convolution or dense layer, its shape in tiles; the plans of its blocks (layer_plans.py).
Out:  `RescaledLayer`: groups of blocks with their specs, weight tiles of chains.
Next: operators/rescaled.py makes constants and operations of it.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import groupby
from math import prod

import numpy as np
from numpy.typing import NDArray

from loadstone import graph as g
from loadstone.errors import LoweringError
from loadstone.vta import constants
from loadstone.vta.choices import current_layer
from loadstone.vta.hw_config import HwConfig
from loadstone.vta.operators.chain_shape import chain_tiles, common_shift, digit_shape, kind_of
from loadstone.vta.operators.layer_plans import FEW_PIXELS, MANY_STEPS, layer_plans
from loadstone.vta.rescale.levels import (
    constant_parts,
    constant_steps,
    split_constant,
    split_levels,
)
from loadstone.vta.rescale.proof import DigitPlan, PartPlan
from loadstone.vta.rescale.runs import IntArray
from loadstone.vta.rescale.steps import BlockPlan
from loadstone.vta.schedule import rescaled_tile
from loadstone.vta.schedule.conv import ConvSpec
from loadstone.vta.schedule.rescaled_spec import ChainShape, LevelShape, RescaledSpec, Window

__all__ = [
    "Blocks",
    "RescaledLayer",
    "cycles",
    "last_shift",
    "part_levels",
]

Int8Array = NDArray[np.int8]


@dataclass(frozen=True)
class Blocks:
    """Neighbouring blocks of one spec."""

    first: int
    plans: tuple[BlockPlan, ...]
    shape: ChainShape
    bias: int
    multipliers: int


class RescaledLayer:
    """One layer in tiles: what each kernel needs to know, and the constants of all."""

    def __init__(
        self,
        op: g.Weighted,
        spec: ConvSpec,
        config: HwConfig,
        plans: Sequence[BlockPlan | None] | None = None,
    ) -> None:
        """plans: of every block; None: the cheapest."""
        self.op, self.spec, self.config = op, spec, config
        self.window = Window(
            spec.in_blocks,
            spec.parts,
            spec.input,
            spec.output,
            spec.kernel,
            spec.strides,
            spec.dilation,
            spec.padding,
            spec.pad_value,
        )
        self.own_input = spec.groups > 1 and spec.out_blocks == 1
        self.count = spec.groups * spec.out_blocks
        self.pixels = spec.output[0] * spec.output[1]
        self.choice = current_layer()
        plans = plans or self._cheapest_plans()
        self.plans = [plan for plan in plans if plan is not None]
        assert 0 < len(self.plans) == len(plans), "the predicate refused it"
        # Lanes that belong to no channel, in whole blocks: the output is padded to them.
        folded = constants.folded_bias(op)
        self._runs: Sequence[Blocks] | None = None
        self.biases = [self._bias(number, folded) for number in range(len(self.plans))]
        self._chains: dict[tuple[int, ChainShape], Int8Array] = {}

    def _cheapest_plans(self) -> Sequence[BlockPlan | None]:
        """Those of the form that was chosen; else of each block the cheapest, or parts of weights
        in all where that is cheaper: kernels of several forms wait for each other, and digits for
        their way through memory."""
        op, spec, config = self.op, self.spec, self.config
        taps = spec.in_blocks * spec.kernel[0] * spec.kernel[1]
        few = self.pixels < FEW_PIXELS  # loading the parts of weights costs more than it saves
        steps = {"digits": MANY_STEPS, "parts": 1, None: MANY_STEPS if few else taps}
        plans = layer_plans(op, config, steps[self.choice.form]) or ()
        if self.choice.form is not None or few or taps > _MOST_TAPS:
            return plans
        if all(isinstance(plan, PartPlan) for plan in plans):
            return plans
        parts = layer_plans(op, config, 1) or ()
        if not all(isinstance(plan, PartPlan) for plan in parts):
            return plans
        apart, alike = (RescaledLayer(op, spec, config, each).cycles() for each in (plans, parts))
        return parts if alike < apart else plans

    def _bias(self, number: int, folded: IntArray) -> IntArray:
        """(block,) what is added to the sum of each lane, or to that times the multiplier."""
        block, plan = self.config.block, self.plans[number]
        bias = np.zeros(block, np.int64)
        lanes = len(plan.dead)
        own = np.where(plan.dead, 0, folded[number * block : number * block + lanes])
        if isinstance(plan, PartPlan):
            bias[:lanes] = own * plan.multiplier + plan.constant
        else:
            bias[:lanes] = own + plan.offset
        return bias

    def runs_of_blocks(self) -> Sequence[Blocks]:
        """Neighbouring blocks that one kernel can do: as many as the cost model says, where a tile
        has few pixels. Blocks of one kind have one shape, so that few kernels are lowered."""
        if self._runs is None:
            kinds: dict[tuple[object, ...], list[int]] = {}
            for number, plan in enumerate(self.plans):
                kinds.setdefault(kind_of(plan), []).append(number)
            shapes = {kind: self._shape(numbers) for kind, numbers in kinds.items()}
            least = max(1, _PIXELS // self.pixels)
            counts = [n for n in (least, 2, 4, 8) if self._worth(n, least)]
            if self.spec.out_blocks > 1 and self.spec.groups > 1:
                counts = [1]
            elif self.choice.joined:
                counts = [self.choice.joined]
            choices = [list(self._joined(shapes, most)) for most in counts]
            self._runs = min(choices, key=self._cycles) if len(choices) > 1 else choices[0]
        return self._runs

    def _worth(self, count: int, least: int) -> bool:
        """Whether so many blocks may be cheapest together: few pixels, or all blocks of a window of
        several taps on several blocks of input, which then comes in once."""
        window = self.spec.groups == 1 < min(self.spec.in_blocks, prod(self.spec.kernel))
        whole = window and count // 2 < len(self.plans) <= count
        return count == least or (count > least and (whole or count * self.pixels <= _MOST))

    def _cycles(self, runs: Sequence[Blocks]) -> int:
        """What the cost model says; where a tile of so many blocks fits no scratchpad, too many."""
        try:
            return sum(
                rescaled_tile.choose(self.kernel(blocks), self.count, self.config).cycles
                for blocks in runs
            )
        except LoweringError:
            return 1 << 60

    def _joined(
        self, shapes: dict[tuple[object, ...], tuple[ChainShape, int]], most: int
    ) -> Iterator[Blocks]:
        """Runs of at most so many neighbouring blocks of one kind."""
        first = 0
        for kind, group in groupby(self.plans, key=kind_of):
            plans = list(group)
            shape, bias = shapes[kind]
            while most > 1 and not self._has_room(
                Blocks(first, tuple(plans[:most]), shape, bias, most)
            ):
                most = -(-most // 2)
            for at in range(0, len(plans), most):
                part = tuple(plans[at : at + most])
                tiles = [self.chain_tiles(first + n, shape) for n in range(len(part))]
                shared = all(np.array_equal(tiles[0], other) for other in tiles[1:])
                yield Blocks(first, part, shape, bias, 1 if shared else len(part))
                first += len(part)

    def _has_room(self, blocks: Blocks) -> bool:
        """Whether their weights, biases and chains fit the scratchpads together."""
        try:
            self.kernel(blocks)
        except LoweringError:
            return False
        return True

    def _shape(self, numbers: Sequence[int]) -> tuple[ChainShape, int]:
        """The chain that some blocks share, and how many weight tiles their biases take."""
        block = self.config.block
        digits = [plan for n in numbers if isinstance(plan := self.plans[n], DigitPlan)]
        if digits:
            steps = (len(constant_parts(self.biases[n], block)) for n in numbers)
            return digit_shape(digits), max(steps)
        parts = [part_levels(self, number) for number in numbers]
        constants_of = [self.part_constants(number) for number in numbers]
        plan = self.plans[numbers[0]]
        assert isinstance(plan, PartPlan)
        levels, first = [], 0
        for position, exponent in enumerate(plan.exponents):
            count = max(len(own[position]) for own in parts)
            count = max(count, int(position == 0))  # of constant channels: a part of zeros
            levels.append(
                LevelShape(
                    exponent - (plan.exponents[position - 1] if position else 0),
                    ((first, count),) if count else (),
                    max(len(own[position]) for own in constants_of),
                )
            )
            first += count
        shift = common_shift([last_shift(self.plans[n]) for n in numbers])
        return ChainShape(tuple(levels), shift, plan.low, plan.high), 0

    def part_constants(self, number: int) -> list[list[Int8Array]]:
        """Of a block whose weights are multiplied: for each level the weight tiles of what is
        added, each (block, block)."""
        plan, block = self.plans[number], self.config.block
        assert isinstance(plan, PartPlan)
        split = split_constant(self.biases[number], plan.exponents, block)
        return [[] if level is None else constant_steps(level, block) for level in split]

    def chain_tiles(self, number: int, shape: ChainShape) -> Int8Array:
        """(tiles, block, block): the weight tiles of a block's chain, in the order of its shape."""
        if (number, shape) not in self._chains:
            self._chains[number, shape] = self._made_chain(number, shape)
        return self._chains[number, shape]

    def _made_chain(self, number: int, shape: ChainShape) -> Int8Array:
        plan, block = self.plans[number], self.config.block
        if isinstance(plan, DigitPlan):
            return chain_tiles(plan, shape, block)
        tiles = np.zeros((sum(x.constants for x in shape.levels), block, block), np.int8)
        at = 0
        for level, own in zip(shape.levels, self.part_constants(number), strict=True):
            for step, tile in enumerate(own):
                tiles[at + step] = tile
            at += level.constants
        return tiles

    def kernel(self, blocks: Blocks) -> RescaledSpec:
        """The spec of some blocks, with the cheapest tile."""
        plan = blocks.plans[0]
        if isinstance(plan, PartPlan):
            return self._part_kernel(blocks)
        spec = RescaledSpec(
            window=self.window,
            blocks=len(blocks.plans),
            own_input=self.own_input,
            tile=(1, 1, 1),
            bias=0 if blocks.bias > _BIAS_STEPS else blocks.bias,
            left=plan.left,
            right=bool(plan.right.any()),
            digits=plan.digits,
            clamped=plan.clamped,
            signed=plan.signed,
            chain=blocks.shape,
            multipliers=blocks.multipliers,
            added=blocks.bias > _BIAS_STEPS,
        )
        return self._tiled(spec)

    def _part_kernel(self, blocks: Blocks) -> RescaledSpec:
        parts = sum(count for level in blocks.shape.levels for _, count in level.runs)
        spec = RescaledSpec(
            window=replace(self.window, parts=parts),
            blocks=len(blocks.plans),
            own_input=self.own_input,
            tile=(1, 1, 1),
            bias=0,
            left=0,
            right=False,
            digits=0,
            clamped=False,
            signed=False,
            chain=blocks.shape,
            multipliers=blocks.multipliers,
        )
        return self._tiled(spec)

    def cycles(self) -> int:
        """What the cost model says of all blocks and samples."""
        return self.spec.samples * sum(
            rescaled_tile.choose(self.kernel(blocks), self.count, self.config).cycles
            for blocks in self.runs_of_blocks()
        )

    def _tiled(self, spec: RescaledSpec) -> RescaledSpec:
        found = rescaled_tile.choose(spec, self.count, self.config, self.choice.tile)
        return replace(spec, tile=found.tile)


#: Sums of more steps are never made in parts.
_MOST_TAPS = 8
#: A tile that is added takes as long as so many products of constants.
_BIAS_STEPS = 2
#: Output pixels of one tile, at least, where blocks of channels can be joined.
_PIXELS = 64
#: And at most, where the kernel does not do all blocks of a window.
_MOST = 512


def last_shift(plan: BlockPlan) -> IntArray:
    """(lanes,) what each lane is shifted by at the end."""
    return plan.shift if isinstance(plan, PartPlan) else plan.chain.shift


def part_levels(
    layer: RescaledLayer, number: int, weights: IntArray | None = None
) -> list[list[Int8Array]]:
    """Of a block whose weights are multiplied: for each level the parts of its weights, each of
    the shape (lanes, ...) of the weights. weights: of the layer, as they are folded."""
    plan, block = layer.plans[number], layer.config.block
    assert isinstance(plan, PartPlan)
    lanes = len(plan.dead)
    weights = constants.centred_weights(layer.op) if weights is None else weights
    own = weights[number * block : number * block + lanes]
    own = np.where(plan.dead.reshape(-1, *[1] * (own.ndim - 1)), 0, own)
    product = own * plan.multiplier.reshape(-1, *[1] * (own.ndim - 1))
    levels = split_levels(product.ravel(), plan.exponents)
    total: IntArray = np.zeros_like(product.ravel())
    for steps, exponent in zip(levels, plan.exponents, strict=True):
        for step in steps:
            total = total + (step.astype(np.int64) << exponent)
    assert np.array_equal(total, product.ravel()), "the parts add up to the product"
    return [[step.reshape(own.shape) for step in steps] for steps in levels]


def cycles(op: g.Weighted, spec: ConvSpec, config: HwConfig) -> int:
    """What the cost model says of a layer."""
    return RescaledLayer(op, spec, config).cycles()
