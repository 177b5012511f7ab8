# SPDX-License-Identifier: Apache-2.0
"""`loadstone tune`, and `loadstone compile --tuned`."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from loadstone.cli import main
from loadstone.commands.tune import text
from tests.backend.test_tuned_file import TUNED
from tests.search.small_network import small_network

pytest.importorskip("optuna", reason="Optuna is not installed (the extra `search`)")


def test_a_table_and_a_file_that_compile_follows(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    model, tuned = tmp_path / "small.onnx", tmp_path / "tuned.json"
    model.write_bytes(small_network())
    store = ["--store", str(tmp_path / "trials.sqlite")]
    words = [str(model), "--target", "vtaq-1x16x16"]
    assert main(["tune", *words, "--trials", "2", *store, "-o", str(tuned)]) == 0
    assert f"{tuned}: small on vtaq-1x16x16: 11,575 cycles by default" in capsys.readouterr().out
    content = json.loads(tuned.read_text(encoding="utf-8"))
    assert len(content["layers"]) == 3
    out = ["-o", str(tmp_path / "small.lds")]
    assert main(["compile", *words, "--tuned", str(tuned), *out]) == 0
    assert main(["compile", str(model), "-t", "vta-pynq", "--tuned", str(tuned), *out]) == 2
    error = capsys.readouterr().err
    assert "tuned for device vtaq-1x16x16" in error
    assert error.count("\n") == 1


def test_a_row_says_how_far_it_is_from_its_bound() -> None:
    lines = text(TUNED, "t.json").splitlines()
    assert lines[1].split() == ["y", "conv2d", "100", "90", "80", "12", "%", "tile=1x2"]
    assert lines[-1] == ("t.json: net on vtaq-tiny: 100 cycles by default, 90 tuned (10.0 % fewer)")


def test_mistakes(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    words = ["tune", str(tmp_path / "none.onnx"), "--target", "vtaq-1x16x16"]
    for more, said in (
        (["--trials", "0"], "--trials 0 is not in [1, 1000000]"),
        (["--trials", "9" * 30], "is not in [1, 1000000]"),
        (["--workers", "many"], "--workers 'many' is neither a number of processes"),
        ([], "none.onnx"),
        (["-o", str(tmp_path)], "cannot be written: it is a folder"),  # before it reads the model
        (["-o", ""], "an empty word in the command"),
    ):
        assert main([*words, *more]) == 2
        assert said in capsys.readouterr().err
