# SPDX-License-Identifier: Apache-2.0
"""The instructions of a program as columns: what each does, and where.

In:   passes/encode/encode.py says the forms, and of each instruction its form and its places.
Out:  InstructionColumns: a sequence whose items are made when somebody asks for one; columns for
      those who look at all of them.
Next: passes/synchronize/synchronize.py sets tokens in it, passes/synchronize/hazards.py proves
      them, passes/program.py makes bytes of it.

A network has some ten thousand instructions and a few hundred forms, for the tiles of a layer take
turns in a scratchpad. What depends on the form alone is worked out once:

    form 17    GEMM, 2 x 8 turns of 9 micro-ops    UOP [0, 9)   ACC [0, 16)   INP [0, 57)   WGT ..
    rows       form 17   layer 3        at             120          64           200         0
               form 17   layer 3        at             120          80           257         0

The first place is the one that the instruction states itself: of LOAD and STORE where they begin in
the scratchpad, of GEMM and ALU where their micro-ops do. A STORE states its second one, too: that
of the operands by which it requantizes.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from operator import attrgetter
from typing import NamedTuple, TypeAlias, overload

import numpy as np
from numpy.typing import NDArray

from loadstone.vta.isa.codec import Stream
from loadstone.vta.isa.insn import KINDS, Insn, stage_of
from loadstone.vta.isa.spec import TOKEN_FLAGS, Memory, Opcode, Stage

__all__ = [
    "PLACES",
    "DramRows",
    "InsnForm",
    "InstructionColumns",
    "PendingInstruction",
    "ScratchRange",
]

#: An instruction touches at most so many ranges of scratchpads: micro-ops and three operands.
PLACES = 4
#: The fields that state its first place, and where it begins in DRAM.
_FIRST_FIELDS = ("sram_base", "uop_bgn", "uop_end")
#: The field that states the second place: of a STORE that requantizes, where the operands begin.
_SECOND_FIELD = "operands"
_DRAM_FIELD = "dram_base"
_flags_of = attrgetter(*TOKEN_FLAGS)
_NO_FLAGS = dict.fromkeys(TOKEN_FLAGS, 0)

_Ints: TypeAlias = NDArray[np.int64]


class ScratchRange(NamedTuple):
    """Tiles [first, end) of a scratchpad that an instruction touches; written, or only read. rows:
    so many such ranges, `stride` apart."""

    memory: Memory
    first: int
    end: int
    written: bool
    rows: int = 1
    stride: int = 0


class DramRows(NamedTuple):
    """Bytes of DRAM that an instruction touches: `rows` rows of `row_bytes`, `stride_bytes`
    apart."""

    region: int
    start_bytes: int
    rows: int
    row_bytes: int
    stride_bytes: int
    written: bool


@dataclass(slots=True)
class PendingInstruction:
    """An instruction, the layer it belongs to, and what it touches: what orders it against others.
    Its token flags are 0 until passes/synchronize/synchronize.py sets them."""

    insn: Insn
    layer: str
    scratch: tuple[ScratchRange, ...] = ()
    dram: DramRows | None = None
    stage: Stage = field(init=False, compare=False)

    def __post_init__(self) -> None:
        """The queue that executes it."""
        self.stage = stage_of(self.insn)

    @property
    def name(self) -> str:
        """`GEMM of conv2d_3`, for messages."""
        return f"{self.insn.SPEC.name} of {self.layer}"


@dataclass(frozen=True, eq=False, slots=True)
class InsnForm:
    """What an instruction does, wherever it does it: the same as a PendingInstruction, counted from
    its places. tile_bytes: what its place in DRAM counts."""

    insn: Insn
    scratch: tuple[ScratchRange, ...] = ()
    dram: DramRows | None = None
    tile_bytes: int = 0


@dataclass(frozen=True, eq=False)
class InstructionColumns(Sequence[PendingInstruction]):
    """Instructions in program order. forms, layers: what the numbers of `form` and `layer` (n,)
    mean. at (n, PLACES): where each range of the form begins, in tiles; dram (n,): where its rows
    do, in tiles of the form; flags (n, tokens): 1 where a flag of TOKEN_FLAGS is set."""

    forms: Sequence[InsnForm]
    layers: Sequence[str]
    form: NDArray[np.int32]
    layer: NDArray[np.int32]
    at: _Ints
    dram: _Ints
    flags: NDArray[np.uint8]

    @classmethod
    def of(cls, instructions: Iterable[PendingInstruction]) -> InstructionColumns:
        """Those of instructions that stand for themselves."""
        if isinstance(instructions, InstructionColumns):
            return instructions
        held = list(instructions)
        numbers: dict[str, int] = {}
        layer = [numbers.setdefault(pending.layer, len(numbers)) for pending in held]
        flags = [_flags_of(pending.insn) for pending in held]
        return cls(
            [InsnForm(p.insn.changed(**_NO_FLAGS), p.scratch, p.dram) for p in held],
            list(numbers),
            np.arange(len(held), dtype=np.int32),
            np.array(layer, np.int32),
            np.zeros((len(held), PLACES), np.int64),
            np.zeros(len(held), np.int64),
            np.array(flags, np.uint8).reshape(-1, len(TOKEN_FLAGS)),
        )

    def __len__(self) -> int:
        return len(self.form)

    @overload
    def __getitem__(self, number: int) -> PendingInstruction: ...
    @overload
    def __getitem__(self, number: slice) -> Sequence[PendingInstruction]: ...
    def __getitem__(self, number: int | slice) -> PendingInstruction | Sequence[PendingInstruction]:
        if isinstance(number, slice):
            return [self[k] for k in range(*number.indices(len(self)))]
        form, at, dram = self.forms[self.form[number]], self.at[number], int(self.dram[number])
        held = form.insn.__dict__
        values = dict(zip(TOKEN_FLAGS, map(int, self.flags[number]), strict=True))
        values |= {name: held[name] + int(at[0]) for name in _FIRST_FIELDS if name in held}
        if held.get("requantize"):
            values[_SECOND_FIELD] = held[_SECOND_FIELD] + int(at[1])
        if _DRAM_FIELD in held:
            values[_DRAM_FIELD] = held[_DRAM_FIELD] + dram
        scratch = [
            r._replace(first=r.first + place, end=r.end + place)
            for r, place in zip(form.scratch, at.tolist(), strict=False)
        ]
        rows = form.dram
        if rows is not None:
            rows = rows._replace(start_bytes=rows.start_bytes + dram * form.tile_bytes)
        layer = self.layers[self.layer[number]]
        return PendingInstruction(form.insn.changed(**values), layer, tuple(scratch), rows)

    def __iter__(self) -> Iterator[PendingInstruction]:
        return map(self.__getitem__, range(len(self)))

    @cached_property
    def stages(self) -> NDArray[np.int32]:
        """(n,): the queue that executes each."""
        return np.array([stage_of(form.insn) for form in self.forms], np.int32)[self.form]

    def rearranged(
        self,
        source: NDArray[np.int32] | _Ints,
        new: NDArray[np.int64],
        forms: Sequence[InsnForm],
        at: _Ints,
        dram: _Ints,
    ) -> InstructionColumns:
        """The instructions `source` (m,), in this order; in the place of those at `new` (k,)
        stand others of the same layers. forms, at (k,), dram (k,): of these, with their first
        places."""
        form, places, in_dram = self.form[source], self.at[source], self.dram[source]
        flags = self.flags[source]
        form[new] = len(self.forms) + np.arange(len(new))
        places[new], in_dram[new], flags[new] = 0, dram, 0
        places[new, 0] = at
        known = [*self.forms, *forms]
        layer = self.layer[source]
        return InstructionColumns(known, self.layers, form, layer, places, in_dram, flags)

    def tiles_touched(self) -> tuple[NDArray[np.int64], _Ints]:
        """Of each range of a scratchpad, in program order: the instruction (k,), and (6, k): the
        fields of a ScratchRange."""
        ranges = np.zeros((len(self.forms), PLACES, len(ScratchRange._fields)), np.int64)
        touched = np.zeros((len(self.forms), PLACES), np.bool_)
        for number, form in enumerate(self.forms):
            ranges[number, : len(form.scratch)] = form.scratch or ranges[number, :0]
            touched[number, : len(form.scratch)] = True
        step, place = np.nonzero(touched[self.form])
        memory, first, end, *others = ranges[self.form[step], place].T
        begin = self.at[step, place]
        return step, np.stack([memory, first + begin, end + begin, *others])

    def rows_touched(self) -> tuple[NDArray[np.int64], _Ints]:
        """The same of rows in DRAM, (6, k): the fields of DramRows."""
        rows = np.zeros((len(self.forms), len(DramRows._fields) + 1), np.int64)
        for number, form in enumerate(self.forms):
            if form.dram is not None:
                rows[number] = (*form.dram, form.tile_bytes)
        touched = np.array([form.dram is not None for form in self.forms], np.bool_)
        step = np.flatnonzero(touched[self.form])
        region, start, count, row_bytes, stride, written, tile_bytes = rows[self.form[step]].T
        start = start + self.dram[step] * tile_bytes
        return step, np.stack([region, start, count, row_bytes, stride, written])

    def stream(self) -> Stream:
        """By kind, the fields of the instructions."""
        kind = np.array([form.insn.SPEC.opcode for form in self.forms], np.uint8)
        opcode = kind[self.form]
        index = {op: np.flatnonzero(opcode == op) for op in KINDS}
        return Stream(opcode, index, {op: self._fields(op, index[op]) for op in KINDS})

    def _fields(self, opcode: Opcode, rows: NDArray[np.int64]) -> dict[str, _Ints]:
        """Of the instructions `rows`, all of one kind: by field, its values (rows,)."""
        own = [number for number, f in enumerate(self.forms) if f.insn.SPEC.opcode == opcode]
        place = np.zeros(len(self.forms), np.int64)
        place[own] = np.arange(len(own))
        which = place[self.form[rows]]
        held = [self.forms[number].insn.__dict__ for number in own]
        found = {
            f.name: np.array([values[f.name] for values in held], np.int64)[which]
            for f in KINDS[opcode].fields[1:]
        }
        for number, name in enumerate(TOKEN_FLAGS):
            found[name] = self.flags[rows, number].astype(np.int64)
        for name in found.keys() & _FIRST_FIELDS:
            found[name] += self.at[rows, 0]
        if _SECOND_FIELD in found:
            found[_SECOND_FIELD] += self.at[rows, 1] * found["requantize"]
        if _DRAM_FIELD in found:
            found[_DRAM_FIELD] += self.dram[rows]
        return found
