# SPDX-License-Identifier: Apache-2.0
"""A plug-in's accelerator in a sweep, by the command and by its parts."""

from __future__ import annotations

import json
from pathlib import Path

import pyarrow.parquet as pq
import pytest

from loadstone.cli import main
from loadstone.compiler import compile as compile_model
from loadstone.errors import TargetError
from loadstone.search.assumptions import Assumptions
from loadstone.search.plugin_device import (
    accelerator_of,
    device_file,
    is_plugin,
    plugin_area_mm2,
    plugin_base,
    plugin_counts,
    plugin_energy_uj,
    plugin_limit_mhz,
    plugin_sources,
    plugin_target,
    registry_of,
)
from tests.conftest import ROOT
from tests.search.small_network import SIZE, small_network

SYSTOLIC = str(ROOT / "docs/examples/systolic")
REGISTRY = registry_of((SYSTOLIC,))
SPACE = """\
base: systolic
device:
  dim: [8, 16]
  accumulator_rows: [1024, 1]
"""


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    (tmp_path / "space.yaml").write_text(SPACE + "host: cortex-m4@80\n")
    (tmp_path / "a.onnx").write_bytes(small_network())
    monkeypatch.chdir(tmp_path)
    return tmp_path


def sweep(*words: str) -> int:
    own = ["--uma-backends", SYSTOLIC, "--workers", "1", "-o", "r.parquet"]
    return main(["sweep", "space.yaml", "--models", "a.onnx", *own, *words])


def test_a_device_is_its_attributes() -> None:
    device = plugin_base("systolic", REGISTRY)
    assert is_plugin(device)
    assert device["dim"] == 16
    assert plugin_target({**device, "dim": 8}).startswith("systolic -dim=8 -scratchpad_rows=8192")
    (entry,) = device_file(device)["accelerators"]
    assert (entry["device"], entry["dim"]) == ("systolic", "16")
    assert accelerator_of({**device, "dim": 8}, REGISTRY).macs_per_cycle == 64
    with pytest.raises(TargetError, match="dim=1 is not in"):
        accelerator_of({**device, "dim": 1}, REGISTRY)
    assert len(plugin_sources(REGISTRY)) == 16


def test_what_is_counted_and_what_it_costs(tmp_path: Path) -> None:
    (tmp_path / "a.onnx").write_bytes(small_network())
    compiled = compile_model(tmp_path / "a.onnx", "systolic", plugins=REGISTRY)
    counts = plugin_counts(compiled.artifact)
    assert counts["macs"] == 2 * 16 * 16 * 9 * SIZE * SIZE  # 16 channels are one tile
    assert counts["write"] >= 2 * 16 * SIZE * SIZE
    assert set(counts["memories"]) == {"scratchpad", "accumulator", "weights", "scaling"}
    made, a = accelerator_of(plugin_base("systolic", REGISTRY), REGISTRY), Assumptions()
    energy = plugin_energy_uj(counts, made, a, 1000)
    assert energy["multipliers"] == pytest.approx(counts["macs"] * 0.3 / 1e6)
    assert energy["scratchpads"] > 0 < energy["clock"]
    area = plugin_area_mm2(made, a)
    assert area["multipliers"] == pytest.approx(256 * 419 / 1e6)
    memories = 8192 * 16 + 1024 * 64 + 4 * 256 + 4 * (4 + 48)
    assert area["scratchpads"] == pytest.approx(memories * 5.54 / 1e6)
    assert 100 < plugin_limit_mhz(made, a) < 1000


def test_attributes_are_swept(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """With what a host takes; the chosen device is a file that compile takes."""
    assert sweep("--html", "r.html", "--best", "time", "--best-device", "best.json", "--json") == 0
    report = json.loads(capsys.readouterr().out)
    assert (report["devices"], report["feasible"], report["computed"]) == (4, 2, 4)
    assert report["edges"]
    rows = pq.read_table(folder / "r.parquet").to_pylist()
    able = [row for row in rows if row["feasible"]]
    assert [row["dim"] for row in able] == [8, 16]
    for row in able:
        assert row["us"] == pytest.approx(row["cycles"] / 100 + row["host_us"])
        assert row["host_us"] > 0 < row["energy_uj"]
        assert 0 < row["utilisation"] < 1
    assert "accumulator_rows=1 is not in [4, " in next(r["why"] for r in rows if r["why"])
    words = ["compile", "a.onnx", "-t", "best.json", "--uma-backends", SYSTOLIC, "-o", "a.lds"]
    assert main([*words, "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["operators_by_place"]["systolic"] == 2
    assert sweep("--json") == 0
    assert json.loads(capsys.readouterr().out)["known"] == 4


def test_mistakes_are_one_line(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    for text, said in (
        (
            SPACE.replace("dim:", "dims:"),
            "no key 'dims'; known are accumulator_rows, dim",
        ),
        (SPACE + "host: cortex-m4\n", "is not NAME@MHZ"),
    ):
        (folder / "space.yaml").write_text(text)
        assert sweep() == 2
        error = capsys.readouterr().err
        assert said in error
        assert error.count("\n") == 1
