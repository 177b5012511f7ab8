# SPDX-License-Identifier: Apache-2.0
"""Profiles of a sweep's results: for each device of the front and each network, the page of
`loadstone profile`.

In:   a Sweep, its networks, the workers, a folder.
Out:  HTML files there, and the path of each.
Next: sweep_page.py links them.

A row keeps a few figures of each layer. The details are in a profile, which needs the compiled
network; the networks of the front are therefore compiled once more.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path

from loadstone.analysis.page_data import profile_page
from loadstone.analysis.report import profile_report
from loadstone.files import write_whole
from loadstone.search.evaluate import SweptNetwork, Unit, compiled_of
from loadstone.search.space import Point
from loadstone.search.sweep import Sweep
from loadstone.search.workers import Pool

__all__ = ["write_profiles"]


def write_profiles(
    sweep: Sweep, networks: Sequence[SweptNetwork], pool: Pool, folder: str | Path
) -> Mapping[tuple[Point, str], str]:
    """The names of the files by point and network."""
    units, files = [], {}
    for candidate in sweep.front():
        options = sweep.space.options(candidate.point)
        for number, network in enumerate(networks):
            parts = (candidate.name, *map(str, options.values()), network.name)
            files[candidate.point, network.name] = f"{'-'.join(parts)}.html"
            said = candidate.device, number, options
            units.append(Unit(*said, sweep.space.host, sweep.space.plugins.folders))
    places = [Path(folder) / file for file in files.values()]

    def keep(index: int, text: str) -> None:
        write_whole(places[index], text)

    pool.map(_page, units, keep, (tuple(networks),))
    return files


def _page(unit: Unit, networks: Sequence[SweptNetwork]) -> str:
    compiled = compiled_of(unit, networks)
    artifact = replace(compiled.artifact, name=networks[unit.network].name)
    report = profile_report(artifact, compiled.device, compiled.known(), trust=True)
    return profile_page(report, artifact)
