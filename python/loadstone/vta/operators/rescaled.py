# SPDX-License-Identifier: Apache-2.0
"""Convolutions and dense layers of any scale on a device without RQ.

In:   a convolution or dense layer, its shape in tiles, its weights.
Out:  LoweredOperator, with a scratch tensor for the digits.
Next: weighted.py decides between this and shifts.

The plan of each block of channels (integers/plan.py) is already proven; rescaled_layer.py makes
specs of it, and here are the constants. The kernels of all blocks run side by side (slots.py).
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from loadstone import graph as g
from loadstone.errors import LoweringError
from loadstone.numerics import Array
from loadstone.vta.device.hw_config import HwConfig
from loadstone.vta.integers.levels import constant_tile
from loadstone.vta.integers.near import differing
from loadstone.vta.integers.proof import DigitPlan
from loadstone.vta.integers.runs import IntArray, runs_of
from loadstone.vta.integers.steps import name_of
from loadstone.vta.isa.spec import Memory
from loadstone.vta.kernels.kernel import Kernel
from loadstone.vta.operators import constants
from loadstone.vta.operators.block_kinds import last_shift, part_levels
from loadstone.vta.operators.kernels import LoweredOperator, emit
from loadstone.vta.operators.request import LayerRequest
from loadstone.vta.operators.rescaled_layer import Blocks, RescaledLayer, cheapest_layer
from loadstone.vta.operators.slots import Slot, interleaved, slots_of
from loadstone.vta.passes.allocate.allocate import allocate
from loadstone.vta.schedule import conv
from loadstone.vta.schedule.conv import ConvSpec
from loadstone.vta.schedule.epilogue import Immediate, RowOperand, Rq
from loadstone.vta.schedule.rescaled_spec import RescaledSpec
from loadstone.vta.stream.operations import DramTile, Operation, TileRole
from loadstone.vta.stream.table import StreamColumns, columns_of

__all__ = ["CONSTANT", "lower"]

#: The input tile from which weight tiles make constants; one for all operators.
CONSTANT = "constant"
#: By the names that kernels have for them.
_ROLES = {"digits": TileRole.DIGITS, "c": TileRole.CONSTANT}
Int8Array = NDArray[np.int8]


def lower(
    op: g.Weighted,
    spec: ConvSpec,
    weights: IntArray,
    groups: int,
    config: HwConfig,
    request: LayerRequest,
) -> LoweredOperator:
    """spec: the layer in tiles. weights: (O, H, W, I), less their zero points."""
    layer = cheapest_layer(op, spec, config, request)
    return _Lowering(layer, weights, groups, request).lowered()


class _Lowering:
    """The kernels of one layer, and the constants that they need."""

    def __init__(
        self, layer: RescaledLayer, weights: IntArray, groups: int, request: LayerRequest
    ) -> None:
        op, config = self.op, self.config = layer.op, layer.config
        self.layer, self.weights, self.groups = layer, weights, groups
        self.request = request
        self.grouping = constants.grouping(
            groups, weights.shape[3], weights.shape[0] // groups, config.block
        )
        self.dead = np.concatenate([plan.dead for plan in self.layer.plans])
        self.parts = constants.split_weights(self._live(weights))
        self.layer.sum_in(len(self.parts))
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
        return np.where(self.dead[:, None, None, None], 0, weights) if self.dead.any() else weights

    def _tiles(self, parts: list[Int8Array]) -> Int8Array:
        """All weight tiles of some parts: (blocks, tiles of a block, block, block)."""
        block = self.config.block
        tiles = constants.weight_tiles(parts, self.groups, self.grouping, block)
        return tiles.reshape(self.layer.count, -1, block, block)

    def lowered(self) -> LoweredOperator:
        """All kernels, side by side."""
        layer, spec = self.layer, self.layer.spec
        stored = max(
            (plan.stored for plan in layer.plans if isinstance(plan, DigitPlan)), default=0
        )
        lanes = constant_tile(self.config.block)
        self.own[CONSTANT] = (Memory.INP, np.tile(lanes, (1, self.config.batch, 1)))
        weights = self._tiles(self.parts)
        groups: dict[RescaledSpec, list[Slot]] = {}
        slots: list[Slot] = []
        for sample in range(spec.samples):
            for run in layer.runs_of_blocks():
                kernel = layer.kernel(run)
                own = self._slots(kernel, self._places(sample, run, kernel, weights, stored))
                groups.setdefault(kernel, []).extend(own)
                slots += own
        tiles = spec.samples * layer.count * layer.pixels * stored
        operations, placed, known = self._side_by_side(slots, list(groups.values()))
        return LoweredOperator(
            operations,
            self.own | self.pieces.constants(self.names, self.config),
            tuple(self.kernels),
            {self.names["digits"]: tiles} if tiles else {},
            _remark(layer, self.request.near),
            placed,
            known,
        )

    def _side_by_side(
        self, slots: list[Slot], groups: list[list[Slot]]
    ) -> tuple[list[Operation], bool, StreamColumns | None]:
        """All slots beside their neighbours; where one kernel's digits and another's input leave
        no room for each other, kernel after kernel. And whether there is room: nobody looked where
        there is one kernel, or no other way. And columns, where they are known."""
        beside = list(interleaved(slots))
        if len(groups) == 1:
            return beside, False, None
        columns = columns_of(beside)
        try:
            allocate(columns, self.config)
        except LoweringError:
            number_of = {id(operation): number for number, operation in enumerate(beside)}
            after = [operation for group in groups for operation in interleaved(group)]
            order = np.array([number_of[id(operation)] for operation in after], np.int64)
            return after, False, columns.taken(order)
        return beside, True, columns

    def _places(
        self, sample: int, run: Blocks, kernel: RescaledSpec, weights: Int8Array, stored: int
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

    def _part_tiles(self, run: Blocks, kernel: RescaledSpec) -> Int8Array:
        """(blocks, tiles, block, block) of weights times multipliers, in parts."""
        counts = [sum(count for _, count in level.runs) for level in run.form.shape.levels]
        parts = [np.zeros(self.weights.shape, np.int8) for _ in range(kernel.window.parts)]
        block = self.config.block
        numbers = range(run.first, run.first + len(run.plans))
        first, at = run.first * block, 0
        levels = part_levels(self.layer.plans, numbers, self.weights, block)
        for count, steps in zip(counts, levels, strict=True):
            for step, part in enumerate(steps):
                parts[at + step][first : first + len(part)] = part
            at += count
        return self._tiles(parts)[run.first : run.first + len(run.plans)]

    def _slots(self, kernel: RescaledSpec, places: dict[str, int]) -> list[Slot]:
        names = {
            name: DramTile(self.names[name], tile, _ROLES.get(name, TileRole.PLAIN))
            for name, tile in places.items()
        }
        lowered = emit(kernel, names, {}, self.op, self.config, self.request)
        self.own |= lowered.constants
        self.kernels += lowered.kernels
        return slots_of(lowered.operations)


class _Pieces:
    """Constants of all kernels, one after the other; equal ones are kept once."""

    def __init__(self) -> None:
        self.tiles: dict[str, list[Array]] = {"w": [], "b": [], "m": [], "p": []}
        self.known: dict[tuple[str, bytes], int] = {}

    def add(self, layer: RescaledLayer, run: Blocks, kernel: RescaledSpec) -> dict[str, int]:
        """The constants of some blocks besides their weights; the first tile of each."""
        places = {}
        if kernel.chain_tiles:
            sets = range(len(run.plans) if kernel.multipliers > 1 else 1)
            tiles = [layer.chain_tiles(run.first + number) for number in sets]
            places["m"] = self.place("m", np.concatenate(tiles))
        if kernel.bias:
            tiles = [layer.bias_tiles(run.first + number) for number in range(len(run.plans))]
            places["b"] = self.place("b", np.concatenate(tiles))
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

    def constants(self, names: dict[str, str], config: HwConfig) -> dict[str, tuple[Memory, Array]]:
        """By name."""
        return {
            names[kind]: (Memory.ACC if kind == "p" else Memory.WGT, np.concatenate(tiles))
            for kind, tiles in self.tiles.items()
            if tiles
        }


def _operands(layer: RescaledLayer, run: Blocks, kernel: RescaledSpec) -> NDArray[np.int32]:
    """(blocks * rows, batch, block): what each lane is shifted by at the end, and before it is
    split."""
    rows = np.zeros((len(run.plans), kernel.operand_rows, layer.config.block), np.int64)
    for number, plan in enumerate(run.plans):
        lanes = len(plan.dead)
        if run.form.shape.shift is None:
            rows[number, 0, :lanes] = last_shift(plan)
        if kernel.added:
            rows[number, kernel.bias_row] = layer.biases[run.first + number]
        if isinstance(plan, DigitPlan) and kernel.right:
            rows[number, -1, :lanes] = plan.right
    shape = (rows.shape[0] * rows.shape[1], layer.config.batch, layer.config.block)
    return np.broadcast_to(rows.reshape(-1, 1, shape[2]), shape).astype(np.int32)


def _remark(layer: RescaledLayer, near: bool) -> Callable[[], str]:
    """The forms of a layer, why it has them, and what it would take with other scales or RQ: which
    is worked out when somebody asks."""
    forms = Counter(name_of(plan) for plan in layer.plans)
    names = ", ".join(f"{name} in {count}" for name, count in sorted(forms.items()))
    scales = np.sort(layer.op.real_scales())
    shifts = (
        RowOperand("add", 0),
        RowOperand("shr", 1),
        Immediate("max", layer.op.low),
        Immediate("min", layer.op.high),
    )
    rq = (Rq(layer.op.output.zero_point, layer.op.low, layer.op.high, layer.op.rounding),)
    specs, config = [replace(layer.spec, tail=tail) for tail in (shifts, rq)], layer.config
    exactly, bound = ("near", _bound(layer)) if near else ("exactly", "")
    how = (
        f"requantized by GEMM, {exactly}: {names} of {len(layer.plans)} blocks of channels (scales "
        f"{scales[0]:.3g} to {scales[-1]:.3g} are no powers of two); about {layer.cycles()} cycles"
    )

    def remark() -> str:
        pow2, with_rq = (conv.tiling(spec, config).cycles for spec in specs)
        return f"{how}, with powers of two {pow2}, with RQ {with_rq}{bound}"

    return remark


def _bound(layer: RescaledLayer) -> str:
    """By how much outputs may differ, and how many."""
    runs = runs_of(layer.op)
    assert runs is not None, "the predicate refused it"
    block, shares = layer.config.block, []
    for number, plan in enumerate(layer.plans):
        channels = np.arange(number * block, number * block + len(plan.dead))
        shares.append(differing(plan, runs.take(channels)))
    share = 100 * np.concatenate(shares)
    return (
        f"; at most one level off, proven at all breakpoints of {len(share)} channels: of the sums "
        f"that can occur {share.mean():.2f} % give another integer, {share.max():.2f} % in the "
        "worst channel"
    )
