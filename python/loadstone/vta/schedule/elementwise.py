# SPDX-License-Identifier: Apache-2.0
"""Operators on elements as nests: one or two inputs come through the GEMM core into ACC, and the
ALU does the rest.

In:   `ElementwiseSpec`: loop extents in tiles, which loops each input moves along, steps for each
      input and for the result.
Out:  a Function of loops over tiles, without copies. Parameters: a, [b,] identity, [p,] out.
Next: ir_pass/insert_dma_copy.py.

    group:  b_acc = 0;  b_acc += b * identity              GEMM: one step a tile, and the load stage
    b_acc = b_steps(b_acc)                                 brings the next
    group:  a_acc = 0;  a_acc += a * identity
    a_acc = tail(a_steps(a_acc) op b_acc)
    out = low byte of a_acc

The operation SUM is the GEMM core's: both inputs go into one tile, each times a weight tile of its
own, are multiplied by a factor, and one of them is added once more, times a third weight tile. With
weights of two parts (DEPTHWISE) that is two steps:

    sum_acc = 0;  sum_acc += a * identity[0];  sum_acc += b * identity[1]

An input that broadcasts does not move along some loops: its tile is brought once and read with
stride 0.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from math import prod
from string import ascii_lowercase
from typing import NamedTuple, TypeAlias

from loadstone.ir_pass.affine import Index, Place, Variable
from loadstone.ir_pass.nests import (
    COPY,
    Function,
    Nest,
    NestAccess,
    NestGroup,
    NestStep,
    NestTensor,
    Statement,
)
from loadstone.ir_pass.tile_loops import tiled
from loadstone.vta.device.hw_config import HwConfig
from loadstone.vta.device.instruction_table import REQUANTIZE_TILES
from loadstone.vta.isa.spec import Memory
from loadstone.vta.schedule.alu_steps import alu_step
from loadstone.vta.schedule.epilogue import Immediate, Rq

__all__ = ["SUM", "ElementStep", "ElementwiseSpec", "Input", "schedule"]

#: What happens to an element: an operation by a number, or a requantization, which has operands of
#: its own.
ElementStep: TypeAlias = Rq | Immediate
#: The operation of the GEMM core itself.
SUM = "sum"

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
    steps: tuple[ElementStep, ...]
    expand: bool = False


@dataclass(frozen=True)
class ElementwiseSpec:
    """extents: loops over tiles, outermost first. op: add, mul, max, min, or SUM, of
    inputs without steps; None for one input. chosen: the tile of each loop; None: as large as it
    should be. factor, late: of SUM, what it is multiplied by, and which input comes once
    more behind that. wide: of SUM, weights have two parts, and there is neither."""

    extents: tuple[int, ...]
    inputs: tuple[Input, ...]
    op: str | None
    tail: tuple[ElementStep, ...]
    chosen: tuple[int, ...] | None = None
    factor: int = 1
    late: int = 0
    wide: bool = False

    @property
    def weights(self) -> int:
        """Weight tiles of what comes through the GEMM core."""
        if self.op != SUM:
            return 1
        return 2 if self.wide else 3

    @property
    def operand_sets(self) -> int:
        """Bias, multiplier and shift tiles for every Rq, in the order inputs, tail."""
        steps = [step for entry in self.inputs for step in entry.steps] + list(self.tail)
        return sum(isinstance(step, Rq) for step in steps)


def schedule(spec: ElementwiseSpec, config: HwConfig) -> Function:
    """The function of nests of one spec. A loop over tiles with a single iteration is left out."""
    computation = _Computation(spec, config.batch, config.block)
    sizes = dict(zip(computation.axes, _tile(spec, config), strict=True))
    order = [axis for axis, size in sizes.items() if axis.extent > size]
    return tiled(computation.function(), sizes, order)


class _Value(NamedTuple):
    """Accumulators of an input, or of both: the loops that they move along, and what those are in
    an index."""

    sums: NestTensor
    loops: tuple[Variable, ...]

    @property
    def element(self) -> NestAccess:
        """The one of the loops' turn."""
        return self.sums[_at(self.loops)]

    def each(self, *steps: NestStep) -> Nest:
        """Steps for every element."""
        return Nest(self.loops, (), steps)

    @property
    def cleared(self) -> Nest:
        """All of them 0."""
        return self.each(NestStep("fill", (self.element,), (0,)))


class _Computation:
    """The computation of a spec, on whole axes."""

    def __init__(self, spec: ElementwiseSpec, batch: int, block: int) -> None:
        self._spec = spec
        self._lanes, square = (batch, block), (block, block)
        names = ascii_lowercase[ascii_lowercase.index("i") :]
        self.axes = tuple(map(Variable, names, spec.extents))
        self._identity = NestTensor("identity", (spec.weights,), square, "int8", "table")
        operands = (max(1, spec.operand_sets), REQUANTIZE_TILES)
        self._p = NestTensor("p", operands, self._lanes, "int32", "table")
        self._out = NestTensor("out", spec.extents, self._lanes, "int8")
        self._sources = [
            NestTensor(name, _shape(self._along(entry.moves)), self._lanes, "int8")
            for name, entry in zip("ab", spec.inputs, strict=False)
        ]
        self._next_set = 0

    def function(self) -> Function:
        """The whole of it."""
        tables = [self._p] if self._spec.operand_sets else []
        tables.append(self._identity)
        if self._spec.op == SUM:
            values = [self._value("sum_acc", self.axes)]
            body = tuple(self._sum(values[0]))
        else:
            values = [
                self._value(f"{source.name}_acc", self._along(entry.moves, entry.expand))
                for entry, source in zip(self._spec.inputs, self._sources, strict=True)
            ]
            body = tuple(self._each(values))
        sums = [value.sums for value in values]
        return Function("elementwise", (*tables, *sums, *self._sources, self._out), body)

    def _along(self, moves: Sequence[bool], expand: bool = False) -> tuple[Variable, ...]:
        """The loops that something moves along; expand: all."""
        return tuple(
            axis for axis, moving in zip(self.axes, moves, strict=True) if moving or expand
        )

    def _value(self, name: str, loops: tuple[Variable, ...]) -> _Value:
        return _Value(NestTensor(name, _shape(loops), self._lanes, "int32", "local"), loops)

    # --- statements -------------------------------------------------------------------------------
    def _each(self, values: Sequence[_Value]) -> Iterator[Statement]:
        """The second input first: what it becomes is read by what the first one becomes."""
        spec, result, made = self._spec, values[0], list[list[Statement]]()
        for number, (value, entry) in enumerate(zip(values, spec.inputs, strict=True)):
            begun = NestGroup((value.cleared, self._product(value, number, 0)))
            made.append([begun, *self._stepped(value, entry.steps)])
        for statements in reversed(made):
            yield from statements
        if spec.op is not None:
            yield result.each(NestStep(spec.op, (result.element, values[1].element)))
        yield from self._stepped(result, spec.tail)
        yield self._stored(result)

    def _sum(self, value: _Value) -> Iterator[Statement]:
        """Both inputs in one tile."""
        spec = self._spec
        yield value.cleared
        for number in range(len(spec.inputs)):
            yield self._product(value, number, number)
        if not spec.wide:
            yield from self._late(value)
        yield from self._stepped(value, spec.tail)
        yield self._stored(value)

    def _late(self, value: _Value) -> Iterator[Nest]:
        """The factor of a sum, and what is added behind it."""
        spec = self._spec
        power = spec.factor.bit_length() - 1
        is_shift = spec.factor == 1 << power
        scale = Immediate("shr", -power) if is_shift else Immediate("mul", spec.factor)
        yield from self._stepped(value, (scale,))
        yield self._product(value, spec.late, 2)

    def _product(self, value: _Value, number: int, weight: int) -> Nest:
        """value += an input times a weight tile."""
        source = self._sources[number][_at(self._along(self._spec.inputs[number].moves))]
        name = "wide" if self._spec.wide else "gemm"
        return value.each(NestStep(name, (value.element, source, self._identity[weight])))

    def _stepped(self, value: _Value, steps: Sequence[ElementStep]) -> Iterator[Nest]:
        """Steps on a value, in place. Each Rq has the next set of operands."""
        made: list[NestStep] = []
        for step in steps:
            made.append(alu_step(step, value.element, partial(self._operand, self._next_set)))
            self._next_set += isinstance(step, Rq)
        if made:
            yield value.each(*made)

    def _operand(self, which: int, row: int) -> NestAccess:
        """A tile of a set."""
        return self._p[which, row]

    def _stored(self, value: _Value) -> Nest:
        return value.each(NestStep(COPY, (self._out[_at(value.loops)], value.element)))


def _at(loops: Sequence[Variable]) -> tuple[Place, ...]:
    """The index of what moves along loops; of one place where it moves along none."""
    return tuple(Index(0, {loop: 1}) for loop in loops) or (0,)


def _shape(loops: Sequence[Variable]) -> tuple[int, ...]:
    return tuple(loop.extent for loop in loops) or (1,)


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
