# SPDX-License-Identifier: Apache-2.0
"""A layer of any scale in kernels: which blocks of channels go together, and what each kernel is.

In:   a convolution or dense layer, its shape in tiles; the plans of its blocks (layer_plans.py),
      and which of these are of one kind (block_kinds.py).
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
from loadstone.vta.device.hw_config import HwConfig
from loadstone.vta.integers.proof import PartPlan
from loadstone.vta.integers.steps import BlockPlan
from loadstone.vta.operators.block_kinds import MOST_BIAS, Form, Kind, biases_of, kinds_of
from loadstone.vta.operators.layer_plans import FEW_PIXELS, MANY_STEPS, layer_plans
from loadstone.vta.operators.request import LayerRequest
from loadstone.vta.schedule import rescaled_tile
from loadstone.vta.schedule.choices import LayerChoice
from loadstone.vta.schedule.conv import ConvSpec
from loadstone.vta.schedule.rescaled_spec import RescaledSpec, Window

__all__ = ["Blocks", "RescaledLayer", "cheapest_layer", "cycles"]

Int8Array = NDArray[np.int8]


@dataclass(frozen=True)
class Blocks:
    """Neighbouring blocks of one spec."""

    first: int
    plans: tuple[BlockPlan, ...]
    form: Form
    multipliers: int


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
        choice: LayerChoice,
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
        self.choice = choice
        self.plans = [plan for plan in plans if plan is not None]
        if not 0 < len(self.plans) == len(plans):
            raise AssertionError("the predicate refused it")
        self.biases = biases_of(self.plans, op, config.block)
        self._runs: Sequence[Blocks] | None = None
        self._kernels: dict[tuple[Form, int, int], _Kernel] = {}

    def sum_in(self, parts: int) -> None:
        """The weights that are left may be fewer int8 arrays than the operator's."""
        if parts != self.window.parts:
            self.window = replace(self.window, parts=parts)
            self._runs = None
            self._kernels.clear()

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
    def _kinds(self) -> list[Kind]:
        return kinds_of(self.plans, self.biases, self.op)

    @cached_property
    def _forms(self) -> list[Form]:
        """Of every block."""
        return [self._places[number][0].form for number in range(len(self.plans))]

    def _worth(self, count: int, least: int) -> bool:
        """Whether this many blocks together may be cheapest: for few pixels, or for all blocks of a
        window of several taps on several blocks of input, which is then loaded once."""
        window = self.spec.groups == 1 < min(self.spec.in_blocks, prod(self.spec.kernel))
        whole = window and count // 2 < len(self.plans) <= count
        return count == least or (count > least and (whole or count * self.pixels <= _MOST))

    def _cycles(self, runs: Sequence[Blocks]) -> int:
        """The cycles by the cost model; more than those of any other choice where a tile of this
        many blocks fits no scratchpad."""
        try:
            return sum(self._tiled(blocks).cycles for blocks in runs)
        except LoweringError:
            return 1 << 60

    def _joined(self, most: int) -> Iterator[Blocks]:
        """Runs of at most this many neighbouring blocks of one kind."""
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
    def _places(self) -> dict[int, tuple[Kind, int]]:
        """For every block its kind, and its position in it."""
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
            bias=0 if form.bias > MOST_BIAS else form.bias,
            left=plan.left,
            right=bool(plan.right.any()),
            digits=plan.digits,
            clamped=plan.clamped,
            signed=plan.signed,
            added=form.bias > MOST_BIAS,
        )


#: Sums of more steps are never made in parts.
_MOST_TAPS = 8
#: Output pixels of one tile, at least, where blocks of channels can be joined.
_PIXELS = 64
#: And at most, where the kernel does not do all blocks of a window.
_MOST = 512


def cheapest_layer(
    op: g.Weighted, spec: ConvSpec, config: HwConfig, request: LayerRequest
) -> RescaledLayer:
    """With the plans of the form that was chosen; else of each block the cheapest, or parts of
    weights in all where that is cheaper: kernels of several forms wait for each other, and digits
    for their way through memory. Raises LoweringError where a block has no form: of layers that the
    predicate (layer_plans.py) takes, with other columns in their channels."""
    choice = request.choice
    taps = spec.in_blocks * spec.kernel[0] * spec.kernel[1]
    # Loading the parts of weights costs more than it saves where there are few pixels.
    few = spec.output[0] * spec.output[1] < FEW_PIXELS
    steps = {"digits": MANY_STEPS, "parts": 1, None: MANY_STEPS if few else taps}
    plans = layer_plans(op, config, steps[choice.form], request.near)
    if plans is None or None in plans:
        raise LoweringError(f"requantize: no form is proven for {op.name}")
    layer = RescaledLayer(op, spec, config, plans, choice)
    if choice.form is not None or few or taps > _MOST_TAPS:
        return layer
    if all(isinstance(plan, PartPlan) for plan in plans):
        return layer
    parts = layer_plans(op, config, 1, request.near) or ()
    if not all(isinstance(plan, PartPlan) for plan in parts):
        return layer
    alike = RescaledLayer(op, spec, config, parts, choice)
    return alike if alike.cycles() < layer.cycles() else layer


def cycles(op: g.Weighted, spec: ConvSpec, config: HwConfig, near: bool) -> int:
    """What the cost model says of a layer by itself. Raises LoweringError as cheapest_layer."""
    return cheapest_layer(op, spec, config, LayerRequest(near=near)).cycles()
