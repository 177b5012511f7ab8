# SPDX-License-Identifier: Apache-2.0
"""Verify the inserted copies, with a method independent of the pass that inserts them.

In:   a function before and after insert_dma_copy.py, the device's MemoryTable.
Out:  nothing, or a LoweringError that names the first operand that differs.
Next: a verified function is lowered to operations.

Both functions are walked together: except for allocations and loads, their statements must be the
same. Each operand is traced back through the last load of its tile, which maps a place in the
scratchpad to the place in DRAM that it holds. This must be the place of the original operand, in a
memory that the instruction reads, inside the allocated tile, and not beyond the clipped part of the
load. A store to a tensor makes all earlier loads of it stale. The verifier shares neither boxes nor
levels with the pass.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from math import prod
from typing import NoReturn

from loadstone.errors import LoweringError
from loadstone.ir_pass.affine import Index, Place, Variable, index, lowest, substituted
from loadstone.ir_pass.memory_table import MemoryTable
from loadstone.ir_pass.nests import (
    COPY,
    Function,
    Nest,
    NestAccess,
    NestAllocation,
    NestGroup,
    NestLoop,
    NestStep,
    NestTensor,
    Statement,
)
from loadstone.isa.form import DRAM

__all__ = ["verify_dma_copy"]


def verify_dma_copy(before: Function, after: Function, table: MemoryTable) -> None:
    """Verifies the result of insert_dma_copy. Raises LoweringError where the two functions do not
    compute the same, or where an operand is not in the memory from which its instruction reads."""
    if list(map(_declared, before.parameters)) != list(map(_declared, after.tensors)):
        _fail("the tensors in DRAM are others")
    _Verifier(table).body(before.body, after.body, {})


def _declared(tensor: NestTensor) -> tuple[object, ...]:
    """What a function says of a parameter."""
    return tensor.name, tensor.shape, tensor.lanes, tensor.dtype, tensor.role, tensor.memory


def _fail(message: str) -> NoReturn:
    raise LoweringError(f"verify_dma_copy: {message}")


@dataclass(eq=False)
class _Life:
    """A tile in a scratchpad since its allocation. load: the nest that loaded it; None if none did.
    begin: for a local, the position of its first place in the whole tensor. stale: whether its
    source was written since the load."""

    load: Nest | None = None
    begin: tuple[Index, ...] | None = None
    stale: bool = False

    @property
    def source(self) -> NestAccess | None:
        """The access in DRAM that was loaded."""
        return None if self.load is None else _moved(self.load)[1]


class _Verifier:
    """loops: for each loop open in the original function, its value in the loops of the new one."""

    def __init__(self, table: MemoryTable) -> None:
        self.table = table
        self.loops: dict[Variable, Place] = {}

    def body(
        self,
        before: Sequence[Statement],
        after: Sequence[Statement],
        lives: Mapping[NestTensor, _Life],
    ) -> None:
        """Verifies the statements of one level. lives: the tiles that are allocated."""
        known, left = dict(lives), iter(before)
        for statement in after:
            if isinstance(statement, NestAllocation):
                self._allocated(statement.tensor)
                known[statement.tensor] = _Life()
            elif isinstance(statement, Nest) and _is_load(statement):
                self._loaded(statement, known)
            else:
                self._same(next(left, None), statement, known)
        if next(left, None) is not None:
            _fail("a statement is missing")

    def _same(self, old: Statement | None, new: Statement, lives: dict[NestTensor, _Life]) -> None:
        if isinstance(new, NestGroup) and isinstance(old, NestGroup):
            self.body(old.body, new.body, lives)
        elif isinstance(new, NestLoop) and isinstance(old, NestLoop):
            if (old.variable.extent, old.apart) != (new.variable.extent, new.apart):
                _fail(f"loop {new.variable.name} is another one")
            self.loops[old.variable] = Index(0, {new.variable: 1})
            for _ in range(min(2, new.variable.extent)):  # what a turn leaves, the next one finds
                self.body(old.body, new.body, lives)
            del self.loops[old.variable]
        elif isinstance(new, Nest) and isinstance(old, Nest):
            self._nest(old, new, lives)
        else:
            _fail(f"a {type(new).__name__} stands in place of a {type(old).__name__}")

    # --- allocations and loads --------------------------------------------------------------------
    def _allocated(self, tensor: NestTensor) -> None:
        depth = self.table.depth_tiles.get(tensor.memory or "", 0)
        if prod(tensor.shape) > depth:
            _fail(f"{tensor.name} has {prod(tensor.shape)} tiles; {tensor.memory} holds {depth}")

    def _loaded(self, load: Nest, lives: dict[NestTensor, _Life]) -> None:
        target, source = _moved(load)
        if target.tensor not in lives:
            _fail(f"{target.tensor.name} is loaded where it is not allocated")
        if not _is_box(target):
            _fail(f"{target.tensor.name} is loaded to places that are no box")
        if not _is_inside(target, load.conditions):
            _fail(f"{target.tensor.name} is loaded beyond its allocation")
        seen = {v for place in self.loops.values() for v in index(place).terms}
        for place in source.at:
            if not set(_plain(index(place))) <= seen | set(load.loops):
                _fail(f"{source.tensor.name} is loaded by a loop that is not around its load")
        if source.pad is None and not _is_inside(source, load.conditions):
            _fail(f"a load leaves {source.tensor.name}, which has no padding")
        lives[target.tensor] = _Life(load)

    # --- nests ------------------------------------------------------------------------------------
    def _nest(self, old: Nest, new: Nest, lives: Mapping[NestTensor, _Life]) -> None:
        if [v.extent for v in old.loops] != [v.extent for v in new.loops]:
            _fail("a nest has other loops")
        if len(old.steps) != len(new.steps):
            _fail(f"a nest has {len(new.steps)} steps, not {len(old.steps)}")
        own = {was: Index(0, {now: 1}) for was, now in zip(old.loops, new.loops, strict=True)}
        renamed = {**self.loops, **own}
        conditions = [substituted(place, renamed) for place in old.conditions]
        if _keys(conditions) != _keys(new.conditions):
            _fail("a nest has other conditions")
        for was, now in zip(old.steps, new.steps, strict=True):
            if (was.name, was.immediates) != (now.name, now.immediates):
                _fail(f"{now.name} stands in place of {was.name}")
            for number, (tensor, at, pad) in enumerate(was.operands):
                places = tuple(substituted(index(place), renamed) for place in at)
                self._operand(now, number, NestAccess(tensor, places, pad), (new, lives))
            _spoil(now.operands[0].tensor, lives)

    def _operand(
        self,
        step: NestStep,
        number: int,
        was: NestAccess,
        where: tuple[Nest, Mapping[NestTensor, _Life]],
    ) -> None:
        """One operand of a step. was: the access that it was, by the loops of today."""
        nest, lives = where
        access, memory = step.operands[number], self.table.memory(step, number)
        tensor = access.tensor
        if tensor.memory != (None if memory == DRAM else memory):
            _fail(f"{step.name} reads {tensor.name} in {tensor.memory or 'DRAM'}, not {memory}")
        if tensor.memory is None:
            if (tensor.name, _keys(access.at)) != (was.tensor.name, _keys(was.at)):
                does = "writes" if memory is None else "reads"
                _fail(f"{step.name} {does} another place of {tensor.name}")
            if memory == DRAM and not _is_inside(access, nest.conditions):
                _fail(f"{step.name} leaves {tensor.name}, which has no padding in DRAM")
            return
        if tensor not in lives:
            _fail(f"{step.name} uses {tensor.name} where it is not allocated")
        beyond = self.table.tiles(step, number) - 1
        for axis, (place, size) in enumerate(zip(map(index, access.at), tensor.shape, strict=True)):
            end = size - (beyond if axis == len(tensor.shape) - 1 else 0)
            if not _is_within(place, end, nest.conditions):
                _fail(f"{step.name} leaves {tensor.name} along axis {axis}")
        life = lives[tensor]
        if was.tensor.role == "local":
            self._local(step, access, was, life)
        else:
            self._brought(access, was, life, (beyond, nest.conditions))

    def _local(self, step: NestStep, access: NestAccess, was: NestAccess, life: _Life) -> None:
        """A value between statements: all its accesses are as far from where they were."""
        if life.load is not None or access.tensor.name != was.tensor.name:
            _fail(f"{access.tensor.name} is not the local {was.tensor.name}")
        if len(was.at) != len(access.at):
            _fail(f"{access.tensor.name} has {len(access.at)} axes, not {len(was.at)}")
        begin = tuple(index(a) - b for a, b in zip(was.at, access.at, strict=True))
        if life.begin is None:
            if step.name != self.table.starts:
                _fail(f"{access.tensor.name} begins with {step.name}")
            life.begin = begin
        elif _keys(begin) != _keys(life.begin):
            _fail(f"{access.tensor.name} is used at another place than where it began")

    def _brought(
        self,
        access: NestAccess,
        was: NestAccess,
        life: _Life,
        when: tuple[int, Sequence[Index]],
    ) -> None:
        """A part of a tensor in DRAM: the load in force brought what it was. when: how many more
        tiles are used along the last axis, and under which conditions."""
        name, (_, conditions) = access.tensor.name, when
        if life.load is None:
            _fail(f"{name} is used and was never loaded")
        if life.stale:
            _fail(f"{name} is used, but {was.tensor.name} was written behind its load")
        target, source = _moved(life.load)
        by = _places(target, access, when)
        back = [substituted(index(place), by) for place in source.at]
        if source.tensor.name != was.tensor.name or _keys(back) != _keys(was.at):
            _fail(f"{name} is not the part of {was.tensor.name} that was used")
        if source.pad != was.pad and not _is_inside(was, conditions):
            _fail(f"{name} is padded with {source.pad}, not with {was.pad}")
        if not all(_holds(substituted(guard, by), conditions) for guard in life.load.conditions):
            _fail(f"{name} is used where its load was clipped")


def _spoil(written: NestTensor, lives: Mapping[NestTensor, _Life]) -> None:
    """What was loaded of a tensor before it is written."""
    for life in lives.values():
        life.stale |= life.source is not None and life.source.tensor.name == written.name


def _is_box(target: NestAccess) -> bool:
    """Whether a load begins at the first place, and moves each axis by a loop of its own."""
    moved = [place for place in map(index, target.at) if _plain(place)]
    loops = {variable for place in moved for variable in _plain(place)}
    alone = [not place.constant and list(_plain(place).values()) == [1] for place in moved]
    return len(loops) == len(moved) and all(alone)


def _places(
    target: NestAccess, access: NestAccess, when: tuple[int, Sequence[Index]]
) -> dict[Variable, Place]:
    """The turn of a load that brought what an access uses. when: as _brought has it."""
    by: dict[Variable, Place] = {}
    left, conditions = when
    for own, place in zip(map(index, target.at[::-1]), map(index, access.at[::-1]), strict=True):
        extent = 1
        for variable in _plain(own):
            by[variable], extent = place, variable.extent
        if extent == 1 and (_plain(place) or place.constant != own.constant):
            _fail(f"{access.tensor.name} moves along an axis of which one place was loaded")
        if extent - left < 1 or (extent > 1 and not _is_within(place, extent - left, conditions)):
            _fail(f"{access.tensor.name} was loaded in part")
        left = 0  # several tiles lie along the last axis, which is looked at first
    return by


# --- algebra --------------------------------------------------------------------------------------
def _is_load(nest: Nest) -> bool:
    """Whether it copies to the chip, and does nothing else."""
    return [s.name for s in nest.steps] == [COPY] and _moved(nest)[0].tensor.memory is not None


def _moved(load: Nest) -> tuple[NestAccess, NestAccess]:
    """Where the one step of a load writes, and what it reads."""
    (step,) = load.steps
    target, source = step.operands
    return target, source


def _plain(place: Index) -> dict[Variable, int]:
    """The loops that move it."""
    return {v: n for v, n in place.terms.items() if n and v.extent > 1}


def _key(place: Place) -> tuple[int, frozenset[tuple[Variable, int]]]:
    """As indices are compared."""
    whole = index(place)
    return whole.constant, frozenset(_plain(whole).items())


def _keys(at: Sequence[Place]) -> list[tuple[int, frozenset[tuple[Variable, int]]]]:
    return list(map(_key, at))


def _is_inside(access: NestAccess, conditions: Sequence[Index]) -> bool:
    """Whether an access stays inside its tensor."""
    places = zip(map(index, access.at), access.tensor.shape, strict=True)
    return all(_is_within(place, size, conditions) for place, size in places)


def _is_within(place: Index, size: int, conditions: Sequence[Index]) -> bool:
    """Whether a place is one of `size` in every turn in which no condition is negative."""
    return _holds(place, conditions) and _holds(size - 1 - place, conditions)


def _holds(number: Index, conditions: Sequence[Index]) -> bool:
    """Whether a number is never negative where no condition is: it is not, or it is some multiple
    of a condition and something more."""
    return any(lowest(rest) >= 0 for rest in _less(number, conditions))


def _less(number: Index, conditions: Sequence[Index]) -> Iterator[Index]:
    yield number
    for condition in conditions:
        for variable, factor in _plain(condition).items():
            times = number.terms.get(variable, 0) // factor
            if times > 0:
                yield number - condition * times
