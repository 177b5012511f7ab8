# SPDX-License-Identifier: Apache-2.0
"""The part of a tensor that is read inside a level of loops: a box, and the copy that loads it.

In:   accesses of a tensor, the loops around the level.
Out:  `Region`: the tensor in a scratchpad, its first place, the nest that loads it.
Next: insert_dma_copy.py puts the load in front of the statements that read it.

Along each axis, a box has a first place, which is affine in the loops around the level, and the
number of places that the loops inside reach. If a single loop moves an axis by several places at a
time, only these places are loaded, except along the last axis, because a LOAD has a stride for rows
only. A condition on a loop that moves the axis bounds the box as well.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from itertools import combinations
from math import prod
from typing import NamedTuple, TypeAlias

from loadstone.errors import LoweringError
from loadstone.ir_pass.affine import Index, Place, Variable, highest, index
from loadstone.ir_pass.nests import COPY, Nest, NestAccess, NestStep, NestTensor

__all__ = ["Region", "Use", "covers", "region_of"]


class Use(NamedTuple):
    """An access, with the conditions under which it happens, and how many tiles it takes along the
    last axis."""

    access: NestAccess
    conditions: tuple[Index, ...]
    tiles: int


class _Span(NamedTuple):
    """Of one access along one axis: outer + [low, high], steps apart where one loop alone moves it
    (0: none moves, 1: several do). factors: by which loops move it, with their extents. bound: the
    greatest place that conditions allow, or None."""

    outer: Index
    low: int
    high: int
    step: int
    factors: tuple[tuple[int, int], ...]
    bound: Index | None


_Spans: TypeAlias = tuple[_Span, ...]
#: The first and the last place along each axis.
_Box: TypeAlias = tuple[tuple[int, int], ...]


class BoxAxis(NamedTuple):
    """One axis of a box: `size` places, first, first + step and so on, none of them beyond the
    bound."""

    first: Index
    step: int
    size: int
    bound: Index | None


@dataclass(frozen=True, eq=False)
class Region:
    """The part of a tensor that is held in a scratchpad. tensor: the tensor in the scratchpad.
    axes: for each axis, its places in the source. load: the copy from DRAM; None for a local, which
    is not loaded."""

    tensor: NestTensor
    axes: tuple[BoxAxis, ...]
    load: Nest | None

    def moved(self, access: NestAccess) -> NestAccess:
        """The access in the scratchpad to the same tile of the source."""
        at: list[Place] = []
        for place, axis in zip(access.at, self.axes, strict=True):
            if axis.step == 1 and not axis.first.constant and not axis.first.terms:
                at.append(place)
                continue
            distance = place - axis.first
            if axis.step > 1:
                terms = {v: n // axis.step for v, n in distance.terms.items()}
                distance = Index(distance.constant // axis.step, terms)
            at.append(distance)
        return NestAccess(self.tensor, tuple(at))


@lru_cache(maxsize=4096)
def region_of(
    source: NestTensor,
    memory: str,
    readers: tuple[Use, ...],
    around: tuple[Variable, ...],
    whole: bool,
) -> Region:
    """The box around all accesses of the readers within one iteration of the loops `around`, or,
    with `whole`, the whole tensor. Equal boxes are one object, even in different functions. Raises
    LoweringError where the accesses are not a box."""
    if whole:
        axes = tuple(BoxAxis(_same(Index(0, {})), 1, size, None) for size in source.shape)
    else:
        spans = [_spans(reader, around) for reader in readers]
        last = len(source.shape) - 1
        axes = tuple(
            _joined(source, [each[axis] for each in spans], may_step=axis < last)
            for axis in range(last + 1)
        )
    return _region(source, memory, axes, _pad(source, readers))


@lru_cache(maxsize=4096)
def _region(source: NestTensor, memory: str, axes: tuple[BoxAxis, ...], pad: int | None) -> Region:
    shape = tuple(axis.size for axis in axes)
    if source.role == "local":
        chip = NestTensor(source.name, shape, source.lanes, source.dtype, "local", memory)
        return Region(chip, axes, None)
    name = f"{source.name}_chip"
    chip = NestTensor(name, shape, source.lanes, source.dtype, "local", memory)
    return Region(chip, axes, _load(source, chip, axes, pad))


def _same(place: Index) -> Index:
    """One object for all equal indices."""
    return _index(place.constant, tuple(place.terms.items()))


@lru_cache(maxsize=4096)
def _index(constant: int, terms: tuple[tuple[Variable, int], ...]) -> Index:
    return Index(constant, dict(terms))


def covers(writers: Sequence[Use], readers: Sequence[Use], around: tuple[Variable, ...]) -> bool:
    """Whether every place that a reader reads in a turn of the loops `around` is written in that
    turn. Boxes are compared whole: of writes that overlap in part it is not known."""
    written = [(_spans(use, around), _bounds(use, around)) for use in writers]
    read = [(_spans(use, around), _bounds(use, around)) for use in readers]
    axes = zip(*(spans for spans, _ in read), strict=True)
    hull = tuple((min(s.low for s in axis), max(s.high for s in axis)) for axis in axes)
    exact = {
        spans: bounds
        for use, (spans, bounds) in zip(writers, written, strict=True)
        if _is_box(spans, bounds, len(use.conditions))
    }
    used = _covering(hull, list(exact))
    return bool(used) and all(
        _same_terms(ours.outer, theirs.outer) and _within(upto, limit)
        for by in used
        for spans, bounds in read
        for ours, theirs, upto, limit in zip(by, spans, bounds, exact[by], strict=True)
    )


def _covering(hull: _Box, written: Sequence[_Spans]) -> list[_Spans]:
    """One of the writes whose box holds the hull; or those whose boxes, apart from each other, make
    it up; or none."""
    boxes = {tuple((span.low, span.high) for span in spans): spans for spans in written}
    for box, spans in boxes.items():
        if _holds(box, hull):
            return [spans]
    inside = [box for box in boxes if _holds(hull, box)]
    is_apart = not any(_meets(box, other) for box, other in combinations(inside, 2))
    whole = is_apart and sum(map(_tiles, inside)) == _tiles(hull)
    return [boxes[box] for box in inside] if whole else []


def _holds(box: _Box, other: _Box) -> bool:
    return all(a <= c and d <= b for (a, b), (c, d) in zip(box, other, strict=True))


def _meets(box: _Box, other: _Box) -> bool:
    return all(a <= d and c <= b for (a, b), (c, d) in zip(box, other, strict=True))


def _tiles(box: _Box) -> int:
    return prod(last - first + 1 for first, last in box)


# --- boxes ----------------------------------------------------------------------------------------
@lru_cache(maxsize=1 << 14)
def _spans(reader: Use, around: tuple[Variable, ...]) -> tuple[_Span, ...]:
    """Of each axis. The same for all functions that share the nest."""
    last = len(reader.access.at) - 1
    return tuple(
        _span(index(place), reader.conditions, around, reader.tiles - 1 if axis == last else 0)
        for axis, place in enumerate(reader.access.at)
    )


def _span(
    place: Index, conditions: Sequence[Index], around: tuple[Variable, ...], beyond: int
) -> _Span:
    low = high = place.constant
    outer: dict[Variable, int] = {}
    factors: list[tuple[int, int]] = []
    for variable, factor in place.terms.items():
        if variable in around:
            outer[variable] = factor
        elif factor and variable.extent > 1:
            way = factor * (variable.extent - 1)
            low, high = (low, high + way) if way > 0 else (low + way, high)
            factors.append((abs(factor), variable.extent))
    step = 0 if not factors else factors[0][0] if len(factors) == 1 else 1
    bound = _bound(place, conditions, around) if conditions and factors else None
    return _Span(Index(0, outer), low, high + beyond, step, tuple(factors), bound)


def _is_box(spans: _Spans, bounds: Sequence[Index | None], conditions: int) -> bool:
    """Whether an access with this number of conditions reaches every place of its box up to the
    bounds: each condition must bound an axis of its own, which one loop moves."""
    bounded = [span for span, bound in zip(spans, bounds, strict=True) if bound is not None]
    return (
        len(bounded) == conditions
        and all(len(span.factors) <= 1 for span in bounded)
        and all(map(_is_dense, spans))
    )


def _is_dense(span: _Span) -> bool:
    """Whether every place between the least and the greatest is reached."""
    reached = 1
    for factor, extent in sorted(span.factors):
        if factor > reached:
            return False
        reached += factor * (extent - 1)
    return True


@lru_cache(maxsize=1 << 14)
def _bounds(use: Use, around: tuple[Variable, ...]) -> tuple[Index | None, ...]:
    """Of each axis, the greatest place in a turn of the loops `around`, which may move it."""
    return tuple(
        _bound(index(place), use.conditions, around, turns=around) for place in use.access.at
    )


def _bound(
    place: Index,
    conditions: Sequence[Index],
    around: tuple[Variable, ...],
    turns: Sequence[Variable] = (),
) -> Index | None:
    """The greatest place that conditions allow, where one bounds a loop that moves the axis: a
    condition g >= 0 that moves with -k times the loop, where the place moves with n times it,
    allows no more than place + n / k * g. turns: loops of the condition that may move that."""
    for condition in conditions:
        for variable, factor in condition.terms.items():
            moved = place.terms.get(variable, 0)
            if variable in around or factor >= 0 or moved <= 0 or moved % factor:
                continue
            rest = place + condition * (moved // -factor)
            if not any(rest.terms.get(each) for each in condition.terms if each not in turns):
                outer = {v: n for v, n in rest.terms.items() if n and v in around}
                inner = {v: n for v, n in rest.terms.items() if v not in around}
                return Index(highest(Index(rest.constant, inner)), outer)
    return None


def _joined(source: NestTensor, spans: Sequence[_Span], *, may_step: bool) -> BoxAxis:
    """The axis of a box that holds those of all accesses."""
    span = spans[0] if len(spans) == 1 else _hull(source, spans)
    step = span.step if may_step and span.step else 1
    size = (span.high - span.low) // step + 1
    bound = None if span.bound is None else _same(span.bound)
    return BoxAxis(_same(span.outer + span.low), step, size, bound)


def _hull(source: NestTensor, spans: Sequence[_Span]) -> _Span:
    """What several accesses reach: steps apart where all of them move so, and begin so."""
    outer = spans[0].outer
    if not all(_same_terms(span.outer, outer) for span in spans):
        raise LoweringError(
            f"insert_dma_copy: accesses of {source.name} move differently with the loops around "
            "them"
        )
    low, high = min(span.low for span in spans), max(span.high for span in spans)
    steps = {span.step for span in spans if span.step}
    step = steps.pop() if len(steps) == 1 else 1
    if any((span.low - low) % step or (span.high - low) % step for span in spans):
        step = 1
    return _Span(outer, low, high, step, (), _loosest([span.bound for span in spans]))


def _loosest(bounds: Sequence[Index | None]) -> Index | None:
    """A bound of all; None where one has none, or they move differently."""
    found = bounds[0]
    for bound in bounds[1:]:
        if found is None or bound is None or not _same_terms(bound, found):
            return None
        found = max(found, bound, key=lambda each: each.constant)
    return found


def _same_terms(a: Index, b: Index) -> bool:
    return a.terms == b.terms or _plain(a) == _plain(b)


def _plain(place: Index) -> dict[Variable, int]:
    return {v: n for v, n in place.terms.items() if n}


def _within(bound: Index | None, other: Index | None) -> bool:
    """Whether what may reach `bound` goes no further than `other`; None: no bound."""
    if other is None:
        return True
    return bound is not None and _same_terms(bound, other) and bound.constant <= other.constant


# --- loads ----------------------------------------------------------------------------------------
def _pad(source: NestTensor, readers: Sequence[Use]) -> int | None:
    pads = {reader.access.pad for reader in readers}
    if len(pads) > 1:
        raise LoweringError(
            f"insert_dma_copy: {source.name} is padded with "
            f"{' and '.join(sorted(map(str, pads)))}, where one value is possible"
        )
    return pads.pop()


def _load(source: NestTensor, chip: NestTensor, axes: Sequence[BoxAxis], pad: int | None) -> Nest:
    """The copy of a box. A tensor that the box cannot leave has no pads."""
    loops: list[Variable] = []
    guards: list[Index] = []
    here: list[Place] = []
    there: list[Index] = []
    for number, axis in enumerate(axes):
        at = Index(0, {})
        if axis.size > 1:
            loops.append(Variable(f"a{number}", axis.size))
            at = Index(0, {loops[-1]: 1})
        here.append(at)
        there.append(axis.first + at * axis.step)
        if axis.bound is not None and highest(there[-1] - axis.bound) > 0:
            guards.append(axis.bound - there[-1])
    access = NestAccess(source, tuple(there), pad)
    value = access if access.inside else NestAccess(source, tuple(there))
    return Nest(tuple(loops), tuple(guards), (NestStep(COPY, (chip[tuple(here)], value)),))
