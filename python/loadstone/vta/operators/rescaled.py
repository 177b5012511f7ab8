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
from loadstone.errors import LoweringError
from loadstone.numerics import Array
from loadstone.vta import constants
from loadstone.vta.hw_config import HwConfig
from loadstone.vta.isa.spec import Memory
from loadstone.vta.operators.kernels import LoweredOperator, emit
from loadstone.vta.operators.slots import Slot, interleaved, slots_of
from loadstone.vta.rescale.levels import constant_steps, constant_tile
from loadstone.vta.rescale.plan import BlockPlan, block_plans
from loadstone.vta.rescale.proof import DigitPlan
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
    plans = layer_plans(op, config, 1 << 20)
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
    plans: tuple[DigitPlan, ...]
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
        plans = layer_plans(op, config, 1 << 20)
        assert plans is not None, "the predicate refused it"
        self.plans = [plan for plan in plans if isinstance(plan, DigitPlan)]
        assert len(self.plans) == len(plans), "the predicate refused it"
        # Lanes that belong to no channel, in whole blocks: the output is padded to them.
        self.biases = [self._bias(number) for number in range(len(self.plans))]

    def _bias(self, number: int) -> IntArray:
        """(block,) what is added to the sum of each lane."""
        block, plan = self.config.block, self.plans[number]
        bias = np.zeros(block, np.int64)
        channels = slice(number * block, number * block + len(plan.offset))
        own = constants.folded_bias(self.op)[channels]
        bias[: len(plan.offset)] = np.where(plan.dead, 0, own) + plan.offset
        return bias

    def runs_of_blocks(self) -> Iterator[_Blocks]:
        """Neighbouring blocks that one kernel can do: several only where a tile has few pixels."""
        block = self.config.block
        most = max(1, _PIXELS // self.pixels)
        if self.spec.out_blocks > 1 and self.spec.groups > 1:
            most = 1
        first = 0
        for alike, group in groupby(self.plans, key=_kind):
            plans = list(group)
            for at in range(0, len(plans), most):
                part = tuple(plans[at : at + most])
                shape = _shape(part)
                biases = self.biases[first : first + len(part)]
                bias = max(len(constant_steps(values, block)) for values in biases)
                tiles = [_chain_tiles(plan, shape, block) for plan in part]
                shared = all(np.array_equal(tiles[0], other) for other in tiles[1:])
                yield _Blocks(first, part, shape, bias, 1 if shared else len(part))
                first += len(part)
        del alike

    def kernel(self, blocks: _Blocks) -> RescaledSpec:
        """The spec of some blocks, with the cheapest tile."""
        plan = blocks.plans[0]
        spec = RescaledSpec(
            window=self.window,
            blocks=len(blocks.plans),
            own_input=self.own_input,
            tile=(1, 1, 1),
            bias=blocks.bias,
            left=plan.left,
            right=any(bool(plan.right.any()) for plan in blocks.plans),
            digits=plan.digits,
            clamped=any(plan.clamped for plan in blocks.plans),
            signed=plan.signed,
            chain=blocks.shape,
            multipliers=blocks.multipliers,
        )
        return replace(spec, tile=rescaled_tile.choose(spec, self.count, self.config).tile)


#: Output pixels of one tile, at least, where blocks of channels can be joined.
_PIXELS = 16


def _kind(plan: DigitPlan) -> tuple[object, ...]:
    """What plans of one kernel have in common."""
    return (plan.digits, plan.signed, plan.left, tuple(level.shift for level in plan.chain.levels))


def _shape(plans: Sequence[DigitPlan]) -> ChainShape:
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
    shifts = {int(shift) for chain in chains for shift in chain.shift}
    first = chains[0]
    return ChainShape(
        tuple(levels), shifts.pop() if len(shifts) == 1 else None, first.low, first.high
    )


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
    layer = _Layer(op, spec, config)
    block = config.block
    blocks = constants.grouping(groups, weights.shape[3], weights.shape[0] // groups, block)
    dead = np.concatenate([plan.dead for plan in layer.plans])
    weights = np.where(dead[:, None, None, None], 0, weights)
    parts = constants.split_weights(weights)
    layer.window = replace(layer.window, parts=len(parts))
    names = {
        "x": op.input.name,
        "out": op.output.name,
        "w": f"{op.name}.weights",
        "b": f"{op.name}.bias",
        "m": f"{op.name}.multipliers",
        "p": f"{op.name}.operands",
        "c": CONSTANT,
        "digits": f"{op.name}.digits",
    }
    own: dict[str, tuple[Memory, Array]] = {
        names["w"]: (Memory.WGT, constants.weight_tiles(parts, groups, blocks, block)),
        CONSTANT: (Memory.INP, np.tile(constant_tile(block), (1, config.batch, 1))),
    }
    pieces = _Pieces()
    slots: list[list[Slot]] = []
    kernels = []
    stored = max(plan.stored for plan in layer.plans)
    in_tiles = spec.in_blocks * spec.input[0] * spec.input[1]
    for sample in range(spec.samples):
        for run in layer.runs_of_blocks():
            kernel = layer.kernel(run)
            places = pieces.add(layer, run, kernel)
            out = sample * layer.count + run.first
            group = run.first // spec.out_blocks
            at = {
                "x": (sample * spec.groups + (group if spec.groups > 1 else 0)) * in_tiles,
                "w": run.first * layer.window.taps,
                "out": out * layer.pixels,
                "digits": out * layer.pixels * stored,
                "c": 0,
                **places,
            }
            lowered = emit(
                kernel,
                {name: DramTile(names[name], tile) for name, tile in at.items()},
                {},
                op,
                config,
            )
            own |= lowered.constants
            kernels += lowered.kernels
            slots.append(slots_of(lowered.operations, names["digits"]))
    own |= pieces.constants(names, config)
    ordered = [slot for kernel in slots for slot in kernel]
    return LoweredOperator(
        list(interleaved(ordered)),
        own,
        tuple(kernels),
        {names["digits"]: spec.samples * layer.count * layer.pixels * stored},
    )


class _Pieces:
    """Constants of all kernels, one after the other; equal ones of neighbours are kept once."""

    def __init__(self) -> None:
        self.bias: list[Int8Array] = []
        self.multipliers: list[Int8Array] = []
        self.operands: list[NDArray[np.int32]] = []
        self.known: dict[tuple[str, bytes], int] = {}

    def add(self, layer: _Layer, run: _Blocks, kernel: RescaledSpec) -> dict[str, int]:
        """The constants of some blocks; the first tile of each."""
        block = layer.config.block
        bias = np.zeros((len(run.plans), kernel.bias, block, block), np.int8)
        rows = np.zeros((len(run.plans), kernel.operand_rows, block), np.int64)
        for number, plan in enumerate(run.plans):
            for step, tile in enumerate(constant_steps(layer.biases[run.first + number], block)):
                bias[number, step] = tile
            lanes = len(plan.offset)
            if run.shape.shift is None:
                rows[number, 0, :lanes] = plan.chain.shift
            if kernel.right:
                rows[number, -1, :lanes] = plan.right
        sets = run.plans if kernel.multipliers > 1 else run.plans[:1]
        tiles = np.concatenate([_chain_tiles(plan, run.shape, block) for plan in sets])
        places = {"m": self._place("m", self.multipliers, tiles)}
        if kernel.bias:
            places["b"] = self._place("b", self.bias, bias.reshape(-1, block, block))
        if kernel.operand_rows:
            shape = (rows.shape[0] * rows.shape[1], layer.config.batch, block)
            operands = np.broadcast_to(rows.reshape(-1, 1, block), shape).astype(np.int32)
            places["p"] = self._place("p", self.operands, operands)
        return places

    def _place(self, kind: str, pieces: list[NDArray[np.generic]], tiles: Array) -> int:  # type: ignore[type-var]
        key = (kind, tiles.tobytes())
        if key not in self.known:
            self.known[key] = sum(map(len, pieces))
            pieces.append(tiles)
        return self.known[key]

    def constants(
        self, names: dict[str, str], config: HwConfig
    ) -> dict[str, tuple[Memory, Array]]:
        """By name."""
        kinds = (
            ("b", Memory.WGT, self.bias),
            ("m", Memory.WGT, self.multipliers),
            ("p", Memory.ACC, self.operands),
        )
        return {
            names[kind]: (memory, np.concatenate(pieces)) for kind, memory, pieces in kinds if pieces
        }
