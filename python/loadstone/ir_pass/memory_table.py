# SPDX-License-Identifier: Apache-2.0
"""The scratchpads of a device: which instruction reads which of them, and their sizes.

In:   a device's own description: its table of instructions, and the instruction that accesses
      each operand of a computation.
Out:  `MemoryTable`.
Next: insert_dma_copy.py places tensors by it; verify_dma_copy.py checks the result against it.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import TYPE_CHECKING, TypeAlias

from loadstone.errors import ConfigError, LoweringError
from loadstone.ir_pass.nests import COPY, NestStep
from loadstone.isa.form import DRAM, InstructionForm, Reach
from loadstone.isa.table import InstructionTable
from loadstone.isa.terms import Term, factors, number_of

if TYPE_CHECKING:
    from typing_extensions import Self  # typing's own from Python 3.11 on

__all__ = ["MemoryTable"]

#: An instruction, and the field that says where an operand stands: of it, or of the words that it
#: reaches through; then what fields hold in the instruction that is meant, where that decides.
_Operand: TypeAlias = "tuple[str, str] | tuple[str, str, Mapping[str, int]]"


@dataclass(frozen=True, eq=False)
class MemoryTable:
    """operands: of each instruction, the memory of each operand, "dram" where it reads DRAM itself;
    the last one stands for all that follow. depth_tiles: of each memory. reach: (instruction,
    operand) -> how many tiles an operand has that has several, which lie along the last axis of its
    tensor. share: a table stays in a memory where it takes no more than this part of it, and one of
    a memory that is not named here wherever it fits. result: from where a STORE reads. starts: the
    instruction that writes its operand without reading it.
    """

    operands: Mapping[str, tuple[str, ...]]
    depth_tiles: Mapping[str, int]
    reach: Mapping[tuple[str, int], int] = field(default_factory=dict)
    share: Mapping[str, int] = field(default_factory=dict)
    result: str = "acc"
    starts: str = "fill"

    @classmethod
    def of(
        cls,
        instructions: InstructionTable,
        operands: Mapping[str, Sequence[_Operand]],
        stores: _Operand,
        share: Mapping[str, int] = MappingProxyType({}),
    ) -> Self:
        """What a table of instructions says. A tile is a row of a local memory here.

        operands: of each step of a computation, for each of its operands the instruction that
        reaches it, and the field from which. stores: the same of what is written to DRAM. Where an
        operand stands is the reach's memory; it has as many rows as the reach's numbers say, a
        count that a field says is a loop of the nest; a memory is as deep as it has rows. share: as
        above. Raises ConfigError where nothing, or not one thing, is reached from a field.

            MemoryTable.of(
                table,
                {
                    "fill": [("compute", "target")],
                    "gemm": [("compute", "target"), ("compute", "row"), ("preload", "row")],
                },
                stores=("mvout", "row"),
            )
        """
        found = {
            (step, number): _reached(instructions, *operand)
            for step, named in operands.items()
            for number, operand in enumerate(named)
        }
        return cls(
            {
                step: tuple(found[step, number][0] for number in range(len(named)))
                for step, named in operands.items()
            },
            {memory.name: memory.rows for memory in instructions.memories},
            {place: rows for place, (_, rows) in found.items() if rows > 1},
            share,
            result=_reached(instructions, *stores)[0],
        )

    def memory(self, step: NestStep, number: int) -> str | None:
        """The memory of an operand; None: DRAM, into which it is written; "dram": it is read there.
        Raises LoweringError where the device has no such instruction."""
        if step.name == COPY:
            return self.result if number else None
        if step.name not in self.operands:
            raise LoweringError(f"insert_dma_copy: the device has no instruction {step.name}")
        memories = self.operands[step.name]
        return memories[min(number, len(memories) - 1)]

    def tiles(self, step: NestStep, number: int) -> int:
        """How many an operand has, from the one that its access names on."""
        return self.reach.get((step.name, number), 1)

    def keeps(self, tiles: int, memory: str) -> bool:
        """Whether a table of this many tiles is kept in a memory as a whole."""
        return tiles * self.share.get(memory, 1) <= self.depth_tiles[memory]


def _reached(
    table: InstructionTable,
    name: str,
    field_name: str,
    known: Mapping[str, int] = MappingProxyType({}),
) -> tuple[str, int]:
    """The local memory that an instruction reaches from a field, and how many rows of it."""
    if name not in table.by_name:
        raise ConfigError(
            f"memories of {table.name}: no instruction {name}; it has {', '.join(table.by_name)}"
        )
    form = table.by_name[name]
    reaches = [r for r in form.reaches if r.first == field_name and r.memory != DRAM]
    reaches = [r for r in reaches if number_of(r.extent, known) != 0]
    memories = sorted({reach.memory for reach in reaches})
    if len(memories) != 1:
        raise ConfigError(
            f"memories of {table.name}: {name}.{field_name} reaches {len(memories)} local memories"
            f"{': ' + ', '.join(memories) if memories else ''}, where an operand stands in one"
        )
    return memories[0], max(_rows(table, form, reach, known) for reach in reaches)


def _rows(
    table: InstructionTable, form: InstructionForm, reach: Reach, known: Mapping[str, int]
) -> int:
    """From the row that the field names, in one turn of the instruction's own loops."""
    loops = [loop for loop in reach.loops if number_of(loop[0], known) is not None]
    terms = [reach.offset, reach.extent, *(term for loop in loops for term in loop)]
    numbers = [number_of(term, known) for term in terms]
    if _is_loop(reach.extent):
        numbers[1] = 1
    unknown = [term for term, number in zip(terms, numbers, strict=True) if number is None]
    if unknown:
        raise ConfigError(
            f"memories of {table.name}: {form.name} reaches {unknown[0]} rows of {reach.memory} "
            f"from {reach.first}, which no number says: say the rows of one turn as `extent`, and "
            "the turns as `loops`"
        )
    first, extent, *sizes = (number or 0 for number in numbers)
    turns = zip(sizes[::2], sizes[1::2], strict=True)
    return first + extent + sum((count - 1) * stride for count, stride in turns)


def _is_loop(extent: Term) -> bool:
    """Whether a field alone says it: rows that follow each other are turns of a loop."""
    parts = factors(extent)
    return len(parts) == 1 and parts[0].other is None and bool(parts[0].sum.fields)
