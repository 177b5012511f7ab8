# SPDX-License-Identifier: Apache-2.0
"""A simulator for any table: what instructions do, what they may touch, how long they take.

In:   an Accelerator, a DRAM, the address of a program.
Out:  changed memories; MachineRun: cycles, busy and stalled cycles by unit, bytes, events; or a
      MachineFault with instruction, error code and address.
Next: device.py shows it behind registers.

Meaning: instructions do what they mean in the order of the program, each after everything that it
says it touches was found inside its memory.

Time: each unit works its instructions in order, `queue` of them waiting in front of it; the program
is handed out one instruction a cycle, and stops while a queue is full. An instruction begins when
its unit is free, when what it reads is written, and when what it writes is neither read nor written
any more: rows of local memories, blocks of DRAM. What reaches DRAM takes the port, one at a time.
With queue 0 an instruction begins when the one before it is done. Units that tokens order work as
token_clock.py says, and each instruction then does what it means when it starts.
"""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray

from loadstone.errors import BackendError, LoadstoneError, cause_of
from loadstone.isa.accelerator import Accelerator
from loadstone.isa.c_machine import BLOCK_BYTES, CompiledClock, compiled_clock
from loadstone.isa.cost import port_cycles, work_cycles
from loadstone.isa.state import (
    BAD_INSTRUCTION,
    DEADLOCK,
    LOCAL_BOUNDS,
    NOWHERE,
    Dram,
    MachineEvent,
    MachineFault,
    MachineRun,
    MachineState,
    outside,
)
from loadstone.isa.table import DRAM, Bits, InstructionForm, Reach
from loadstone.isa.terms import Term, term_value
from loadstone.isa.token_clock import TokenClock

__all__ = ["InstructionWatch", "TableMachine", "Touched"]

#: Reaches of an instruction that are not empty: (reach, first place, the place behind the last).
Touched: TypeAlias = "Sequence[tuple[Reach, int, int]]"
#: Sees an instruction, its fields, the state before it, and what the table says that it touches.
InstructionWatch: TypeAlias = (
    "Callable[[InstructionForm, Mapping[str, int], MachineState, Touched], None]"
)

#: What order between instructions is kept by, of DRAM.
_BLOCK_BYTES = BLOCK_BYTES
#: About so long C runs at once; then somebody looks whether it shall stop.
_CHUNK_S = 0.02


@dataclass
class _Order:
    """When rows were last read and written."""

    written: NDArray[np.int64]
    read: NDArray[np.int64]


@dataclass
class _Clock:
    """The time of one program."""

    accelerator: Accelerator
    trace: bool
    rows: Mapping[str, _Order]
    blocks: dict[int, list[int]] = field(default_factory=dict)  # DRAM: [written, read]
    free: dict[str, int] = field(default_factory=dict)
    busy: dict[str, int] = field(default_factory=dict)
    stalled: dict[str, int] = field(default_factory=dict)
    waiting: dict[str, deque[int]] = field(default_factory=dict)
    events: list[MachineEvent] = field(default_factory=list)
    issued: int = 0
    port_free: int = 0
    end: int = 0

    def step(
        self,
        number: int,
        form: InstructionForm,
        values: Mapping[str, int],
        touched: Sequence[tuple[Reach, int, int]],
    ) -> None:
        """Counts one instruction. touched: (reach, first, end) that are not empty."""
        unit, port = form.unit_of(values), self.accelerator.port
        work = work_cycles(form, values)
        ready = self._issue(unit)
        start = max(ready, self._after(touched))
        moves = sum(port_cycles(port, reach, values) for reach, _, _ in touched) if port else 0
        if moves:
            start = max(start, self.port_free)
            self.port_free = start + moves
        end = start + work + moves
        for reach, first, last in touched:
            self._note(reach, first, last, end)
        self.free[unit] = end
        self.busy[unit] = self.busy.get(unit, 0) + end - start
        self.stalled[unit] = self.stalled.get(unit, 0) + start - ready
        self.end = max(self.end, end)
        if self.accelerator.queue:
            self.waiting[unit].append(start)
        if self.trace:
            self.events.append(MachineEvent(number, form.name, unit, ready, start, end))

    def _issue(self, unit: str) -> int:
        """When the instruction stands at its unit, and that is free."""
        if not self.accelerator.queue:
            return self.end
        queue = self.waiting.setdefault(unit, deque(maxlen=self.accelerator.queue))
        full = len(queue) == self.accelerator.queue
        self.issued = max(self.issued + 1, queue[0] if full else 0)
        return max(self.issued, self.free.get(unit, 0))

    def _after(self, touched: Sequence[tuple[Reach, int, int]]) -> int:
        """When what is touched may be."""
        after = 0
        for reach, first, last in touched:
            if reach.memory == DRAM:
                for block in range(first // _BLOCK_BYTES, -(-last // _BLOCK_BYTES)):
                    written, read = self.blocks.get(block, (0, 0))
                    after = max(after, written, read if reach.writes else 0)
            else:
                order = self.rows[reach.memory]
                after = max(after, int(order.written[first:last].max()))
                if reach.writes:
                    after = max(after, int(order.read[first:last].max()))
        return after

    def _note(self, reach: Reach, first: int, last: int, end: int) -> None:
        if reach.memory == DRAM:
            for block in range(first // _BLOCK_BYTES, -(-last // _BLOCK_BYTES)):
                times = self.blocks.setdefault(block, [0, 0])
                times[not reach.writes] = max(times[not reach.writes], end)
            return
        order = self.rows[reach.memory]
        times_of_rows = order.written if reach.writes else order.read
        np.maximum(times_of_rows[first:last], end, out=times_of_rows[first:last])


class TableMachine:
    """One device: its memories keep what they hold from program to program."""

    def __init__(
        self,
        accelerator: Accelerator,
        dram: Dram,
        *,
        trace: bool = False,
        watch: InstructionWatch | None = None,
    ) -> None:
        """trace: keep the events of a run. watch: sees each instruction before it does what it
        means."""
        self.accelerator = accelerator
        self.trace = trace
        self.watch = watch
        self.table = accelerator.table
        memory = {m.name: np.zeros((m.rows, m.lanes), m.dtype) for m in self.table.memories}
        self.state = MachineState(dram, memory, self._nowhere())
        self.aborted = False
        self.completed = 0  # instructions of the program that runs, or ran last
        self._ending = any(form.ends for form in self.table.forms)
        self._plans = {form.name: self._plan(form) for form in self.table.forms}

    def _nowhere(self) -> dict[str, list[int]]:
        return {one.name: [NOWHERE] * one.count for one in self.table.address_registers}

    def _plan(self, form: InstructionForm) -> Sequence[tuple[Bits, int, int]]:
        places = self.table.places[form.name]
        return [(f, places[f.name], (1 << f.width) - 1) for f in form.fields]

    def use(self, dram: Dram) -> None:
        """Another DRAM; the memories keep what they hold."""
        self.state = MachineState(dram, self.state.memory, self._nowhere())

    def run(self, address: int, count: int, code: bytes | None = None) -> MachineRun:
        """Executes `count` instructions from a bus address on, or those of `code`. Raises
        MachineFault."""
        dram = self.state.dram
        dram.read_bytes = dram.write_bytes = 0
        self.use(dram)  # a program sets the address registers that it uses
        if code is None:
            code = dram.tail(address, count * max(self.table.sizes.values()))
        by_step = self.trace or self.watch is not None
        compiled = None if by_step else compiled_clock(self.accelerator, self.state)
        if compiled is not None:
            self._in_c(compiled, code, count)
        clock: _Clock | TokenClock | CompiledClock
        if compiled is not None:
            clock = compiled
        else:
            clock = (self._by_tokens if self.table.queues else self._in_order)(code, count)
        return MachineRun(
            clock.end,
            count,
            clock.busy,
            clock.stalled,
            dram.read_bytes,
            dram.write_bytes,
            clock.events,
        )

    def _in_c(self, clock: CompiledClock, code: bytes, count: int) -> None:
        """The same as _in_order; what C refuses is looked at again here, which says why."""
        at = self.completed = 0
        chunk = 1  # an instruction may be a whole layer
        while self.completed < count and not self.aborted:
            asked, begin = min(chunk, count - self.completed), time.monotonic()
            done, at = clock.advance(code, at, asked)
            self.completed += done
            chunk = 2 * chunk if time.monotonic() - begin < _CHUNK_S / 2 else max(1, chunk // 2)
            if done == asked:
                continue
            try:
                form, values = self._decode(code, at)
                self._touched(form, values)
                self._keep(form, values)
                address = clock.fault_address
                assert address is not None, f"{form.name}: refused in C alone"
                raise outside(form.name, address)
            except MachineFault as fault:
                fault.instruction = self.completed
                raise

    def _by_tokens(self, code: bytes, count: int) -> TokenClock:
        """Instructions in the order in which they start."""
        clock = TokenClock(self.accelerator, self.trace)
        handed: dict[int, tuple[InstructionForm, dict[str, int]]] = {}
        at = number = self.completed = 0
        while self.completed < count and not self.aborted:
            while number < count:
                try:
                    form, values = self._decode(code, at, number == count - 1)
                except MachineFault as fault:
                    fault.instruction = number
                    raise
                if not clock.has_room(form.unit_of(values)):
                    break
                clock.issue(number, form, values)
                handed[number] = form, values
                at, number = at + self.table.sizes[form.name], number + 1
            started = clock.start()
            if started is None:
                stuck = MachineFault(DEADLOCK, f"{len(handed)} instructions wait for tokens")
                stuck.instruction = min(handed)
                raise stuck
            self._execute(started, *handed.pop(started))
            self.completed += 1
        return clock

    def _in_order(self, code: bytes, count: int) -> _Clock:
        """Instructions in the order of the program."""
        at = 0
        orders = {
            m.name: _Order(np.zeros(m.rows, np.int64), np.zeros(m.rows, np.int64))
            for m in self.table.memories
        }
        clock = _Clock(self.accelerator, self.trace, orders)
        for number in range(count):
            self.completed = number
            try:
                form, values = self._decode(code, at, number == count - 1)
            except MachineFault as fault:
                fault.instruction = number
                raise
            touched = self._execute(number, form, values)
            clock.step(number, form, values, touched)
            at += self.table.sizes[form.name]
            if self.aborted:
                break
        return clock

    def _execute(
        self, number: int, form: InstructionForm, values: Mapping[str, int]
    ) -> list[tuple[Reach, int, int]]:
        """Does what an instruction means, once all that it says it touches was found to be there,
        which it returns. Raises MachineFault."""
        try:
            touched = self._touched(form, values)
            self._keep(form, values)
            self._mean(number, form, values, touched)
        except MachineFault as fault:
            fault.instruction = number
            raise
        return touched

    def _decode(
        self, code: bytes, at: int, last: bool = False
    ) -> tuple[InstructionForm, dict[str, int]]:
        opcode = int.from_bytes(code[at : at + 4], "little") & (1 << self.table.opcode_bits) - 1
        form = self.table.by_opcode.get(opcode)
        if form is None or at + self.table.sizes[form.name] > len(code):
            raise MachineFault(BAD_INSTRUCTION, f"opcode {opcode}")
        word = int.from_bytes(code[at : at + self.table.sizes[form.name]], "little")
        values = {}
        for bits, place, mask in self._plans[form.name]:
            value = word >> place & mask
            if bits.signed and value >> bits.width - 1:
                value -= mask + 1
            values[bits.name] = value << bits.shift if bits.address else value
            if not bits.address and not bits.lowest <= value <= bits.highest:
                raise MachineFault(BAD_INSTRUCTION, f"{form.name}: {bits.name}={value}")
        term = form.forbidden(values)
        if term is not None:
            raise MachineFault(BAD_INSTRUCTION, f"{form.name}: {term} is not 0")
        if form.ends != (last and self._ending):
            where = "is not the last" if form.ends else "does not end the program"
            raise MachineFault(BAD_INSTRUCTION, f"{form.name} {where}")
        return form, values

    def _mean(
        self, number: int, form: InstructionForm, values: Mapping[str, int], touched: Touched
    ) -> None:
        meaning = self.accelerator.meaning.get(form.name)
        if meaning is None:  # it sets address registers, and nothing else
            return
        try:
            if self.watch is not None:
                self.watch(form, values, self.state, touched)
            meaning(self.state, values)
        except (MachineFault, LoadstoneError):
            raise
        except Exception as error:  # foreign code
            file = getattr(getattr(meaning, "__code__", None), "co_filename", "")
            raise BackendError(
                f"accelerator {self.accelerator.name}: what instruction {number}, {form.name}, "
                f"means: {cause_of(error, file)}"
            ) from error

    def _keep(self, form: InstructionForm, values: Mapping[str, int]) -> None:
        for keep in form.keeps:
            index = self._index(form, keep.register, keep.index, values)
            self.state.kept[keep.register][index] = values[keep.field]

    def _index(
        self, form: InstructionForm, name: str, term: Term, values: Mapping[str, int]
    ) -> int:
        index = term_value(term, values)
        if index >= len(self.state.kept[name]):
            raise MachineFault(BAD_INSTRUCTION, f"{form.name}: address register {name} {index}")
        return index

    def _touched(
        self, form: InstructionForm, values: Mapping[str, int]
    ) -> list[tuple[Reach, int, int]]:
        """What it says it touches, all of which is there. Raises MachineFault."""
        found = []
        for reach in form.reaches:
            if reach.first in self.state.kept:
                self._index(form, str(reach.first), reach.index, values)
            if reach.through is not None and reach.span(values) > 0:
                begin, end = reach.through.rows(values)
                found.append(self._there(form, Reach(reach.through.memory, begin), begin, end))
            first, end = reach.places(values, self.state.kept, self._word_limits)
            if first != end:
                found.append(self._there(form, reach, first, end))
        return found

    def _there(
        self, form: InstructionForm, reach: Reach, first: int, end: int
    ) -> tuple[Reach, int, int]:
        if reach.memory == DRAM:
            self.state.dram.window(first, end - first, reach.writes)
        elif end > self.table.by_memory[reach.memory].rows:
            raise MachineFault(LOCAL_BOUNDS, f"{form.name}: row {end - 1} of {reach.memory}")
        return reach, first, end

    def _word_limits(self, memory: str, begin: int, end: int, field: str) -> tuple[int, int]:
        """Of the words that a memory holds now."""
        rows = np.ascontiguousarray(self.state.memory[memory][begin:end]).view(np.uint8)
        words = np.zeros((end - begin, 8), np.uint8)
        words[:, : rows.shape[1]] = rows
        at, width = self.table.word_fields[memory][field]
        values = words.view("<u8")[:, 0] >> np.uint64(at) & np.uint64((1 << width) - 1)
        return int(values.min()), int(values.max())
