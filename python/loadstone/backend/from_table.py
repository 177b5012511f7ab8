# SPDX-License-Identifier: Apache-2.0
"""A back end whose programs follow from its table: what instructions mean chooses them.

In:   an Accelerator whose table has meanings.
Out:  `FromTable`, from which a plug-in derives: patterns, `accepts` and `lower` are there.
Next: artifact/deploy.py asks for the program; the partition gives what is refused to the next back
      end, and at last to the host.

An operator is a computation on whole axes (computations.py). Its tiles are those whose program
takes the fewest cycles by the table's figures: units work at once where memories hold two sets of
tiles, and what only one unit can do bounds them all. Of each choice the copies are inserted, and
the instructions matched.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property, partial
from itertools import combinations
from math import prod
from typing import ClassVar

import numpy as np

from loadstone.backend.computations import COMPUTATIONS, Computation, RowDevice
from loadstone.backend.interface import Backend, Pattern, Segment, offered
from loadstone.backend.program import ProgramRegion
from loadstone.errors import LoweringError, Refusal
from loadstone.graph import Operator
from loadstone.ir_pass.affine import Variable
from loadstone.ir_pass.insert_dma_copy import insert_dma_copy
from loadstone.ir_pass.nest_text import printed
from loadstone.ir_pass.nests import Function, NestAllocation, NestGroup, NestLoop, Statement
from loadstone.ir_pass.tile_loops import tiled
from loadstone.ir_pass.verify_dma_copy import verify_dma_copy
from loadstone.isa.codec import At
from loadstone.isa.tiles import InTile, LocalTile, TiledInsn
from loadstone.passes.log import PassLog, checked
from loadstone.selection.choose import Chooser
from loadstone.selection.match_instructions import (
    Matched,
    match_instructions,
    text_of_instructions,
    unit_cycles,
)
from loadstone.selection.meanings import Meanings
from loadstone.selection.verify_match import verify_match

__all__ = ["FromTable", "TableTiles"]

#: Tilings of an operator that are kept for `loadstone tune`.
_KEPT = 16
#: Sizes of a tile on each side of its own that are tried. All there are found no program of MLPerf
#: Tiny's networks that takes less.
_BESIDE = 3


@dataclass(frozen=True)
class TableTiles:
    """sizes: of a tile along each axis that is split. order: the loops over tiles, outermost
    first."""

    sizes: tuple[tuple[Variable, int], ...]
    order: tuple[Variable, ...]

    def __str__(self) -> str:
        """As `loadstone tune` names it."""
        sizes = dict(self.sizes)
        around = " ".join(f"{axis.name}:{sizes.pop(axis)}" for axis in self.order)
        return f"{around} {' '.join(f'{axis.name}:{size}' for axis, size in sizes.items())}".strip()


@dataclass(frozen=True)
class _Tried:
    """A tiling, what it comes to, and its cycles by the estimate."""

    tiling: TableTiles
    tiles: Function
    copied: Function
    cycles: int


class FromTable(Backend):
    """Every operator that has a computation, as far as instructions mean it. A plug-in sets
    `accelerator`. diagonal: whether it takes depthwise layers, as products with diagonal
    matrices."""

    diagonal: ClassVar[bool] = False

    def __init__(self, **values: int | str | bool) -> None:
        super().__init__(**values)
        self._known: dict[Operator, Sequence[_Tried]] = {}

    def patterns(self) -> Sequence[Pattern]:
        """All operators that have a computation."""
        return [offered(kind, self.accepts) for kind in COMPUTATIONS]

    @cached_property
    def chooser(self) -> Chooser:
        """What its instructions mean."""
        if self.accelerator is None:
            raise LoweringError(f"back end {self.name}: it has no accelerator: set one")
        return Chooser(Meanings(self.accelerator.table), self.accelerator.port)

    @cached_property
    def rows(self) -> RowDevice:
        """What computations ask of it: lanes of a row, in which channels lie; its steps."""
        meanings = self.chooser.meanings
        memories = meanings.memories
        return RowDevice(
            meanings.lanes(memories.result), frozenset(memories.operands), self.diagonal
        )

    def accepts(self, operator: Operator) -> Refusal | None:
        """What its instructions cannot do, in one sentence."""
        computation = COMPUTATIONS[operator.kind](operator, self.rows)
        if isinstance(computation, Refusal):
            return computation
        try:
            self._ranked(operator, computation)
        except LoweringError as error:
            return Refusal(str(error), "a device whose instructions and memories do it")
        return None

    def space(self, operator: Operator) -> Mapping[str, Sequence[int | str]]:
        """For `loadstone tune`: the tiles that take the fewest cycles by the estimate."""
        computation = self._computation(operator)
        return {"tiles": [str(one.tiling) for one in self._ranked(operator, computation)]}

    def lower(self, segment: Segment) -> ProgramRegion:
        """Every operator into one program."""
        region = ProgramRegion(segment, self.accelerator)
        for operator in segment.operators:
            computation = self._computation(operator)
            ranked = self._ranked(operator, computation)
            wanted = self.choice(operator).get("tiles", str(ranked[0].tiling))
            tried = next(one for one in ranked if str(one.tiling) == wanted)
            self._program(operator, computation, tried, region)
        return region

    def _computation(self, operator: Operator) -> Computation:
        """Of an operator that is accepted."""
        computation = COMPUTATIONS[operator.kind](operator, self.rows)
        assert isinstance(computation, Computation)
        return computation

    # --- one operator -----------------------------------------------------------------------------
    def _program(
        self, operator: Operator, computation: Computation, tried: _Tried, region: ProgramRegion
    ) -> None:
        matched = self._matched(region.log(operator), tried)
        symbols = {
            name: region.constant(f"{name} of {operator.name}", value)
            for name, value in computation.constants.items()
        }
        for name, constant in matched.constants.items():
            value = np.full(constant.lanes, constant.value, constant.dtype)
            symbols[name] = region.constant(name, value)
        (x,), (out,) = operator.inputs, operator.outputs
        symbols |= {
            "x": region.tensor(x, self.rows.lanes),
            "out": region.tensor(out, self.rows.lanes),
        }
        shapes = {t.name: prod(t.shape) * prod(t.lanes) for t in tried.tiles.parameters}
        for sample in range(computation.samples):
            places = {
                name: At(symbol, sample * shapes[name] if name in ("x", "out") else 0)
                for name, symbol in symbols.items()
            }
            region.emit(operator, *_renamed(matched.instructions, places))

    def _matched(self, log: PassLog, tried: _Tried) -> Matched:
        """The instructions of a choice, and how they came to be. They are verified in every
        compile: a table that is new says what they mean."""
        meanings = self.chooser.meanings

        def verify(_: Function, made: Matched) -> None:
            verify_match(tried.tiles, made, meanings)

        log.run("computation", lambda _: tried.tiles, (), show=printed)
        log.run(
            "insert_dma_copy",
            lambda _: tried.copied,
            tried.tiles,
            verify=partial(verify_dma_copy, table=meanings.memories),
            show=printed,
        )
        made = log.run(
            "match_instructions",
            partial(match_instructions, chooser=self.chooser),
            tried.copied,
            verify=verify,
            show=text_of_instructions,
        )
        if not log.runs[-1].verified:
            checked("match_instructions", lambda: verify(tried.copied, made), log.subject)
        return made

    # --- tiles ------------------------------------------------------------------------------------
    def _ranked(self, operator: Operator, computation: Computation) -> Sequence[_Tried]:
        """The best first; once for each operator. Raises LoweringError where no tiles do."""
        if operator not in self._known:
            found = sorted(self._search(computation), key=lambda tried: tried.cycles)
            self._known[operator] = found[:_KEPT]
        return self._known[operator]

    def _search(self, computation: Computation) -> Iterator[_Tried]:
        """The first that do, and from the best so far on all that are next to it."""
        best = self._first(computation)
        known, left = {best.tiling}, True
        yield best
        while left:
            left = False
            for tiling in _beside(computation, best.tiling):
                if tiling not in known:
                    known.add(tiling)
                    tried = self._tried(computation, tiling, best.cycles)
                    if isinstance(tried, _Tried):
                        yield tried
                        if tried.cycles < best.cycles:
                            best, left = tried, True

    def _first(self, computation: Computation) -> _Tried:
        refused: LoweringError | None = None
        for tiling in _starts(computation):
            tried = self._tried(computation, tiling, None)
            if isinstance(tried, _Tried):
                return tried
            refused = tried or refused
        raise refused or LoweringError("a computation without tiles")

    def _tried(
        self, computation: Computation, tiling: TableTiles, most: int | None
    ) -> _Tried | LoweringError | None:
        """most: cycles, beyond which nobody asks for more: then None."""
        tiles = tiled(computation.function, dict(tiling.sizes), tiling.order)
        try:
            copied = insert_dma_copy(tiles, self.chooser.meanings.memories)
            units = unit_cycles(copied, self.chooser, most)
        except LoweringError as error:
            return error
        if not units:
            return None
        turns = prod(-(-axis.extent // size) for axis, size in tiling.sizes)
        return _Tried(tiling, tiles, copied, _cycles(units, turns, twice=self._fits_twice(copied)))

    def _fits_twice(self, function: Function) -> bool:
        """Whether each memory holds two of all tiles."""
        assert self.accelerator is not None
        rows: dict[str, int] = {}
        for tensor in _allocated(function.body):
            rows[tensor[0]] = rows.get(tensor[0], 0) + tensor[1]
        return all(2 * n <= self.accelerator.table.by_memory[m].rows for m, n in rows.items())


def _cycles(units: Mapping[str, int], turns: int, *, twice: bool) -> int:
    """Of a program whose units work at once: as long as the busiest, and one turn of the others in
    front of it and behind it."""
    total, most = sum(units.values()), max(units.values())
    return most + (total - most) // turns if twice else total


def _allocated(body: Sequence[Statement]) -> Iterator[tuple[str, int]]:
    """(memory, places) of each tensor on the chip."""
    for statement in body:
        if isinstance(statement, NestAllocation):
            yield statement.tensor.memory or "", prod(statement.tensor.shape)
        elif isinstance(statement, NestLoop | NestGroup):
            yield from _allocated(statement.body)


def _sizes(axis: Variable) -> list[int]:
    """Sizes of a tile that cut an axis into different numbers of tiles."""
    return sorted({-(-axis.extent // tiles) for tiles in range(1, axis.extent + 1)})


def _starts(computation: Computation) -> Iterator[TableTiles]:
    """From large tiles of the first axis to single places of all."""
    first, *others = computation.around
    for width in (None, 1):
        for size in reversed(_sizes(first)):
            sizes = {first: size, **dict.fromkeys(others[:1], 1)}
            sizes |= {axis: axis.extent if width is None else width for axis in others[1:]}
            sizes |= dict.fromkeys(computation.summed, 1)
            yield _tiling(computation, sizes, computation.around)


def _tiling(
    computation: Computation, sizes: Mapping[Variable, int], order: Sequence[Variable]
) -> TableTiles:
    axes = (*computation.around, *computation.summed)
    return TableTiles(tuple((axis, sizes[axis]) for axis in axes), tuple(order))


def _beside(computation: Computation, tiling: TableTiles) -> Iterator[TableTiles]:
    """Tilings in which one axis has tiles of one of the next sizes, or two have changed places."""
    sizes = dict(tiling.sizes)
    for axis, size in sizes.items():
        known = _sizes(axis)
        at = known.index(size)
        for other in known[max(0, at - _BESIDE) : at + _BESIDE + 1]:
            if other != size:
                yield _tiling(computation, {**sizes, axis: other}, tiling.order)
    many = [axis for axis in tiling.order if axis.extent > sizes[axis]]
    for a, b in combinations(many, 2):
        swapped = {a: b, b: a}
        yield replace(tiling, order=tuple(swapped.get(axis, axis) for axis in tiling.order))


def _renamed(insns: Sequence[TiledInsn], places: Mapping[str, At]) -> Iterator[TiledInsn]:
    """With the region's names, and tiles of their own."""
    tiles: dict[LocalTile, LocalTile] = {}
    for insn in insns:
        fields: dict[str, int | At | InTile] = {}
        for name, value in insn.fields.items():
            if isinstance(value, At):
                place = places[value.symbol]
                fields[name] = At(place.symbol, place.offset_bytes + value.offset_bytes)
            elif isinstance(value, InTile):
                if value.tile not in tiles:
                    old = value.tile
                    tiles[old] = LocalTile(old.memory, old.size_tiles, old.name)
                fields[name] = InTile(tiles[value.tile], value.row)
            else:
                fields[name] = value
        yield TiledInsn(insn.name, fields)
