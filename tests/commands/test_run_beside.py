# SPDX-License-Identifier: Apache-2.0
"""`loadstone run --with`: the responses of both networks, as text and as JSON, and what is refused
beside it."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest

from loadstone.cli import main
from loadstone.commands import run_beside
from loadstone.errors import SimulationError
from loadstone.vta.device.hw_config import load_config
from tests.runtime.test_schedule import in_parts
from tests.sample_model import copy_model

WORDS = ("run", "one.lds", "--inputs", "x.npz", "--with")


@pytest.fixture(autouse=True)
def files(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Of one program and of five, each as long as the other."""
    monkeypatch.chdir(tmp_path)
    for name, parts in (("one", 1), ("five", 5)):
        in_parts(parts).save(f"{name}.lds")
    copy_model(load_config("vtaq-1x32x32")).save("stranger.lds")
    x = np.random.default_rng(1).integers(-128, 128, (6, 1, 24)).astype(np.int8)
    np.savez("x.npz", in0=x)


def test_both_networks_answer(capsys: pytest.CaptureFixture[str]) -> None:
    assert main([*WORDS[:-1], "-o", "y.npz"]) == 0
    capsys.readouterr()
    assert main([*WORDS, "five.lds", "--expect", "y.npz", "--json"]) == 0
    said = json.loads(capsys.readouterr().out)
    own, other = said["responses"]
    each = said["cycles_per_run"]
    assert (own["runs"], own["alone_cycles"], other["alone_cycles"]) == (6, each, 5 * each)
    assert each < own["mean_response_cycles"] < own["worst_response_cycles"] < 2 * each
    assert own["worst_response_ms"] == pytest.approx(own["worst_response_cycles"] / 200_000)
    assert other["worst_response_cycles"] == 6 * each
    assert said["passed"]
    assert main([*WORDS, "five.lds"]) == 0
    text = capsys.readouterr().out
    for row in (own, other):
        assert f": {row['runs']} responses, {row['worst_response_cycles']} cycles at most" in text
        assert f"(bound {row['bound_cycles']})" in text
        assert row["worst_response_cycles"] <= row["bound_cycles"] <= 2 * each * 6


def test_a_bound_that_is_not_known_says_why(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def refuses(*_: object) -> None:
        raise SimulationError("its cycles depend on its place: compile with --switch-within")

    monkeypatch.setattr(run_beside, "bounds_beside", refuses)
    assert main([*WORDS, "five.lds"]) == 0
    text = capsys.readouterr().out
    assert text.count("cycles at most (no bound),") == 2
    assert text.count("no bound: its cycles depend on its place: compile with --switch") == 1


def test_a_device_that_would_be_overloaded_says_so(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Samples are released by the cycles of the memory that there is, bounds are of slower one."""
    monkeypatch.setattr(run_beside, "bounds_beside", lambda *_: (None, None))
    assert main([*WORDS, "five.lds", "--json"]) == 0
    rows = json.loads(capsys.readouterr().out)["responses"]
    assert [row["bound_cycles"] for row in rows] == [None, None]
    assert all("their runs need more: give `loadstone bound`" in row["no_bound"] for row in rows)


@pytest.mark.parametrize(
    ("words", "why"),
    [
        (("five.lds", "--threads", "2"), "--with and --threads: one of them"),
        (("five.lds", "--workers", "1"), "--with and --workers: one of them"),
        (("five.lds", "--device", "null"), "--device is null: use sim"),
        (("stranger.lds",), "compiled for device 'vtaq-1x32x32'"),
        (("none.lds",), "none.lds: No such file"),
    ],
)
def test_what_cannot_be_is_refused(
    words: tuple[str, ...], why: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main([*WORDS, *words]) == 2
    assert why in capsys.readouterr().err
