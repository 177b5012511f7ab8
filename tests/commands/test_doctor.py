# SPDX-License-Identifier: Apache-2.0
"""`loadstone doctor` and `loadstone --version`."""

from __future__ import annotations

import json
import re
import sys
from importlib import metadata
from pathlib import Path

import pytest

from loadstone.cli import main
from loadstone.commands.doctor import TOOLS
from tests.conftest import ROOT


def test_every_part_says_what_it_is_for(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["doctor", "--json"]) == 0
    parts = {part["name"]: part for part in json.loads(capsys.readouterr().out)}
    assert parts["numpy"]["found"] == metadata.version("numpy")
    assert "portable" in parts["simulator"]["found"]
    assert main(["doctor"]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert len(lines) == len(parts) + 2
    for part in parts.values():
        assert any(part["name"] in line and part["what_for"] in line for line in lines)


def test_nothing_is_asked_for_that_this_python_cannot_have(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(sys, "version_info", (3, 10, 4))
    assert main(["doctor", "--json"]) == 0
    parts = {part["name"]: part for part in json.loads(capsys.readouterr().out)}
    for name in ("apache-tvm", "onnx", "tflite", "torch"):
        assert parts[name]["install"] == "Python 3.11 or newer"
    assert parts["rich"]["install"] == "pip install 'loadstone[terminal]'"


def test_the_guides_that_it_names_exist() -> None:
    pages = {m for what_for, _ in TOOLS.values() for m in re.findall(r"docs/[\w-]+\.md", what_for)}
    assert pages
    for page in pages:
        assert Path(ROOT / page).is_file(), page


def test_the_version_names_commit_and_tvm(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        main(["--version"])
    said = capsys.readouterr().out.strip()
    tvm = metadata.version("apache-tvm")
    assert re.fullmatch(rf"loadstone [\d.]+( \(commit [0-9a-f]+\))?, TVM {re.escape(tvm)}", said)


def test_attributes_of_targets_are_shown_when_they_are_asked_for(
    capsys: pytest.CaptureFixture[str],
) -> None:
    for words, shown in ((["--help"], False), (["--help-targets"], True)):
        with pytest.raises(SystemExit) as ended:
            main(["compile", *words])
        assert ended.value.code == 0
        said = capsys.readouterr().out
        assert ("--target-vta-pynq-clock_mhz" in said) is shown
        assert "--help-targets" in said
