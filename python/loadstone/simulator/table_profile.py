# SPDX-License-Identifier: Apache-2.0
"""What programs of other devices cost, and what they do to memory, without a host.

In:   an artifact with programs of accelerators that plug-ins describe.
Out:  a MachineRun for each; cycles by layer. Inputs are zeros, constants are there.
Next: --partition cost and --explain; a trace for Perfetto.
"""

from __future__ import annotations

import json
from collections.abc import Sequence

import numpy as np

from loadstone.artifact.format import Artifact, ProgramStep
from loadstone.backend.device import Relocation
from loadstone.errors import SimulationError
from loadstone.isa.accelerator import Accelerator
from loadstone.isa.machine import TableMachine
from loadstone.isa.state import ERRORS, Dram, DramWindow, MachineFault, MachineRun
from loadstone.runtime.accelerators import accelerators_of

__all__ = ["placed", "relocated", "table_layer_cycles", "table_runs", "trace_text"]

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


def table_runs(
    artifact: Artifact, *, trace: bool = False
) -> list[tuple[ProgramStep, Accelerator, MachineRun]]:
    """Each program once, in order. Raises SimulationError for one that a device stops."""
    known = {accelerator.name: accelerator for accelerator in accelerators_of(artifact)}
    windows, bases = placed(artifact)
    end = _FIRST + sum(-(-r.size_bytes // _PAGE) * _PAGE for r in artifact.regions)
    machines: dict[str, TableMachine] = {}
    found = []
    for step in artifact.described_programs:
        accelerator = known[step.device]
        code = relocated(artifact.code_of(step), step.relocations, bases)
        fetched = DramWindow(end, np.frombuffer(bytearray(code), np.uint8), writable=False)
        dram = Dram([*windows, fetched])
        if step.device not in machines:
            machines[step.device] = TableMachine(accelerator, dram, trace=trace)
        machine = machines[step.device]
        machine.use(dram)
        try:
            run = machine.run(end, step.instructions)
        except MachineFault as fault:
            raise SimulationError(
                f"{step.name}, instruction {fault.instruction}: {ERRORS[fault.error]} ({fault})"
            ) from None
        found.append((step, accelerator, run))
    return found


def table_layer_cycles(step: ProgramStep, run: MachineRun) -> list[tuple[int, int]]:
    """Of each of a step's layers, in order: the cycles that belong to it, which sum to the run's
    (a layer ends with its last instruction, and the next begins there), and those of the unit that
    works longest for it."""
    found = []
    reached = 0
    for number, layer in enumerate(step.layers, 1):
        events = run.events[layer.first : layer.first + layer.count]
        last = number == len(step.layers)
        end = run.cycles if last else max([reached, *(event.end for event in events)])
        busy: dict[str, int] = {}
        for event in events:
            busy[event.unit] = busy.get(event.unit, 0) + event.end - event.start
        found.append((end - reached, max(busy.values(), default=0)))
        reached = end
    return found


def trace_text(artifact: Artifact) -> str:
    """A trace that https://ui.perfetto.dev opens (Chrome's JSON): a process for each program, a
    track for each unit, microseconds of the device's clock."""
    events: list[dict[str, object]] = []
    for number, (step, accelerator, run) in enumerate(table_runs(artifact, trace=True), 1):
        name = {"name": f"{accelerator.name}: {step.name}"}
        events.append({"ph": "M", "name": "process_name", "pid": number, "args": name})
        tracks = {unit: k for k, unit in enumerate(run.busy_cycles, 1)}
        for unit, track in tracks.items():
            thread = {"ph": "M", "name": "thread_name", "pid": number, "tid": track}
            events.append({**thread, "args": {"name": unit}})
        layer_of = {
            insn: layer.name
            for layer in step.layers
            for insn in range(layer.first, layer.first + layer.count)
        }
        for event in run.events:
            waited = event.start - event.ready
            events.append(
                {
                    "ph": "X",
                    "name": event.name,
                    "cat": layer_of.get(event.insn, ""),
                    "pid": number,
                    "tid": tracks[event.unit],
                    "ts": event.start / accelerator.clock_mhz,
                    "dur": (event.end - event.start) / accelerator.clock_mhz,
                    "args": {"instruction": event.insn, "waited (cycles)": waited},
                }
            )
    return json.dumps({"traceEvents": events, "displayTimeUnit": "ns"})
