# SPDX-License-Identifier: Apache-2.0
"""What a table of instructions is made of: fields, what instructions touch, registers, memories.

In:   numbers and names, as a plug-in writes them.
Out:  Bits, Reach, Keep, InstructionForm, LocalMemory, AddressRegister.
Next: table.py makes a whole set of them, and refuses what cannot be.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from types import MappingProxyType

from loadstone.isa.terms import Term, term_value

__all__ = [
    "DRAM",
    "MAX_FIELDS",
    "MAX_INSN_BYTES",
    "MAX_KEPT",
    "MAX_LOOPS",
    "MIN_INSN_BYTES",
    "AddressRegister",
    "Bits",
    "InstructionForm",
    "Keep",
    "LocalMemory",
    "Reach",
]

MIN_INSN_BYTES, MAX_INSN_BYTES = 4, 64
#: Fields of one instruction, as the validator in C has room for.
MAX_FIELDS = 32
#: Loops of one Reach.
MAX_LOOPS = 3
#: Address registers of a device, as the validator in C has room for.
MAX_KEPT = 16
#: The memory that host and device share, in a Reach; it counts bytes.
DRAM = "dram"


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
class Reach:
    """What an instruction touches of one memory: for each turn of the loops, `extent` places from
    `first + sum of turn * stride` on. Places are bytes of DRAM, rows of a local memory.

    loops: (count, stride) of each, a count of 0 touches nothing. DRAM begins at an address field,
    or where an AddressRegister points: `first` is its name, `index` says which of them. offset:
    places that are added to `first`.
    """

    memory: str
    first: Term
    loops: tuple[tuple[Term, Term], ...] = ()
    extent: Term = 1
    writes: bool = False
    offset: Term = 0
    index: Term = 0

    def terms(self) -> Iterator[Term]:
        """All numbers and fields it is made of, but `first`."""
        yield self.extent
        yield self.offset
        yield self.index
        for loop in self.loops:
            yield from loop

    def places(
        self, fields: Mapping[str, int], kept: Mapping[str, Sequence[int]] = MappingProxyType({})
    ) -> tuple[int, int]:
        """[first, end) of what is touched; first == end where that is nothing. kept: what address
        registers hold."""
        if self.first in kept:
            first = kept[str(self.first)][term_value(self.index, fields)]
        else:
            first = term_value(self.first, fields)
        first, size = first + term_value(self.offset, fields), term_value(self.extent, fields)
        counts = [term_value(count, fields) for count, _ in self.loops]
        if size == 0 or 0 in counts:
            return first, first
        strides = [term_value(stride, fields) for _, stride in self.loops]
        return first, first + size + sum((c - 1) * s for c, s in zip(counts, strides, strict=True))


@dataclass(frozen=True)
class AddressRegister:
    """`count` registers that keep bus addresses between instructions, for devices whose
    instructions are too short for an address. A program begins with none of them set."""

    name: str
    count: int = 1


@dataclass(frozen=True)
class Keep:
    """An instruction sets address register number `index` of `register` to its address field."""

    register: str
    field: str
    index: Term = 0


@dataclass(frozen=True)
class InstructionForm:
    """One instruction: its opcode, its fields behind that in the order of the bits, what it
    touches, which address registers it sets, and where and how long it works.

    size_bytes: 0 for the least multiple of 4 that holds the fields. unit: which unit of the device
    executes it. cycles: fixed ones; per: (term, cycles of each of its units, which may be a
    Fraction: what is begun is a whole cycle); what goes over the memory port is added
    (machine.Port). needs: the capability without which it is no instruction.
    """

    name: str
    opcode: int
    fields: tuple[Bits, ...] = ()
    size_bytes: int = 0
    doc: str = ""
    reaches: tuple[Reach, ...] = ()
    unit: str = "all"
    cycles: int = 1
    per: tuple[tuple[Term, int | Fraction], ...] = ()
    keeps: tuple[Keep, ...] = ()
    needs: str = ""


@dataclass(frozen=True)
class LocalMemory:
    """A memory inside the device: `rows` of `lanes` elements. Also what is only kept, such as the
    weights of an array, is one, so that order between instructions is known."""

    name: str
    rows: int
    lanes: int = 1
    dtype: str = "int8"
