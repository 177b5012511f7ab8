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
any more: rows of local memories, blocks of DRAM, registers. What reaches DRAM takes the port, one
at a time. With queue 0 an instruction begins when the one before it is done. Units that tokens
order work as token_clock.py says, and each instruction then does what it means when it starts.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from typing import TypeAlias

import numpy as np

from loadstone.errors import BackendError, LoadstoneError, LoweringError, cause_of
from loadstone.isa.accelerator import Accelerator
from loadstone.isa.c_machine import CompiledClock, compiled_clock
from loadstone.isa.registers import at_reset, set_registers, with_registers
from loadstone.isa.state import (
    BAD_INSTRUCTION,
    DEADLOCK,
    LOCAL_BOUNDS,
    NOWHERE,
    Dram,
    MachineFault,
    MachineRun,
    MachineState,
    outside,
)
from loadstone.isa.table import DRAM, Bits, InstructionForm, Reach
from loadstone.isa.terms import Term, term_value
from loadstone.isa.token_clock import TokenClock
from loadstone.isa.touch_clock import TouchClock, Touched, register_touches

__all__ = ["InstructionWatch", "TableMachine", "Touched"]

#: Sees an instruction, its fields, the state before it, and what the table says that it touches.
InstructionWatch: TypeAlias = (
    "Callable[[InstructionForm, Mapping[str, int], MachineState, Touched], None]"
)

#: About so long C runs at once; then somebody looks whether it shall stop.
_CHUNK_S = 0.02


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
        self.state = MachineState(dram, memory, self._nowhere(), at_reset(self.table))
        self.aborted = False
        self.completed = 0  # instructions of the program that runs, or ran last
        self._ending = any(form.ends for form in self.table.forms)
        self._plans = {form.name: self._plan(form) for form in self.table.forms}
        self._registers = {f.name: register_touches(self.table, f) for f in self.table.forms}

    def _nowhere(self) -> dict[str, list[int]]:
        return {one.name: [NOWHERE] * one.count for one in self.table.address_registers}

    def _plan(self, form: InstructionForm) -> Sequence[tuple[Bits, int, int]]:
        places = self.table.places[form.name]
        return [(f, places[f.name], (1 << f.width) - 1) for f in form.fields]

    def use(self, dram: Dram) -> None:
        """Another DRAM; the memories keep what they hold."""
        begin = self._nowhere(), at_reset(self.table)
        self.state = MachineState(dram, self.state.memory, *begin)

    def run(self, address: int, count: int, code: bytes | None = None) -> MachineRun:
        """Executes `count` instructions from a bus address on, or those of `code`. Raises
        MachineFault."""
        dram = self.state.dram
        dram.read_bytes = dram.write_bytes = 0
        self.use(dram)  # a program sets the registers that it uses
        if code is None:
            code = dram.tail(address, count * max(self.table.sizes.values()))
        by_step = self.trace or self.watch is not None
        compiled = None if by_step else compiled_clock(self.accelerator, self.state)
        if compiled is not None:
            self._in_c(compiled, code, count)
        clock: TouchClock | TokenClock | CompiledClock
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
                form, fields = self._decode(code, at)
                values = self._found(form, fields)
                self._touched(form, values)
                self._keep(form, values)
                address = clock.fault_address
                if address is None:
                    self._set(form, values)
                assert address is not None, f"{form.name}: refused in C alone"
                raise outside(form.name, address)
            except MachineFault as fault:
                fault.instruction = self.completed
                raise

    def _by_tokens(self, code: bytes, count: int) -> TokenClock:
        """Instructions in the order in which they start."""
        clock = TokenClock(self.accelerator, self.trace, self._found)
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

    def _in_order(self, code: bytes, count: int) -> TouchClock:
        """Instructions in the order of the program."""
        at = 0
        clock = TouchClock(self.accelerator, self.trace)
        for number in range(count):
            self.completed = number
            try:
                form, fields = self._decode(code, at, number == count - 1)
            except MachineFault as fault:
                fault.instruction = number
                raise
            values, touched = self._execute(number, form, fields)
            clock.step(number, form, values, [*touched, *self._registers[form.name]])
            at += self.table.sizes[form.name]
            if self.aborted:
                break
        return clock

    def _execute(
        self, number: int, form: InstructionForm, fields: Mapping[str, int]
    ) -> tuple[Mapping[str, int], list[tuple[Reach, int, int]]]:
        """Does what an instruction means, once all that it says it touches was found to be there,
        which it returns, with the fields and the registers that it reads. Raises MachineFault."""
        try:
            values = self._found(form, fields)
            touched = self._touched(form, values)
            self._keep(form, values)
            self._mean(number, form, values, touched)
            self._set(form, values)
        except MachineFault as fault:
            fault.instruction = number
            raise
        return values, touched

    def _found(self, form: InstructionForm, fields: Mapping[str, int]) -> Mapping[str, int]:
        """The fields, and the registers that it reads. Raises MachineFault."""
        try:
            values = with_registers(self.table, form, fields, self.state.held)
        except LoweringError as error:
            raise MachineFault(BAD_INSTRUCTION, f"{form.name}: {error}") from None
        if self.table.registers and (term := form.forbidden(values)) is not None:
            raise MachineFault(BAD_INSTRUCTION, f"{form.name}: {term} is not 0")
        return values

    def _set(self, form: InstructionForm, values: Mapping[str, int]) -> None:
        if not form.sets:
            return
        try:
            self.state.held.update(set_registers(self.table, form, values, self.state.held))
        except LoweringError as error:
            raise MachineFault(BAD_INSTRUCTION, f"{form.name}: {error}") from None

    def _decode(
        self, code: bytes, at: int, last: bool = False
    ) -> tuple[InstructionForm, dict[str, int]]:
        form = self.table.form_at(code, at)
        if form is None or at + self.table.sizes[form.name] > len(code):
            first = int.from_bytes(code[at : at + 4], "little") >> self.table.opcode_at
            opcode = first & (1 << self.table.opcode_bits) - 1
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
        if meaning is None:  # it sets registers, and nothing else
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
            try:
                self.state.dram.window(first, end - first, reach.writes)
            except MachineFault as fault:
                raise MachineFault(fault.error, f"{form.name}: {fault}", fault.address) from None
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
