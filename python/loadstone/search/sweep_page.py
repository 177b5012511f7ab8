# SPDX-License-Identifier: Apache-2.0
"""The page of `loadstone sweep --html`: Pareto front, parallel coordinates, devices, their layers.

In:   a Sweep.
Out:  HTML (pages/page.py).
Next: pages/sweep.js draws it.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict

from loadstone.files import JsonObject
from loadstone.pages.page import page
from loadstone.search.assumptions import SOURCES
from loadstone.search.evaluate import LAYER_FIELDS
from loadstone.search.plugin_device import device_file
from loadstone.search.space import Point
from loadstone.search.sweep import Sweep, SweptDevice

__all__ = ["sweep_page"]

#: Of a row, what the page shows of a network on a device.
_ROW = ("cycles", "us", "energy_uj", "utilisation", "dram_read_bytes", "dram_write_bytes")


def sweep_page(sweep: Sweep, profiles: Mapping[tuple[Point, str], str] | None = None) -> str:
    """One HTML file. profiles: of sweep_profiles.py, relative to where the page will stand."""
    front = {candidate.point for candidate in sweep.front()}
    assumed = asdict(sweep.space.assumptions)
    data = {
        "networks": list(sweep.networks),
        "axes": [
            {"name": axis.name, "values": list(axis.values)}
            for axis in sweep.space.axes
            if len(axis.values) > 1
        ],
        "layer_fields": list(LAYER_FIELDS),
        "row_fields": [*_ROW, "accuracy"],
        "assumptions": [
            {"name": name, "value": assumed[name], "source": source}
            for name, source in SOURCES.items()
        ],
        "devices": [
            {
                **_device(candidate, candidate.point in front),
                "profiles": [
                    (profiles or {}).get((candidate.point, network), "")
                    for network in sweep.networks
                ],
            }
            for candidate in sweep.candidates
        ],
    }
    return page(f"{len(sweep.candidates)} devices", "sweep", ["uplot"], data)


def _device(candidate: SweptDevice, on_front: bool) -> JsonObject:
    able = candidate.feasible
    return {
        "name": candidate.name,
        "settings": dict(candidate.settings),
        "feasible": able,
        "why": next((row["why"] for row in candidate.rows if row["why"]), ""),
        "front": on_front,
        "us": candidate.us if able else None,
        "energy_uj": candidate.energy_uj if able else None,
        "area_mm2": candidate.area_mm2 if able else None,
        "rows": [
            [row.get(name) for name in (*_ROW, "accuracy")] if row["feasible"] else None
            for row in candidate.rows
        ],
        "layers": [row.get("layers", []) for row in candidate.rows],
        "device": device_file(candidate.device),
    }
