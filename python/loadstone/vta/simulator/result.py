# SPDX-License-Identifier: Apache-2.0
"""The results of a run of the simulator: counters, findings, events.

In:   what sim.py reads from the core.
Out:  Result, Finding, Event; SimulationStopped for a program that did not reach FINISH.
Next: profile.py, trace.py and vectors.py read them.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from loadstone.errors import SimulationError
from loadstone.vta.device.hw_config import HwConfig
from loadstone.vta.isa.spec import Stage

__all__ = ["Event", "Finding", "Result", "SimulationStopped"]


@dataclass(frozen=True)
class Result:
    """One run. Cycles are those of the timing model, 0 without it; dicts are by stage, reader or
    opcode, in lower case."""

    status: str  # a key of registers.ERRORS, "NONE" when the program reached FINISH
    message: str
    error_pc: int
    error_address: int
    cycles: int
    insns_done: int
    insns: Mapping[str, int]
    busy_cycles: Mapping[str, int]
    stall_token_cycles: Mapping[str, int]
    stall_fetch_cycles: Mapping[str, int]
    stall_dram_cycles: Mapping[str, int]
    read_bytes: Mapping[str, int]
    write_bytes: int
    read_beats: int
    write_beats: int
    read_bursts: int
    write_bursts: int
    macs: int
    gemm_steps: int
    alu_steps: int
    findings: int

    def utilisation(self, config: HwConfig) -> float:
        """Multiply-accumulates done, as a part of what GEMM could do in these cycles."""
        return self.macs / (self.cycles * config.macs_per_cycle) if self.cycles else 0.0


@dataclass(frozen=True)
class Finding:
    """A race (two instructions, no token between them, one writes), or a read of tiles that were
    never written."""

    kind: str  # "race" or "uninitialised"
    memory: str  # "INP", ..., or "DRAM"
    insn: int
    other: int | None
    writes: tuple[bool, bool]
    first: int  # tile, or bus address
    count: int  # tiles, or bytes
    text: str


@dataclass(frozen=True)
class Event:
    """One instruction in time, in cycles: the stage was free at `enter`, it was fetched at `ready`,
    its tokens were there at `start`."""

    insn: int
    stage: Stage
    enter: int
    ready: int
    start: int
    end: int
    from_prev: int | None
    from_next: int | None
    dram_cycles: int


class SimulationStopped(SimulationError):
    """The program stopped before FINISH; `result` holds how far it came."""

    def __init__(self, result: Result) -> None:
        super().__init__(result.message)
        self.result = result
