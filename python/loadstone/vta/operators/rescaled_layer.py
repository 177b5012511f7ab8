# SPDX-License-Identifier: Apache-2.0
"""A layer of any scale in kernels: which blocks of channels go together, and what each kernel is.

In:   a convolution or dense layer, its shape in tiles; the plans of its blocks (layer_plans.py).
Out:  `RescaledLayer`: groups of blocks with their specs, weight tiles of chains.
Next: operators/rescaled.py makes constants and operations of it.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
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
from loadstone.vta.rescale.lanes import Lanes
from loadstone.vta.rescale.levels import (
    constant_limit,
    constant_steps,
    split_constants,
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
    "Form",
    "RescaledLayer",
    "cheapest_layer",
    "cycles",
    "last_shift",
    "part_levels",
]

Int8Array = NDArray[np.int8]


@dataclass(frozen=True, eq=False)
class Form:
    """What blocks of one kind have in common: their chain, and how many weight tiles their biases
    take."""

    shape: ChainShape
    bias: int


@dataclass(frozen=True)
class Blocks:
    """Neighbouring blocks of one spec."""

    first: int
    plans: tuple[BlockPlan, ...]
    form: Form
    multipliers: int


@dataclass(frozen=True, eq=False)
class _Kind:
    """Blocks of one form, by their numbers, ascending. chains, biases: (blocks, tiles, block,
    block) the weight tiles of their chains, and of their biases where these are products."""

    numbers: list[int]
    form: Form
    chains: Int8Array
    biases: Int8Array


@dataclass(frozen=True)
class _Kernel:
    """The spec of some blocks; cycles: with the tile that the cost model takes."""

    spec: RescaledSpec
    cycles: int


class RescaledLayer:
    """One layer in tiles: what each kernel needs to know, and the constants of all."""

    def __init__(
        self,
        op: g.Weighted,
        spec: ConvSpec,
        config: HwConfig,
        plans: Sequence[BlockPlan | None],
    ) -> None:
        """plans: of every block; cheapest_layer chooses them."""
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
        self.plans = [plan for plan in plans if plan is not None]
        assert 0 < len(self.plans) == len(plans), "the predicate refused it"
        self.biases = self._biases()
        self._runs: Sequence[Blocks] | None = None
        self._kernels: dict[tuple[Form, int, int], _Kernel] = {}

    def sum_in(self, parts: int) -> None:
        """The weights that are left may be fewer int8 arrays than the operator's."""
        if parts != self.window.parts:
            self.window = replace(self.window, parts=parts)
            self._runs = None
            self._kernels.clear()

    def _biases(self) -> IntArray:
        """(blocks, block) what is added to the sum of each lane, or to that times the multiplier.
        Lanes that belong to no channel, in whole blocks, are padded."""
        plans, block = self.plans, self.config.block
        dead = np.concatenate([plan.dead for plan in plans])
        own = np.where(dead, 0, constants.folded_bias(self.op))
        biases = np.zeros(len(plans) * block, np.int64)
        first = 0
        for plan in plans:
            lanes = slice(first, first + len(plan.dead))
            if isinstance(plan, PartPlan):
                biases[lanes] = own[lanes] * plan.multiplier + plan.constant
            else:
                biases[lanes] = own[lanes] + plan.offset
            first += block
        return biases.reshape(-1, block)

    def runs_of_blocks(self) -> Sequence[Blocks]:
        """Neighbouring blocks that one kernel can do: as many as the cost model says, where a tile
        has few pixels. Blocks of one kind have one shape, so that few kernels are lowered."""
        if self._runs is None:
            least = max(1, _PIXELS // self.pixels)
            counts = [n for n in (least, 2, 4, 8) if self._worth(n, least)]
            if self.spec.out_blocks > 1 and self.spec.groups > 1:
                counts = [1]
            elif self.choice.joined:
                counts = [self.choice.joined]
            choices = [list(self._joined(most)) for most in counts]
            self._runs = min(choices, key=self._cycles) if len(choices) > 1 else choices[0]
        return self._runs

    @cached_property
    def weights(self) -> IntArray:
        """(O, ..., I): of the operator, less their zero points; every block takes some."""
        return constants.centred_weights(self.op)

    @cached_property
    def _kinds(self) -> list[_Kind]:
        """Blocks of one kind have one form."""
        kinds: dict[tuple[object, ...], list[int]] = {}
        for number, plan in enumerate(self.plans):
            kinds.setdefault(kind_of(plan), []).append(number)
        return [self._kind(numbers) for numbers in kinds.values()]

    @cached_property
    def _forms(self) -> list[Form]:
        """Of every block."""
        return [self._places[number][0].form for number in range(len(self.plans))]

    def _worth(self, count: int, least: int) -> bool:
        """Whether so many blocks may be cheapest together: few pixels, or all blocks of a window of
        several taps on several blocks of input, which then comes in once."""
        window = self.spec.groups == 1 < min(self.spec.in_blocks, prod(self.spec.kernel))
        whole = window and count // 2 < len(self.plans) <= count
        return count == least or (count > least and (whole or count * self.pixels <= _MOST))

    def _cycles(self, runs: Sequence[Blocks]) -> int:
        """What the cost model says; where a tile of so many blocks fits no scratchpad, too many."""
        try:
            return sum(self._tiled(blocks).cycles for blocks in runs)
        except LoweringError:
            return 1 << 60

    def _joined(self, most: int) -> Iterator[Blocks]:
        """Runs of at most so many neighbouring blocks of one kind."""
        first = 0
        for form, group in groupby(self._forms):
            plans = self.plans[first : first + len(list(group))]
            while most > 1 and not self._has_room(Blocks(first, tuple(plans[:most]), form, most)):
                most = -(-most // 2)
            for at in range(0, len(plans), most):
                part = tuple(plans[at : at + most])
                shared = self._turns[first] == self._turns[first + len(part) - 1]
                yield Blocks(first, part, form, 1 if shared else len(part))
                first += len(part)

    @cached_property
    def _turns(self) -> list[int]:
        """Of each block, how many blocks up to it have another chain than the one before them, or
        another form."""
        changes = np.ones(len(self.plans), np.bool_)
        for kind in self._kinds:
            same = (kind.chains[1:] == kind.chains[:-1]).all(axis=(1, 2, 3))
            numbers = np.array(kind.numbers)
            changes[numbers[1:][same & (np.diff(numbers) == 1)]] = False
        turns: list[int] = np.cumsum(changes).tolist()
        return turns

    def _has_room(self, blocks: Blocks) -> bool:
        """Whether their weights, biases and chains fit the scratchpads together."""
        try:
            self.kernel(blocks)
        except LoweringError:
            return False
        return True

    def _kind(self, numbers: list[int]) -> _Kind:
        """Of some blocks the chain that they share, and the weight tiles of each."""
        block, plans = self.config.block, [self.plans[number] for number in numbers]
        digits = [plan for plan in plans if isinstance(plan, DigitPlan)]
        if digits:
            shape = digit_shape(digits)
            own = self.biases[numbers]
            bias = -(-int(np.abs(own).max()) // constant_limit(block))
            steps = constant_steps(own.ravel(), block) if bias <= _BIAS_STEPS else []
            chains = chain_tiles(digits, shape, block)
            return _Kind(numbers, Form(shape, bias), chains, self._stacked(len(numbers), steps))
        plan = plans[0]
        assert isinstance(plan, PartPlan)
        added = self._part_constants(numbers, plan.exponents)
        levels, first, before = [], 0, 0
        parts = part_levels(self, numbers)
        for position, exponent in enumerate(plan.exponents):
            # Constant channels alone: a part of zeros.
            count = max(len(parts[position]), int(position == 0))
            runs = ((first, count),) if count else ()
            levels.append(LevelShape(exponent - before, runs, len(added[position])))
            first, before = first + count, exponent
        shift = common_shift([last_shift(plan) for plan in plans])
        shape = ChainShape(tuple(levels), shift, plan.low, plan.high)
        chains = self._stacked(len(numbers), [tile for own in added for tile in own])
        return _Kind(numbers, Form(shape, 0), chains, self._stacked(len(numbers), []))

    def _part_constants(
        self, numbers: Sequence[int], exponents: tuple[int, ...]
    ) -> list[list[Int8Array]]:
        """Of blocks whose weights are multiplied: for each level the weight tiles of what is added,
        each (lanes, block)."""
        block, count = self.config.block, len(numbers)
        lanes = Lanes.of(range(count), block, count * block)
        split = split_constants(self.biases[numbers].ravel(), lanes, exponents, block)
        return [constant_steps(level, block) for level in split]

    def _stacked(self, blocks: int, steps: Sequence[Int8Array]) -> Int8Array:
        """(blocks, steps, block, block) of steps (lanes, block)."""
        block = self.config.block
        tiles = np.zeros((blocks, len(steps), block, block), np.int8)
        for number, step in enumerate(steps):
            tiles[:, number] = step.reshape(blocks, block, block)
        return tiles

    def chain_tiles(self, number: int) -> Int8Array:
        """(tiles, block, block): the weight tiles of a block's chain, in the order of its shape."""
        kind, place = self._places[number]
        tiles: Int8Array = kind.chains[place]
        return tiles

    def bias_tiles(self, number: int) -> Int8Array:
        """(tiles, block, block): the weight tiles of a block's biases, as many as its form says;
        none where they are added."""
        kind, place = self._places[number]
        tiles: Int8Array = kind.biases[place]
        return tiles

    @cached_property
    def _places(self) -> dict[int, tuple[_Kind, int]]:
        """Of every block, its kind, and where it stands there."""
        return {
            number: (kind, place)
            for kind in self._kinds
            for place, number in enumerate(kind.numbers)
        }

    def kernel(self, blocks: Blocks) -> RescaledSpec:
        """The spec of some blocks, with the cheapest tile or the one that was chosen."""
        return self._tiled(blocks).spec

    def cycles(self) -> int:
        """What the cost model says of all blocks and samples."""
        return self.spec.samples * sum(
            self._tiled(blocks).cycles for blocks in self.runs_of_blocks()
        )

    def _tiled(self, blocks: Blocks) -> _Kernel:
        """Raises LoweringError where no tile fits."""
        key = (blocks.form, len(blocks.plans), blocks.multipliers)
        if key not in self._kernels:
            spec = self._open(blocks)
            cheapest = rescaled_tile.choose(spec, self.count, self.config)
            tile = cheapest.tile
            if self.choice.tile is not None:
                tile = rescaled_tile.choose(spec, self.count, self.config, self.choice.tile).tile
            self._kernels[key] = _Kernel(replace(spec, tile=tile), cheapest.cycles)
        return self._kernels[key]

    def _open(self, blocks: Blocks) -> RescaledSpec:
        """The spec of some blocks before it has a tile."""
        plan, form = blocks.plans[0], blocks.form
        spec = RescaledSpec(
            window=self.window,
            blocks=len(blocks.plans),
            own_input=self.own_input,
            tile=(1, 1, 1),
            bias=0,
            left=0,
            right=False,
            digits=0,
            clamped=False,
            signed=False,
            chain=form.shape,
            multipliers=blocks.multipliers,
        )
        if isinstance(plan, PartPlan):
            parts = sum(count for level in form.shape.levels for _, count in level.runs)
            return replace(spec, window=replace(self.window, parts=parts))
        return replace(
            spec,
            bias=0 if form.bias > _BIAS_STEPS else form.bias,
            left=plan.left,
            right=bool(plan.right.any()),
            digits=plan.digits,
            clamped=plan.clamped,
            signed=plan.signed,
            added=form.bias > _BIAS_STEPS,
        )


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
    layer: RescaledLayer, numbers: Sequence[int], weights: IntArray | None = None
) -> list[list[Int8Array]]:
    """Of blocks of one kind whose weights are multiplied: for each level the parts of their
    weights, each of the shape (lanes, ...) of the weights. weights: of the layer, as they are
    folded."""
    block = layer.config.block
    weights = layer.weights if weights is None else weights
    plans = [plan for number in numbers if isinstance(plan := layer.plans[number], PartPlan)]
    # Nothing is left of dead lanes.
    factor = np.concatenate([np.where(plan.dead, 0, plan.multiplier) for plan in plans])
    lanes = [
        number * block + np.arange(len(plan.dead))
        for number, plan in zip(numbers, plans, strict=True)
    ]
    channels = np.concatenate(lanes)
    product = weights[channels] * factor.reshape(-1, *[1] * (weights.ndim - 1))
    exponents = plans[0].exponents
    levels = split_levels(product, exponents)
    total: IntArray = np.zeros_like(product)
    for steps, exponent in zip(levels, exponents, strict=True):
        for step in steps:
            total += step.astype(np.int64) << exponent
    assert np.array_equal(total, product), "the parts add up to the product"
    return levels


def cheapest_layer(op: g.Weighted, spec: ConvSpec, config: HwConfig) -> RescaledLayer:
    """With the plans of the form that was chosen; else of each block the cheapest, or parts of
    weights in all where that is cheaper: kernels of several forms wait for each other, and digits
    for their way through memory."""
    choice = current_layer()
    taps = spec.in_blocks * spec.kernel[0] * spec.kernel[1]
    # Loading the parts of weights costs more than it saves where there are few pixels.
    few = spec.output[0] * spec.output[1] < FEW_PIXELS
    steps = {"digits": MANY_STEPS, "parts": 1, None: MANY_STEPS if few else taps}
    plans = layer_plans(op, config, steps[choice.form]) or ()
    layer = RescaledLayer(op, spec, config, plans)
    if choice.form is not None or few or taps > _MOST_TAPS:
        return layer
    if all(isinstance(plan, PartPlan) for plan in plans):
        return layer
    parts = layer_plans(op, config, 1) or ()
    if not all(isinstance(plan, PartPlan) for plan in parts):
        return layer
    alike = RescaledLayer(op, spec, config, parts)
    return alike if alike.cycles() < layer.cycles() else layer


def cycles(op: g.Weighted, spec: ConvSpec, config: HwConfig) -> int:
    """What the cost model says of a layer."""
    return cheapest_layer(op, spec, config).cycles()
