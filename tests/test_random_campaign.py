# SPDX-License-Identifier: Apache-2.0
"""tests/random_campaign.py: it counts, goes on where it was, and says what failed."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

pytest.importorskip("ai_edge_litert", reason="LiteRT is not installed")
pytest.importorskip("onnxruntime", reason="ONNX Runtime is not installed")

from tests import random_campaign
from tests.random_campaign import main


def test_a_campaign_goes_on_where_it_was(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    log = tmp_path / "log"
    one = ["--log", str(log), "--first", "241", "--count", "1"]
    assert main(one) == 0
    lines = log.read_text().splitlines()
    assert [line.split()[:3] for line in lines] == [
        ["tflite", "241", "equal"],
        ["onnx", "241", "equal"],
    ]
    assert "2 of 2 networks equal; " in capsys.readouterr().out
    # What is there is not run again: this line would otherwise be mended. A half line is.
    log.write_text("tflite 241 failed AssertionError: 3 of 7 elements differ\nonnx 241 eq")
    assert main(one) == 1
    printed = capsys.readouterr().out
    assert "tflite 241: AssertionError: 3 of 7 elements differ" in printed
    assert "1 of 2 networks equal" in printed
    assert log.read_text().splitlines()[1] == lines[1]


def test_a_framework_that_ends_its_process_costs_one_network(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    def check(kind: str, seed: int, device: str, folder: Path) -> None:
        if (kind, seed) == ("onnx", 7):
            os._exit(3)
        raise ValueError("seen")

    monkeypatch.setattr(random_campaign, "check", check)
    log = tmp_path / "log"
    assert main(["--log", str(log), "--first", "7", "--count", "2"]) == 1
    assert log.read_text().splitlines() == [
        "tflite 7 failed ValueError: seen",
        "onnx 7 failed its process ended with 3",
        "tflite 8 failed ValueError: seen",
        "onnx 8 failed ValueError: seen",
    ]
    assert "0 of 4 networks equal" in capsys.readouterr().out
