# SPDX-License-Identifier: Apache-2.0
"""Calls of nests as chains: what an instruction could mean.

In:   Calls that follow each other and work on one value, from ir_pass/unroll.py.
Out:  `Placed`: chains of plain loops, without bounds and pads, and where their slots are.
Next: choose.py finds instructions for each.

A copy with pads is a copy of what is inside and fills of what is outside. A sum that begins with a
fill is a chain of both in the first turn of the loops that it runs over, and one of its own in all
others. Calls become one chain where each takes up the value as the one before left it.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import pairwise
from typing import NamedTuple

from loadstone.ir_pass.nests import COPY
from loadstone.ir_pass.unroll import Call, Loop
from loadstone.selection.meanings import FILL
from loadstone.selection.unify import ChainLoop, ChainStep, ValueChain

__all__ = ["Placed", "SlotAt", "chains_of", "is_taken_up"]

#: Steps that come to the same in any order of the turns that have one target.
_SUMS = frozenset({"add", "gemm", "max", "min"})


class SlotAt(NamedTuple):
    """The operand of a call at which a slot begins, and how many places (tiles) behind it."""

    call: int
    operand: int
    offset: int


class Placed(NamedTuple):
    """A chain, and where each of its slots is."""

    chain: ValueChain
    slots: tuple[SlotAt, ...]


class _Plain(NamedTuple):
    """Call number `at` without bounds. inside: whether a copy reads its source, and not the pads.
    offsets: from each operand to where the loops begin."""

    at: int
    call: Call
    inside: bool
    offsets: tuple[int, ...]
    loops: tuple[ChainLoop, ...]


def is_taken_up(before: Call, after: Call) -> bool:
    """Whether a call goes on with the value of the one before it."""
    taken = after.operands[1 if after.name == COPY else 0]
    return after.name != FILL and before.operands[0] == taken


def chains_of(calls: Sequence[Call]) -> list[Placed] | None:
    """What calls do, each of which takes up the value of the one before; None where it is no chain.
    A fill and a sum are one in the first turn of the sum alone."""
    parts = [list(_plain(n, call)) for n, call in enumerate(calls)]
    if len(calls) == 1:
        return [made for part in parts[0] for made in [_joined([part])] if made is not None]
    if any(len(part) != 1 or not part[0].inside for part in parts):
        return None
    plain = [part for (part,) in parts]
    if calls[0].name == FILL and len(calls) == 2 and calls[1].name != COPY:
        return _begun(*plain)
    made = _joined(plain)
    return None if made is None else [made]


# --- bounds ---------------------------------------------------------------------------------------
def _plain(at: int, call: Call) -> Iterator[_Plain]:
    """The boxes of a call's turns: inside of the pads, and around that."""
    inside = [(loop.inside_first, loop.inside_last) for loop in call.loops]
    whole = [(loop.first, loop.last) for loop in call.loops]
    cut = [_cut(a, b) for a, b in zip(whole, inside, strict=True)]
    if call.name != COPY or cut == whole:
        yield _box(at, call, whole, inside=True)
        return
    if any(first >= last for first, last in cut):
        yield _box(at, call, whole, inside=False)
        return
    yield _box(at, call, cut, inside=True)
    for number, ((first, last), (begin, end)) in enumerate(zip(whole, cut, strict=True)):
        for side in ((first, begin), (end, last)):
            if side[0] < side[1]:
                yield _box(at, call, [*cut[:number], side, *whole[number + 1 :]], inside=False)


def _cut(whole: tuple[int, int], inside: tuple[int, int]) -> tuple[int, int]:
    return max(whole[0], inside[0]), min(whole[1], inside[1])


def _box(at: int, call: Call, turns: Sequence[tuple[int, int]], *, inside: bool) -> _Plain:
    """Of a call the turns [first, last) of each loop."""
    offsets = [0] * len(call.operands)
    loops = []
    for loop, (first, last) in zip(call.loops, turns, strict=True):
        offsets = [o + first * stride for o, stride in zip(offsets, loop.strides, strict=False)]
        if last - first > 1:
            loops.append(ChainLoop(last - first, loop.strides[: len(offsets)]))
    return _Plain(at, call, inside, tuple(offsets), tuple(loops))


# --- chains ---------------------------------------------------------------------------------------
def _begun(fill: _Plain, step: _Plain) -> list[Placed] | None:
    """A fill and a step that takes it up: one chain in the first turn of the loops by which the
    step's value does not move, and the step alone in the others."""
    reduced = [n for n, loop in enumerate(step.loops) if loop.strides[0] == 0]
    first = _turned(step, dict.fromkeys(reduced, (0, 1)))
    made = _joined([fill, first])
    if made is None:
        return None
    found = [made]
    for number, loop in reversed(list(enumerate(reduced))):
        turns = dict.fromkeys(reduced[:number], (0, 1)) | {loop: (1, step.loops[loop].extent)}
        rest = _joined([_turned(step, turns)])
        assert rest is not None
        found.append(rest)
    return found


def _turned(plain: _Plain, turns: dict[int, tuple[int, int]]) -> _Plain:
    """Only some turns of some loops."""
    bounds = [turns.get(n, (0, loop.extent)) for n, loop in enumerate(plain.loops)]
    loops = tuple(Loop(x.extent, 0, x.extent, 0, x.extent, x.strides) for x in plain.loops)
    made = _box(plain.at, plain.call._replace(loops=loops), bounds, inside=True)
    offsets = tuple(a + b for a, b in zip(plain.offsets, made.offsets, strict=True))
    return made._replace(offsets=offsets)


class _Path(NamedTuple):
    """Operands as (call, operand). target: where the value ends. slots: the source, if it is a
    place, and the operands of the steps."""

    target: tuple[int, int]
    is_moved: bool
    slots: Sequence[tuple[int, int]]
    steps: tuple[ChainStep, ...]


def _joined(plain: Sequence[_Plain]) -> Placed | None:
    """One chain of all; None where one does not begin where the one before left the value."""
    first = plain[0]
    if not all(_goes_on(before, after) for before, after in pairwise(plain)):
        return None
    begins = first.call.name == FILL or not first.inside
    fill = first.call.immediates[0] if begins else None
    path = _path(plain, is_filled=begins)
    loops = _loops(plain, [path.target, *path.slots])
    if loops is None or not (_is_once(loops) or _is_sum(path)):
        return None
    found = [(plain[number], operand) for number, operand in [path.target, *path.slots]]
    memories = tuple(each.call.operands[operand].buffer.scope for each, operand in found)
    at = tuple(SlotAt(each.at, operand, each.offsets[operand]) for each, operand in found)
    return Placed(ValueChain(memories, fill, path.is_moved, path.steps, loops), at)


def _path(plain: Sequence[_Plain], *, is_filled: bool) -> _Path:
    """The way of the value through all calls."""
    moved, target = plain[0].call.name == COPY and plain[0].inside, (0, 0)
    slots, steps = [(0, 1)] if moved else [], []
    for number, (_, call, _, offsets, _) in enumerate(plain):
        if call.name == COPY and number:
            slots = slots if moved or is_filled else [(0, 0), *slots]
            moved, target = moved or not is_filled, (number, 0)
        elif call.name not in (COPY, FILL):
            slots += [(number, operand) for operand in range(1, len(offsets))]
            steps.append(ChainStep(call.name, len(offsets) - 1, call.immediates))
    return _Path(target, moved, slots, tuple(steps))


def _is_sum(path: _Path) -> bool:
    """Whether turns with one target may come in any order."""
    return not path.is_moved and [step.name in _SUMS for step in path.steps] == [True]


def _goes_on(before: _Plain, after: _Plain) -> bool:
    """Whether a call's first turn is where that of the one before it left the value."""
    return before.offsets[0] == after.offsets[1 if after.call.name == COPY else 0]


def _is_once(loops: Sequence[ChainLoop]) -> bool:
    """Whether no two turns have the same target."""
    reach = 0
    for loop in sorted(loops, key=lambda loop: abs(loop.strides[0])):
        if abs(loop.strides[0]) <= reach:
            return False
        reach += abs(loop.strides[0]) * (loop.extent - 1)
    return True


def _loops(
    plain: Sequence[_Plain], slots: Sequence[tuple[int, int]]
) -> tuple[ChainLoop, ...] | None:
    """The loops of all calls, which must be the same over the value; each slot moves as in its own
    call."""
    if len(plain) == 1:
        return tuple(
            ChainLoop(loop.extent, tuple(loop.strides[n] for _, n in slots))
            for loop in plain[0].loops
        )
    ways = []
    for number, (_, call, _, _, loops) in enumerate(plain):
        value = 1 if call.name == COPY and number else 0
        ways.append({(loop.extent, loop.strides[value]): loop for loop in loops})
        if len(ways[-1]) != len(loops):
            return None
    if any(way.keys() != ways[0].keys() for way in ways):
        return None
    return tuple(
        ChainLoop(extent, tuple(ways[call][extent, stride].strides[n] for call, n in slots))
        for extent, stride in ways[0]
    )
