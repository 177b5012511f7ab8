# SPDX-License-Identifier: Apache-2.0
"""What a table of instructions is made of: fields, what instructions touch, registers, memories.

In:   numbers and names, as a plug-in writes them.
Out:  Bits, OpcodeBits, Reach, Words, Keep, Register, Set, UnitBy, InstructionForm, LocalMemory,
      AddressRegister.
Next: table.py makes a whole set of them, and refuses what cannot be.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from types import MappingProxyType
from typing import TypeAlias

from loadstone.isa.terms import Term, fields_of, term_value

__all__ = [
    "DRAM",
    "MAX_FIELDS",
    "MAX_INSN_BYTES",
    "MAX_KEPT",
    "MAX_LOOPS",
    "MAX_REGISTERS",
    "MIN_INSN_BYTES",
    "AddressRegister",
    "Bits",
    "InstructionForm",
    "Keep",
    "LocalMemory",
    "OpcodeBits",
    "Reach",
    "Register",
    "Set",
    "UnitBy",
    "WordLimits",
    "Words",
]

MIN_INSN_BYTES, MAX_INSN_BYTES = 4, 64
#: Fields of one instruction, as the validator in C has room for.
MAX_FIELDS = 32
#: Loops of one Reach.
MAX_LOOPS = 3
#: Address registers of a device, as the validator in C has room for.
MAX_KEPT = 16
#: Registers of a device, as the validator in C has room for.
MAX_REGISTERS = 32
#: The memory that host and device share, in a Reach; it counts bytes.
DRAM = "dram"
#: The least and the largest value of a field of the words in rows [begin, end) of a memory, as
#: function of (memory, begin, end, field).
WordLimits: TypeAlias = Callable[[str, int, int, str], tuple[int, int]]


@dataclass(frozen=True)
class Bits:
    """One field of an instruction.

    at: the bit where it begins; None: behind the field before it. values: names of 0, 1, 2 ...,
    others do not decode. low, high: what it may be, both included; None: what `width` holds.
    address: a bus address, which the runtime fills in from a relocation; it counts `1 << shift`
    bytes. needs: the capability without which the field stays below `needs_from`: a device of the
    family that lacks it knows no more (InstructionTable.having).
    """

    name: str
    width: int
    doc: str = ""
    signed: bool = False
    at: int | None = None
    values: tuple[str, ...] = ()
    low: int | None = None
    high: int | None = None
    address: bool = False
    shift: int = 0
    needs: str = ""
    needs_from: int = 1

    @property
    def lowest(self) -> int:
        """The least value that it may have."""
        least = -(1 << self.width - 1) if self.signed else 0
        return least if self.low is None else self.low

    @property
    def highest(self) -> int:
        """The largest value that it may have."""
        most = (1 << self.width - self.signed) - 1
        if self.values:
            most = len(self.values) - 1
        return most if self.high is None else self.high


@dataclass(frozen=True)
class OpcodeBits:
    """Bits [at, at + width) of an instruction that tell it, besides its opcode, from others: a
    function code, the kind of a configuration."""

    at: int
    width: int
    value: int


@dataclass(frozen=True)
class Words:
    """Rows [begin, end) of a local memory, whose words say where an instruction goes: it reads
    these, and reaches another memory from a field of each. None where begin >= end."""

    memory: str
    begin: Term
    end: Term

    def rows(self, fields: Mapping[str, int]) -> tuple[int, int]:
        """(begin, end) in an instruction."""
        return term_value(self.begin, fields), term_value(self.end, fields)


@dataclass(frozen=True)
class Reach:
    """What an instruction touches of one memory: for each turn of the loops, `extent` places from
    `first + sum of turn * stride` on. Places are bytes of DRAM, rows of a local memory.

    loops: (count, stride) of each, a count of 0 touches nothing, so that a comparison among the
    factors of a count or extent says when it is touched at all. DRAM begins at an address field,
    or where an AddressRegister points: `first` is its name, `index` says which of them. through:
    words of another memory, each of which is one more turn that begins at field `first` of the
    word. offset: places that are added to `first`.
    """

    memory: str
    first: Term
    loops: tuple[tuple[Term, Term], ...] = ()
    extent: Term = 1
    writes: bool = False
    offset: Term = 0
    index: Term = 0
    through: Words | None = None

    def terms(self) -> Iterator[Term]:
        """All numbers and fields it is made of, but `first`."""
        yield self.extent
        yield self.offset
        yield self.index
        for loop in self.loops:
            yield from loop
        if self.through is not None:
            yield self.through.begin
            yield self.through.end

    def turns(self, fields: Mapping[str, int]) -> tuple[tuple[int, int], ...]:
        """(count, stride) of each loop in an instruction."""
        return tuple((term_value(count, fields), term_value(s, fields)) for count, s in self.loops)

    def span(self, fields: Mapping[str, int]) -> int:
        """Places from the first to the end of the last, of what begins at one place; 0 where
        nothing is touched."""
        if self.through is not None:
            begin, end = self.through.rows(fields)
            if begin >= end:
                return 0
        size = term_value(self.extent, fields)
        turns = self.turns(fields) if size else ()
        if size == 0 or any(count == 0 for count, _ in turns):
            return 0
        return size + sum((count - 1) * stride for count, stride in turns)

    def places(
        self,
        fields: Mapping[str, int],
        kept: Mapping[str, Sequence[int]] = MappingProxyType({}),
        words: WordLimits | None = None,
    ) -> tuple[int, int]:
        """[first, end) of what is touched; first == end where that is nothing. kept: what address
        registers hold. words: what the memories hold that are reached through."""
        size = self.span(fields)
        if self.through is not None:
            if size == 0:
                return 0, 0
            assert words is not None, self
            first, last = words(self.through.memory, *self.through.rows(fields), str(self.first))
            size += last - first
        elif self.first in kept:
            first = kept[str(self.first)][term_value(self.index, fields)]
        else:
            first = term_value(self.first, fields)
        first += term_value(self.offset, fields)
        return first, first + size


@dataclass(frozen=True)
class AddressRegister:
    """`count` registers that keep bus addresses between instructions, for devices whose
    instructions are too short for an address. A program begins with none of them set.

    regions: it begins with all of them set, number k to where region k of a model begins, and no
    instruction sets one.
    """

    name: str
    count: int = 1
    regions: bool = False


@dataclass(frozen=True)
class Keep:
    """An instruction sets address register number `index` of `register` to its address field."""

    register: str
    field: str
    index: Term = 0


@dataclass(frozen=True)
class Register:
    """A number that the device keeps between instructions: a stride, a mode, a scale. Instructions
    set it, and its name stands in terms as a field's does.

    low, high: what it may be, both included; None: what `width` holds. Limits are checked where it
    is set. reset: what every program finds in it, whatever the one before left there; None:
    nothing, and a program that reads it before it has set it is refused.
    """

    name: str
    width: int
    low: int | None = None
    high: int | None = None
    reset: int | None = None
    signed: bool = False
    doc: str = ""

    @property
    def bits(self) -> Bits:
        """Its limits, as those of a field."""
        return Bits(self.name, self.width, "", self.signed, low=self.low, high=self.high)


@dataclass(frozen=True)
class Set:
    """An instruction sets a register to a term of what it says and finds in registers; where `when`
    is 0 the register stays as it is. value: a field alone may have a sign."""

    register: str
    value: Term
    when: Term = 1


@dataclass(frozen=True)
class UnitBy:
    """The unit that a field chooses: units[value] executes it."""

    field: str
    units: tuple[str, ...]


@dataclass(frozen=True)
class InstructionForm:
    """One instruction: its opcode, its fields behind that in the order of the bits, what it
    touches, which registers it sets, and where and how long it works.

    size_bytes: 0 for the least multiple of 4 that holds the fields. unit: which unit of the device
    executes it. cycles: fixed ones; per: (term, cycles of each of its units, which may be a
    Fraction: what is begun is a whole cycle); what goes over the memory port is added
    (machine.Port). needs: the capability without which it is no instruction. never: terms that are
    0 in every instruction there is. ends: it is the last of its program, and begins when all before
    it are done; every program then ends so. sets: registers that it sets, all at once, from what
    they held before. reads: registers that its meaning reads and that stand in none of its terms.
    codes: what tells it from others of its opcode. meaning: what it computes, as nests
    (selection/meanings.py), of which fields choose one; the compiler makes programs by it.
    """

    name: str
    opcode: int
    fields: tuple[Bits, ...] = ()
    size_bytes: int = 0
    doc: str = ""
    reaches: tuple[Reach, ...] = ()
    unit: str | UnitBy = "all"
    cycles: int = 1
    per: tuple[tuple[Term, int | Fraction], ...] = ()
    keeps: tuple[Keep, ...] = ()
    needs: str = ""
    never: tuple[Term, ...] = ()
    ends: bool = False
    sets: tuple[Set, ...] = ()
    reads: tuple[str, ...] = ()
    codes: tuple[OpcodeBits, ...] = ()
    meaning: tuple[str, ...] = ()

    @property
    def units(self) -> tuple[str, ...]:
        """All that may execute it."""
        return (self.unit,) if isinstance(self.unit, str) else self.unit.units

    def unit_of(self, fields: Mapping[str, int]) -> str:
        """Which unit executes an instruction."""
        return self.unit if isinstance(self.unit, str) else self.unit.units[fields[self.unit.field]]

    def forbidden(self, fields: Mapping[str, int]) -> Term | None:
        """The first of `never` that an instruction is not 0 in; None in a sound one. Terms of more
        than `fields` are left out."""
        known = (term for term in self.never if fields.keys() >= set(fields_of(term)))
        return next((term for term in known if term_value(term, fields) != 0), None)

    def terms(self) -> Iterator[Term]:
        """All that say what it touches, sets and forbids, the names of fields from which reaches of
        DRAM and through words begin left out."""
        for reach in self.reaches:
            yield from reach.terms()
            if reach.memory != DRAM and reach.through is None:
                yield reach.first
        yield from (keep.index for keep in self.keeps)
        yield from self.never
        for one in self.sets:
            yield one.value
            yield one.when


@dataclass(frozen=True)
class LocalMemory:
    """A memory inside the device: `rows` of `lanes` elements. Also what is only kept, such as the
    weights of an array, is one, so that order between instructions is known.

    fields: of a row as a word, lowest byte first, when instructions reach other memories through
    it (Words). Such rows are copied from DRAM: who writes some reads as many bytes there, in the
    same order.
    """

    name: str
    rows: int
    lanes: int = 1
    dtype: str = "int8"
    fields: tuple[Bits, ...] = ()
