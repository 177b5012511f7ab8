# SPDX-License-Identifier: Apache-2.0
"""commands/entry_option.py: commands that are about one entry."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest

from loadstone.artifact.entries import joined
from loadstone.cli import main
from tests.sample_model import copy_model, entries_model


@pytest.fixture
def model(tmp_path: Path) -> str:
    entries_model().save(tmp_path / "m.lds")
    np.savez(tmp_path / "x.npz", in0=np.ones((1, 1, 16), np.int8))
    return str(tmp_path / "m.lds")


def test_run_takes_the_entry_that_is_named(
    model: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    said = ["run", model, "--inputs", f"{tmp_path}/x.npz", "--output", f"{tmp_path}/y.npz"]
    assert main([*said, "--entry", "both"]) == 0
    with np.load(tmp_path / "y.npz") as outputs:
        np.testing.assert_array_equal(outputs["out0"].reshape(-1), np.arange(16))
    assert main([*said, "--entry", "all"]) == 2
    assert "has no entry 'all': it has 'give', 'keep', 'both'" in capsys.readouterr().err


def test_inspect_lists_entries(model: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["inspect", model]) == 0
    lines = capsys.readouterr().out.splitlines()
    at = lines.index("entry keep")
    assert lines[at + 1 : at + 4] == ["inputs", lines[at + 2], "outputs"]
    steps = [line.split()[:2] for line in lines[lines.index("steps, 0 instructions") + 1 :]]
    assert steps == [
        *(["entry", "give"], ["0", "host"], ["entry", "keep"], ["1", "host"]),
        *(["entry", "both"], ["2", "host"], ["3", "host"]),
    ]
    assert main(["inspect", model, "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["entries"][1] == {
        "name": "keep",
        "steps": 1,
        "inputs": 1,
        "outputs": 0,
    }


def test_disasm_says_whose_program_it_is(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    joined({"one": copy_model(), "other": copy_model()}).save(tmp_path / "m.lds")
    assert main(["disasm", f"{tmp_path}/m.lds"]) == 0
    titles = [line for line in capsys.readouterr().out.splitlines() if "instructions for" in line]
    assert [line.split(":")[0] for line in titles] == [
        "# copy of entry one",
        "# copy of entry other",
    ]


def test_a_proof_of_entries_is_refused(
    model: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "net.onnx").write_bytes(b"")
    assert main(["prove", model, f"{tmp_path}/net.onnx"]) == 2
    assert "compile --rows 1" in capsys.readouterr().err
