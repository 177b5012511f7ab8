# SPDX-License-Identifier: Apache-2.0
"""Choose the instructions of one nest: of all matches the one that takes the fewest cycles.

In:   a ValueChain; the Meanings of a table; the port.
Out:  `InsnChoice`: templates of instructions, in order, and their cycles.
Next: match_instructions.py puts places into the templates.

Loops of the nest that are not the instruction's own are turned around it. What an operand is filled
by (`preload`), what another instruction says (`scale`), and what registers hold (`config_ld`) need
not be said again while it stays the same: the loops on which a fill depends are outermost. Of
instructions that turn the same loops, the one that finds its operand filled follows the one that
fills it.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Hashable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from itertools import product
from math import prod
from typing import NamedTuple, TypeAlias

from loadstone.errors import ConfigError
from loadstone.isa.accelerator import Port
from loadstone.isa.cost import port_cycles, work_cycles
from loadstone.isa.form import DRAM, InstructionForm
from loadstone.selection.chains import Placed
from loadstone.selection.meanings import Meaning, Meanings, MeaningSlot
from loadstone.selection.setters import RegisterSetting, Said, Setters
from loadstone.selection.unify import ChainLoop, Unifier, ValueChain, bound, matches

__all__ = ["CONSTANT", "Chooser", "InsnChoice", "Template"]

#: In place of a slot: a constant in DRAM whose places all hold what the chain is filled with.
CONSTANT = -1
#: Of memories that only instructions fill: what is in them, by the slot that was read, and how far
#: behind the slot's own place.
_Filled: TypeAlias = dict[str, tuple[int, int]]


class Template(NamedTuple):
    """One instruction. places: by field that says where an operand begins, its slot and how many
    places behind the slot's own. writes: the slot that it writes; None: one that fills what others
    read, or sets registers, and is left out where the same is there. is_any: it sets registers that
    may hold anything, and is left out where they hold something."""

    name: str
    fields: Mapping[str, int]
    places: Mapping[str, tuple[int, int]]
    writes: int | None
    is_any: bool = False


@dataclass(eq=False)
class _Way:
    """Instructions that turn the same loops of a chain, as many turns each, those that take the
    fewest cycles first. is_constant: the chain's source is a constant in place of its fill. said:
    what fields say, by the number of the match and its counts."""

    matches: Sequence[Unifier]
    chain: ValueChain
    is_constant: bool
    said: dict[tuple[int, tuple[int, ...]], Mapping[str, int] | None] = field(default_factory=dict)

    @property
    def loops(self) -> Sequence[int | None]:
        """Of each loop of the instructions, that of the chain."""
        return self.matches[0].loops

    @cached_property
    def parts(self) -> list[list[tuple[int, int]]]:
        """(first, turns) of each instruction along each of its loops."""
        extents = [1 if n is None else self.chain.loops[n].extent for n in self.loops]
        return [
            [(first, min(count, extent - first)) for first in range(0, extent, count)]
            for extent, count in zip(extents, self.matches[0].counts, strict=True)
        ]


class InsnChoice:
    """cycles: by unit, with what they take of the port."""

    def __init__(self, chooser: Chooser, way: _Way, cycles: Mapping[str, int]) -> None:
        self._chooser, self._way, self.cycles = chooser, way, cycles

    @cached_property
    def templates(self) -> tuple[Template, ...]:
        """All of them, made when somebody wants them: most choices are only compared."""
        return tuple(self._chooser.templates(self._way))


class Chooser:
    """Keeps what was chosen: tiles of one layer differ in their places alone."""

    def __init__(self, meanings: Meanings, port: Port | None) -> None:
        self.meanings, self.port = meanings, port
        self._setters = Setters(meanings.table)
        self._known: dict[ValueChain, InsnChoice | None] = {}
        #: Of calls that follow each other, by all but their places: chains, and what was chosen.
        self.of_calls: dict[Hashable, Sequence[tuple[Placed, InsnChoice]] | None] = {}
        self._of_filler: dict[Meaning, Mapping[str, int]] = {}

    def choice(self, chain: ValueChain) -> InsnChoice | None:
        """The cheapest; None where no instruction means it."""
        if chain not in self._known:
            best: InsnChoice | None = None
            for way in self._ways(merged(chain)):
                cycles = self._cycles(way)
                if cycles is None:
                    continue
                if best is None or sum(cycles.values()) < sum(best.cycles.values()):
                    best = InsnChoice(self, way, cycles)
            self._known[chain] = best
        return self._known[chain]

    def templates(self, way: _Way) -> Iterator[Template]:
        """Of all turns; one that fills or sets is in front of each that needs it."""
        filled: _Filled = {}
        loops, left = way.chain.loops, self._left(way)
        for turn in product(*(range(loops[n].extent) for n in left)):
            for part in product(*way.parts):
                at = [0] * len(way.chain.memories)
                turns = [*turn, *(first for first, _ in part)]
                for loop, number in zip((*left, *way.loops), turns, strict=True):
                    if loop is not None and number:
                        for slot, stride in enumerate(loops[loop].strides):
                            at[slot] += stride * number
                counts = tuple(count for _, count in part)
                found = self._cheapest(way, counts, at, filled)
                assert found is not None  # _cycles asked for each of these counts
                yield from found

    def _ways(self, chain: ValueChain) -> Iterator[_Way]:
        """All, those in which a constant in DRAM takes the place of a fill behind the others."""
        yield from self._alike(chain, is_constant=False)
        if chain.fill is not None and not chain.steps:
            yield from self._alike(_from_constant(chain), is_constant=True)

    def _alike(self, chain: ValueChain, *, is_constant: bool) -> Iterator[_Way]:
        found: dict[object, list[Unifier]] = {}
        for match in matches(self.meanings, chain):
            found.setdefault((match.loops, match.counts), []).append(match)
        for alike in found.values():
            alike.sort(key=lambda match: self._one(match.meaning.form, match.fields)[1])
            yield _Way(alike, chain, is_constant)

    def _left(self, way: _Way) -> list[int]:
        """Loops of the nest that are not the instructions' own, those on which fills depend
        outermost."""
        left = [n for n in range(len(way.chain.loops)) if n not in way.loops]
        return sorted(left, key=lambda n: not self._is_fixing(way, n))

    def _is_fixing(self, way: _Way, loop: int) -> bool:
        """Whether what is filled depends on a loop."""
        strides = way.chain.loops[loop].strides
        return any(
            strides[slot] for match in way.matches for slot, _ in self._filled(match.meaning)
        )

    # --- what it takes ----------------------------------------------------------------------------
    def _cycles(self, way: _Way) -> dict[str, int] | None:
        """Of one instruction of each kind, times their number. None: an instruction needs what none
        of the others leaves, or a register that none sets."""
        loops, left = way.chain.loops, self._left(way)
        still = [0] * len(way.chain.memories)
        fills = prod(loops[n].extent for n in left if self._is_fixing(way, n))
        turns = prod(loops[n].extent for n in left)
        numbers = Counter(tuple(count for _, count in part) for part in product(*way.parts))
        cycles: dict[str, int] = {}
        for counts, number in numbers.items():
            filled: _Filled = {}
            begin = self._cheapest(way, counts, still, filled)
            following = self._cheapest(way, counts, still, filled)
            if begin is None or following is None:
                return None
            rest = turns * number - fills
            for templates, times, first in (begin, fills, fills > 0), (following, rest, False):
                for each in templates:
                    once = each.writes is None and not each.places
                    form = self.meanings.table.by_name[each.name]
                    unit, own = self._one(form, each.fields)
                    cycles[unit] = cycles.get(unit, 0) + own * (first if once else times)
            fills = 0
        return cycles

    def _one(self, form: InstructionForm, fields: Mapping[str, int]) -> tuple[str, int]:
        """The unit of an instruction, and its cycles. fields: and registers that it finds."""
        names = [bits.name for bits in form.fields]
        names += self.meanings.table.read_registers[form.name]
        values = {name: fields.get(name, 0) for name in names}
        cycles = work_cycles(form, values)
        if self.port is not None:
            cycles += sum(port_cycles(self.port, reach, values) for reach in form.reaches)
        return form.unit_of(values), cycles

    # --- one instruction --------------------------------------------------------------------------
    def _cheapest(
        self, way: _Way, counts: tuple[int, ...], at: Sequence[int], filled: _Filled
    ) -> list[Template] | None:
        """The first that finds what it needs, behind those that bring it. at: of each slot."""
        for number, match in enumerate(way.matches):
            if (number, counts) not in way.said:
                turns = way.loops, counts
                made = bound(self.meanings, match.meaning, way.chain, turns)
                way.said[number, counts] = made
            fields = way.said[number, counts]
            if fields is not None:
                found = self._instruction(way, match.meaning, fields, at, filled)
                if found is not None:
                    return found
        return None

    def _instruction(
        self,
        way: _Way,
        meaning: Meaning,
        fields: Mapping[str, int],
        at: Sequence[int],
        filled: _Filled,
    ) -> list[Template] | None:
        own: dict[str, Said] = {}
        others: dict[str, dict[str, Said]] = {}
        fills: _Filled = {}
        stays: set[str] = set()
        for number, filler in self._filled(meaning):
            place, memory = (number, at[number]), filler.target.memory
            fills[memory] = place
            assert isinstance(filler.source, MeaningSlot)
            said: dict[str, Said] = {**self._fill_fields(filler)}
            said[str(filler.source.first)] = place
            if meaning.before is not None and meaning.before.target.memory == memory:
                own |= said
            elif filled.get(memory) == place:
                stays.add(filler.form.name)
            elif self.meanings.stands_alone(filler):
                others.setdefault(filler.form.name, {}).update(said)
            else:
                return None
        for name, value in fields.items():
            owner, _, last = name.rpartition(".")
            if owner not in stays:
                (others.setdefault(owner, {}) if owner else own)[last] = value
        for number, slot in enumerate(meaning.slots):
            if isinstance(slot.first, str):
                is_it = way.is_constant and number == 1
                own[slot.first] = (CONSTANT, 0) if is_it else (number, at[number])
        found: list[Template] = []
        for name, said in [*others.items(), (meaning.form.name, own)]:
            parts = self._behind_setters(self.meanings.table.by_name[name], said)
            if parts is None:
                return None
            found += parts
        found[-1] = found[-1]._replace(writes=0)
        filled.update(fills)
        return found

    def _behind_setters(
        self, form: InstructionForm, said: Mapping[str, Said]
    ) -> list[Template] | None:
        """An instruction, and in front of it those that set registers for it."""
        table, own = self.meanings.table, {bits.name for bits in form.fields}
        wanted = {name: value for name, value in said.items() if name not in own}
        free = {
            name: max(0, table.by_register[name].bits.lowest)
            for name in table.read_registers[form.name]
            if name not in wanted
        }
        anything, settings = self._setters.of(free), self._setters.of(wanted)
        if anything is None or settings is None:
            return None
        itself = RegisterSetting(form, {name: value for name, value in said.items() if name in own})
        found = [_template(each)._replace(is_any=True) for each in anything]
        return [*found, *map(_template, (*settings, itself))]

    def _filled(self, meaning: Meaning) -> list[tuple[int, Meaning]]:
        """Slots that are read in a memory which instructions fill, and what fills it."""
        fillers = self.meanings.fillers
        return [
            (number, fillers[slot.memory])
            for number, slot in enumerate(meaning.slots)
            if isinstance(slot.first, int) and slot.memory in fillers
        ]

    def _fill_fields(self, filler: Meaning) -> Mapping[str, int]:
        """Of the instruction that fills an operand's places, which follow each other."""
        if filler in self._of_filler:
            return self._of_filler[filler]
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
        self._of_filler[filler] = fields
        return fields


def _template(setting: RegisterSetting) -> Template:
    form, said = setting
    numbers = {name: value for name, value in said.items() if isinstance(value, int)}
    places = {name: value for name, value in said.items() if not isinstance(value, int)}
    return Template(form.name, numbers, places, None)


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
