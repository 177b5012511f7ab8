# SPDX-License-Identifier: Apache-2.0
"""Unroll a function of nests into its calls, with plain numbers, from which a back end generates
instructions.

In:   a `Function` whose operands are in memories, the result of insert_dma_copy.py.
Out:  Calls in the order of execution: names, buffers, and offsets, strides and loops as integers.
Next: selection/match_instructions.py, or the code generator of a back end.

    for call in unroll_nests(function):
        match call.name:
            case "copy": ...
            case "gemm": ...
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise, product
from typing import NamedTuple

from loadstone.errors import LoweringError
from loadstone.ir_pass.affine import Index, Variable
from loadstone.ir_pass.nests import (
    Function,
    Nest,
    NestAllocation,
    NestCall,
    NestGroup,
    NestTensor,
    Statement,
)

__all__ = ["Buffer", "Call", "Loop", "Place", "Run", "offset", "runs", "turns", "unroll_nests"]


@dataclass(frozen=True, eq=False)
class Buffer:
    """One life of a tensor: each allocation makes a new one. scope: its memory's name; "global" is
    DRAM. shape: in tiles. dtype: of an element."""

    name: str
    scope: str
    shape: tuple[int, ...]
    dtype: str


class Place(NamedTuple):
    """The tile of `buffer` that a call begins with, counted from its start."""

    buffer: Buffer
    offset: int


class Loop(NamedTuple):
    """One loop of a call, outermost first. Iterations first <= i < last are executed; a copy writes
    the pad value in iterations outside [inside_first, inside_last). strides: in tiles, one for each
    operand."""

    extent: int
    first: int
    last: int
    inside_first: int
    inside_last: int
    strides: tuple[int, ...]


class Call(NamedTuple):
    """One step of a nest with its loops (lanes.py says what each does). operands: the tiles that
    they begin with. immediates: pad value, zero point ..."""

    name: str
    operands: tuple[Place, ...]
    immediates: tuple[int, ...]
    loops: tuple[Loop, ...]


@dataclass(frozen=True)
class Run:
    """One turn of all loops but the last, and a part of that: `count` turns that are all inside, or
    all outside (a pad is read).

    offsets: tiles from each operand's place to its first one. strides: tiles from turn to turn.
    """

    inside: bool
    count: int
    offsets: tuple[int, ...]
    strides: tuple[int, ...]


def turns(loops: Sequence[Loop]) -> Iterator[tuple[int, ...]]:
    """Every turn of a nest that is executed."""
    return product(*(range(loop.first, loop.last) for loop in loops))


def offset(loops: Sequence[Loop], turn: Sequence[int], operand: int) -> int:
    """Tiles from an operand's place to what one turn accesses."""
    return sum(loop.strides[operand] * n for loop, n in zip(loops, turn, strict=True))


def runs(loops: Sequence[Loop]) -> Iterator[Run]:
    """A nest for a device whose instructions step along one loop: the last. A nest without loops is
    one turn.

    for run in runs(call.loops):
        move(run.count, run.offsets, run.strides)
    """
    *outer, line = loops or (Loop(1, 0, 1, 0, 1, (0,) * 4),)
    for turn in turns(outer):
        within = all(
            loop.inside_first <= n < loop.inside_last for loop, n in zip(outer, turn, strict=True)
        )
        begin, end = max(line.first, line.inside_first), min(line.last, line.inside_last)
        cuts = (
            (line.first, begin, end, line.last)
            if within and begin < end
            else (line.first, line.last)
        )
        for number, (first, last) in enumerate(pairwise(cuts)):
            if first < last:
                offsets = (
                    offset([*outer, line], (*turn, first), operand)
                    for operand in range(len(line.strides))
                )
                yield Run(
                    len(cuts) == 4 and number == 1, last - first, tuple(offsets), line.strides
                )


def unroll_nests(function: Function) -> list[Call]:
    """All calls that do anything: of each step of a nest one, for each turn of the loops around.

    The scope of a buffer is its memory's name, "global" of a tensor in DRAM; each allocation makes
    a new buffer. The value of a copy's pads is its immediate. Raises LoweringError where a tensor
    is used that was not allocated.
    """
    return list(_Unroller(function).body(function.body))


class _Loops:
    """The loops of a call in each turn of those around it: once for all turns in which those that
    bound them have the same values."""

    def __init__(self, call: NestCall) -> None:
        self.call = call
        bases = [bound.base for axis in call.axes for bound in axis.guards + axis.pads]
        self._bounding = tuple(dict.fromkeys([v for base in bases for v in base.terms]))
        self._known: dict[tuple[int, ...], tuple[Loop, ...] | None] = {}

    def at(self, values: Mapping[Variable, int]) -> tuple[Loop, ...] | None:
        """None where a condition leaves no turn."""
        turn = tuple([values[variable] for variable in self._bounding])
        if turn not in self._known:
            loops = tuple(
                Loop(axis.extent, *axis.executed(values), *axis.inside(values), axis.strides)
                for axis in self.call.axes
            )
            is_empty = any(loop.first >= loop.last for loop in loops)
            self._known[turn] = None if is_empty else loops
        return self._known[turn]


class _Unroller:
    """buffers: of each tensor, the life that it is in. values: of the loops that are open."""

    def __init__(self, function: Function) -> None:
        self.buffers = {tensor: _buffer(tensor) for tensor in function.parameters}
        self.values: dict[Variable, int] = {}
        self.known: dict[Nest, list[_Loops]] = {}

    def body(self, body: Sequence[Statement]) -> Iterator[Call]:
        """The calls of statements."""
        for statement in body:
            if isinstance(statement, Nest):
                yield from self._calls(statement)
            elif isinstance(statement, NestAllocation):
                self.buffers[statement.tensor] = _buffer(statement.tensor)
            elif isinstance(statement, NestGroup):
                yield from self.body(statement.body)
            else:
                for turn in range(statement.variable.extent):
                    self.values[statement.variable] = turn
                    yield from self.body(statement.body)

    def _calls(self, nest: Nest) -> Iterator[Call]:
        if nest not in self.known:
            self.known[nest] = list(map(_Loops, nest.calls))
        for each in self.known[nest]:
            loops = each.at(self.values)
            if loops is not None:
                call = each.call
                operands = tuple([self._place(*operand) for operand in call.operands])
                yield Call(call.name, operands, call.immediates, loops)

    def _place(self, tensor: NestTensor, number: Index) -> Place:
        if tensor not in self.buffers:
            raise LoweringError(f"unroll_nests: {tensor.name} is used where it is not allocated")
        return Place(self.buffers[tensor], number.at(self.values))


def _buffer(tensor: NestTensor) -> Buffer:
    return Buffer(tensor.name, tensor.memory or "global", tensor.shape, tensor.dtype)
