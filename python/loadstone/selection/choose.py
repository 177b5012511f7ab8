# SPDX-License-Identifier: Apache-2.0
"""Choose the instructions of one nest: of all matches the one that takes the fewest cycles.

In:   a ValueChain; the Meanings of a table; the port.
Out:  `InsnChoice`: templates of instructions, in order, and their cycles.
Next: match_instructions.py puts places into the templates.

Loops of the nest that are not the instruction's own are turned around it. What an operand is filled
by (`preload`), and what another instruction says (`scale`), need not be said again while it stays
the same: the loops on which it depends are outermost.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import product
from math import prod
from typing import NamedTuple

from loadstone.errors import ConfigError
from loadstone.isa.accelerator import Port
from loadstone.isa.cost import port_cycles, work_cycles
from loadstone.isa.form import DRAM, InstructionForm
from loadstone.selection.meanings import Meaning, Meanings, MeaningSlot
from loadstone.selection.unify import ChainLoop, Unifier, ValueChain, bound, matches

__all__ = ["CONSTANT", "Chooser", "InsnChoice", "Template"]

#: In place of a slot: a constant in DRAM whose places all hold what the chain is filled with.
CONSTANT = -1


class Template(NamedTuple):
    """One instruction. places: by field that says where an operand begins, its slot and how many
    places behind the slot's own. writes: the slot that it writes; None: one that fills what others
    read, and is left out where the same is there."""

    name: str
    fields: Mapping[str, int]
    places: Mapping[str, tuple[int, int]]
    writes: int | None


@dataclass(frozen=True)
class InsnChoice:
    """cycles: by unit, with what they take of the port."""

    templates: tuple[Template, ...]
    cycles: Mapping[str, int]


class _Found(NamedTuple):
    """is_constant: the chain's source is a constant in place of its fill."""

    match: Unifier
    chain: ValueChain
    is_constant: bool


class Chooser:
    """Keeps what was chosen: tiles of one layer differ in their places alone."""

    def __init__(self, meanings: Meanings, port: Port | None) -> None:
        self.meanings, self.port = meanings, port
        self._known: dict[ValueChain, InsnChoice | None] = {}

    def choice(self, chain: ValueChain) -> InsnChoice | None:
        """The cheapest; None where no instruction means it."""
        if chain not in self._known:
            found = list(self._all(merged(chain)))
            best = min(found, key=self._estimate, default=None)
            self._known[chain] = None if best is None else self._choice(best)
        return self._known[chain]

    def _all(self, chain: ValueChain) -> Iterator[_Found]:
        for match in matches(self.meanings, chain):
            yield _Found(match, chain, is_constant=False)
        if chain.fill is not None and not chain.steps:
            moved = _from_constant(chain)
            for match in matches(self.meanings, moved):
                yield _Found(match, moved, is_constant=True)

    def _estimate(self, found: _Found) -> int:
        """Cycles without making all instructions: of one, times their number."""
        match, chain, _ = found
        left = _left(match, chain)
        turns = prod(chain.loops[n].extent for n in left)
        parts = prod(
            -(-(1 if loop is None else chain.loops[loop].extent) // count)
            for loop, count in zip(match.loops, match.counts, strict=True)
        )
        cycles = turns * parts * self._one(match.meaning.form, match.fields)
        again = prod(
            chain.loops[n].extent for n in left if self._is_fixing(match.meaning, chain, n)
        )
        for _, filler in self._filled(match.meaning):
            cycles += again * self._one(filler.form, self._fill_fields(filler))
        return cycles

    def _one(self, form: InstructionForm, fields: Mapping[str, int]) -> int:
        values = {bits.name: 0 for bits in form.fields}
        values |= {name: value for name, value in fields.items() if name in values}
        cycles = work_cycles(form, values)
        if self.port is not None:
            cycles += sum(port_cycles(self.port, reach, values) for reach in form.reaches)
        return cycles

    def _filled(self, meaning: Meaning) -> list[tuple[int, Meaning]]:
        """Slots that another instruction fills, and which."""
        found = []
        for number, slot in enumerate(meaning.slots):
            if isinstance(slot.first, int) and slot.memory in self.meanings.fillers:
                found.append((number, self.meanings.fillers[slot.memory]))
        return found

    def _fill_fields(self, filler: Meaning) -> dict[str, int]:
        """Of the instruction that fills an operand's places, which follow each other."""
        assert isinstance(filler.source, MeaningSlot)
        memory, places = self.meanings.reached(filler.target)
        loops = (ChainLoop(places, (1, 1)),)
        chain = ValueChain(
            (filler.target.memory, memory), None, is_moved=True, steps=(), loops=loops
        )
        turns = [0] * len(filler.counts), [places] * len(filler.counts)
        fields = bound(self.meanings, filler, chain, turns) if len(filler.counts) == 1 else None
        if fields is None:
            raise ConfigError(
                f"meaning of {filler.form.name} `{filler.text}`: it fills {filler.target.memory} "
                "by no single loop over places that follow each other"
            )
        return fields

    def _choice(self, found: _Found) -> InsnChoice:
        templates = tuple(self._templates(found))
        cycles: dict[str, int] = {}
        said: dict[str, Template] = {}
        for each in templates:
            form = self.meanings.table.by_name[each.name]
            if each.writes is None and said.get(each.name) == each:
                continue
            said[each.name] = each
            unit = form.unit_of({bits.name: each.fields.get(bits.name, 0) for bits in form.fields})
            cycles[unit] = cycles.get(unit, 0) + self._one(form, each.fields)
        return InsnChoice(templates, cycles)

    def _templates(self, found: _Found) -> Iterator[Template]:
        """All of them; one that fills is in front of each that needs it."""
        match, chain, is_constant = found
        meaning = match.meaning
        left = sorted(_left(match, chain), key=lambda n: not self._is_fixing(meaning, chain, n))
        parts = [
            _parts(1 if loop is None else chain.loops[loop].extent, count)
            for loop, count in zip(match.loops, match.counts, strict=True)
        ]
        known: dict[tuple[int, ...], Mapping[str, int]] = {match.counts: match.fields}
        for turn in product(*(range(chain.loops[n].extent) for n in left)):
            for part in product(*parts):
                counts = tuple(count for _, count in part)
                if counts not in known:
                    turns = match.loops, counts
                    known[counts] = bound(self.meanings, meaning, chain, turns) or {}
                at = [0] * len(chain.memories)
                moved = [*zip(left, turn, strict=True)]
                moved += [
                    (loop, first)
                    for loop, (first, _) in zip(match.loops, part, strict=True)
                    if loop is not None
                ]
                for loop, number in moved:
                    for slot, stride in enumerate(chain.loops[loop].strides):
                        at[slot] += stride * number
                yield from self._instruction(meaning, known[counts], at, is_constant=is_constant)

    def _is_fixing(self, meaning: Meaning, chain: ValueChain, loop: int) -> bool:
        """Whether what others fill depends on a loop."""
        return any(chain.loops[loop].strides[slot] for slot, _ in self._filled(meaning))

    def _instruction(
        self, meaning: Meaning, fields: Mapping[str, int], at: Sequence[int], *, is_constant: bool
    ) -> Iterator[Template]:
        """One, behind those that it needs. at: of each slot."""
        others: dict[str, tuple[dict[str, int], dict[str, tuple[int, int]]]] = {}
        for number, filler in self._filled(meaning):
            assert isinstance(filler.source, MeaningSlot)
            said, places = others.setdefault(filler.form.name, ({}, {}))
            said |= self._fill_fields(filler)
            places[str(filler.source.first)] = number, at[number]
        for name, value in fields.items():
            owner, _, field = name.rpartition(".")
            if owner:
                others.setdefault(owner, ({}, {}))[0][field] = value
        for name, (said, places) in others.items():
            yield Template(name, said, places, None)
        own = {name: value for name, value in fields.items() if "." not in name}
        where = {}
        for number, slot in enumerate(meaning.slots):
            if isinstance(slot.first, str):
                is_it = is_constant and number == 1
                where[slot.first] = (CONSTANT, 0) if is_it else (number, at[number])
        yield Template(meaning.form.name, own, where, 0)


def _left(match: Unifier, chain: ValueChain) -> list[int]:
    """Loops of the nest that are not the instruction's own."""
    return [n for n in range(len(chain.loops)) if n not in match.loops]


def _parts(extent: int, count: int) -> list[tuple[int, int]]:
    """(first, turns) of each instruction along a loop."""
    return [(first, min(count, extent - first)) for first in range(0, extent, count)]


def _from_constant(chain: ValueChain) -> ValueChain:
    """The same as a copy of a constant in DRAM whose places are all alike."""
    target, *others = chain.memories
    loops = tuple(
        ChainLoop(loop.extent, (loop.strides[0], 0, *loop.strides[1:])) for loop in chain.loops
    )
    memories = (target, DRAM, *others)
    return merged(ValueChain(memories, None, is_moved=True, steps=(), loops=loops))


def merged(chain: ValueChain) -> ValueChain:
    """With one loop in place of two that step through the same places."""
    loops = list(chain.loops)
    again = True
    while again:
        again = False
        for a, outer in enumerate(loops):
            for b, inner in enumerate(loops):
                whole = tuple(stride * inner.extent for stride in inner.strides)
                if a != b and outer.strides == whole:
                    loops[a] = ChainLoop(outer.extent * inner.extent, inner.strides)
                    del loops[b]
                    again = True
                    break
            if again:
                break
    return replace(chain, loops=tuple(loops))
