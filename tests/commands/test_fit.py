# SPDX-License-Identifier: Apache-2.0
"""`loadstone compile --max-flash --max-ram`: what a model needs of a board, and what is refused."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest

pytest.importorskip("tvm", reason="TVM is not installed (the extra `compiler`)")

from loadstone.cli import main
from loadstone.runtime.footprint import RUNTIME_BYTES
from tests.search.small_network import small_network


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    (tmp_path / "net.onnx").write_bytes(small_network())
    monkeypatch.chdir(tmp_path)
    return tmp_path


def compile_with(*words: str) -> int:
    return main(["compile", "net.onnx", "-t", "vtaq-1x16x16", "-o", "net.lds", *words])


def test_what_compile_says_is_what_the_exported_project_reserves(
    folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert compile_with("--json") == 0
    found = json.loads(capsys.readouterr().out)["in_c"]
    assert main(["export", "net.lds", "--board", "cortex-m", "-o", "app"]) == 0
    text = (folder / "app/model.h").read_text()
    said = {name: int(size) for name, size in re.findall(r"#define MODEL_(\w+) (\d+)u", text)}
    assert found["session_bytes"] == said["SESSION_BYTES"]
    assert found["dma_pool_bytes"] == said["DMA_BYTES"]
    assert found["model_bytes"] == (folder / "app/model.lds").stat().st_size
    assert found["ram_bytes"] == found["session_bytes"] + found["dma_pool_bytes"]
    assert found["flash_bytes"] == found["model_bytes"] + RUNTIME_BYTES
    assert 0 < found["arena_bytes"] <= found["dma_pool_bytes"]
    capsys.readouterr()
    assert compile_with() == 0
    out = capsys.readouterr().out
    assert f"flash in C     {found['flash_bytes']} bytes: " in out
    assert f"RAM in C       {found['ram_bytes']} bytes: " in out


def test_a_byte_too_many_is_refused_before_anything_is_written(
    folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert compile_with("--json") == 0
    found = json.loads(capsys.readouterr().out)["in_c"]
    (folder / "net.lds").unlink()
    for option, needs in (("--max-flash", "flash_bytes"), ("--max-ram", "ram_bytes")):
        assert compile_with(option, str(found[needs] - 1)) == 2
        err = capsys.readouterr().err
        assert err.count("\n") == 1
        assert f"it needs {found[needs]} bytes" in err
        assert not (folder / "net.lds").exists()
        assert compile_with(option, str(found[needs])) == 0
        (folder / "net.lds").unlink()
        assert compile_with(option, f"{-(-found[needs] // 1024)}k") == 0
        (folder / "net.lds").unlink()


@pytest.mark.parametrize("size", ["0", "-1", "1.5", "64KB", "many", "9" * 13, ""])
def test_what_is_no_size_is_one_line(size: str, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as stop:
        compile_with(f"--max-ram={size}")
    assert stop.value.code == 2
    err = capsys.readouterr().err
    assert err.count("\n") == 1
    assert "is no number of bytes, as 65536 or 64K" in err


def test_a_file_for_another_host_has_no_such_limit(
    folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert compile_with("--format", "onnx", "--max-ram", "1M") == 2
    assert "--max-ram is for --format lds" in capsys.readouterr().err
