# SPDX-License-Identifier: Apache-2.0
"""The cycles of programs of other devices, and their effect on memory, without a host.

In:   an artifact with programs of accelerators that plug-ins describe.
Out:  a MachineRun for each; cycles by layer. Inputs are zeros; constants are loaded.
Next: --partition cost and --explain; a trace for Perfetto.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from types import MappingProxyType

import numpy as np

from loadstone.artifact.format import Artifact, ProgramStep
from loadstone.backend.device import Relocation
from loadstone.errors import SimulationError
from loadstone.isa.accelerator import Accelerator
from loadstone.isa.machine import InstructionWatch, TableMachine
from loadstone.isa.state import ERRORS, Dram, DramWindow, MachineFault, MachineRun
from loadstone.simulator.interface import (
    DeviceFigures,
    InsnTime,
    LayerFigures,
    ProgramRun,
    ProgramSimulator,
    SimulatedStep,
    Timeline,
)
from loadstone.simulator.table_layers import table_facts, table_layers

__all__ = ["TableRun", "TableSimulator", "placed", "relocated"]

_PAGE = 65536
_FIRST = 0x1000_0000


def relocated(code: bytes, relocations: Sequence[Relocation], bases: Sequence[int]) -> bytes:
    """The code with its addresses. bases: bus addresses of the regions. Raises SimulationError for
    one that does not fit its field."""
    out = bytearray(code)
    for r in relocations:
        address = bases[r.region] + r.addend_bytes
        if address % (1 << r.shift) or address >> r.shift >> r.width:
            raise SimulationError(f"address {address:#x} does not fit {r.width} bits")
        first = r.offset_bytes + r.bit // 8
        last = r.offset_bytes + (r.bit + r.width + 7) // 8
        word = int.from_bytes(out[first:last], "little") | (address >> r.shift) << r.bit % 8
        out[first:last] = word.to_bytes(last - first, "little")
    return bytes(out)


def placed(artifact: Artifact) -> tuple[list[DramWindow], list[int]]:
    """The artifact's regions in a memory of their own, and where: only those that a device sees,
    with its rights."""
    windows, bases, at = [], [], _FIRST
    for region in artifact.regions:
        bases.append(at)
        if region.on_device:
            memory = np.zeros(region.size_bytes, np.uint8)
            memory[: len(region.data)] = np.frombuffer(region.data, np.uint8)
            windows.append(DramWindow(at, memory, region.device_writes))
        at += -(-region.size_bytes // _PAGE) * _PAGE
    return windows, bases


@dataclass(frozen=True)
class TableRun(ProgramRun):
    """One program of an accelerator that a plug-in describes."""

    program: ProgramStep
    run: MachineRun
    accelerator: Accelerator

    @property
    def facts(self) -> DeviceFigures:
        """Of its table and its port."""
        return table_facts(self.accelerator)

    def layers(self) -> list[LayerFigures]:
        """As table_layers.py says."""
        return table_layers(self.accelerator, self.program, self.run)

    def timeline(self, artifact: Artifact) -> Timeline:
        """Every instruction; what memories hold is not reported."""
        del artifact
        order = sorted(self.run.events, key=lambda event: (event.start, event.insn))
        layer_of, units = _layer_of(self.program), {u: k for k, u in enumerate(self.units)}
        times = [
            InsnTime(
                event.insn,
                units[event.unit],
                event.start,
                event.end,
                0,
                event.start - event.ready,
                layer_of.get(event.insn, ""),
            )
            for event in order
        ]
        return Timeline(times, (), ())

    @property
    def units(self) -> Sequence[str]:
        """Of its table, in order."""
        return list(dict.fromkeys(u for form in self.accelerator.table.forms for u in form.units))


class TableSimulator(ProgramSimulator):
    """The programs of all accelerators that plug-ins describe, by their numbers among the devices
    of an artifact, on machines that share a memory."""

    def __init__(self, accelerators: Mapping[int, Accelerator]) -> None:
        self._known = dict(accelerators)

    def steps(self, artifact: Artifact) -> list[SimulatedStep]:
        """The attributes, the code, and the instructions' fingerprint decide."""
        return [
            SimulatedStep(
                number,
                self._known[program.device].name,
                self._known[program.device].clock_mhz,
                self._decisive(artifact, program),
            )
            for number, program in self._programs(artifact)
        ]

    def _programs(self, artifact: Artifact) -> list[tuple[int, ProgramStep]]:
        return [(n, p) for n, p in artifact.numbered_programs if p.device in self._known]

    def _decisive(self, artifact: Artifact, program: ProgramStep) -> tuple[str, bytes, bytes]:
        device = artifact.device_of(program)
        return device.attributes, program.instructions, device.fingerprint

    def runs(
        self,
        artifact: Artifact,
        *,
        trace: bool = False,
        watches: Mapping[str, InstructionWatch] = MappingProxyType({}),
    ) -> Iterator[TableRun]:
        """Each program once, in order, on what the one before it left. watches: by accelerator."""
        windows, bases = placed(artifact)
        end = _FIRST + sum(-(-r.size_bytes // _PAGE) * _PAGE for r in artifact.regions)
        machines: dict[int, TableMachine] = {}
        for number, program in self._programs(artifact):
            accelerator = self._known[program.device]
            code = relocated(program.instructions, program.relocations, bases)
            fetched = DramWindow(end, np.frombuffer(bytearray(code), np.uint8), writable=False)
            dram = Dram([*windows, fetched])
            if program.device not in machines:
                watch = watches.get(accelerator.name)
                made = TableMachine(accelerator, dram, trace=trace, watch=watch)
                machines[program.device] = made
            machine = machines[program.device]
            machine.use(dram)
            try:
                run = machine.run(end, len(program))
            except MachineFault as fault:
                where = f"{program.name}, instruction {fault.instruction}"
                raise SimulationError(f"{where}: {ERRORS[fault.error]} ({fault})") from None
            device, clock_mhz = accelerator.name, accelerator.clock_mhz
            base = number, program.name, device, clock_mhz, run.cycles
            yield TableRun(*base, program, run, accelerator)

    def trace(self, artifact: Artifact) -> bytes:
        """Chrome's JSON: a process for each program, a track for each unit, microseconds of the
        device's clock."""
        events: list[dict[str, object]] = []
        for process, one in enumerate(self.runs(artifact, trace=True), 1):
            events += _process(process, one)
        return json.dumps({"traceEvents": events, "displayTimeUnit": "ns"}).encode()


def _layer_of(program: ProgramStep) -> dict[int, str]:
    """By instruction."""
    return {
        insn: layer.name
        for layer in program.layers
        for insn in range(layer.first, layer.first + layer.count)
    }


def _process(process: int, one: TableRun) -> Iterator[dict[str, object]]:
    name = {"name": f"{one.device}: {one.name}"}
    yield {"ph": "M", "name": "process_name", "pid": process, "args": name}
    tracks = {unit: k for k, unit in enumerate(one.run.busy_cycles, 1)}
    for unit, track in tracks.items():
        thread = {"ph": "M", "name": "thread_name", "pid": process, "tid": track}
        yield {**thread, "args": {"name": unit}}
    layer_of = _layer_of(one.program)
    for event in one.run.events:
        yield {
            "ph": "X",
            "name": event.name,
            "cat": layer_of.get(event.insn, ""),
            "pid": process,
            "tid": tracks[event.unit],
            "ts": event.start / one.clock_mhz,
            "dur": (event.end - event.start) / one.clock_mhz,
            "args": {"instruction": event.insn, "waited (cycles)": event.start - event.ready},
        }
