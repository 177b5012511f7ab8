# SPDX-License-Identifier: Apache-2.0
"""What a simulator of device programs is: the one interface, for VTA and for instruction tables.

In:   an artifact.
Out:  ProgramSimulator, ProgramRun; LayerFigures, DeviceFigures, Timeline and Lived, what they tell.
Next: programs.py finds the simulators of an artifact; analysis/report.py, partition/cost/prices.py
      and the commands ask them, whatever the device.

A simulator runs each program alone, without the host: cycles do not depend on what the activations
hold, so that nothing but the constants is put into memory.
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
    working_cycles: those in which the unit that computes, or the one that works longest, works for
    it.

    What not every simulator tells is None, 0 or empty elsewhere. first_cycle, last_cycle: from its
    first instruction's start to its last one's end. busy_cycles: by unit, what each worked for it.
    spent_cycles: `cycles` by what they were spent on (DeviceFigures.bounds). bytes: moved, by
    memory; `out` is written, all else read. macs: multiply-accumulates executed, lanes that only
    fill up tiles included. step_cycles: of the unit that computes, without what an instruction
    takes besides its steps. best_cycles: what the longest of computing, reads and writes would take
    with nothing to wait for. kind: what the device mostly does for it: multiply, compute element by
    element (elementwise), or move; `program` where that is not told.
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

    @property
    def bound(self) -> str:
        """What most of its cycles were spent on; empty where that is not told."""
        return max(self.spent_cycles, key=lambda name: self.spent_cycles[name], default="")


@dataclass(frozen=True)
class DeviceFigures:
    """What a device could do at most, in every cycle. scratchpad_tiles: by memory. bounds: what a
    cycle can be spent on, and what that means."""

    name: str
    clock_mhz: int
    macs_per_cycle: int
    bus_bytes: int
    scratchpad_tiles: Mapping[str, int]
    bounds: Mapping[str, str]


@dataclass
class Lived:
    """Tiles or bytes [first, end) of a memory hold what `layer` wrote, in cycles [begin, last]."""

    memory: str
    layer: str
    first: int
    end: int
    begin: int
    last: int


@dataclass(frozen=True)
class InsnTime:
    """One instruction on its unit. fetch_cycles, token_cycles: what it waited for itself, and then
    for others."""

    insn: int
    unit: int
    start: int
    end: int
    fetch_cycles: int
    token_cycles: int
    layer: str


@dataclass(frozen=True)
class Timeline:
    """instructions: in the order in which they start. scratchpads: who lives where, and when, in
    each of `memories`."""

    instructions: Sequence[InsnTime]
    memories: Sequence[str]
    scratchpads: Sequence[Lived]


@dataclass(frozen=True)
class ProgramRace:
    """Instructions `insn` and `other` of step `number` touch the same place, one of them writes,
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
    """A program of an artifact. number: of its step. decisive: all that decides its cycles."""

    number: int
    device: str
    clock_mhz: int
    decisive: tuple[str | bytes, ...]


@dataclass(frozen=True)
class ProgramRun(ABC):
    """One program that has reached its end. number: of its step; device: which ran it."""

    number: int
    name: str
    device: str
    clock_mhz: int
    cycles: int

    @property
    def facts(self) -> DeviceFigures | None:
        """What the device could do at most; None where that is not told."""
        return None

    @abstractmethod
    def layers(self) -> Sequence[LayerFigures]:
        """In the order in which they compute; of a run with a trace."""

    def arena(self, artifact: Artifact) -> Sequence[Lived]:
        """Who lives where in the artifact's arena; of a run with a trace. Empty where that is not
        told."""
        return ()

    def timeline(self, artifact: Artifact) -> Timeline | None:
        """Every instruction; of a run with a trace. None where that is not told."""
        return None


class ProgramSimulator(ABC):
    """Some of an artifact's programs, simulated."""

    @abstractmethod
    def steps(self, artifact: Artifact) -> Sequence[SimulatedStep]:
        """The programs that it runs, in order."""

    @abstractmethod
    def runs(self, artifact: Artifact, *, trace: bool = False) -> Iterator[ProgramRun]:
        """Each of them once, in order. trace: with what each instruction did. Raises
        SimulationError for a program that a device stops."""

    @abstractmethod
    def trace(self, artifact: Artifact) -> bytes:
        """All of them as one file that https://ui.perfetto.dev opens."""

    def races(self, artifact: Artifact) -> Sequence[ProgramRace]:
        """What tokens leave open, in the order in which it is met: none where units wait for
        nobody."""
        return ()

    # What a debugger asks: a device that does not tell it runs its programs as a whole.
    def layer_stores(self, program: ProgramStep) -> Sequence[LayerStores]:
        """What layers leave in memory, in the order of their last stores."""
        return ()

    def without_stores(self, program: ProgramStep, behind: int) -> ProgramStep:
        """The program in which every store behind instruction `behind` moves nothing."""
        raise SimulationError(f"program {program.name!r} runs as a whole: it stops behind no layer")

    def memory_behind(
        self,
        program: ProgramStep,
        artifact: Artifact,
        content: Mapping[int, bytes],
        wanted: Mapping[int, BufferView],
    ) -> Mapping[int, bytes]:
        """By instruction, the bytes of a view behind it as its definition has them, for each of
        `wanted`. content: of regions that are no constants, before the program."""
        return {}
