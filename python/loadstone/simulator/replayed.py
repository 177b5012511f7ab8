# SPDX-License-Identifier: Apache-2.0
"""The results of running vectors: memory byte for byte, and cycles compared with measured ones.

In:   a simulator's results, and the expected ones.
Out:  one Replayed for each vector; figures for each group.
Next: `loadstone replay` prints them; tests hold the limits.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from statistics import median

import numpy as np
import numpy.typing as npt

from loadstone.errors import LoadstoneError
from loadstone.files import JsonObject
from loadstone.simulator.vector_files import LATENCIES

__all__ = ["GroupFigures", "Replayed", "difference", "figures", "measured_elsewhere"]

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
