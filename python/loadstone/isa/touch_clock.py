# SPDX-License-Identifier: Apache-2.0
"""The time of a program on units that the hardware orders by what instructions touch.

In:   instructions in program order, with what each touches.
Out:  when each works; busy and stalled cycles by unit, events.
Next: machine.py counts each instruction when it has done what it means; isa/c_machine.py does the
      same in C.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray

from loadstone.isa.accelerator import Accelerator
from loadstone.isa.c_machine import BLOCK_BYTES
from loadstone.isa.cost import port_cycles, work_cycles
from loadstone.isa.form import DRAM, InstructionForm, Reach
from loadstone.isa.state import MachineEvent
from loadstone.isa.table import InstructionTable

__all__ = ["TouchClock", "Touched", "register_touches"]

#: Reaches of an instruction that are not empty: (reach, first place, the place behind the last).
Touched: TypeAlias = "Sequence[tuple[Reach, int, int]]"
#: Registers, in what an instruction touches: no memory of a table has this name.
_REGISTERS = "(registers)"


@dataclass
class _Order:
    """When rows were last read and written."""

    written: NDArray[np.int64]
    read: NDArray[np.int64]


@dataclass
class TouchClock:
    """The time of one program."""

    accelerator: Accelerator
    trace: bool
    rows: dict[str, _Order] = field(default_factory=dict)
    blocks: dict[int, list[int]] = field(default_factory=dict)  # DRAM: [written, read]
    free: dict[str, int] = field(default_factory=dict)
    busy: dict[str, int] = field(default_factory=dict)
    stalled: dict[str, int] = field(default_factory=dict)
    waiting: dict[str, deque[int]] = field(default_factory=dict)
    events: list[MachineEvent] = field(default_factory=list)
    issued: int = 0
    port_free: int = 0
    end: int = 0

    def __post_init__(self) -> None:
        table = self.accelerator.table
        places = {memory.name: memory.rows for memory in table.memories}
        for name, rows in (*places.items(), (_REGISTERS, len(table.registers))):
            self.rows[name] = _Order(np.zeros(rows, np.int64), np.zeros(rows, np.int64))

    def step(
        self,
        number: int,
        form: InstructionForm,
        values: Mapping[str, int],
        touched: Touched,
    ) -> None:
        """Counts one instruction. values: its fields and the registers that it reads. touched:
        registers among them."""
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

    def _after(self, touched: Touched) -> int:
        """When what is touched may be."""
        after = 0
        for reach, first, last in touched:
            if reach.memory == DRAM:
                for block in range(first // BLOCK_BYTES, -(-last // BLOCK_BYTES)):
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
            for block in range(first // BLOCK_BYTES, -(-last // BLOCK_BYTES)):
                times = self.blocks.setdefault(block, [0, 0])
                times[not reach.writes] = max(times[not reach.writes], end)
            return
        order = self.rows[reach.memory]
        times_of_rows = order.written if reach.writes else order.read
        np.maximum(times_of_rows[first:last], end, out=times_of_rows[first:last])


def register_touches(table: InstructionTable, form: InstructionForm) -> Touched:
    """The registers that an instruction reads and sets, each a place of one memory."""
    numbers = {one.name: k for k, one in enumerate(table.registers)}
    read = [(numbers[name], False) for name in table.read_registers[form.name]]
    touched = [*read, *((numbers[one.register], True) for one in form.sets)]
    return [(Reach(_REGISTERS, k, writes=writes), k, k + 1) for k, writes in touched]
