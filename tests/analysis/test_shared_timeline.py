# SPDX-License-Identifier: Apache-2.0
"""shared_timeline.py: which network has the device when, as it must be by hand; and its page."""

from __future__ import annotations

import json
from dataclasses import replace
from itertools import pairwise
from pathlib import Path

import pytest

from loadstone.analysis.shared_timeline import SharedTimeline, shared_page, shared_timeline
from loadstone.artifact.format import HostStep
from loadstone.cli import main
from loadstone.errors import ArtifactError, ConfigError
from tests.browser import cells, opened
from tests.runtime.test_schedule import CONFIG, CYCLES, in_parts
from tests.sample_model import copy_model, load_config

PARTS = (1, 2, 4)


def timeline() -> SharedTimeline:
    return shared_timeline([in_parts(parts) for parts in PARTS], CONFIG)


def test_the_lowest_has_one_block_before_the_others_and_the_rest_behind_them() -> None:
    found = timeline()
    spans = [
        [(b.begin // CYCLES, b.end // CYCLES) for b in run.blocks if b.cycles] for run in found.runs
    ]
    assert spans == [[(1, 2)], [(2, 3), (3, 4)], [(0, 1), (4, 5), (5, 6), (6, 7)]]
    assert [run.released for run in found.runs] == [1, 1, 0]
    assert [run.response for run in found.runs] == [2 * CYCLES - 1, 4 * CYCLES - 1, 7 * CYCLES]
    assert {run.longest for run in found.runs} == {CYCLES}
    assert found.cycles == 7 * CYCLES


def test_every_step_is_in_one_block_and_no_two_blocks_overlap() -> None:
    found = timeline()
    for run, parts in zip(found.runs, PARTS, strict=True):
        names = [name for block in run.blocks for name in block.steps]
        assert names == [step.name for step in in_parts(parts).steps]
        assert [block.host for block in run.blocks].count(False) == parts
    taken = sorted((b.begin, b.end) for run in found.runs for b in run.blocks if b.cycles)
    assert all(a[1] <= b[0] for a, b in pairwise(taken))


def test_artifacts_of_two_devices_are_refused() -> None:
    with pytest.raises(ArtifactError, match="compiled for device 'vtaq-1x32x32'"):
        shared_timeline([in_parts(1), copy_model(load_config("vtaq-1x32x32"))], CONFIG)


def test_networks_of_the_host_alone_have_no_time_to_show() -> None:
    made = in_parts(1)
    alone = replace(made, steps=tuple(s for s in made.steps if isinstance(s, HostStep)))
    with pytest.raises(ConfigError, match="has no program of these networks"):
        shared_timeline([alone, alone], CONFIG)


def test_the_page_draws_every_block(tmp_path: Path) -> None:
    found = timeline()
    (tmp_path / "p.html").write_text(shared_page(found), encoding="utf-8")
    page = opened(tmp_path / "p.html")
    assert page.count('class="block"') == sum(len(run.blocks) for run in found.runs)
    rows = cells(page)
    wanted = [
        [run.model, ", ".join(b.steps), "host" if b.host else CONFIG.name, b.begin, b.end, b.cycles]
        for run in found.runs
        for b in run.blocks
    ]
    assert rows == [[f"{cell:,}" if isinstance(cell, int) else cell for cell in w] for w in wanted]


def test_the_command_says_the_same_in_all_its_forms(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    for parts in PARTS:
        in_parts(parts).save(f"{parts}.lds")
    words = ["profile", "1.lds", "--with", "2.lds", "--with", "4.lds"]
    assert main([*words, "--json", "--html", "p.html"]) == 0
    assert json.loads(capsys.readouterr().out) == timeline().to_json()
    assert Path("p.html").read_text(encoding="utf-8") == shared_page(timeline())
    assert main(words) == 0
    assert f"{4 * CYCLES - 1:,}" in capsys.readouterr().out
    assert main([*words, "--csv", "x.csv"]) == 2
    assert "--csv is about one network" in capsys.readouterr().err
