# SPDX-License-Identifier: Apache-2.0
"""Insert the copies between DRAM and the scratchpads, and the allocations.

In:   a `Function` of computation and loops, in which no tensor has a memory; the device's
      MemoryTable.
Out:  the same Function in which every operand stands where its instruction reads it.
Next: verify_dma_copy.py compares both; a back end turns the result into operations.

For each tensor, and each memory from which an instruction reads it, the pass decides:

    level     the innermost loop with which an index of the tensor moves, so that unchanged data is
              not loaded twice; never outside a loop that is marked apart. A table that is small
              for its memory is loaded at the outermost such level, a local is allocated in the
              innermost loop around all its uses.
    region    a box of places (regions.py); of a table all places.
    place     in front of the first statement that reads it; for a table, the beginning of its
              level; for data that is written inside the level, after the last statement that
              writes it.
              Copies at one place come in the order in which the function names its tensors, tables
              first.

Dependences are tracked between whole statements: it is an error if one nest both writes and reads
a tensor, if a tensor is read where it was not written in the same iteration, or if the first use
of a local is anything but a fill.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from math import prod
from typing import NamedTuple, TypeAlias

from loadstone.errors import LoweringError
from loadstone.ir_pass.affine import Variable
from loadstone.ir_pass.memory_table import MemoryTable
from loadstone.ir_pass.nests import (
    COPY,
    Function,
    Nest,
    NestAccess,
    NestAllocation,
    NestGroup,
    NestLoop,
    NestTensor,
    Statement,
)
from loadstone.ir_pass.regions import Region, Use, covers, region_of
from loadstone.isa.form import DRAM

__all__ = ["insert_dma_copy"]

#: Loops around a statement, outermost first.
_Path: TypeAlias = tuple[NestLoop, ...]
_NOTHING: frozenset[Variable] = frozenset()


def insert_dma_copy(function: Function, table: MemoryTable) -> Function:
    """Inserts the copies and allocations of a function. Raises LoweringError where the accesses to
    a tensor are not a box, where a box does not fit its memory, or where a statement depends on
    anything but whole statements before it."""
    uses = _Uses(function, table)
    placed: dict[NestLoop | None, list[_Placed]] = {}
    for order, tensor in enumerate(function.tensors):
        for copy in uses.read[tensor].values():
            level, number = _place(copy, uses.written.get(tensor))
            copy.region = _region(copy, level, table)
            around = level[-1] if level else None
            placed.setdefault(around, []).append(_Placed(copy.region, number, order))
    body = _Writer(placed, iter(uses.operands)).body(function.body, None)
    return Function(function.name, function.parameters, body)


class _Operand(NamedTuple):
    """An operand of a nest. memory: None is one that is written to DRAM, "dram" one that the
    instruction itself reads there. moves: the loops that its index moves with. starts: whether it
    is written without being read."""

    use: Use
    memory: str | None
    moves: frozenset[Variable]
    starts: bool


@dataclass(slots=True)
class _Copy:
    """A tensor in a memory with all statements that read it there, or, for a tensor in DRAM (memory
    None), those that write it.

    path: the loops around all uses.
    uses: the distinct accesses, in their order.
    first, last: the positions of the statements with the first and the last use, as indices from
    the function's own level down.
    starts: whether the first use writes without reading.
    whole: whether the whole tensor is loaded at the beginning of a level.
    """

    tensor: NestTensor
    memory: str | None
    path: _Path
    first: tuple[int, ...]
    last: tuple[int, ...]
    starts: bool
    whole: bool
    uses: dict[Use, None] = field(default_factory=dict)
    region: Region | None = None


class _Placed(NamedTuple):
    """A region, and the position of its copy: in front of the statement with this number at its
    level, or in front of all statements (-1, for a table). order: the order among copies at one
    position."""

    region: Region
    number: int
    order: int


def _fail(message: str) -> LoweringError:
    return LoweringError(f"insert_dma_copy: {message}")


# --- uses -----------------------------------------------------------------------------------------
class _Uses:
    """All uses of tensors in a function. read: the copies of each tensor, by memory and by the
    outermost loop at which each may be placed. written: the writers of each tensor in DRAM.
    operands: for each nest, in order, the copy to which each operand belongs."""

    def __init__(self, function: Function, table: MemoryTable) -> None:
        self._table = table
        self.read: dict[NestTensor, dict[tuple[str, NestLoop | None], _Copy]] = {
            tensor: {} for tensor in function.tensors
        }
        self.written: dict[NestTensor, _Copy] = {}
        self.operands: list[tuple[_Copy | None, ...]] = []
        for tensor in function.tensors:
            if tensor.memory is not None:
                raise _fail(f"{tensor.name} stands in {tensor.memory} already")
        self._body(function.body, (), ())

    def _body(self, body: Sequence[Statement], path: _Path, place: tuple[int, ...]) -> None:
        for number, statement in enumerate(body):
            self._statement(statement, path, (*place, number))

    def _statement(self, statement: Statement, path: _Path, place: tuple[int, ...]) -> None:
        if isinstance(statement, Nest):
            operands = _operands(statement, self._table)
            self.operands.append(tuple([self._operand(each, path, place) for each in operands]))
        elif isinstance(statement, NestLoop):
            self._body(statement.body, (*path, statement), place)
        elif isinstance(statement, NestGroup):
            for part in statement.body:
                self._statement(part, path, place)
        else:
            raise _fail(f"{statement.tensor.name} is allocated already")

    def _operand(self, operand: _Operand, path: _Path, place: tuple[int, ...]) -> _Copy | None:
        tensor = operand.use.access.tensor
        if tensor not in self.read:
            raise _fail(f"{tensor.name} is none of the function's tensors")
        if operand.memory == DRAM:
            _stays(operand.use.access)
            return None
        is_read = operand.memory is not None
        copy = (self._read if is_read else self._written)(operand, path, place)
        if copy.path is not path and copy.path:
            copy.path = _common(copy.path, path)
        copy.uses.setdefault(operand.use)
        copy.last = place
        return copy if is_read else None

    def _written(self, operand: _Operand, path: _Path, place: tuple[int, ...]) -> _Copy:
        tensor = operand.use.access.tensor
        if self.read[tensor]:
            raise _fail(f"{tensor.name} is read before it is written")
        if tensor not in self.written:
            self.written[tensor] = _Copy(tensor, None, path, place, place, True, False)
        return self.written[tensor]

    def _read(self, operand: _Operand, path: _Path, place: tuple[int, ...]) -> _Copy:
        (access, _, _), memory, moves, starts = operand
        tensor = access.tensor
        assert memory is not None
        whole = tensor.role == "table" and self._table.keeps(prod(tensor.shape), memory)
        stays = whole or tensor.role == "local" or tensor in self.written
        depth = _depth(path, _NOTHING if stays else moves)
        copies, key = self.read[tensor], (memory, path[depth - 1] if depth else None)
        copy = copies.get(key)
        if copy is None:
            around = path if stays and not whole else path[:depth]
            copy = copies[key] = _Copy(tensor, memory, around, place, place, starts, whole)
        return copy


def _stays(access: NestAccess) -> None:
    """Of an operand that is read where it is, in order with all that is written there: no copy, and
    so no pads."""
    tensor = access.tensor
    if tensor.role == "local":
        raise _fail(f"{tensor.name} is read in DRAM, where no local is")
    if access.inside:
        raise _fail(f"{tensor.name} is read in DRAM, where it has no pads")


def _depth(path: _Path, moves: frozenset[Variable]) -> int:
    """The number of loops that must be around a copy: down to the innermost loop that is marked
    apart, or in which an index of the tensor moves."""
    for depth in range(len(path), 0, -1):
        loop = path[depth - 1]
        if loop.apart or loop.variable in moves:
            return depth
    return 0


def _common(path: _Path, other: _Path) -> _Path:
    """The loops around both."""
    for depth, (loop, own) in enumerate(zip(path, other, strict=False)):
        if loop is not own:
            return path[:depth]
    return min(path, other, key=len)


@lru_cache(maxsize=4096)
def _operands(nest: Nest, table: MemoryTable) -> tuple[_Operand, ...]:
    """Those of a nest; functions share nests."""
    found = []
    for step in nest.steps:
        for number, access in enumerate(step.operands):
            memory = table.memory(step, number)
            use = Use(access, nest.conditions, table.tiles(step, number))
            found.append(_Operand(use, memory, _moves(access), step.name == table.starts))
            is_local = access.tensor.role == "local"
            if step.name == COPY and is_local != (number == 1):
                raise _fail(f"a copy of {access.tensor.name}: a schedule stores locals alone")
    written = {each.use.access.tensor for each in found if each.memory is None}
    for operand in found:
        if operand.memory is not None and operand.use.access.tensor in written:
            raise _fail(f"{operand.use.access.tensor.name} is written and read by one nest")
    return tuple(found)


def _moves(access: NestAccess) -> frozenset[Variable]:
    moving: set[Variable] = set()
    for place in access.at:
        if not isinstance(place, int):
            moving.update([variable for variable, factor in place.terms.items() if factor])
    return frozenset(moving)


# --- level and region -----------------------------------------------------------------------------
def _place(copy: _Copy, written: _Copy | None) -> tuple[_Path, int]:
    """The loops around a copy, and the number of the statement that it precedes."""
    level, name = copy.path, copy.tensor.name
    if copy.whole:
        return level, -1
    if copy.tensor.role == "local":
        around = tuple(loop.variable for loop in level)
        uses = list(copy.uses)
        if not copy.starts or not covers(uses[:1], uses, around):
            raise _fail(f"{name} is used before a fill of all of it")
    elif written is not None:
        level = _common(level, written.path)
        if _depth(copy.path, _NOTHING) > len(level) or _depth(written.path, _NOTHING) > len(level):
            raise _fail(f"{name} is written in one turn of a loop and read in another")
        if copy.first[len(level)] <= written.last[len(level)]:
            raise _fail(f"{name} is read inside the statement that writes it")
        around = tuple(loop.variable for loop in level)
        if not covers(list(written.uses), list(copy.uses), around):
            raise _fail(f"{name} is read where it is not written in the same turn")
        return level, written.last[len(level)] + 1
    return level, copy.first[len(level)]


def _region(copy: _Copy, level: _Path, table: MemoryTable) -> Region:
    tensor, memory = copy.tensor, copy.memory
    assert memory is not None
    around = tuple([loop.variable for loop in level])
    region = region_of(tensor, memory, tuple(copy.uses), around, copy.whole)
    tiles, depth = prod(region.tensor.shape), table.depth_tiles[memory]
    if tiles > depth:
        raise _fail(f"{tiles} tiles of {tensor.name} do not fit {memory}, which holds {depth}")
    return region


# --- writing --------------------------------------------------------------------------------------
class _Writer:
    """Writes the statements of each level, with the copies placed in front of them. operands: as in
    _Uses."""

    def __init__(
        self,
        placed: dict[NestLoop | None, list[_Placed]],
        operands: Iterator[tuple[_Copy | None, ...]],
    ) -> None:
        self._placed, self._operands = placed, operands

    def body(self, body: Sequence[Statement], loop: NestLoop | None) -> tuple[Statement, ...]:
        """The statements inside a loop; None: those of the function."""
        here = sorted(self._placed.get(loop, ()), key=lambda each: (each.number, each.order))
        made: list[Statement] = []
        following = 0
        for number, statement in enumerate(body):
            while following < len(here) and here[following].number <= number:
                region = here[following].region
                following += 1
                made.append(NestAllocation(region.tensor))
                made += [region.load] if region.load is not None else []
            made.append(self._statement(statement))
        return tuple(made)

    def _statement(self, statement: Statement) -> Statement:
        if isinstance(statement, Nest):
            copies = next(self._operands)
            return _moved(statement, tuple([copy and copy.region for copy in copies]))
        if isinstance(statement, NestLoop):
            body = self.body(statement.body, statement)
            return NestLoop(statement.variable, body, statement.apart)
        assert isinstance(statement, NestGroup)
        return NestGroup(tuple(map(self._statement, statement.body)))


@lru_cache(maxsize=4096)
def _moved(nest: Nest, regions: tuple[Region | None, ...]) -> Nest:
    """A nest whose operands stand in regions; None: in DRAM. The same for all functions that share
    both."""
    following, steps = iter(regions), []
    for step in nest.steps:
        operands = []
        for access in step.operands:
            region = next(following)
            operands.append(access if region is None else region.moved(access))
        steps.append(step._replace(operands=tuple(operands)))
    return Nest(nest.loops, nest.conditions, tuple(steps))
