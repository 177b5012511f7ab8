# SPDX-License-Identifier: Apache-2.0
"""Tile the loops of a computation: split each axis in two, and put the loops over tiles outside.

In:   a `Function` of nests over whole axes, which share their loop variables; the size of the tile
      along each axis; the order of the loops over tiles.
Out:  the same Function, in which every nest runs over one tile.
Next: insert_dma_copy.py decides at which loop each tensor is loaded.

    copy(out[i], acc[i]) for i<10               for i0<3:
                                                  copy(out[4*i0 + i], acc[4*i0 + i]) for i<4
                                                      if -4*i0 - i + 9 >= 0

A size need not divide its axis: a condition clips the last tile. An axis that is not in the order,
such as that of the inputs of a sum, becomes a loop around each nest that has it. A loop over tiles
in the order is kept even if it has one iteration, because it is a level at which copies can be
placed; a loop of one iteration inside a nest is removed.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from loadstone.errors import LoweringError
from loadstone.ir_pass.affine import Index, Place, Variable, substituted
from loadstone.ir_pass.nests import (
    Function,
    Nest,
    NestAccess,
    NestGroup,
    NestLoop,
    Statement,
)

__all__ = ["tiled"]


def tiled(function: Function, sizes: Mapping[Variable, int], order: Sequence[Variable]) -> Function:
    """order: the loops over tiles around all statements, outermost first. A variable without a size
    stays whole. Raises LoweringError for a size that is no part of its axis, for an axis in the
    order that has none, and for a function that has loops or allocations already."""
    for axis, size in sizes.items():
        if not 1 <= size <= axis.extent:
            raise LoweringError(f"tile_loops: {size} is no tile of {axis.name}<{axis.extent}")
    for axis in order:
        if axis not in sizes:
            raise LoweringError(f"tile_loops: {axis.name}<{axis.extent} is ordered without a size")
    writer = _Writer(sizes, order)
    body = tuple(map(writer.statement, function.body))
    for axis in reversed(order):
        body = (NestLoop(writer.over_tiles[axis], body),)
    return function._replace(body=body)


class _Writer:
    """Rewrites nests. over_tiles, in_tile: the two loops of each axis, where there are two. places:
    where on the whole axis their turns are."""

    def __init__(self, sizes: Mapping[Variable, int], order: Sequence[Variable]) -> None:
        self._order = frozenset(order)
        self.over_tiles: dict[Variable, Variable] = {}
        self._in_tile: dict[Variable, Variable] = {}
        self._places: dict[Variable, Index] = {}
        self._bounds: dict[Variable, Index] = {}
        self._accesses: dict[NestAccess, NestAccess] = {}
        for axis, size in sizes.items():
            self._split(axis, size)

    def _split(self, axis: Variable, size: int) -> None:
        terms: dict[Variable, int] = {}
        if axis.extent > size or axis in self._order:
            outer = Variable(f"{axis.name}0", -(-axis.extent // size))
            self.over_tiles[axis] = outer
            terms[outer] = size
        if size > 1:
            inner = Variable(axis.name, size)
            self._in_tile[axis] = inner
            terms[inner] = 1
        self._places[axis] = Index(0, terms)
        if axis.extent % size:
            self._bounds[axis] = axis.extent - 1 - self._places[axis]

    def statement(self, statement: Statement) -> Statement:
        """A statement of the body; one with an axis of its own in the loops over its tiles."""
        if isinstance(statement, NestGroup):
            return NestGroup(tuple(map(self.statement, statement.body)))
        if not isinstance(statement, Nest):
            raise LoweringError("tile_loops: a computation has nests and groups of them alone")
        made: Statement = self._nest(statement)
        for axis in reversed(statement.loops):
            if axis in self.over_tiles and axis not in self._order:
                made = NestLoop(self.over_tiles[axis], (made,))
        return made

    def _nest(self, nest: Nest) -> Nest:
        for loop in nest.loops:
            if loop.extent == 1:
                self._places.setdefault(loop, Index(0, {}))
        loops = [self._in_tile.get(loop, loop) for loop in nest.loops if self._stays(loop)]
        conditions = [substituted(condition, self._places) for condition in nest.conditions]
        conditions += [self._bounds[loop] for loop in nest.loops if loop in self._bounds]
        steps = [
            step._replace(operands=tuple(map(self._access, step.operands))) for step in nest.steps
        ]
        return Nest(tuple(loops), tuple(conditions), tuple(steps))

    def _stays(self, loop: Variable) -> bool:
        """Whether a nest has it: not where it is one place of the axis, or all that there is."""
        return loop in self._in_tile or loop not in self._places

    def _access(self, access: NestAccess) -> NestAccess:
        if access not in self._accesses:
            at = tuple(map(self._place, access.at))
            self._accesses[access] = access._replace(at=at)
        return self._accesses[access]

    def _place(self, place: Place) -> Place:
        return place if isinstance(place, int) else substituted(place, self._places)
