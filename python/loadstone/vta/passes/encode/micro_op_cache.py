# SPDX-License-Identifier: Apache-2.0
"""The micro-op scratchpad as a cache: which list is resident, and what a miss loads.

In:   instructions in program order, and the list of micro-ops of each GEMM and ALU.
Out:  the same instructions with places for their micro-ops, a LOAD of UOP in front of each miss,
      and the table of micro-ops in DRAM.
Next: encode.py hands them on.

The scratchpad is used as a ring: a list is found again while it is still there, and a miss fetches,
with one load, also the lists that the next instructions are about to miss. The table in DRAM holds
what each load brings, one after the other, so that a load brings nothing else; equal loads share a
place.

    instructions   a  b  a  c  b  d ...            nothing resident: one load brings a, b, c, d
                            e  a  f  ...           e is missed: one load brings e, f; a is there

VTA's simulation reads bursts of at least two beats: one of a single beat, with another read behind
it, overruns the wrapper of its memory (docs/timing.md). So a load for VTA takes neighbours with it
where a burst would be that short, by the longest burst and the boundary of the device's table of
times. The other scratchpads have no such loads: their tiles are two
beats and more, and stand on a multiple of their size.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from loadstone.backend.region import Address
from loadstone.vta.device.hw_config import HwConfig
from loadstone.vta.device.timing_tables import builtin_timing
from loadstone.vta.isa.insn import Load
from loadstone.vta.isa.instruction_columns import (
    DramRows,
    InsnForm,
    InstructionColumns,
    ScratchRange,
)
from loadstone.vta.isa.spec import MICRO_OPS, UOP_BYTES, Memory

__all__ = ["MicroOpLists", "with_micro_ops"]

#: A miss fetches at most this many micro-ops ahead, and at most a quarter of the scratchpad,
_AHEAD_UOPS = 512
#: for so many instructions.
_AHEAD_INSTRUCTIONS = 1024
#: Regions begin at multiples of this, and so may a boundary that no burst crosses.
_BLOCK_BYTES = 256


@dataclass(frozen=True, eq=False)
class MicroOpLists:
    """instruction (n,): numbers of those that have micro-ops, ascending; which: of these, the
    number of its list. shape (lists,), first (lists, 3): of each list, the number of the micro-ops
    (m, 3) in `shapes`, and what is added to them."""

    instruction: NDArray[np.int64]
    which: Sequence[int]
    shapes: Sequence[NDArray[np.int64]]
    shape: NDArray[np.int64]
    first: NDArray[np.int64]

    def sizes(self) -> NDArray[np.int64]:
        """(lists,): how many micro-ops each has."""
        return np.array([len(shape) for shape in self.shapes], np.int64)[self.shape]

    def micro_ops(self, numbers: Sequence[int]) -> NDArray[np.int64]:
        """(m, 3): some lists, one behind the other."""
        parts = [_NONE, *(self.shapes[shape] for shape in self.shape[numbers].tolist())]
        return np.concatenate(parts) + np.repeat(self.first[numbers], self.sizes()[numbers], axis=0)


#: No micro-op.
_NONE = np.zeros((0, len(MICRO_OPS)), np.int64)


class _Miss(NamedTuple):
    """A LOAD of UOP in front of an instruction. first: in the table; place: in the scratchpad."""

    instruction: int
    first: int
    place: int
    micro_ops: int


def with_micro_ops(
    instructions: InstructionColumns, lists: MicroOpLists, table: Address, config: HwConfig
) -> tuple[InstructionColumns, NDArray[np.int64]]:
    """The instructions with LOADs of micro-ops between them, and the micro-op table (N, 3) that
    will stand at `table`."""
    cache = _Cache(lists, table, config)
    place: list[int] = []
    misses: list[_Miss] = []
    for number, (instruction, uops) in enumerate(
        zip(lists.instruction.tolist(), lists.which, strict=True)
    ):
        if uops not in cache.resident:
            misses.append(_Miss(instruction, *cache.miss(number)))
        place.append(cache.resident[uops])
    at = instructions.at.copy()
    at[lists.instruction, 0] = place
    return _loaded(replace(instructions, at=at), misses, table), cache.table()


def _loaded(
    instructions: InstructionColumns, misses: Sequence[_Miss], table: Address
) -> InstructionColumns:
    """The instructions, with the LOADs of misses in front of theirs."""
    before = np.array([miss.instruction for miss in misses], np.int64)
    source = np.insert(np.arange(len(instructions)), before, before)
    first = np.array([miss.first for miss in misses], np.int64)
    return instructions.rearranged(
        source,
        before + np.arange(len(before)),
        [_load(table.region, miss.micro_ops) for miss in misses],
        np.array([miss.place for miss in misses], np.int64),
        table.offset_bytes // UOP_BYTES + first,
    )


def _load(region: int, count: int) -> InsnForm:
    insn = Load(memory_id=Memory.UOP, region=region, y_size=1, x_size=count, x_stride=count)
    size = UOP_BYTES * count
    rows = DramRows(region, 0, 1, size, size, False)
    return InsnForm(insn, (ScratchRange(Memory.UOP, 0, count, True),), rows, UOP_BYTES)


class _Cache:
    """The table in DRAM, and the ring that holds some of its lists."""

    def __init__(self, lists: MicroOpLists, place: Address, config: HwConfig) -> None:
        self.lists = lists
        self.count: list[int] = lists.sizes().tolist()
        self.place, self.depth = place, config.depth(Memory.UOP)
        self.beat_uops = config.bus_bits // 8 // UOP_BYTES if config.profile == "vta" else 0
        self.longest = self.unit = 0  # beats of the longest burst; bursts may begin at multiples
        if self.beat_uops:
            times = {**builtin_timing("vta-rtl"), **config.timing}  # as the simulator has them
            self.longest = times["burst_max_beats"].value
            boundary = min(_BLOCK_BYTES, times["burst_boundary_bytes"].value)
            self.unit = min(boundary // (config.bus_bits // 8), self.longest)
        self.resident: dict[int, int] = {}  # where each begins, in the order of loading
        self.head = 0
        self.filled: list[int] = []  # the lists of the table, as far as it is filled
        self.end = self.reached = 0  # micro-ops of these; where the farthest load ends
        self.first_in_dram: dict[tuple[int, ...], int] = {}  # of a batch

    def table(self) -> NDArray[np.int64]:
        """(N, 3), as far as the loads reach."""
        content = self.lists.micro_ops(self.filled)
        return np.pad(content, ((0, max(0, self.reached - self.end)), (0, 0)))

    def miss(self, number: int) -> tuple[int, int, int]:
        """Loads the list of an instruction and those that are missed next; what stood in the way is
        gone. number: of the instruction, among those with micro-ops. Returns the first micro-op in
        the table, the first in the scratchpad, and how many."""
        batch = tuple(self._batch(number))
        wanted = self._placed(batch)
        start, end = self._whole_bursts(wanted, wanted + self._size(batch))
        self.reached = max(self.reached, end)
        count = end - start
        if self.head + count > self.depth:
            self.head = 0
        first = self.head
        self.resident = {
            uops: at
            for uops, at in self.resident.items()
            if at >= first + count or at + self.count[uops] <= first
        }
        self.head += wanted - start
        for uops in batch:
            self.resident[uops] = self.head
            self.head += self.count[uops]
        self.head = first + count
        return start, first, count

    def _size(self, batch: Sequence[int]) -> int:
        return sum(self.count[uops] for uops in batch)

    def _placed(self, batch: tuple[int, ...]) -> int:
        """Where a batch stands in the table."""
        if batch not in self.first_in_dram:
            self.first_in_dram[batch] = self.end
            self.filled += batch
            self.end += self._size(batch)
        return self.first_in_dram[batch]

    def _whole_bursts(self, first: int, end: int) -> tuple[int, int]:
        """The micro-ops [first, end) of the table, and neighbours where a burst would be of a
        single beat: one that ends at a boundary, begins at one, or is what longest ones leave."""
        if not self.beat_uops:
            return first, end
        base = self.place.offset_bytes // UOP_BYTES
        first_beat = (base + first) // self.beat_uops
        end_beat = -(-(base + end) // self.beat_uops)
        if first_beat % self.unit == self.unit - 1:
            first_beat -= 1
            first = first_beat * self.beat_uops - base
        while end_beat % self.unit == 1 or (end_beat - first_beat) % self.longest == 1:
            end_beat += 1
            end = end_beat * self.beat_uops - base
        return first, end

    def _batch(self, number: int) -> Iterator[int]:
        """The list of an instruction and those of the next ones that are not resident either."""
        most, count = min(self.depth // 4, _AHEAD_UOPS), 0
        found: set[int] = set()
        for uops in self.lists.which[number : number + _AHEAD_INSTRUCTIONS]:
            if uops in self.resident or uops in found:
                continue
            count += self.count[uops]
            if found and count > most:
                return
            found.add(uops)
            yield uops
