# SPDX-License-Identifier: Apache-2.0
"""Programs of a plug-in's device as text, from an artifact."""

from __future__ import annotations

from pathlib import Path

import pytest

from loadstone.cli import main
from loadstone.isa import accelerator as accelerators
from loadstone.isa.accelerator import register_accelerator
from loadstone.isa.text import assemble
from loadstone.runtime.table_listing import table_listing
from tests.artifact.test_program_step import program_model
from tests.isa.tables import NPU, npu


def test_the_program_of_a_device(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(accelerators, "_FACTORIES", {})
    register_accelerator("npu", lambda _: npu())
    model = program_model()
    lines = list(table_listing(model))
    assert lines[:2] == ["# run: 3 instructions for npu", "# layer layer"]
    assert lines[2].startswith("copy address=@")
    assert lines[-1] == "end"
    assert [insn.name for insn in assemble(NPU, "\n".join(lines))] == ["copy", "store", "end"]
    model.save(tmp_path / "model.lds")
    assert main(["disasm", str(tmp_path / "model.lds")]) == 0
    assert capsys.readouterr().out.splitlines() == lines


def test_a_device_that_nobody_describes_is_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(accelerators, "_FACTORIES", {})
    program_model().save(tmp_path / "model.lds")
    assert main(["disasm", str(tmp_path / "model.lds")]) == 2
    assert "name its folder with --uma-backends" in capsys.readouterr().err
