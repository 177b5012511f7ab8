# SPDX-License-Identifier: Apache-2.0
"""The page of `loadstone profile --html`: timeline, memory, roofline, table.

In:   a ProfileReport, its artifact and its device.
Out:  HTML (pages/page.py), whose data holds columns of numbers: a list for each field.
Next: pages/profile.js draws it.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict

from loadstone.analysis.report import ProfileReport
from loadstone.artifact.format import Artifact
from loadstone.backend.device import Device
from loadstone.files import JsonObject
from loadstone.pages.page import page
from loadstone.simulator.layers import BOUNDS
from loadstone.simulator.occupation import Lived, scratchpad_occupation
from loadstone.simulator.profile import Profile, simulated

__all__ = ["profile_page"]


def profile_page(report: ProfileReport, artifact: Artifact, device: Device) -> str:
    """One HTML file."""
    numbers = {row.name: number for number, row in enumerate(report.rows)}
    starts = _program_starts(report)
    programs = [
        _program(entry, arena, numbers, start, _pads(entry, device, artifact))
        for entry, arena, start in zip(report.programs, report.arena, starts, strict=True)
    ]
    facts = None if report.facts is None else asdict(report.facts)
    data = {**report.to_json(), "facts": facts, "bounds": dict(BOUNDS), "programs": programs}
    return page(f"{report.model} on {report.device}", "profile", ["uplot"], data)


def _pads(entry: Profile, device: Device, artifact: Artifact) -> list[Lived]:
    config = simulated(device)
    assert config is not None
    return scratchpad_occupation(entry, config, artifact)


def _program_starts(report: ProfileReport) -> list[float]:
    """Microseconds at which each program begins: behind all rows of earlier steps."""
    steps = list(dict.fromkeys(row.step for row in report.rows if row.first_cycle is not None))
    return [sum(row.us for row in report.rows if row.step < step) for step in steps]


def _program(
    entry: Profile,
    arena: Iterable[Lived],
    numbers: Mapping[str, int],
    start_us: float,
    pads: Iterable[Lived],
) -> JsonObject:
    """Columns: lists of equal length. Layers are indices of rows, -1 for what is none. Events are
    in the order in which they start."""
    events = sorted(entry.events, key=lambda event: event.start)
    return {
        "name": entry.program.name,
        "start_us": start_us,
        "cycles": entry.result.cycles,
        "events": {
            "insn": [event.insn for event in events],
            "stage": [int(event.stage) for event in events],
            "start": [event.start for event in events],
            "end": [event.end for event in events],
            "fetch": [event.ready - event.enter for event in events],
            "token": [event.start - event.ready for event in events],
            "layer": [numbers.get(entry.layer_of[event.insn], -1) for event in events],
        },
        "arena": _pieces(arena, numbers),
        "scratchpads": {
            memory: _pieces((p for p in found if p.memory == memory), numbers)
            for found in (list(pads),)
            for memory in ("inp", "wgt", "acc", "uop")
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
