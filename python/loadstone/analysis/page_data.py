# SPDX-License-Identifier: Apache-2.0
"""The page of `loadstone profile --html`: timeline, memory, roofline, table.

In:   a ProfileReport and its artifact.
Out:  HTML (pages/page.py), whose data holds columns of numbers: a list for each field.
Next: pages/profile.js draws it.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict

from loadstone.analysis.report import ProfileReport
from loadstone.artifact.format import Artifact
from loadstone.files import JsonObject
from loadstone.pages.page import page
from loadstone.simulator.interface import Lived, ProgramRun

__all__ = ["profile_page"]


def profile_page(report: ProfileReport, artifact: Artifact) -> str:
    """One HTML file."""
    numbers = {row.name: number for number, row in enumerate(report.rows)}
    starts = _program_starts(report)
    programs = [
        _program(run, artifact, arena, numbers, start)
        for run, arena, start in zip(report.programs, report.arena, starts, strict=True)
    ]
    facts = None if report.facts is None else asdict(report.facts)
    bounds = {
        name: text
        for run in report.programs
        if run.facts is not None
        for name, text in run.facts.bounds.items()
    }
    data = {**report.to_json(), "facts": facts, "bounds": bounds, "programs": programs}
    return page(f"{report.model} on {report.device}", "profile", ["uplot"], data)


def _program_starts(report: ProfileReport) -> list[float]:
    """The time in microseconds at which each program begins: after all rows of earlier steps."""
    steps = list(dict.fromkeys(row.step for row in report.rows if row.first_cycle is not None))
    return [sum(row.us for row in report.rows if row.step < step) for step in steps]


def _program(
    run: ProgramRun,
    artifact: Artifact,
    arena: Iterable[Lived],
    numbers: Mapping[str, int],
    start_us: float,
) -> JsonObject:
    """Columns: lists of equal length. Layers are indices of rows; -1: no layer. Events are in the
    order in which they start."""
    timeline = run.timeline(artifact)
    assert timeline is not None, f"{run.device} is simulated with its instructions"
    times = timeline.instructions
    return {
        "name": run.name,
        "start_us": start_us,
        "cycles": run.cycles,
        "clock_mhz": run.clock_mhz,
        "units": list(run.units),
        "events": {
            "insn": [time.insn for time in times],
            "stage": [time.unit for time in times],
            "start": [time.start for time in times],
            "end": [time.end for time in times],
            "fetch": [time.fetch_cycles for time in times],
            "token": [time.token_cycles for time in times],
            "layer": [numbers.get(time.layer, -1) for time in times],
        },
        "arena": _pieces(arena, numbers),
        "scratchpads": {
            memory: _pieces((p for p in timeline.scratchpads if p.memory == memory), numbers)
            for memory in timeline.memories
        },
    }


def _pieces(found: Iterable[Lived], numbers: Mapping[str, int]) -> JsonObject:
    pieces: Sequence[Lived] = sorted(found, key=lambda piece: piece.begin)
    return {
        "layer": [numbers.get(piece.layer, -1) for piece in pieces],
        "name": {
            str(k): piece.layer for k, piece in enumerate(pieces) if piece.layer not in numbers
        },
        "first": [piece.first for piece in pieces],
        "end": [piece.end for piece in pieces],
        "begin": [piece.begin for piece in pieces],
        "last": [piece.last for piece in pieces],
    }
