# SPDX-License-Identifier: Apache-2.0
"""The cost of each layer of a program of an instruction table: its cycles and their causes, its
bytes, its multiplications, its lower bound.

In:   an Accelerator, a program, and its MachineRun with events.
Out:  a LayerFigures for each layer, whose cycles sum to the program's; DeviceFigures.
Next: table_profile.py reports them; analysis/report.py puts them beside the steps of the host.

A layer ends with its last instruction, and the next one begins there. What its cycles are spent on
is read from the end backwards: before the last instruction the one works that ended last before it
began, and so on. An instruction first moves its bytes (DRAM), then its unit works; where no
instruction ends, the next one had not been issued yet, or had no token.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from math import prod

from loadstone.artifact.format import ProgramStep
from loadstone.isa.accelerator import Accelerator
from loadstone.isa.codec import decode
from loadstone.isa.cost import port_cycles, work_cycles
from loadstone.isa.form import DRAM, InstructionForm, Reach
from loadstone.isa.registers import followed
from loadstone.isa.state import MachineEvent, MachineRun
from loadstone.isa.terms import term_value
from loadstone.simulator.interface import DeviceFigures, LayerFigures

__all__ = ["table_facts", "table_layers"]

_WAITING = "waiting"
_OUT = "out"


def table_facts(accelerator: Accelerator) -> DeviceFigures:
    """Limits of the device. macs_per_cycle is 0 where the plug-in does not say it, bus_bytes where
    DRAM costs nothing."""
    units = dict.fromkeys(unit for form in accelerator.table.forms for unit in form.units)
    bounds = {unit: f"work of unit {unit}" for unit in units}
    bounds[DRAM] = "transfers between DRAM and the device"
    bounds[_WAITING] = "for an instruction to be issued, or for a token"
    bus_bytes = accelerator.port.bytes_per_cycle if accelerator.port else 0
    peak = accelerator.macs_per_cycle
    return DeviceFigures(accelerator.name, accelerator.clock_mhz, peak, bus_bytes, {}, bounds)


def table_layers(
    accelerator: Accelerator, program: ProgramStep, run: MachineRun
) -> list[LayerFigures]:
    """In the order of the program. run: with its events."""
    works = _works(accelerator, program, run)
    path = _path(works, run.cycles)
    found, reached = [], 0
    for count, layer in enumerate(program.layers, 1):
        own = [works[n] for n in range(layer.first, layer.first + layer.count)]
        ends = [reached, *(work.event.end for work in own)]
        end = run.cycles if count == len(program.layers) else max(ends)
        spent = dict.fromkeys(table_facts(accelerator).bounds, 0)
        for cause, begin, last in path:
            spent[cause] += max(0, min(last, end) - max(begin, reached))
        found.append(_figures(layer.name, own, end - reached, spent))
        reached = end
    return found


@dataclass(frozen=True)
class _Work:
    """One instruction. moves: cycles of the port, with which it begins; steps: its unit's own."""

    event: MachineEvent
    moves: int
    steps: int
    macs: int
    bytes: Mapping[str, int] = field(default_factory=dict)

    def pieces(self) -> Iterator[tuple[str, int, int]]:
        """(cause, begin, end), the last one first."""
        moved = self.event.start + self.moves
        if self.event.end > moved:
            yield self.event.unit, moved, self.event.end
        if self.moves:
            yield DRAM, self.event.start, moved


def _works(accelerator: Accelerator, program: ProgramStep, run: MachineRun) -> dict[int, _Work]:
    """By the instruction's number."""
    forms, port = accelerator.table.by_name, accelerator.port
    said = [
        (forms[insn.name], {k: v for k, v in insn.fields.items() if isinstance(v, int)})
        for insn in decode(accelerator.table, program.instructions)
    ]
    found_by = list(followed(accelerator.table, said))
    found = {}
    for event in run.events:
        values, form = found_by[event.insn], forms[event.name]
        reaches = [r for r in form.reaches if r.memory == DRAM and r.span(values) > 0]
        moves = sum(port_cycles(port, reach, values) for reach in reaches) if port else 0
        macs = term_value(accelerator.macs.get(form.name, 0), values)
        steps = work_cycles(form, values)
        found[event.insn] = _Work(event, moves, steps, macs, _bytes(form, reaches, values))
    return found


def _bytes(
    form: InstructionForm, reaches: Sequence[Reach], values: Mapping[str, int]
) -> dict[str, int]:
    """Bytes of DRAM by the memory that they go to; `out`: what is written."""
    target = next((r.memory for r in form.reaches if r.writes and r.memory != DRAM), form.name)
    found: dict[str, int] = {}
    for reach in reaches:
        size = term_value(reach.extent, values) * prod(n for n, _ in reach.turns(values))
        name = _OUT if reach.writes else target
        found[name] = found.get(name, 0) + size
    return found


def _path(works: Mapping[int, _Work], cycles: int) -> list[tuple[str, int, int]]:
    """What the program waited for at each time: (cause, begin, end), the last one first, without
    holes."""
    order = sorted(works.values(), key=lambda work: (work.event.end, work.event.start))
    ends = [work.event.end for work in order]
    path, now = [], cycles
    while now > 0:
        last = bisect_right(ends, now) - 1
        if last < 0 or ends[last] < now:
            path.append((_WAITING, ends[last] if last >= 0 else 0, now))
        if last < 0:
            break
        path += order[last].pieces()
        # one that takes no time is behind others that end with it
        del order[last:], ends[last:]
        now = path[-1][1] if path else now
    return path


def _figures(
    name: str, works: Sequence[_Work], cycles: int, spent: Mapping[str, int]
) -> LayerFigures:
    busy: dict[str, int] = {}
    steps: dict[str, int] = {}
    moved: dict[str, int] = {_OUT: 0}
    for work in works:
        unit, event = work.event.unit, work.event
        busy[unit] = busy.get(unit, 0) + event.end - event.start
        steps[unit] = steps.get(unit, 0) + work.steps
        for memory, size in work.bytes.items():
            moved[memory] = moved.get(memory, 0) + size
    macs = sum(work.macs for work in works)
    longest = max(steps.values(), default=0)
    return LayerFigures(
        name,
        len(works),
        cycles,
        max(busy.values(), default=0),
        min((work.event.start for work in works), default=0),
        max((work.event.end for work in works), default=0),
        busy,
        spent,
        moved,
        macs,
        longest,
        max(longest, sum(work.moves for work in works)),
        "multiply" if macs else "program",
    )
