# SPDX-License-Identifier: Apache-2.0
"""VTA's simulator behind the interface of simulator/interface.py.

In:   a HwConfig; an artifact.
Out:  VtaSimulator, for the programs of one device; VtaRun, one of them.
Next: vta/builtin.py offers it to simulator/programs.py.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from loadstone.artifact.format import Artifact, BufferView, ProgramStep
from loadstone.artifact.memory_layout import RegionIndex
from loadstone.simulator.interface import (
    DeviceFigures,
    InsnTime,
    LayerFigures,
    LayerStores,
    Lived,
    ProgramRace,
    ProgramRun,
    ProgramSimulator,
    SimulatedStep,
    Timeline,
)
from loadstone.vta.device.hw_config import HwConfig
from loadstone.vta.simulator.layers import device_figures, layer_figures
from loadstone.vta.simulator.meaning import memory_behind
from loadstone.vta.simulator.occupation import arena_occupation, scratchpad_occupation
from loadstone.vta.simulator.profile import (
    Profile,
    cycles,
    longest_cycles,
    profile,
    traced_programs,
)
from loadstone.vta.simulator.stops import layer_stores, without_stores
from loadstone.vta.simulator.trace import trace_bytes
from loadstone.vta.simulator.unordered import findings

__all__ = ["VtaRun", "VtaSimulator"]

_MEMORIES = ("inp", "wgt", "acc", "uop")


@dataclass(frozen=True)
class VtaRun(ProgramRun):
    """One program of a VTA. entry: None without a trace."""

    config: HwConfig
    entry: Profile | None

    @property
    def facts(self) -> DeviceFigures:
        """Of this configuration."""
        return device_figures(self.config)

    @property
    def _traced(self) -> Profile:
        assert self.entry is not None, "a run without a trace"
        return self.entry

    def layers(self) -> list[LayerFigures]:
        """By what the compute stage does or waits for."""
        return layer_figures(self._traced, self.config)

    def arena(self, artifact: Artifact) -> list[Lived]:
        """Bytes of the arena."""
        return arena_occupation(self._traced, self.config, artifact)

    def timeline(self, artifact: Artifact) -> Timeline:
        """By stage."""
        entry = self._traced
        return Timeline(
            [
                InsnTime(
                    event.insn,
                    int(event.stage),
                    event.start,
                    event.end,
                    event.ready - event.enter,
                    event.start - event.ready,
                    entry.layer_of[event.insn],
                )
                for event in sorted(entry.events, key=lambda event: event.start)
            ],
            _MEMORIES,
            scratchpad_occupation(entry, self.config, artifact),
        )


class VtaSimulator(ProgramSimulator):
    """Of the programs of one device of an artifact, by its number."""

    def __init__(self, config: HwConfig, number: int = 0) -> None:
        self.config, self.number = config, number

    def _programs(self, artifact: Artifact) -> list[tuple[int, ProgramStep]]:
        return [
            (step, program)
            for step, program in artifact.numbered_programs
            if program.device == self.number
        ]

    def steps(self, artifact: Artifact) -> list[SimulatedStep]:
        """The device, all micro-ops and the instructions decide."""
        programs = self._programs(artifact)
        micro_ops = artifact.regions[RegionIndex.MICRO_OPS].data if programs else b""
        device, clock_mhz = self.config.name, self.config.clock_mhz
        return [
            SimulatedStep(
                number, device, clock_mhz, (repr(self.config), micro_ops, program.instructions)
            )
            for number, program in programs
        ]

    def runs(self, artifact: Artifact, *, trace: bool = False) -> Iterator[VtaRun]:
        """Each program once, in order."""
        programs = self._programs(artifact)
        entries: Sequence[Profile | None] = [None] * len(programs)
        if trace:
            entries = profiles = profile(artifact, self.config, self.number)
            spent = [entry.result.cycles for entry in profiles]
        else:
            spent = cycles(artifact, self.config, self.number)
        device, clock_mhz = self.config.name, self.config.clock_mhz
        for (number, program), entry, count in zip(programs, entries, spent, strict=True):
            yield VtaRun(number, program.name, device, clock_mhz, count, self.config, entry)

    def longest(self, artifact: Artifact) -> dict[int, int]:
        """With the worst latency, at the worst places of code and regions."""
        steps = [number for number, _ in self._programs(artifact)]
        return dict(zip(steps, longest_cycles(artifact, self.config, self.number), strict=True))

    def trace(self, artifact: Artifact) -> bytes:
        """Perfetto's own format: a process for each program, a track for each stage."""
        traced = traced_programs(artifact, self.config, self.number)
        return b"".join(
            trace_bytes(process, program.name, simulator, program.layers)
            for process, (program, simulator, _) in enumerate(traced, 1)
        )

    def races(self, artifact: Artifact) -> list[ProgramRace]:
        """Whatever the speed of the stages."""
        found = []
        for number, finding in findings(artifact, self.config, uninitialised=False):
            assert finding.other is not None, "a race has two sides"
            found.append(ProgramRace(number, finding.insn, finding.other, finding.text))
        return found

    def layer_stores(self, program: ProgramStep) -> list[LayerStores]:
        """From its STORE instructions."""
        return layer_stores(program, self.config)

    def without_stores(self, program: ProgramStep, behind: int) -> ProgramStep:
        """Later STOREs become no-ops that keep their tokens."""
        return without_stores(program, behind, self.config)

    def memory_behind(
        self,
        program: ProgramStep,
        artifact: Artifact,
        content: Mapping[int, bytes],
        wanted: Mapping[int, BufferView],
    ) -> dict[int, bytes]:
        """By the reference in NumPy (vta/meaning/reference.py)."""
        return memory_behind(program, artifact, self.config, content, wanted)
