# SPDX-License-Identifier: Apache-2.0
"""What the instructions of a program touch, one after the other, through registers and words.

In:   a table; instructions in program order, each with its fields and where its addresses are; what
      memory holds that no device changes.
Out:  the touches of each; a ProgramRefusal where a register is not set, or a word is not known.
Next: program_tokens.py orders instructions by them, program_check.py holds them against memories.

An instruction reaches memory where an address register points, through words of a local memory, and
as far as registers say. All are set by instructions before it, so a program is followed from its
first instruction on: what an instruction touches is never more than what is said here, whatever
data the program works on.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from math import prod
from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray

from loadstone.errors import LoweringError
from loadstone.isa.form import DRAM, InstructionForm, Reach, Words
from loadstone.isa.hazards import Touch
from loadstone.isa.registers import at_reset, set_registers, with_registers
from loadstone.isa.table import InstructionTable
from loadstone.isa.terms import term_value

__all__ = ["Content", "Follower", "InDram", "Placed", "ProgramRefusal", "Touched", "no_content"]

#: Where an address is: a region of DRAM, and a byte in it.
Placed: TypeAlias = tuple[Hashable, int]
#: What stands there, as function of place and size in bytes; None where a device may change it.
Content: TypeAlias = Callable[[Placed, int], "bytes | None"]
_REGISTER = "register"


@dataclass(frozen=True)
class InDram:
    """The space of touches in a region of DRAM."""

    region: Hashable


class ProgramRefusal(LoweringError):
    """An instruction may not run. status: why, as the C runtime's LDS_ERR_ of this name."""

    def __init__(self, status: str, message: str, instruction: int = 0) -> None:
        super().__init__(message)
        self.status = status
        self.instruction = instruction


@dataclass(frozen=True)
class Touched:
    """What one instruction touches. reach: that which says it; None of words on the way and of
    registers. end: one past the last place."""

    touch: Touch
    end: int
    reach: Reach | None = None


def no_content(_place: Placed, _size: int) -> None:
    """Nothing is known of memory."""


class Follower:
    """A program as far as it was followed. regions: where each region of the model begins, for
    registers that begin so."""

    def __init__(
        self, table: InstructionTable, content: Content, regions: Sequence[Placed] = ()
    ) -> None:
        self._table = table
        self._content = content
        self._kept: dict[str, list[Placed | None]] = {}
        for one in table.address_registers:
            begin = list(regions[: one.count]) if one.regions else []
            self._kept[one.name] = [*begin, *[None] * (one.count - len(begin))]
        self._held = at_reset(table)
        self._words = {
            name: np.zeros(table.by_memory[name].rows, np.uint64) for name in table.word_fields
        }
        self._known = {name: np.zeros(len(rows), np.bool_) for name, rows in self._words.items()}

    def touched(
        self, form: InstructionForm, fields: Mapping[str, int], places: Mapping[str, Placed]
    ) -> list[Touched]:
        """What the next instruction touches. fields: all of them, those of addresses too. places:
        of each address field. Raises ProgramRefusal."""
        fields = self.values(form, fields)
        term = form.forbidden(fields)
        if term is not None:
            raise ProgramRefusal("INSTRUCTION", f"it is no instruction where {term} is not 0")
        found = [each for reach in form.reaches for each in self._reached(reach, fields, places)]
        found += [
            _of_register(name, 0, writes=False) for name in self._table.read_registers[form.name]
        ]
        found += [_of_register(one.register, 0, writes=True) for one in form.sets]
        for keep in form.keeps:
            index = self._index(keep.register, term_value(keep.index, fields))
            found.append(_of_register(keep.register, index, writes=True))
        return found

    def done(
        self,
        form: InstructionForm,
        fields: Mapping[str, int],
        places: Mapping[str, Placed],
        touched: Sequence[Touched],
    ) -> None:
        """The registers and words that it leaves, for those behind it. touched: what it touches.
        Raises ProgramRefusal."""
        fields = self.values(form, fields)
        for keep in form.keeps:
            index = term_value(keep.index, fields)
            self._kept[keep.register][index] = places[keep.field]
        for each in touched:
            if each.reach is not None and each.reach.writes and each.reach.memory in self._words:
                self._fill(form, each.reach, each, touched, fields)
        if form.sets:
            try:
                self._held = set_registers(self._table, form, fields, self._held)
            except LoweringError as error:
                raise ProgramRefusal("INSTRUCTION", str(error)) from None

    def values(self, form: InstructionForm, fields: Mapping[str, int]) -> Mapping[str, int]:
        """The fields of the next instruction, and the registers that it reads. Raises
        ProgramRefusal."""
        try:
            return with_registers(self._table, form, fields, self._held)
        except LoweringError as error:
            raise ProgramRefusal("INSTRUCTION", str(error)) from None

    def _reached(
        self, reach: Reach, fields: Mapping[str, int], places: Mapping[str, Placed]
    ) -> Iterator[Touched]:
        span = reach.span(fields)
        if span == 0:
            return
        offset, extent = term_value(reach.offset, fields), term_value(reach.extent, fields)
        if reach.through is not None:
            begin, end = reach.through.rows(fields)
            yield Touched(Touch(reach.through.memory, begin, (), end - begin, False), end)
            least, most = self._limits(reach.through, begin, end, str(reach.first))
            first, extent = least + offset, most - least + span
            through = Touch(reach.memory, first, (), extent, reach.writes)
            yield Touched(through, first + extent, reach)
            return
        space: Hashable = reach.memory
        if reach.memory != DRAM:
            first = term_value(reach.first, fields)
        elif reach.first in places:
            region, first = places[str(reach.first)]
            space = InDram(region)
        else:
            index = self._index(str(reach.first), term_value(reach.index, fields))
            yield _of_register(str(reach.first), index, writes=False)
            held = self._kept[str(reach.first)][index]
            if held is None:
                raise ProgramRefusal("DRAM", f"address register {reach.first}[{index}] is not set")
            space, first = InDram(held[0]), held[1]
        first += offset
        touch = Touch.of(space, first, reach.turns(fields), extent, reach.writes)
        yield Touched(touch, first + span, reach)

    def _index(self, register: str, index: int) -> int:
        count = len(self._kept[register])
        if index >= count:
            raise ProgramRefusal(
                "INSTRUCTION", f"address register {register}[{index}]: it is of {count}"
            )
        return index

    def _limits(self, words: Words, begin: int, end: int, field: str) -> tuple[int, int]:
        """Least and largest value of a field of words [begin, end)."""
        known = self._known[words.memory]
        if end > len(known) or not known[begin:end].all():
            raise ProgramRefusal(
                "UOP", f"words {begin} to {end - 1} of {words.memory} were not all loaded"
            )
        at, width = self._table.word_fields[words.memory][field]
        held = self._words[words.memory][begin:end] >> np.uint64(at) & np.uint64((1 << width) - 1)
        return int(held.min()), int(held.max())

    def _fill(
        self,
        form: InstructionForm,
        reach: Reach,
        to: Touched,
        touched: Sequence[Touched],
        fields: Mapping[str, int],
    ) -> None:
        """Words become what the instruction reads of DRAM."""
        memory = self._table.by_memory[reach.memory]
        row_bytes = memory.lanes * np.dtype(memory.dtype).itemsize
        if to.end > memory.rows:
            raise ProgramRefusal("SRAM", f"{form.name}: row {to.end - 1} of {memory.name}")
        sources = [
            (each.reach, each.touch)
            for each in touched
            if each.reach is not None and each.reach.memory == DRAM and not each.reach.writes
        ]
        count = _places(reach, fields)
        size = sum(_places(source, fields) for source, _ in sources)
        if count > memory.rows or size != count * row_bytes:
            raise ProgramRefusal(
                "INSTRUCTION",
                f"{form.name}: {count} words of {memory.name} from {size} bytes; they are of "
                f"{row_bytes} bytes, and the memory has {memory.rows}",
            )
        data = b"".join(self._read(form, *source, fields) for source in sources)
        whole = np.zeros((count, 8), np.uint8)
        whole[:, :row_bytes] = np.frombuffer(data, np.uint8).reshape(count, row_bytes)
        extent = term_value(reach.extent, fields)
        begins = _begins(reach, to.touch.first, fields)
        rows = (begins[:, None] + np.arange(extent)).reshape(-1)
        self._words[memory.name][rows] = whole.view("<u8")[:, 0]
        self._known[memory.name][rows] = True

    def _read(
        self, form: InstructionForm, reach: Reach, touch: Touch, fields: Mapping[str, int]
    ) -> bytes:
        assert isinstance(touch.space, InDram), touch
        parts, extent = [], term_value(reach.extent, fields)
        for at in _begins(reach, touch.first, fields).tolist():
            part = self._content((touch.space.region, at), extent)
            if part is None:
                raise ProgramRefusal(
                    "UOP",
                    f"{form.name}: words from memory that a device may change, so that nobody "
                    "knows where an instruction goes through them: load them from constants",
                )
            parts.append(part)
        return b"".join(parts)


def _of_register(name: str, index: int, *, writes: bool) -> Touched:
    return Touched(Touch((_REGISTER, name), index, (), 1, writes), index + 1)


def _places(reach: Reach, fields: Mapping[str, int]) -> int:
    """How many it has, those that it has twice counted twice."""
    return term_value(reach.extent, fields) * prod(count for count, _ in reach.turns(fields))


def _begins(reach: Reach, first: int, fields: Mapping[str, int]) -> NDArray[np.int64]:
    """Where each turn begins, in the order of the loops: (turns,)."""
    begins = np.array([first], np.int64)
    for count, stride in reach.turns(fields):
        begins = (begins[:, None] + stride * np.arange(count)).reshape(-1)
    return begins
