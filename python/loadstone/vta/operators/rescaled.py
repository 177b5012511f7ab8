"""Convolutions and dense layers of any scale on a device without RQ.

In:   a convolution or dense layer, its shape in tiles, its weights.
Out:  LoweredOperator, with a scratch tensor for the digits.
Next: weighted.py decides between this and shifts.

The plan of each block of channels (rescale/plan.py) is already proven; here it becomes constants
and a spec, and the kernels of all blocks run side by side (slots.py).
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from functools import lru_cache
from itertools import groupby

import numpy as np
from numpy.typing import NDArray

from loadstone import graph as g
from loadstone.backend.interface import Refusal
from loadstone.numerics import Array
from loadstone.vta import constants
from loadstone.vta.hw_config import HwConfig
from loadstone.vta.isa.spec import Memory
from loadstone.vta.lower import Kernel
from loadstone.vta.operators.kernels import LoweredOperator, emit
from loadstone.vta.operators.slots import Slot, interleaved, slots_of
from loadstone.vta.rescale.levels import (
    constant_steps,
    constant_tile,
    split_constant,
    split_levels,
)
from loadstone.vta.rescale.plan import BlockPlan, block_plans
from loadstone.vta.rescale.proof import DigitPlan, PartPlan
from loadstone.vta.rescale.runs import IntArray, Runs, runs_of
from loadstone.vta.schedule import rescaled_tile
from loadstone.vta.schedule.conv import ConvSpec
from loadstone.vta.schedule.rescaled import ChainShape, LevelShape, RescaledSpec, Window
from loadstone.vta.stream import DramTile

__all__ = ["cycles", "lower", "refusal"]

#: The input tile from which weight tiles make constants; one for all operators.
CONSTANT = "constant"
_RQ = "a device with the capability requantize"
Int8Array = NDArray[np.int8]


def refusal(op: g.Weighted, config: HwConfig) -> Refusal | None:
    """Why no form is proven; None where every block has one."""
    plans = layer_plans(op, config, 1)
    if plans is None:
        return Refusal("sums of its output channels can leave 32 bits", _RQ)
    for number, plan in enumerate(plans):
        if plan is None:
            return Refusal(
                f"no product of digits is proven to give its {op.rounding.name.lower()} rounding "
                f"in channels {number * config.block} to {(number + 1) * config.block - 1}",
                _RQ,
            )
    return None


def layer_plans(
    op: g.Weighted, config: HwConfig, sum_steps: int
) -> Sequence[BlockPlan | None] | None:
    """A plan for every block of output channels; None where sums leave 32 bits. sum_steps: GEMM
    steps of a tile's sum."""
    key = _Key(_digest(op), config.block, sum_steps, op)
    return _plans(key)


@dataclass(frozen=True)
class _Key:
    """What a layer's plans depend on."""

    digest: bytes
    block: int
    sum_steps: int
    op: g.Weighted = field(compare=False)


def _digest(op: g.Weighted) -> bytes:
    parts = (op.weights, op.weight_zero_points, op.bias, op.real_scales())
    rule = (op.low, op.high, op.rounding.name, op.kind, op.input.scale, op.output.scale)
    zero_points = (op.input.zero_point, op.output.zero_point)
    state = hashlib.blake2b(repr((rule, zero_points, op.weights.shape)).encode(), digest_size=16)
    for part in parts:
        state.update(np.ascontiguousarray(part).tobytes())
    return state.digest()


@lru_cache(maxsize=1024)
def _plans(key: _Key) -> tuple[BlockPlan | None, ...] | None:
    runs = _runs(_Key(key.digest, 0, 0, key.op))
    if runs is None:
        return None
    op = key.op
    widest = np.abs(constants.centred_weights(op).reshape(len(op.weights), -1)).max(axis=1)
    return tuple(block_plans(runs, key.block, key.sum_steps, widest))


@lru_cache(maxsize=64)
def _runs(key: _Key) -> Runs | None:
    return runs_of(key.op)


# --- from plans to specs and tiles ----------------------------------------------------------------
@dataclass(frozen=True)
class _Blocks:
    """Neighbouring blocks of one spec."""

    first: int
    plans: tuple[BlockPlan, ...]
    shape: ChainShape
    bias: int
    multipliers: int


class _Layer:
    """One layer in tiles: what each kernel needs to know, and the constants of all."""

    def __init__(
        self,
        op: g.Weighted,
        spec: ConvSpec,
        config: HwConfig,
    ) -> None:
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
        taps = spec.in_blocks * spec.kernel[0] * spec.kernel[1]
        plans = layer_plans(op, config, taps) or ()
        self.plans = [plan for plan in plans if plan is not None]
        assert self.plans, "the predicate refused it"
        assert len(self.plans) == len(plans), "the predicate refused it"
        # Lanes that belong to no channel, in whole blocks: the output is padded to them.
        folded = constants.folded_bias(op)
        self.biases = [self._bias(number, folded) for number in range(len(self.plans))]

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

    def runs_of_blocks(self) -> Iterator[_Blocks]:
        """Neighbouring blocks that one kernel can do: several only where a tile has few pixels.
        Blocks of one kind have one shape, so that few kernels are lowered."""
        block = self.config.block
        most = max(1, _PIXELS // self.pixels)
        if self.spec.out_blocks > 1 and self.spec.groups > 1:
            most = 1
        kinds: dict[tuple[object, ...], list[int]] = {}
        for number, plan in enumerate(self.plans):
            kinds.setdefault(_kind(plan), []).append(number)
        shapes = {kind: self._shape(numbers) for kind, numbers in kinds.items()}
        first = 0
        for kind, group in groupby(self.plans, key=_kind):
            plans = list(group)
            shape, bias = shapes[kind]
            for at in range(0, len(plans), most):
                part = tuple(plans[at : at + most])
                tiles = [self.chain_tiles(first + n, shape) for n in range(len(part))]
                shared = all(np.array_equal(tiles[0], other) for other in tiles[1:])
                yield _Blocks(first, part, shape, bias, 1 if shared else len(part))
                first += len(part)

    def _shape(self, numbers: Sequence[int]) -> tuple[ChainShape, int]:
        """The chain that some blocks share, and how many weight tiles their biases take."""
        block = self.config.block
        digits = [plan for n in numbers if isinstance(plan := self.plans[n], DigitPlan)]
        if digits:
            steps = (len(constant_steps(self.biases[n], block)) for n in numbers)
            return _digit_shape(digits), max(steps)
        parts = [part_levels(self, number) for number in numbers]
        constants_of = [self.part_constants(number) for number in numbers]
        plan = self.plans[numbers[0]]
        assert isinstance(plan, PartPlan)
        levels, first = [], 0
        for position, exponent in enumerate(plan.exponents):
            count = max(len(own[position]) for own in parts)
            levels.append(
                LevelShape(
                    exponent - (plan.exponents[position - 1] if position else 0),
                    ((first, count),) if count else (),
                    max(len(own[position]) for own in constants_of),
                )
            )
            first += count
        shift = _common_shift([self.plans[number].shift for number in numbers])  # type: ignore[union-attr]
        return ChainShape(tuple(levels), shift, plan.low, plan.high), 0

    def part_constants(self, number: int) -> list[list[Int8Array]]:
        """Of a block whose weights are multiplied: for each level the weight tiles of what is
        added."""
        plan, block = self.plans[number], self.config.block
        assert isinstance(plan, PartPlan)
        split = split_constant(self.biases[number], plan.exponents, block)
        return [[] if level is None else constant_steps(level, block) for level in split]

    def chain_tiles(self, number: int, shape: ChainShape) -> Int8Array:
        """(tiles, block, block): the weight tiles of a block's chain, in the order of its shape."""
        plan, block = self.plans[number], self.config.block
        if isinstance(plan, DigitPlan):
            return _chain_tiles(plan, shape, block)
        tiles = np.zeros((sum(x.constants for x in shape.levels), block, block), np.int8)
        at = 0
        for level, own in zip(shape.levels, self.part_constants(number), strict=True):
            for step, tile in enumerate(own):
                tiles[at + step] = tile
            at += level.constants
        return tiles

    def kernel(self, blocks: _Blocks) -> RescaledSpec:
        """The spec of some blocks, with the cheapest tile."""
        plan = blocks.plans[0]
        if isinstance(plan, PartPlan):
            return self._part_kernel(blocks)
        spec = RescaledSpec(
            window=self.window,
            blocks=len(blocks.plans),
            own_input=self.own_input,
            tile=(1, 1, 1),
            bias=blocks.bias,
            left=plan.left,
            right=any(bool(plan.right.any()) for plan in blocks.plans),
            digits=plan.digits,
            clamped=plan.clamped,
            signed=plan.signed,
            chain=blocks.shape,
            multipliers=blocks.multipliers,
        )
        return self._tiled(spec)

    def _part_kernel(self, blocks: _Blocks) -> RescaledSpec:
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

    def _tiled(self, spec: RescaledSpec) -> RescaledSpec:
        return replace(spec, tile=rescaled_tile.choose(spec, self.count, self.config).tile)


#: Output pixels of one tile, at least, where blocks of channels can be joined.
_PIXELS = 16


def _kind(plan: BlockPlan) -> tuple[object, ...]:
    """What plans of one kernel have in common."""
    if isinstance(plan, PartPlan):
        return ("parts", plan.exponents, _common_shift([plan.shift]))
    shifts = tuple(level.shift for level in plan.chain.levels)
    even = _common_shift([plan.chain.shift])
    return (plan.digits, plan.signed, plan.clamped, plan.left, bool(plan.right.any()), shifts, even)


def _common_shift(shifts: Sequence[IntArray]) -> int | None:
    values = {int(shift) for own in shifts for shift in own}
    return values.pop() if len(values) == 1 else None


def part_levels(
    layer: _Layer, number: int, weights: IntArray | None = None
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
    total = sum(
        (np.sum(steps, axis=0, dtype=np.int64) << exponent)
        for steps, exponent in zip(levels, plan.exponents, strict=True)
        if steps
    )
    assert np.array_equal(total + 0 * product.ravel(), product.ravel()), "parts add up"
    return [[step.reshape(own.shape) for step in steps] for steps in levels]


def _digit_shape(plans: Sequence[DigitPlan]) -> ChainShape:
    """The chain of several blocks: at each level what any of them needs."""
    chains = [plan.chain for plan in plans]
    levels = []
    for position, level in enumerate(chains[0].levels):
        own = [chain.levels[position] for chain in chains]
        counts = [
            max(sum(number == digit for number, _ in level.products) for level in own)
            for digit in range(plans[0].stored)
        ]
        levels.append(
            LevelShape(
                level.shift,
                tuple(_runs_of_digits(counts)),
                max(len(level.constants) for level in own),
            )
        )
    first = chains[0]
    shift = _common_shift([chain.shift for chain in chains])
    return ChainShape(tuple(levels), shift, first.low, first.high)


def _runs_of_digits(counts: Sequence[int]) -> Iterator[tuple[int, int]]:
    """Neighbouring digits (first, how many) with one weight tile each, until all have theirs."""
    for turn in range(max(counts, default=0)):
        digits = [digit for digit, count in enumerate(counts) if count > turn]
        for _, group in groupby(enumerate(digits), key=lambda entry: entry[1] - entry[0]):
            run = [digit for _, digit in group]
            yield run[0], len(run)


def _chain_tiles(plan: DigitPlan, shape: ChainShape, block: int) -> Int8Array:
    """(tiles, block, block): the weight tiles of a block's chain, in the order of its shape."""
    tiles = np.zeros((shape.tiles, block, block), np.int8)
    at = 0
    for level, own in zip(shape.levels, plan.chain.levels, strict=True):
        for number in range(level.constants):
            if number < len(own.constants):
                lanes = len(own.constants[number])
                for tile in constant_steps(own.constants[number], block):
                    tiles[at, :lanes] = tile
            at += 1
        left: dict[int, list[Int8Array]] = {}
        for digit, weights in own.products:
            left.setdefault(digit, []).append(weights)
        for first, count in level.runs:
            for digit in range(first, first + count):
                if left.get(digit):
                    weights = left[digit].pop(0)
                    lanes = np.arange(len(weights))
                    tiles[at, lanes, lanes] = weights
                at += 1
        assert not any(left.values()), "a product has no place in the shape"
    return tiles


# --- lowering -------------------------------------------------------------------------------------
def cycles(op: g.Weighted, spec: ConvSpec, config: HwConfig) -> int:
    """What the cost model says of a layer."""
    layer = _Layer(op, spec, config)
    return spec.samples * sum(
        rescaled_tile.choose(layer.kernel(blocks), layer.count, config).cycles
        for blocks in layer.runs_of_blocks()
    )


def lower(
    op: g.Weighted, spec: ConvSpec, weights: IntArray, groups: int, config: HwConfig
) -> LoweredOperator:
    """spec: the layer in tiles. weights: OHWI, less their zero points."""
    return _Lowering(op, spec, weights, groups, config).lowered()


class _Lowering:
    """The kernels of one layer, and the constants that they need."""

    def __init__(
        self, op: g.Weighted, spec: ConvSpec, weights: IntArray, groups: int, config: HwConfig
    ) -> None:
        self.op, self.config, self.weights, self.groups = op, config, weights, groups
        self.layer = _Layer(op, spec, config)
        self.grouping = constants.grouping(
            groups, weights.shape[3], weights.shape[0] // groups, config.block
        )
        self.dead = np.concatenate([plan.dead for plan in self.layer.plans])
        self.parts = constants.split_weights(self._live(weights))
        self.layer.window = replace(self.layer.window, parts=len(self.parts))
        self.names = {
            "x": op.input.name,
            "out": op.output.name,
            "w": f"{op.name}.weights",
            "b": f"{op.name}.bias",
            "m": f"{op.name}.multipliers",
            "p": f"{op.name}.operands",
            "c": CONSTANT,
            "digits": f"{op.name}.digits",
        }
        self.pieces = _Pieces()
        self.own: dict[str, tuple[Memory, Array]] = {}
        self.kernels: list[Kernel] = []

    def _live(self, weights: IntArray) -> IntArray:
        return np.where(self.dead[:, None, None, None], 0, weights)

    def _tiles(self, parts: list[Int8Array]) -> Int8Array:
        """All weight tiles of some parts of the weights: (blocks, tiles of a block, block, block).
        """
        block = self.config.block
        tiles = constants.weight_tiles(parts, self.groups, self.grouping, block)
        return tiles.reshape(self.layer.count, -1, block, block)

    def lowered(self) -> LoweredOperator:
        """All kernels, side by side."""
        layer, spec = self.layer, self.layer.spec
        stored = max(
            (plan.stored for plan in layer.plans if isinstance(plan, DigitPlan)), default=0
        )
        own = np.tile(constant_tile(self.config.block), (1, self.config.batch, 1))
        self.own[CONSTANT] = (Memory.INP, own)
        weights = self._tiles(self.parts)
        slots: list[Slot] = []
        for sample in range(spec.samples):
            for run in layer.runs_of_blocks():
                kernel = layer.kernel(run)
                slots += self._slots(kernel, self._places(sample, run, kernel, weights, stored))
        tiles = spec.samples * layer.count * layer.pixels * stored
        return LoweredOperator(
            list(interleaved(slots)),
            self.own | self.pieces.constants(self.names, self.config),
            tuple(self.kernels),
            {self.names["digits"]: tiles} if tiles else {},
        )

    def _places(
        self, sample: int, run: _Blocks, kernel: RescaledSpec, weights: Int8Array, stored: int
    ) -> dict[str, int]:
        """The first tile of each of a kernel's tensors."""
        layer, spec = self.layer, self.layer.spec
        out = sample * layer.count + run.first
        group = run.first // spec.out_blocks if spec.groups > 1 else 0
        inputs = spec.in_blocks * spec.input[0] * spec.input[1]
        own = (
            weights[run.first : run.first + len(run.plans)]
            if kernel.digits
            else self._part_tiles(run, kernel)
        )
        return {
            "x": (sample * spec.groups + group) * inputs,
            "w": self.pieces.place("w", own.reshape(-1, *own.shape[2:])),
            "out": out * layer.pixels,
            "digits": out * layer.pixels * stored,
            "c": 0,
            **self.pieces.add(layer, run, kernel),
        }

    def _part_tiles(self, run: _Blocks, kernel: RescaledSpec) -> Int8Array:
        """(blocks, tiles, block, block) of weights times multipliers, in parts."""
        counts = [sum(count for _, count in level.runs) for level in run.shape.levels]
        parts = [np.zeros(self.weights.shape, np.int8) for _ in range(kernel.window.parts)]
        block = self.config.block
        for number, plan in enumerate(run.plans):
            first = (run.first + number) * block
            channels = slice(first, first + len(plan.dead))
            at = 0
            for count, steps in zip(
                counts, part_levels(self.layer, run.first + number, self.weights), strict=True
            ):
                for step, part in enumerate(steps):
                    parts[at + step][channels] = part
                at += count
        return self._tiles(parts)[run.first : run.first + len(run.plans)]

    def _slots(self, kernel: RescaledSpec, places: dict[str, int]) -> list[Slot]:
        names = {name: DramTile(self.names[name], tile) for name, tile in places.items()}
        lowered = emit(kernel, names, {}, self.op, self.config)
        self.own |= lowered.constants
        self.kernels += lowered.kernels
        return slots_of(lowered.operations, self.names["digits"])


class _Pieces:
    """Constants of all kernels, one after the other; equal ones are kept once."""

    def __init__(self) -> None:
        self.tiles: dict[str, list[Array]] = {"w": [], "b": [], "m": [], "p": []}
        self.known: dict[tuple[str, bytes], int] = {}

    def add(self, layer: _Layer, run: _Blocks, kernel: RescaledSpec) -> dict[str, int]:
        """The constants of some blocks besides their weights; the first tile of each."""
        block = layer.config.block
        places = {}
        if kernel.chain_tiles:
            sets = range(len(run.plans) if kernel.multipliers > 1 else 1)
            tiles = [layer.chain_tiles(run.first + number, run.shape) for number in sets]
            places["m"] = self.place("m", np.concatenate(tiles))
        if kernel.bias:
            bias = np.zeros((len(run.plans), kernel.bias, block, block), np.int8)
            for number in range(len(run.plans)):
                own = constant_steps(layer.biases[run.first + number], block)
                for step, tile in enumerate(own):
                    bias[number, step] = tile
            places["b"] = self.place("b", bias.reshape(-1, block, block))
        if kernel.operand_rows:
            places["p"] = self.place("p", _operands(layer, run, kernel))
        return places

    def place(self, kind: str, tiles: Array) -> int:
        """Where the tiles stand."""
        key = (kind, tiles.tobytes())
        if key not in self.known:
            self.known[key] = sum(map(len, self.tiles[kind]))
            self.tiles[kind].append(tiles)
        return self.known[key]

    def constants(
        self, names: dict[str, str], config: HwConfig
    ) -> dict[str, tuple[Memory, Array]]:
        """By name."""
        return {
            names[kind]: (Memory.ACC if kind == "p" else Memory.WGT, np.concatenate(tiles))
            for kind, tiles in self.tiles.items()
            if tiles
        }


def _operands(layer: _Layer, run: _Blocks, kernel: RescaledSpec) -> NDArray[np.int32]:
    """(blocks * rows, batch, block): what each lane is shifted by at the end, and before it is
    split."""
    rows = np.zeros((len(run.plans), kernel.operand_rows, layer.config.block), np.int64)
    for number, plan in enumerate(run.plans):
        lanes = len(plan.dead)
        last = plan.shift if isinstance(plan, PartPlan) else plan.chain.shift
        if run.shape.shift is None:
            rows[number, 0, :lanes] = last
        if isinstance(plan, DigitPlan) and kernel.right:
            rows[number, -1, :lanes] = plan.right
    shape = (rows.shape[0] * rows.shape[1], layer.config.batch, layer.config.block)
    return np.broadcast_to(rows.reshape(-1, 1, shape[2]), shape).astype(np.int32)
