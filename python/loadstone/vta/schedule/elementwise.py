# SPDX-License-Identifier: Apache-2.0
"""Operators on elements as TensorIR: one or two inputs come through the GEMM core into ACC, and the
ALU does the rest.

In:   `ElementwiseSpec`: loop extents in tiles, which loops each input moves along, steps for each
      input and for the result.
Out:  an IRModule of loops.
Next: kernels/from_tir.py.

    a_acc[t][b, l] = sum over k of a[t][b, k] * identity[l, k]        GEMM: one step a tile, and the
    load stage brings the next
    b_acc          = likewise
    out = int8(tail(a_steps(a_acc) op b_steps(b_acc)))

The operation SUM is the GEMM core's: both inputs go into one tile, each times a weight tile of its
own, are multiplied by a factor, and one of them is added once more, times a third weight tile.

An input that broadcasts does not move along some loops: its tile is brought once and read with
stride 0.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from math import prod
from typing import TYPE_CHECKING, TypeVar

from loadstone.relax.compat import tirx
from loadstone.vta.device.hw_config import HwConfig
from loadstone.vta.isa.spec import Memory
from loadstone.vta.schedule import epilogue as epilogues
from loadstone.vta.schedule.epilogue import Immediate, Rq, Step, extern
from loadstone.vta.schedule.loops import Loops, chip_buffer, dram_buffer, whole_copy, written

if TYPE_CHECKING:
    from loadstone.relax.types import Buffer, Expr, IRModule, Stmt

__all__ = ["SUM", "ElementwiseSpec", "Input", "schedule"]

T = TypeVar("T")
#: The operation of the GEMM core itself.
SUM = "sum"
#: Bias, multiplier and shift of an Rq.
_OPERAND_TILES = 3

#: Tiles in flight are at least so many parts of the whole, so that load, compute and store overlap
#: ...
_LEAST_PARTS = 6
#: ... but one part is no smaller than this, so that instructions do not cost more than their steps.
_LEAST_TILES = 64


@dataclass(frozen=True)
class Input:
    """moves: per loop, whether the input moves along it. steps: what happens to it before the
    operation.

    expand: the GEMM repeats it along the loops that it does not move along, so that it has a tile
        of its own everywhere.
    """

    moves: tuple[bool, ...]
    steps: tuple[Step, ...]
    expand: bool = False


@dataclass(frozen=True)
class ElementwiseSpec:
    """extents: loops over tiles, outermost first. op: add, mul, max, min, or SUM, of
    inputs without steps; None for one input. chosen: the tile of each loop; None: as large as it
    should be. factor, late: of SUM, what it is multiplied by, and which input comes once
    more behind that."""

    extents: tuple[int, ...]
    inputs: tuple[Input, ...]
    op: str | None
    tail: tuple[Step, ...]
    chosen: tuple[int, ...] | None = None
    factor: int = 1
    late: int = 0

    @property
    def operand_sets(self) -> int:
        """Bias, multiplier and shift tiles for every Rq, in the order inputs, tail."""
        steps = [step for entry in self.inputs for step in entry.steps] + list(self.tail)
        return sum(isinstance(step, Rq) for step in steps)


def schedule(spec: ElementwiseSpec, config: HwConfig) -> IRModule:
    """The IRModule, its loops written out: TVM's primitives would take longer than all the rest of
    lowering it. Parameters: a, [b,] identity, [p,] out."""
    return _Writer(spec, config).module()


class _Value:
    """An input on its way: its tile in ACC, and along which loops that moves."""

    def __init__(self, buffer: Buffer, moves: tuple[bool, ...]) -> None:
        self.buffer, self.moves = buffer, moves


class _Writer:
    """Writes the function. `turns` are the loops over tiles; inside, everything is nests of one
    store."""

    def __init__(self, spec: ElementwiseSpec, config: HwConfig) -> None:
        self.spec = spec
        self.sizes = _tile(spec, config)
        self.lanes, self.square = (config.batch, config.block), (config.block, config.block)
        self.turns = Loops()
        self.outer: list[Expr] = []
        for axis, (extent, size) in enumerate(zip(spec.extents, self.sizes, strict=True)):
            turns = -(-extent // size)
            self.outer.append(self.turns.turn(turns, f"i{axis}_0"))
        shape = (3 if spec.op == SUM else 1, *self.square)
        self.identity = dram_buffer("identity", shape, "int8")
        self.identity_chip = chip_buffer("identity_local_wgt", shape, "int8", "wgt")
        operands = (max(1, spec.operand_sets), _OPERAND_TILES, *self.lanes)
        self.p = dram_buffer("p", operands, "int32")
        self.p_chip = chip_buffer("p_local_acc", operands, "int32", "acc")
        self.out = dram_buffer("out", (*spec.extents, *self.lanes), "int8")
        self.sources = [
            dram_buffer(name, (*_along(spec.extents, entry.moves, 1), *self.lanes), "int8")
            for name, entry in zip("ab", spec.inputs, strict=False)
        ]

    def module(self) -> IRModule:
        """The whole function."""
        has_operands = self.spec.operand_sets > 0
        operands = [self.p] if has_operands else []
        constants = [(self.p, self.p_chip)] if has_operands else []
        loads = [
            statement
            for source, copy in (*constants, (self.identity, self.identity_chip))
            for statement in whole_copy(source, copy)
        ]
        body = tirx.stmt_seq(*loads, self.turns.around(tirx.stmt_seq(*self._one_tile())))
        return written([*self.sources, self.identity, *operands, self.out], body)

    def _one_tile(self) -> list[Stmt]:
        """The second input first: what it becomes is read by what the first one becomes."""
        spec, first_set = self.spec, 0
        if spec.op == SUM:
            return self._sum()
        values: list[_Value] = []
        statements: list[Stmt] = []
        for name, entry, source in zip("ab", spec.inputs, self.sources, strict=False):
            moves = (True,) * len(spec.extents) if entry.expand else entry.moves
            shape = (*_along(self.sizes, moves, 1), *self.lanes)
            value = _Value(chip_buffer(f"{name}_acc_local_acc", shape, "int32", "acc"), moves)
            values.append(value)
            made = [
                *self._through(value, entry, source),
                *self._steps(value, entry.steps, first_set),
            ]
            first_set += sum(isinstance(step, Rq) for step in entry.steps)
            statements = [*made, *statements]
        result = values[0]
        if spec.op is not None:
            other = values[1]
            statements.append(
                self._alu(
                    result,
                    lambda value, at: extern(
                        spec.op or "", value, other.buffer[self._at(other, at)]
                    ),
                )
            )
        statements += self._steps(result, spec.tail, first_set)
        return [*statements, self._store(result)]

    def _sum(self) -> list[Stmt]:
        """Both inputs in one tile."""
        spec = self.spec
        moves = (True,) * len(spec.extents)
        shape = (*self.sizes, *self.lanes)
        result = _Value(chip_buffer("sum_acc_local_acc", shape, "int32", "acc"), moves)
        statements = [tirx.AllocBuffer(result.buffer), self._cleared(result)]
        tiles = []
        for number, (entry, source) in enumerate(zip(spec.inputs, self.sources, strict=True)):
            tile, loaded = self._loaded(entry, source)
            tiles.append(tile)
            statements += [*loaded, self._product(result, tile, entry.moves, number)]
        again = self._product(result, tiles[spec.late], spec.inputs[spec.late].moves, 2)
        power = spec.factor.bit_length() - 1
        is_shift = spec.factor == 1 << power
        scale = Immediate("shr", -power) if is_shift else Immediate("mul", spec.factor)
        scaled = self._steps(result, (scale,), 0)
        return [
            *statements,
            *scaled,
            again,
            *self._steps(result, spec.tail, 0),
            self._store(result),
        ]

    def _through(self, value: _Value, entry: Input, source: Buffer) -> list[Stmt]:
        """An input from DRAM through the GEMM core."""
        tile, loaded = self._loaded(entry, source)
        moves = entry.moves if entry.expand else value.moves
        return [
            tirx.AllocBuffer(value.buffer),
            *loaded,
            self._cleared(value),
            self._product(value, tile, moves, 0),
        ]

    def _loaded(self, entry: Input, source: Buffer) -> tuple[Buffer, list[Stmt]]:
        """The tile of an input, and what brings it."""
        shape = (*_along(self.sizes, entry.moves, 1), *self.lanes)
        tile = chip_buffer(f"{source.name}_local_inp", shape, "int8", "inp")
        loops, at, place = self._loops(entry.moves)
        lanes = self._lanes(loops)
        load = loops.around(tirx.BufferStore(tile, source[(*place, *lanes)], [*at, *lanes]))
        return tile, [tirx.AllocBuffer(tile), load]

    def _cleared(self, value: _Value) -> Stmt:
        loops, at, _ = self._loops(value.moves)
        lanes = self._lanes(loops)
        zero = tirx.IntImm("int32", 0)
        return loops.around(tirx.BufferStore(value.buffer, zero, [*at, *lanes]))

    def _product(self, value: _Value, tile: Buffer, moves: Sequence[bool], weight: int) -> Stmt:
        """value += tile * a weight tile. moves: along which loops the tile does."""
        loops, at, _ = self._loops(value.moves)
        batch, lane = self._lanes(loops)
        k = loops.turn(self.lanes[1], "k")
        moved = _along(at, moves, 0) if all(value.moves) else at
        pixel = tile[(*moved, batch, k)].astype("int32")
        product = pixel * self.identity_chip[weight, lane, k].astype("int32")
        here = (*at, batch, lane)
        return loops.around(
            tirx.BufferStore(value.buffer, value.buffer[here] + product, list(here))
        )

    def _steps(self, value: _Value, steps: Sequence[Step], first_set: int) -> list[Stmt]:
        """first_set: that of the operands of the first Rq."""
        if not steps:
            return []

        def stepped(element: Expr, at: Sequence[Expr]) -> Expr:
            which = first_set
            for step in steps:
                has_set = isinstance(step, Rq)
                rows = range(_OPERAND_TILES) if has_set else ()
                operands = [self.p_chip[which, row, at[-2], at[-1]] for row in rows]
                which += has_set
                element = epilogues.apply([step], element, operands)
            return element

        return [self._alu(value, stepped)]

    def _alu(self, value: _Value, element: Callable[[Expr, Sequence[Expr]], Expr]) -> Stmt:
        """Every element of a tile by what it becomes; `at` counts along the loops of the value."""
        loops, at, _ = self._loops(value.moves)
        here = (*at, *self._lanes(loops))
        made = element(value.buffer[here], here)
        return loops.around(tirx.BufferStore(value.buffer, made, list(here)))

    def _store(self, value: _Value) -> Stmt:
        loops, at, place = self._loops(value.moves)
        lanes = self._lanes(loops)
        element = value.buffer[(*at, *lanes)].astype("int8")
        return loops.around(tirx.BufferStore(self.out, element, [*place, *lanes]))

    def _at(self, value: _Value, at: Sequence[Expr]) -> tuple[Expr, ...]:
        """Where a value stands that moves along some of the loops only."""
        return (*_along(at[:-2], value.moves, 0), *at[-2:])

    def _loops(self, moves: Sequence[bool]) -> tuple[Loops, list[Expr], list[Expr]]:
        """Loops over a tile that moves so; the place in it, and in DRAM."""
        loops, at, place = Loops(), [], []
        for axis, (extent, size) in enumerate(zip(self.spec.extents, self.sizes, strict=True)):
            if not moves[axis]:
                continue
            inner = loops.turn(size, f"i{axis}_1")
            outer = self.outer[axis]
            at.append(inner)
            place.append(outer * size + inner)
            if extent % size:
                loops.conditions.append(place[-1] < extent)
        return loops, at or [0], place or [0]

    def _lanes(self, loops: Loops) -> tuple[Expr, Expr]:
        return loops.turn(self.lanes[0], "lane_b"), loops.turn(self.lanes[1], "lane")


def _along(values: Sequence[T], moves: Sequence[bool], nowhere: T) -> list[T]:
    """Those of the loops that something moves along; one alone where it moves along none."""
    return [value for value, moving in zip(values, moves, strict=True) if moving] or [nowhere]


def _tile(spec: ElementwiseSpec, config: HwConfig) -> list[int]:
    """Tile sizes: those that were chosen; else filled from the innermost loop, at most half of what
    the scratchpads hold, at least some parts of the whole."""
    inputs = len(spec.inputs)
    if spec.chosen is not None:
        return list(spec.chosen)
    room = min(config.depth(Memory.INP), config.depth(Memory.ACC) - 3 * spec.operand_sets) // (
        2 * inputs
    )
    wanted = max(_LEAST_TILES, -(-prod(spec.extents) // _LEAST_PARTS))
    left = max(1, min(room, wanted))
    sizes: list[int] = []
    for extent in reversed(spec.extents):
        parts = -(-extent // left)
        sizes.insert(0, -(-extent // parts))
        left = max(1, left // sizes[0])
    return sizes
