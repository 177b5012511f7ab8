# SPDX-License-Identifier: Apache-2.0
"""`loadstone sweep`: from a space and a model to a table, a page, and a device to compile for."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest

pytest.importorskip("tvm", reason="TVM is not installed (the extra `compiler`)")
pytest.importorskip("pyarrow", reason="pyarrow is not installed (the extra `search`)")

import pyarrow.parquet as pq

from loadstone.cli import main
from tests.search.small_network import small_network


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    (tmp_path / "space.yaml").write_text(
        "base: vtaq-1x8x8\ndevice:\n  bus_bits: [64, 128]\n  clock_mhz: [100, 200]\n"
    )
    (tmp_path / "a.onnx").write_bytes(small_network())
    np.savez(tmp_path / "few.npz", in0=np.zeros((3, 1), np.int8), labels=np.zeros(2, np.int64))
    monkeypatch.chdir(tmp_path)
    return tmp_path


def sweep(*words: str) -> int:
    return main(["sweep", "space.yaml", "--models", "a.onnx", "-o", "r.parquet", *words])


def test_a_clock_above_its_limit_is_no_device(
    folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """It would be the fastest of all; at a finer node it can be built."""
    text = "base: vtaq-tiny\ndevice:\n  clock_mhz: [100, 1000]\n"
    for more, able in (("", 1), ("assumptions:\n  node_nm: 7\n", 2)):
        (folder / "space.yaml").write_text(text + more)
        assert sweep("--workers", "1", "--json", "--best", "time") == 0
        report = json.loads(capsys.readouterr().out)
        assert report["feasible"] == able
        assert report["best"]["clock_mhz"] == (100, 1000)[able - 1]
        assert report["edges"]
    (folder / "space.yaml").write_text(text.replace("100, 1000", "1000"))
    assert sweep("--workers", "1", "--best", "time") == 2
    error = capsys.readouterr().err
    assert "clock_mhz=1000 is above 548, the highest clock of this device" in error
    assert error.count("\n") == 1


def test_from_a_space_to_a_compiled_network(
    folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    words = ["--workers", "1", "--html", "r.html", "--best", "time", "--best-device", "best.json"]
    words += ["--profiles", "profiles"]
    assert sweep(*words) == 0
    text = capsys.readouterr().out
    assert "r.parquet: 4 devices, 4 of them run all of 1 network(s); 2 units computed" in text
    assert "best time" in text
    assert "warning" in text
    assert "of its range: a better one may lie beyond" in text
    table = pq.read_table(folder / "r.parquet").to_pylist()
    fastest = min(table, key=lambda row: float(row["us"]))
    device = json.loads((folder / "best.json").read_text())
    assert device == json.loads(fastest["device_json"])
    page = (folder / "r.html").read_text()
    assert "Pareto front" in page
    front = [row["device"] for row in table if row["pareto"]]
    for name in front:
        assert f"profiles/{name}-a.html" in page
        assert f"a on {name}" in (folder / "profiles" / f"{name}-a.html").read_text()
    assert len(list((folder / "profiles").iterdir())) == len(front) > 0
    first = (folder / "r.parquet").read_bytes()

    assert sweep("--workers", "1", "--json") == 0
    report = json.loads(capsys.readouterr().out)
    assert (report["computed"], report["known"], report["best"]) == (0, 4, None)
    assert (folder / "r.parquet").read_bytes() == first

    assert main(["compile", "a.onnx", "--target", "best.json", "-o", "a.lds"]) == 0


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["--workers", "many"], "neither a number of processes"),
        (["--data", "few.npz"], "few.npz: in0 has 3 sample(s), labels 2: one label for each"),
        (["--points", "3"], "--points is for --search random or pareto"),
        (["--search", "random", "--points", "0"], "--points 0 is not in"),
        (["--seed", "-1"], "--seed -1 is not in"),
        (["--best-device", "x.json"], "--best-device needs --best"),
        (["--data", "x.npz", "y.npz"], "--data names 2 file(s) for 1 models"),
        (["--data", "text.npz"], "text.npz: labels of type <U3: the number of a class"),
        (["--data", "less.npz"], "less.npz: labels of type int64: the number of a class, from 0"),
        (["--profiles", "p"], "--profiles needs --html, the page that links them"),
        (["--html", "r.html", "--profiles", "a.onnx"], "File exists"),
        (["--html", "."], ". cannot be written: it is a folder"),
        (["--best", "time", "--best-device", "none/x.json"], "none is no folder"),
        (["--data", "x.npz"], "x.npz: needs arrays in0 ... and labels"),
        (["--models", "a.onnx", "./a.onnx"], "two files are called 'a'"),
        (["--models", "absent.onnx"], "absent.onnx: No such file"),
    ],
)
def test_mistakes_are_one_line(
    folder: Path, capsys: pytest.CaptureFixture[str], words: list[str], message: str
) -> None:
    np.savez(folder / "x.npz", in0=np.zeros(3))
    np.savez(folder / "text.npz", in0=np.zeros((2, 1), np.int8), labels=np.array(["cat", "dog"]))
    np.savez(folder / "less.npz", in0=np.zeros((2, 1), np.int8), labels=np.array([0, -1]))
    assert sweep(*words) == 2
    error = capsys.readouterr().err
    assert message in error
    assert error.count("\n") == 1
    assert not (folder / "r.parquet").exists()
