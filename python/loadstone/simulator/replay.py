# SPDX-License-Identifier: Apache-2.0
"""Run vectors on the simulator: memory byte for byte, cycles against what was measured.

In:   vectors (vectors.py).
Out:  one Replayed for each; figures for each group.
Next: `loadstone replay` prints them; tests hold the limits.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from statistics import median
from typing import Any

import numpy as np
import numpy.typing as npt

from loadstone.errors import LoadstoneError
from loadstone.files import JsonObject
from loadstone.simulator.sim import Simulator
from loadstone.simulator.vector_files import LATENCIES
from loadstone.simulator.vectors import Vector

__all__ = ["GroupFigures", "Replayed", "difference", "figures", "measured_elsewhere", "replay"]

_MEASURED = re.compile(r"\s*(\S.*?)\s+(\d{1,18})(?:\s+(\d{1,18}))?\s*")


@dataclass(frozen=True)
class Replayed:
    """One program. cycles, measured: by latency, where measured. `message`: why the memory differs,
    or what a check found."""

    name: str
    group: str
    exact: bool
    cycles: Mapping[int, int]
    measured: Mapping[int, int]
    findings: int
    message: str

    def errors(self) -> dict[int, float]:
        """By latency: percent by which the cycles are off."""
        return {
            lat: 100 * abs(self.cycles[lat] - self.measured[lat]) / max(1, self.measured[lat])
            for lat in self.measured
        }

    def to_json(self) -> JsonObject:
        """For --json."""
        return {
            "name": self.name,
            "group": self.group,
            "exact": self.exact,
            "cycles": {f"lat{lat}": cycles for lat, cycles in self.cycles.items()},
            "measured": {f"lat{lat}": cycles for lat, cycles in self.measured.items()},
            "error_percent": {f"lat{lat}": error for lat, error in self.errors().items()},
            "findings": self.findings,
            "message": self.message,
        }


def replay(vector: Vector, **options: Any) -> tuple[Replayed, Simulator]:
    """Runs one vector at both latencies (`options` are Simulator's); the simulator is that of the
    run at latency 0."""
    cycles: dict[int, int] = {}
    exact, message, findings = True, "", 0
    expected = vector.dram_out()
    simulators = []
    for latency in LATENCIES:
        image = vector.dram_in.copy()
        simulator = vector.simulator(image, latency, **{"strict": False, **options})
        simulators.append(simulator)
        result = simulator.run(vector.insns, check=False)
        cycles[latency] = result.cycles
        findings = max(findings, result.findings)
        if result.status != "NONE":
            exact, message = False, result.message
        elif not np.array_equal(image, expected):
            exact, message = False, difference(vector.dram_base, image, expected)
    if exact and findings:
        message = simulators[0].findings()[0].text
    measured = {latency: count for latency, count in vector.cycles.items() if count >= 0}
    return Replayed(
        vector.name, vector.group, exact, cycles, measured, findings, message
    ), simulators[0]


def measured_elsewhere(text: str, where: str) -> Mapping[str, Mapping[int, int]]:
    """By program and latency, cycles that a test bench counted: a line of each program's name, its
    cycles and, where that was measured, those at 64 more. Raises LoadstoneError naming the line of
    `where`."""
    found: dict[str, Mapping[int, int]] = {}
    for number, line in enumerate(text.splitlines(), 1):
        if not line.strip():
            continue
        said = _MEASURED.fullmatch(line)
        if said is None:
            raise LoadstoneError(
                f"{where}, line {number}: is not NAME CYCLES, or NAME CYCLES CYCLES_AT_64_MORE"
            )
        name, *counts = said.groups()
        if name in found:
            raise LoadstoneError(f"{where}, line {number}: {name} stands twice")
        by_latency = zip(LATENCIES, counts, strict=True)
        found[name] = {latency: int(count) for latency, count in by_latency if count}
    return found


def difference(
    dram_base: int, image: npt.NDArray[np.uint8], expected: npt.NDArray[np.uint8]
) -> str:
    """How memory differs from what it should be, in words; image and expected: uint8 (bytes,)."""
    wrong = np.flatnonzero(image != expected)
    where = dram_base + int(wrong[0])
    return (
        f"{wrong.size} bytes differ, the first at 0x{where:x}: {image[wrong[0]]} "
        f"instead of {expected[wrong[0]]}"
    )


@dataclass(frozen=True)
class GroupFigures:
    """A group at one latency. Errors in percent of the measured cycles, over the programs that were
    measured."""

    group: str
    latency: int
    programs: int
    exact: int
    measured: int
    cycle_exact: int
    median_error: float
    max_error: float


def figures(replayed: Iterable[Replayed]) -> list[GroupFigures]:
    """Figures of each group, at each latency."""
    groups: dict[str, list[Replayed]] = {}
    for r in replayed:
        groups.setdefault(r.group, []).append(r)
    return [
        _figures(group, members, latency)
        for group, members in groups.items()
        for latency in LATENCIES
    ]


def _figures(group: str, members: Sequence[Replayed], latency: int) -> GroupFigures:
    errors = [r.errors()[latency] for r in members if latency in r.measured]
    return GroupFigures(
        group=group,
        latency=latency,
        programs=len(members),
        exact=sum(r.exact for r in members),
        measured=len(errors),
        cycle_exact=sum(error == 0 for error in errors),
        median_error=median(errors) if errors else 0.0,
        max_error=max(errors, default=0.0),
    )
