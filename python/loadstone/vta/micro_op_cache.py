# SPDX-License-Identifier: Apache-2.0
"""The micro-op scratchpad as a cache: which list is resident, and what a miss loads.

In:   instructions in program order, GEMM and ALU each with its list of micro-ops.
Out:  the same instructions with their micro-op ranges, a LOAD of UOP in front of each miss, and the
      table of micro-ops in DRAM.
Next: encode.py hands them on.

The scratchpad is used as a ring: a list is found again while it is still there, and a miss fetches,
with one load, also the lists that the next instructions are about to miss. The table in DRAM holds
what each load brings, one after the other, so that a load brings nothing else; equal loads share a
place.

    instructions   a  b  a  c  b  d ...            nothing resident: one load brings a, b, c, d
                            e  a  f  ...           e is missed: one load brings e, f; a is there

VTA's RTL reads bursts of at least two beats: one of a single beat, with another read behind it,
overruns the wrapper of its memory (docs/timing.md). So a load for VTA takes neighbours with it
where a burst would be that short. The other scratchpads have no such loads: their tiles are two
beats and more, and stand on a multiple of their size.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from loadstone.backend.region import Address
from loadstone.vta.hw_config import HwConfig
from loadstone.vta.isa.insn import Alu, Gemm, Load
from loadstone.vta.isa.spec import MICRO_OPS, UOP_BYTES, Memory
from loadstone.vta.program import DramRows, PendingInstruction, ScratchRange

__all__ = ["WithMicroOps", "place_micro_ops"]

#: A miss fetches at most this many micro-ops ahead, and at most a quarter of the scratchpad,
_AHEAD_UOPS = 512
#: for so many instructions.
_AHEAD_INSTRUCTIONS = 1024
#: Regions begin at multiples of this, and so may a boundary that no burst crosses.
_BLOCK_BYTES = 256
#: Bytes of one row of a list: an int64 for each index of a micro-op.
_ROW_BYTES = 8 * len(MICRO_OPS)


@dataclass(eq=False, slots=True)
class WithMicroOps:
    """A GEMM or ALU instruction that still lacks its micro-op range; known by identity, for several
    places of a program may share one.

    uops: the bytes of its list, int64 (n, 3), as a key.
    """

    insn: Gemm | Alu
    layer: str
    scratch: tuple[ScratchRange, ...]
    uops: bytes

    def at(self, first: int, end: int) -> PendingInstruction:
        """The instruction with its list at [first, end) of the scratchpad."""
        insn = self.insn.changed(uop_bgn=first, uop_end=end)
        scratch = (*self.scratch, ScratchRange(Memory.UOP, first, end, False))
        return PendingInstruction(insn, self.layer, scratch)


def place_micro_ops(
    items: Sequence[PendingInstruction | WithMicroOps], table: Address, config: HwConfig
) -> tuple[list[PendingInstruction], NDArray[np.int64]]:
    """The instructions, and the micro-op table (N, 3) that will stand at `table`."""
    cache = _Cache(items, table, config)
    instructions: list[PendingInstruction] = []
    complete: dict[WithMicroOps, PendingInstruction] = {}  # those since the last miss
    number = 0
    for item in items:
        if type(item) is PendingInstruction:
            instructions.append(item)
            continue
        assert type(item) is WithMicroOps
        found = complete.get(item)
        if found is None:
            if item.uops not in cache.resident:
                instructions.append(cache.miss(number, item.layer))
                complete.clear()
            found = complete[item] = item.at(*cache.resident[item.uops])
        instructions.append(found)
        number += 1
    return instructions, cache.table()


def _count(uops: bytes) -> int:
    return len(uops) // _ROW_BYTES


class _Cache:
    """The table in DRAM, and the ring that holds some of its lists."""

    def __init__(
        self,
        items: Sequence[PendingInstruction | WithMicroOps],
        place: Address,
        config: HwConfig,
    ) -> None:
        self.place, self.depth = place, config.depth(Memory.UOP)
        self.beat_uops = config.bus_bits // 8 // UOP_BYTES if config.profile == "vta" else 0
        self.wanted = [item.uops for item in items if isinstance(item, WithMicroOps)]
        self.resident: dict[bytes, tuple[int, int]] = {}  # in the order of loading
        self.head = 0
        self.lists: list[bytes] = []  # the table, as far as it is filled
        self.filled = self.reached = 0  # micro-ops of these; where the farthest load ends
        self.first_in_dram: dict[tuple[bytes, ...], int] = {}  # of a batch

    def table(self) -> NDArray[np.int64]:
        """(N, 3), as far as the loads reach."""
        content = np.frombuffer(b"".join(self.lists), np.int64).reshape(-1, len(MICRO_OPS))
        return np.pad(content, ((0, max(self.reached, self.filled) - len(content)), (0, 0)))

    def miss(self, number: int, layer: str) -> PendingInstruction:
        """Loads the list of an instruction and those that are missed next; what stood in the way is
        gone. number: of the instruction, among those with micro-ops."""
        batch = tuple(self._batch(number))
        wanted = self._placed(batch)
        start, end = self._whole_bursts(wanted, wanted + sum(map(_count, batch)))
        self.reached = max(self.reached, end)
        count = end - start
        if self.head + count > self.depth:
            self.head = 0
        first = self.head
        self.resident = {
            uops: (a, b)
            for uops, (a, b) in self.resident.items()
            if a >= first + count or b <= first
        }
        self.head += wanted - start
        for uops in batch:
            self.resident[uops] = (self.head, self.head + _count(uops))
            self.head += _count(uops)
        self.head = first + count
        return _load(self.place, start, first, count, layer)

    def _placed(self, batch: tuple[bytes, ...]) -> int:
        """Where a batch stands in the table."""
        if batch not in self.first_in_dram:
            self.first_in_dram[batch] = self.filled
            self.lists += batch
            self.filled += sum(map(_count, batch))
        return self.first_in_dram[batch]

    def _whole_bursts(self, first: int, end: int) -> tuple[int, int]:
        """The micro-ops [first, end) of the table, and neighbours where a burst would be of a
        single beat: one that ends at a boundary, begins at one, or is all there is."""
        if not self.beat_uops:
            return first, end
        base = self.place.offset_bytes // UOP_BYTES
        block = _BLOCK_BYTES // UOP_BYTES // self.beat_uops
        first_beat = (base + first) // self.beat_uops
        end_beat = -(-(base + end) // self.beat_uops)
        if first_beat % block == block - 1:
            first_beat -= 1
            first = first_beat * self.beat_uops - base
        if end_beat % block == 1 or end_beat == first_beat + 1:
            end_beat += 1
            end = end_beat * self.beat_uops - base
        return first, end

    def _batch(self, number: int) -> Iterator[bytes]:
        """The list of an instruction and those of the next ones that are not resident either."""
        most, count = min(self.depth // 4, _AHEAD_UOPS), 0
        found: set[bytes] = set()
        for uops in self.wanted[number : number + _AHEAD_INSTRUCTIONS]:
            if uops in self.resident or uops in found:
                continue
            count += _count(uops)
            if found and count > most:
                return
            found.add(uops)
            yield uops


def _load(place: Address, first: int, sram_base: int, count: int, layer: str) -> PendingInstruction:
    insn = Load(
        memory_id=Memory.UOP,
        sram_base=sram_base,
        dram_base=place.offset_bytes // UOP_BYTES + first,
        region=place.region,
        y_size=1,
        x_size=count,
        x_stride=count,
    )
    start = place.offset_bytes + UOP_BYTES * first
    size = UOP_BYTES * count
    rows = DramRows(place.region, start, 1, size, size, False)
    scratch = (ScratchRange(Memory.UOP, sram_base, sram_base + count, True),)
    return PendingInstruction(insn, layer, scratch, rows)
