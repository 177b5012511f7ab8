# SPDX-License-Identifier: Apache-2.0
"""The interface of simulators of device programs, for VTA and for instruction tables.

In:   an artifact.
Out:  ProgramSimulator, ProgramRun; their results: LayerFigures, DeviceFigures, Timeline, Lived.
Next: programs.py finds the simulators of an artifact; analysis/report.py, partition/cost/prices.py
      and the commands ask them, whatever the device.

A simulator runs each program alone, without the host. Cycles do not depend on the values of
activations, so that memory contains only the constants.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field

from loadstone.artifact.format import Artifact, BufferView, ProgramStep
from loadstone.errors import SimulationError

__all__ = [
    "DeviceFigures",
    "InsnTime",
    "LayerFigures",
    "LayerStores",
    "Lived",
    "ProgramRace",
    "ProgramRun",
    "ProgramSimulator",
    "SimulatedStep",
    "Timeline",
]


# --- what they tell -------------------------------------------------------------------------------
@dataclass(frozen=True)
class LayerFigures:
    """One layer of a program. cycles: those that belong to it; they sum to the program's.
    working_cycles: those in which the computing unit, or the unit that works longest, works for it.

    Figures that a simulator does not report are None, 0 or empty. first_cycle, last_cycle: from the
    start of its first instruction to the end of its last one. busy_cycles: by unit, the cycles that
    each worked for it. spent_cycles: `cycles` by their causes (DeviceFigures.bounds). bytes:
    transferred, by memory; `out` is written, all others are read. macs: multiply-accumulates
    executed, including lanes that only fill tiles. step_cycles: of the computing unit, without the
    overhead of instructions. best_cycles: the longest of computing, reads and writes, without any
    waiting. kind: the main work of the device for it: multiply, elementwise, or move; `program`
    where that is not reported.
    """

    name: str
    instructions: int
    cycles: int
    working_cycles: int
    first_cycle: int | None = None
    last_cycle: int | None = None
    busy_cycles: Mapping[str, int] = field(default_factory=dict)
    spent_cycles: Mapping[str, int] = field(default_factory=dict)
    bytes: Mapping[str, int] = field(default_factory=dict)
    macs: int = 0
    step_cycles: int = 0
    best_cycles: int | None = None
    kind: str = "program"

    def and_then(self, other: LayerFigures) -> LayerFigures:
        """Both together, where another program goes on with the layer: sums, no place in time."""
        best = None
        if self.best_cycles is not None and other.best_cycles is not None:
            best = self.best_cycles + other.best_cycles
        return LayerFigures(
            self.name,
            self.instructions + other.instructions,
            self.cycles + other.cycles,
            self.working_cycles + other.working_cycles,
            busy_cycles=_sums(self.busy_cycles, other.busy_cycles),
            spent_cycles=_sums(self.spent_cycles, other.spent_cycles),
            bytes=_sums(self.bytes, other.bytes),
            macs=self.macs + other.macs,
            step_cycles=self.step_cycles + other.step_cycles,
            best_cycles=best,
            kind=max((self, other), key=lambda part: part.cycles).kind,
        )

    @property
    def bound(self) -> str:
        """The cause of most of its cycles; empty where that is not reported."""
        return max(self.spent_cycles, key=lambda name: self.spent_cycles[name], default="")


def _sums(first: Mapping[str, int], second: Mapping[str, int]) -> dict[str, int]:
    return {name: first.get(name, 0) + second.get(name, 0) for name in {**first, **second}}


@dataclass(frozen=True)
class DeviceFigures:
    """The limits of a device in every cycle. scratchpad_tiles: by memory. bounds: the possible
    causes of a cycle, with their meaning."""

    name: str
    clock_mhz: int
    macs_per_cycle: int
    bus_bytes: int
    scratchpad_tiles: Mapping[str, int]
    bounds: Mapping[str, str]


@dataclass
class Lived:
    """Tiles or bytes [first, end) of a memory contain data that `layer` wrote, in cycles [begin,
    last]."""

    memory: str
    layer: str
    first: int
    end: int
    begin: int
    last: int


@dataclass(frozen=True)
class InsnTime:
    """One instruction on its unit. fetch_cycles: the time until it was fetched; token_cycles: the
    time that it then waited for other instructions."""

    insn: int
    unit: int
    start: int
    end: int
    fetch_cycles: int
    token_cycles: int
    layer: str


@dataclass(frozen=True)
class Timeline:
    """instructions: in the order in which they start. scratchpads: the contents of each of
    `memories` over time."""

    instructions: Sequence[InsnTime]
    memories: Sequence[str]
    scratchpads: Sequence[Lived]


@dataclass(frozen=True)
class ProgramRace:
    """Instructions `insn` and `other` of step `number` access the same place, one of them writes,
    and no token orders them; text names both."""

    number: int
    insn: int
    other: int
    text: str


@dataclass(frozen=True)
class LayerStores:
    """A layer, its last store, and the bytes of a region, from the first to the last, that its
    stores write."""

    layer: str
    last: int
    region: int
    start_bytes: int
    end_bytes: int


# --- who tells it ---------------------------------------------------------------------------------
@dataclass(frozen=True)
class SimulatedStep:
    """A program of an artifact. number: of its step. decisive: everything that determines its
    cycles."""

    number: int
    device: str
    clock_mhz: int
    decisive: tuple[str | bytes, ...]


@dataclass(frozen=True)
class ProgramRun(ABC):
    """One program that has reached its end. number: of its step. device: that ran it."""

    number: int
    name: str
    device: str
    clock_mhz: int
    cycles: int

    @property
    def facts(self) -> DeviceFigures | None:
        """The device's limits; None where they are not reported."""
        return None

    @abstractmethod
    def layers(self) -> Sequence[LayerFigures]:
        """The layers in the order in which they compute; of a run with a trace."""

    def arena(self, artifact: Artifact) -> Sequence[Lived]:
        """The contents of the artifact's arena over time; of a run with a trace. Empty where that
        is not reported."""
        return ()

    @property
    def units(self) -> Sequence[str]:
        """Who executes instructions: InsnTime.unit is an index of it."""
        return ("load", "compute", "store")

    def timeline(self, artifact: Artifact) -> Timeline | None:
        """Every instruction; of a run with a trace. None where that is not reported."""
        return None


class ProgramSimulator(ABC):
    """Some of an artifact's programs, simulated."""

    @abstractmethod
    def steps(self, artifact: Artifact) -> Sequence[SimulatedStep]:
        """The programs that it runs, in order."""

    @abstractmethod
    def runs(self, artifact: Artifact, *, trace: bool = False) -> Iterator[ProgramRun]:
        """Runs each of them once, in order. trace: records every instruction. Raises
        SimulationError for a program that a device stops."""

    @abstractmethod
    def trace(self, artifact: Artifact) -> bytes:
        """All runs as one file that https://ui.perfetto.dev opens."""

    def races(self, artifact: Artifact) -> Sequence[ProgramRace]:
        """The races that tokens permit, in the order in which they occur; none on a device whose
        units do not work concurrently."""
        return ()

    def longest(self, artifact: Artifact) -> dict[int, int]:
        """By step, the most cycles that a program can take, memory as slow as the device's timing
        says it can be. Raises SimulationError where that is not known."""
        raise SimulationError(
            f"model {artifact.name!r}: nothing says how long programs of an instruction table can "
            "take at most: bounds are for VTAs"
        )

    # What a debugger asks: a device that does not tell it runs its programs as a whole.
    def layer_stores(self, program: ProgramStep) -> Sequence[LayerStores]:
        """The stores of layers, in the order of their last stores."""
        return ()

    def without_stores(self, program: ProgramStep, behind: int) -> ProgramStep:
        """The program in which every store after instruction `behind` transfers nothing."""
        raise SimulationError(f"program {program.name!r} runs as a whole: it stops behind no layer")

    def memory_behind(
        self,
        program: ProgramStep,
        artifact: Artifact,
        content: Mapping[int, bytes],
        wanted: Mapping[int, BufferView],
    ) -> Mapping[int, bytes]:
        """By instruction, the bytes of a view after it, by the instructions' definition, for each
        of `wanted`. content: of regions other than constants, before the program."""
        return {}
