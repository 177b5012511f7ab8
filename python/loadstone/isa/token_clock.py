# SPDX-License-Identifier: Apache-2.0
"""The time of a program on units that tokens order: each unit has a queue of instructions, and an
instruction waits for the tokens that it takes.

In:   instructions as they are handed out, in program order.
Out:  which starts next, in the order of time; busy and stalled cycles by unit, events.
Next: machine.py lets each do what it means when it starts, so that a missing token shows as wrong
      numbers, as on the device.

The program is handed out one instruction a cycle, and stops while the queue of the unit is full. An
instruction starts when it is the first of its unit, the unit is free, and the tokens that it takes
have been given; it gives its own when it is done. DRAM takes the port, one transfer at a time.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

from loadstone.isa.accelerator import Accelerator
from loadstone.isa.cost import port_cycles, work_cycles
from loadstone.isa.form import InstructionForm
from loadstone.isa.state import MachineEvent, MachineFault

__all__ = ["TokenClock"]


@dataclass
class _Handed:
    number: int
    form: InstructionForm
    values: Mapping[str, int]
    issued: int
    cycles: tuple[int, int] | None = None  # of the unit, and of the port: without registers


@dataclass
class TokenClock:
    """One program. found: the fields of an instruction, and the registers that it reads as they are
    now; raises MachineFault where one is not set."""

    accelerator: Accelerator
    trace: bool
    found: Callable[[InstructionForm, Mapping[str, int]], Mapping[str, int]]
    waiting: dict[str, deque[_Handed]] = field(default_factory=dict)
    starts: dict[str, list[int]] = field(default_factory=dict)
    tokens: dict[int, deque[int]] = field(default_factory=dict)  # by queue: when each was given
    free: dict[str, int] = field(default_factory=dict)
    busy: dict[str, int] = field(default_factory=dict)
    stalled: dict[str, int] = field(default_factory=dict)
    events: list[MachineEvent] = field(default_factory=list)
    issued: int = 0
    port_free: int = 0
    end: int = 0

    def has_room(self, unit: str) -> bool:
        """Whether one more instruction may wait at a unit."""
        return len(self.waiting.get(unit, ())) < self.accelerator.queue

    def issue(self, number: int, form: InstructionForm, values: Mapping[str, int]) -> None:
        """Hands an instruction out."""
        unit = form.unit_of(values)
        waiting = self.waiting.setdefault(unit, deque())
        starts = self.starts.setdefault(unit, [])
        before = len(starts) + len(waiting) - self.accelerator.queue
        room = starts[before] if before >= 0 else 0
        self.issued = max(self.issued + 1, room)
        waiting.append(_Handed(number, form, values, self.issued))

    def start(self) -> int | None:
        """The number of the instruction that starts next; None where all wait for tokens."""
        ready = [
            (begin, handed[0].number, handed[0])
            for handed in self.waiting.values()
            if handed and (begin := self._begin(handed[0])) is not None
        ]
        if not ready:
            return None
        begin, number, chosen = min(ready, key=lambda found: found[:2])
        unit = chosen.form.unit_of(chosen.values)
        self.waiting[unit].popleft()
        self.starts[unit].append(begin)
        work, moves = self._cycles(chosen)
        end = begin + work + moves
        if moves:
            self.port_free = begin + moves
        for k, queue in enumerate(self.accelerator.table.queues):
            if queue.popper == unit and chosen.values[queue.pop]:
                self.tokens[k].popleft()
            if queue.pusher == unit and chosen.values[queue.push]:
                self.tokens.setdefault(k, deque()).append(end)
        stood = max(chosen.issued, self.free.get(unit, 0))
        self.free[unit] = end
        self.busy[unit] = self.busy.get(unit, 0) + end - begin
        self.stalled[unit] = self.stalled.get(unit, 0) + begin - stood
        self.end = max(self.end, end)
        if self.trace:
            self.events.append(MachineEvent(number, chosen.form.name, unit, stood, begin, end))
        return number

    def _begin(self, handed: _Handed) -> int | None:
        """When it could start, as far as is known; None without a token that it waits for."""
        unit = handed.form.unit_of(handed.values)
        begin = max(handed.issued, self.free.get(unit, 0))
        for k, queue in enumerate(self.accelerator.table.queues):
            if queue.popper == unit and handed.values[queue.pop]:
                if not self.tokens.get(k):
                    return None
                begin = max(begin, self.tokens[k][0])
        return max(begin, self.port_free) if self._cycles(handed)[1] else begin

    def _cycles(self, handed: _Handed) -> tuple[int, int]:
        """Of the unit, and of the port, with registers as they are."""
        if handed.cycles is not None:
            return handed.cycles
        form, port = handed.form, self.accelerator.port
        try:
            values = self.found(form, handed.values)
        except MachineFault:  # it is refused when it starts
            return 0, 0
        touched = [reach for reach in form.reaches if reach.span(values) > 0] if port else []
        moves = sum(port_cycles(port, reach, values) for reach in touched) if port else 0
        found = work_cycles(form, values), moves
        if not self.accelerator.table.read_registers[form.name]:
            handed.cycles = found
        return found
