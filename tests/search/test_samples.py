# SPDX-License-Identifier: Apache-2.0
"""Whole data sets on workers: outputs in order, equal for any number of them."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest

from loadstone.cli import main
from loadstone.search.samples import Runner, run_in_pool
from loadstone.search.workers import open_pool
from tests.sample_model import copy_model

RNG = np.random.default_rng(5)


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    copy_model().save(tmp_path / "copy.lds")
    x = RNG.integers(-128, 128, (700, 1, 16)).astype(np.int8)
    np.savez(tmp_path / "x.npz", in0=x, out0=x)
    return tmp_path


def run(folder: Path, *words: str) -> int:
    return main(["run", f"{folder}/copy.lds", "--inputs", f"{folder}/x.npz", *words])


def test_workers_give_what_threads_give(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    pytest.importorskip("distributed", reason="Dask is not installed (the extra `search`)")
    reports, files = [], []
    for words in (["--threads", "2"], ["--workers", "1"], ["--workers", "2"]):
        out = folder / "y.npz"
        expect = ["--expect", f"{folder}/x.npz"]
        assert run(folder, *words, *expect, "--json", "-o", str(out)) == 0
        reports.append(json.loads(capsys.readouterr().out))
        files.append(np.load(out)["out0"].tobytes())
    assert files[0] == files[1] == files[2]
    counted = ("samples", "runs", "cycles", "read_bytes_per_run", "write_bytes_per_run", "config")
    assert len({tuple(report[name] for name in counted) for report in reports}) == 1
    assert reports[2]["samples"] == reports[2]["runs"] == 700


def test_progress_counts_samples() -> None:
    told: list[int] = []
    x = np.zeros((3, 1, 16), np.int8)
    with open_pool(1) as pool:
        outputs, totals, device = run_in_pool(
            Runner(copy_model().to_bytes(), "sim"), [x], pool, told.append
        )
    assert told == [1, 2, 3]
    assert (outputs[0].shape, totals.runs, device.name) == ((3, 1, 16), 3, "vtaq-1x16x16")


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["--workers", "0"], "neither a number of processes"),
        (["--workers", "2", "--threads", "2"], "--workers and --threads: one of them"),
        (["--workers", "1", "--device", "simd:/nowhere"], "simd:/nowhere is only one: use sim"),
    ],
)
def test_mistakes_are_one_line(
    folder: Path, capsys: pytest.CaptureFixture[str], words: list[str], message: str
) -> None:
    assert run(folder, *words) == 2
    error = capsys.readouterr().err
    assert message in error
    assert error.count("\n") == 1
