# SPDX-License-Identifier: Apache-2.0
"""Unification: where a nest of a kernel is what an instruction means.

In:   a `ValueChain`, one nest of a kernel with plain numbers; the Meanings of a table.
Out:  `Unifier`s: which loops of the nest are the instruction's own, how many turns of each, and
      what its fields say.
Next: choose.py puts the loops that are left around it, and takes the cheapest.

    chain       acc[16*a + b] += x[18*a + b] * w[0]   for a<4 b<16
    meaning     accumulator[target + i] += scratchpad[row + step*i] * weights[0]   for i<rows
    match       i is b, a is left: rows=16 step=1; target, row are places

Steps, memories and the numbers of operands must be the same. Each loop of the instruction is one of
the nest, or has one turn. Then every stride, count and immediate of the meaning is an equation of
its fields and of registers: one at a time is solved for, and must keep its limits.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import permutations
from math import prod
from typing import NamedTuple

from loadstone.isa.form import Bits, InstructionForm
from loadstone.isa.table import InstructionTable
from loadstone.isa.terms import Factor, Term, factors
from loadstone.selection.meanings import Meaning, Meanings, MeaningSlot

__all__ = ["ChainLoop", "ChainStep", "Unifier", "ValueChain", "bound", "matches", "solved"]


class ChainLoop(NamedTuple):
    """strides: of each slot, in places."""

    extent: int
    strides: tuple[int, ...]


class ChainStep(NamedTuple):
    """operands: how many there are besides the value."""

    name: str
    operands: int
    immediates: tuple[int, ...]


@dataclass(frozen=True)
class ValueChain:
    """A value from its source through steps to its target, as Meaning has it, with numbers for
    terms. memories: of each slot: the target, the source if `is_moved`, the operands of all steps.
    fill: what it begins as; None: what its source or its target holds. Every step of it may come in
    any order of the loops."""

    memories: tuple[str, ...]
    fill: int | None
    is_moved: bool
    steps: tuple[ChainStep, ...]
    loops: tuple[ChainLoop, ...]


class Unifier(NamedTuple):
    """loops: of each loop of the instruction, that of the nest; None: it has one turn. counts: the
    turns of each. fields: what they say, by name; FORM.FIELD is one of another instruction, and
    some are registers."""

    meaning: Meaning
    loops: tuple[int | None, ...]
    counts: tuple[int, ...]
    fields: Mapping[str, int]


def matches(meanings: Meanings, chain: ValueChain) -> Iterator[Unifier]:
    """All there are. The turns of each loop are as many as an instruction can do and leave a rest
    that one more can do."""
    for meaning in meanings.all:
        if not _is_alike(meanings, meaning, chain):
            continue
        free = [*range(len(chain.loops)), *[-1] * len(meaning.counts)]
        taken = set(permutations(free, len(meaning.counts)))
        for numbers in sorted(taken, reverse=True):
            loops = tuple(None if n < 0 else n for n in numbers)
            counts = _most(meanings.table, meaning, chain, loops)
            if counts is None:
                continue
            fields = bound(meanings, meaning, chain, (loops, counts))
            if fields is not None:
                yield Unifier(meaning, loops, counts, fields)


def bound(
    meanings: Meanings,
    meaning: Meaning,
    chain: ValueChain,
    turns: tuple[Sequence[int | None], Sequence[int]],
) -> dict[str, int] | None:
    """What fields say where the instruction has these (loops, counts); None: no values do. Fields
    that say where an operand begins are left out."""
    left = _equations(meanings, meaning, chain, turns)
    known = dict(meaning.fixed)
    while left:
        later = []
        for equation in left:
            found = solved(meanings.table, meaning.form, equation, known)
            if found is None:
                return None
            if "" in found:
                later.append(equation)
            else:
                known |= found
        if len(later) == len(left):
            return None
        left = later
    for pair in meaning.same:
        values = {known[name] for name in pair if name in known}
        if len(values) != 1:
            return None
        (value,) = values
        bits = (_bits(meanings.table, meaning.form, name) for name in pair)
        if not all(_keeps_limits(each, value) for each in bits):
            return None
        known |= dict.fromkeys(pair, value)
    return known


def _bits(table: InstructionTable, form: InstructionForm, name: str) -> Bits:
    """Of a field of the form, of FORM.FIELD, or of a register."""
    owner, _, field = name.rpartition(".")
    found = (b for b in (table.by_name[owner] if owner else form).fields if b.name == field)
    return next(found, None) or table.by_register[name].bits


def _keeps_limits(bits: Bits, value: int) -> bool:
    return bits.lowest <= value <= bits.highest


def _equations(
    meanings: Meanings,
    meaning: Meaning,
    chain: ValueChain,
    turns: tuple[Sequence[int | None], Sequence[int]],
) -> list[tuple[Term, int]]:
    """Terms of a meaning, and what they must come to."""
    found = list(zip(meaning.counts, turns[1], strict=True))
    if chain.fill is not None:
        assert isinstance(meaning.source, int | str)
        found.append((meaning.source, chain.fill))
    for step, own in zip(meaning.steps, chain.steps, strict=True):
        found += zip(step.immediates, own.immediates, strict=True)
    for number, slot in enumerate(meaning.slots):
        is_filled = chain.memories[number] != slot.memory
        for loop, stride in zip(turns[0], slot.strides, strict=True):
            if loop is not None:
                found.append((stride, chain.loops[loop].strides[number]))
                if is_filled:  # it stays what the other instruction put there
                    found.append((0, chain.loops[loop].strides[number]))
    return found


def solved(
    table: InstructionTable,
    form: InstructionForm,
    equation: tuple[Term, int],
    known: Mapping[str, int],
) -> dict[str, int] | None:
    """The value of the one name of a term that is open, so that the term has a value; {} where all
    are known; {"": 1} where several are open; None where there is no such value."""
    term, value = equation
    if isinstance(term, int):
        return {} if term == value else None
    left = [each for each in factors(term) if not _is_known(each, known)]
    times = prod(each.value(known) for each in factors(term) if each not in left)
    if not left or times == 0:
        return {} if times * (not left) == value else None
    if len(left) != 1:
        return {"": 1}
    (factor,) = left
    name = _open_field(factor, known)
    if name is None:
        return {"": 1}
    rest = factor.sum.number + sum(known[n] for n in factor.sum.fields if n != name)
    number, odd = divmod(value, times)
    fits = odd == 0 and _keeps_limits(_bits(table, form, name), number - rest)
    return {name: number - rest} if fits else None


def _is_known(factor: Factor, known: Mapping[str, int]) -> bool:
    return all(name in known for one in factor.sums() for name in one.fields)


def _open_field(factor: Factor, known: Mapping[str, int]) -> str | None:
    """The name that a factor leaves open; None where it is not one, or in a comparison."""
    names = [name for name in factor.sum.fields if name not in known]
    if factor.other is not None or len(names) != 1:
        return None
    (name,) = names
    return name


def _is_alike(meanings: Meanings, meaning: Meaning, chain: ValueChain) -> bool:
    """Whether all is the same but numbers."""
    fill = not isinstance(meaning.source, MeaningSlot) and meaning.source is not None
    kinds = fill, isinstance(meaning.source, MeaningSlot)
    if kinds != (chain.fill is not None, chain.is_moved):
        return False
    if len(meaning.steps) != len(chain.steps):
        return False
    for step, own in zip(meaning.steps, chain.steps, strict=True):
        numbers = len(own.immediates) == len(step.immediates)
        if (step.name, len(step.operands)) != (own.name, own.operands) or not numbers:
            return False
    for slot, memory in zip(meaning.slots, chain.memories, strict=True):
        is_filled = isinstance(slot.first, int)
        if memory != (meanings.reached(slot)[0] if is_filled else slot.memory):
            return False
        if is_filled and slot.memory not in meanings.fillers:
            return False
    return True


def _most(
    table: InstructionTable,
    meaning: Meaning,
    chain: ValueChain,
    loops: Sequence[int | None],
) -> tuple[int, ...] | None:
    """The most turns of each loop that the instruction can do, and then the rest; None where it
    cannot do them all."""
    counts = []
    for term, loop in zip(meaning.counts, loops, strict=True):
        extent = 1 if loop is None else chain.loops[loop].extent

        def fits(count: int, term: Term = term) -> bool:
            return solved(table, meaning.form, (term, count), meaning.fixed) is not None

        found = next((n for n in range(extent, 0, -1) if fits(n)), None)
        if found is None or (extent % found and not fits(extent % found)):
            return None
        counts.append(found)
    return tuple(counts)
