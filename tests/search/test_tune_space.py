# SPDX-License-Identifier: Apache-2.0
"""Layers of a plug-in alone; a search over what its back end offers, by the command."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from loadstone.backend.plugins import load_plugins
from loadstone.cli import main
from loadstone.errors import ConfigError
from loadstone.search.tune_space import SpaceChoice, SpaceUnit, space_choices, try_space
from tests.conftest import ROOT
from tests.ir_pass.test_pipeline import convolution
from tests.search.small_network import small_network

pytest.importorskip("optuna", reason="Optuna is not installed (the extra `search`)")
SYSTOLIC = str(ROOT / "tests/backend/by_hand")
WORDS = ["--uma-backends", SYSTOLIC, "--target"]


def test_choices_are_in_the_order_of_the_back_end() -> None:
    found = space_choices({"rows": [4, 2], "outside": ["a", "b"]}, 4)
    assert [choice.to_json() for choice in found] == [
        {},
        {"rows": 4, "outside": "a"},
        {"rows": 4, "outside": "b"},
        {"rows": 2, "outside": "a"},
    ]
    assert space_choices({}, 4) == [SpaceChoice()]
    assert SpaceChoice.from_json({"rows": 4, "outside": "a"}, "x") == found[1]
    with pytest.raises(ConfigError, match=r"store: rows \[4\] is neither a number nor a word"):
        SpaceChoice.from_json({"rows": [4]}, "store")


def test_a_layer_alone() -> None:
    """Tiles of one row of pixels take longer than the back end's own."""
    operator = convolution(16, 1, 1, (16, 16))
    values = load_plugins([SYSTOLIC]).backends["systolic-by-hand"]().attributes
    choices = space_choices({"rows": [1], "outside": ["rows"]}, 4)
    unit = SpaceUnit(
        operator, (SYSTOLIC,), "systolic-by-hand", tuple(values.items()), tuple(choices)
    )
    own, one = try_space(unit)
    assert own is not None
    assert one is not None
    assert one.cycles > own.cycles >= own.bound > 0


def test_a_plug_in_is_tuned_and_compiled_so(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Fewer cycles, the same numbers; a file of another device, and of a value that the space does
    not have, is refused in one line."""
    model, tuned, out = (tmp_path / name for name in ("small.onnx", "t.json", "s.lds"))
    model.write_bytes(small_network())
    search = ["--trials", "9", "--store", str(tmp_path / "trials.sqlite"), "-o", str(tuned)]
    target = [*WORDS, "systolic-by-hand -accumulator_rows=160"]
    assert main(["tune", str(model), *target, *search, "--json"]) == 0
    said = json.loads(capsys.readouterr().out)
    assert said["device"] == "systolic-by-hand"
    assert said["cycles"] < said["default_cycles"]
    assert {name for row in said["layers"] for name in row["choice"]} == {"rows", "outside"}
    assert all(row["bound_cycles"] for row in said["layers"])
    words = ["compile", str(model), "-o", str(out), "--json", "--explain"]
    assert main([*words, *target, "--tuned", str(tuned)]) == 0
    rows = json.loads(capsys.readouterr().out)["explain"]
    assert (
        sum(row["cycles"] or 0 for row in rows if row["where"] == "systolic-by-hand")
        == said["cycles"]
    )

    assert main([*words, *WORDS, "systolic-by-hand", "--tuned", str(tuned)]) == 2
    assert "tuned for device systolic-by-hand" in capsys.readouterr().err
    content = json.loads(tuned.read_text(encoding="utf-8"))
    for record in content["choices"].values():
        record["rows"] = 7
    tuned.write_text(json.dumps(content), encoding="utf-8")
    assert main([*words, *target, "--tuned", str(tuned)]) == 2
    error = capsys.readouterr().err
    assert "rows=7 was chosen, and its space has 1, 2, 4" in error
    assert error.count("\n") == 1


def test_a_back_end_without_a_space(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "small.onnx").write_bytes(small_network())
    folder = str(ROOT / "docs/examples/word_fifo")
    words = ["--uma-backends", folder, "--target", "vector-engine"]
    assert main(["tune", str(tmp_path / "small.onnx"), *words]) == 2
    error = capsys.readouterr().err
    assert "tune: vector-engine has no schedules to choose" in error
    assert error.count("\n") == 1
