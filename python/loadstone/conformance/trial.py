# SPDX-License-Identifier: Apache-2.0
"""One instruction, executed on copies of its memories any number of times, with other contents each
time.

In:   a meaning, an instruction's fields, the state before it, the places that its reaches name.
Out:  every byte before and after the instruction (TrialRun); whether a place is touched.
Next: reaches.py compares it with the table.

In a trial DRAM consists of the ranges that reaches name, and of nothing else. All its ranges
together are one memory with rows of one byte, in the order of their addresses.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property, lru_cache
from itertools import pairwise
from typing import Any

import numpy as np
from numpy.typing import NDArray

from loadstone.isa.accelerator import Meaning
from loadstone.isa.form import DRAM, Reach
from loadstone.isa.state import DRAM_BOUNDS, Dram, DramWindow, MachineFault, MachineState
from loadstone.numerics import Array

__all__ = ["CONTENTS", "Trial", "TrialRun", "differing"]

Rows = NDArray[np.uint8]
Mask = NDArray[np.bool_]

#: Contents of what is read: the program's own, then of any bits and of small numbers in turn.
CONTENTS = range(4)


@dataclass(frozen=True)
class TrialRun:
    """By memory, (rows, bytes of a row) before and behind the instruction."""

    before: Mapping[str, Rows]
    behind: Mapping[str, Rows]

    def changed(self, memory: str) -> NDArray[np.intp]:
        """The numbers (n,) of the rows that differ after the instruction, in ascending order."""
        before, behind = self.before[memory], self.behind[memory]
        return np.unique(np.flatnonzero(before.ravel() != behind.ravel()) // before.shape[1])


def differing(one: TrialRun, other: TrialRun) -> bool:
    """Whether a byte that was written in one of two runs came out differently in them."""
    for memory, behind in one.behind.items():
        unequal = behind != other.behind[memory]
        if unequal.any():
            kept = behind == one.before[memory]
            kept &= other.behind[memory] == other.before[memory]
            if np.any(unequal & ~kept):
                return True
    return False


class Trial:
    """touched: (reach, first, end) of each reach that is not empty. written, read: by memory, a
    mask of the rows that reaches name."""

    def __init__(
        self,
        meaning: Meaning,
        fields: Mapping[str, int],
        state: MachineState,
        touched: Sequence[tuple[Reach, int, int]],
    ) -> None:
        self.touched = touched
        self._meaning, self._fields, self._state = meaning, fields, state
        self._ranges = list(_joined((first, end) for r, first, end in touched if r.memory == DRAM))
        self.written, self.read = self._mask(True), self._mask(False)

    def said(self, memory: str) -> str:
        """The places of a memory that reaches name, in words."""
        parts = []
        for reach, first, end in self.touched:
            if reach.memory == memory:
                verb = "written" if reach.writes else "read"
                ends = [self.place(memory, self._row(memory, at)) for at in (first, end - 1)]
                parts.append(f"{ends[0]} to {ends[1]} {verb}")
        return f"named: {', '.join(parts)}" if parts else "named: none"

    def place(self, memory: str, row: int) -> str:
        """A row's number; of DRAM, its address."""
        if memory != DRAM:
            return str(row)
        for first, end in self._ranges:
            if row < end - first:
                return hex(first + row)
            row -= end - first
        raise AssertionError(f"row {row} is behind all ranges")

    def run(
        self,
        others: int = 0,
        rows: Mapping[str, Mask] | None = None,
        contents: int = 0,
        changed: tuple[str, int] | None = None,
        lacking: int | None = None,
    ) -> TrialRun:
        """Executes the instruction once. others: 1 gives every byte that no reach reads its other
        value; `rows`, masks (rows,) by memory, limits this to these rows. contents: 0 leaves what
        is read as it is, otherwise the number of a set of contents drawn for it. changed: a memory
        and a row that is then given any value. lacking: the address of a byte that DRAM does not
        have. Raises MachineFault."""
        if rows is not None:
            before = {
                memory: np.where(some[:, None], self._filled[1][memory], self._filled[0][memory])
                for memory, some in rows.items()
            }
        else:
            before = self._filled[others]
        if contents or changed is not None:
            before = {memory: filled.copy() for memory, filled in before.items()}
        if contents:
            for memory, read in self.read.items():
                before[memory][read] = self._drawn(memory, contents)[read]
        if changed is not None:
            memory, row = changed
            before[memory][row] ^= self._drawn(memory, contents + 1)[row] | 1
        behind = {memory: filled.copy() for memory, filled in before.items()}
        with np.errstate(all="ignore"):
            self._meaning(self._state_of(behind, lacking), self._fields)
        return TrialRun(before, behind)

    def touches(self, reach: Reach, place: int) -> bool:
        """Whether the instruction touches a place as the reach says, as far as trials show."""
        memory = reach.memory
        row = self._row(memory, place)
        if memory == DRAM:
            try:
                self.run(lacking=place)
            except MachineFault as fault:
                return fault.error == DRAM_BOUNDS
            return False
        return any(self._decides(reach, row, contents) for contents in CONTENTS)

    def is_named_elsewhere(self, reach: Reach, place: int) -> bool:
        """Whether another reach names the place in the same way."""
        return any(
            other is not reach
            and (other.memory, other.writes) == (reach.memory, reach.writes)
            and first <= place < end
            for other, first, end in self.touched
        )

    def _decides(self, reach: Reach, row: int, contents: int) -> bool:
        """Whether a row is written, or what is written depends on it, with such contents."""
        memory = reach.memory
        if reach.writes:
            runs = [self.ran(others=k, contents=contents) for k in (0, 1)]
            return any(run is not None and row in run.changed(memory) for run in runs)
        plain = self.ran(contents=contents)
        changed = self.ran(contents=contents, changed=(memory, row))
        return plain is not None and (changed is None or differing(plain, changed))

    def ran(self, **how: Any) -> TrialRun | None:
        """A run; None where the meaning refuses what it finds (an enumeration's value, say)."""
        try:
            return self.run(**how)
        except MachineFault:
            raise
        except Exception:  # foreign code, on contents that no program gave it
            return None

    def unnamed_source(self, plain: TrialRun, contents: int) -> tuple[str, int]:
        """A memory and row that decides what comes out though no reach reads it. plain: a run with
        these contents that came out differently when all such rows were others."""
        none = {memory: np.zeros(len(rows), np.bool_) for memory, rows in self._own.items()}

        def decides(memory: str, rows: int) -> bool:
            first = {**none, memory: np.arange(len(none[memory])) < rows}
            run = self.ran(others=1, rows=first, contents=contents)
            return run is None or differing(plain, run)

        for memory, all_rows in none.items():
            if decides(memory, len(all_rows)):
                low, high = 0, len(all_rows)  # the first `high` rows decide, the first `low` do not
                while high - low > 1:
                    middle = (low + high) // 2
                    low, high = (low, middle) if decides(memory, middle) else (middle, high)
                return memory, high - 1
        memory = next(iter(none))
        return memory, 0

    # --- inside -----------------------------------------------------------------------------------
    @cached_property
    def _own(self) -> Mapping[str, Rows]:
        """What the memories hold before the instruction."""
        own = {memory: _bytes(array) for memory, array in self._state.memory.items()}
        pieces = [self._state.dram.window(first, end - first) for first, end in self._ranges]
        own[DRAM] = np.concatenate([*pieces, np.empty(0, np.uint8)]).reshape(-1, 1)
        return own

    @cached_property
    def _filled(self) -> Sequence[dict[str, Rows]]:
        """The memories of both runs: what no reach reads holds any value, and its complement."""
        first, second = {}, {}
        for memory, own in self._own.items():
            blank = ~self.read[memory][:, None]
            drawn = _noise(own.size, 0).reshape(own.shape)
            first[memory] = np.where(blank, drawn, own)
            second[memory] = np.where(blank, ~drawn, own)
        return first, second

    def _drawn(self, memory: str, number: int) -> Rows:
        """Contents of a memory: of any bits, or elements from -128 to 127."""
        own = self._own[memory]
        if memory == DRAM or number % 2:
            return _noise(own.size, number).reshape(own.shape)
        array = self._state.memory[memory]
        return _bytes(_noise(array.size, number).view(np.int8).astype(array.dtype)).reshape(
            own.shape
        )

    def _mask(self, writes: bool) -> Mapping[str, Mask]:
        size = sum(end - first for first, end in self._ranges)
        masks = {name: np.zeros(len(array), np.bool_) for name, array in self._state.memory.items()}
        masks[DRAM] = np.zeros(size, np.bool_)
        for reach, first, end in self.touched:
            if reach.writes == writes:
                at = self._row(reach.memory, first)
                masks[reach.memory][at : at + end - first] = True
        return masks

    def _row(self, memory: str, place: int) -> int:
        """A place's row: of DRAM, its byte within all ranges."""
        if memory != DRAM:
            return place
        at = 0
        for first, end in self._ranges:
            if first <= place < end:
                return at + place - first
            at += end - first
        raise AssertionError(f"address {place:#x} is in no range")

    def _state_of(self, rows: Mapping[str, Rows], lacking: int | None) -> MachineState:
        """The state whose memories are these."""
        memory = {
            name: rows[name].view(array.dtype).reshape(array.shape)
            for name, array in self._state.memory.items()
        }
        windows, at = [], 0
        for first, end in self._ranges:
            data = rows[DRAM][at : at + end - first, 0]
            writable = bool(self.written[DRAM][at : at + end - first].any())
            cut = [first, end]
            if lacking is not None and first <= lacking < end:
                cut = [first, lacking, lacking + 1, end]
            for begin, behind in list(pairwise(cut))[::2]:
                if behind > begin:
                    piece = data[begin - first : behind - first]
                    windows.append(DramWindow(begin, piece, writable))
            at += end - first
        return MachineState(Dram(windows), memory, self._state.kept, self._state.held)


@lru_cache(maxsize=64)
def _noise(size: int, number: int) -> Rows:
    """That many bytes of any value, the same ones each time."""
    return np.frombuffer(np.random.default_rng(number).bytes(size), np.uint8)


def _bytes(array: Array) -> Rows:
    """(rows, bytes of a row) of a memory's array, a copy where it must be."""
    return np.ascontiguousarray(array).view(np.uint8).reshape(len(array), -1)


def _joined(ranges: Iterable[tuple[int, int]]) -> list[tuple[int, int]]:
    """The same places in ranges that do not overlap, in order."""
    found: list[tuple[int, int]] = []
    for first, end in sorted(ranges):
        if found and first < found[-1][1]:
            found[-1] = found[-1][0], max(end, found[-1][1])
        else:
            found.append((first, end))
    return found
