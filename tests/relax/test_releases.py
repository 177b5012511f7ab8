# SPDX-License-Identifier: Apache-2.0
"""relax/releases.py: the releases of TVM that are taken, and what is said of any other."""

from __future__ import annotations

import subprocess
import sys
from importlib import metadata
from pathlib import Path

import pytest

from loadstone.errors import LoadstoneError
from loadstone.relax import releases


def stating(monkeypatch: pytest.MonkeyPatch, version: str) -> None:
    monkeypatch.setattr(metadata, "version", lambda name: {"apache-tvm": version}[name])


@pytest.mark.parametrize(
    ("version", "series"),
    [("0.26.0", "0.26"), ("0.27.0", "0.27"), ("0.27.0.post1", "0.27"), ("0.27.1.dev3", "0.27")],
)
def test_a_release_of_a_tested_series_is_taken(
    monkeypatch: pytest.MonkeyPatch, version: str, series: str
) -> None:
    stating(monkeypatch, version)
    assert releases.series() == series


@pytest.mark.parametrize("version", ["0.25.0.post1", "0.28.0", "0.2.6", "0.260.0", "1.26.0"])
def test_any_other_release_is_refused_by_its_number(
    monkeypatch: pytest.MonkeyPatch, version: str
) -> None:
    stating(monkeypatch, version)
    with pytest.raises(LoadstoneError) as refused:
        releases.series()
    assert str(refused.value) == (
        f"apache-tvm {version} is installed, and the compiler works with 0.26.0 and 0.27.0.post1: "
        "pip install 'loadstone[compiler]'"
    )


def test_pyproject_asks_for_these_series_and_no_other(root: Path) -> None:
    text = (root / "pyproject.toml").read_text(encoding="utf-8")
    assert '"apache-tvm>=0.26,<0.28"' in text
    assert [version[:4] for version in releases.TESTED] == ["0.26", "0.27"]


def test_a_command_ends_with_that_line_before_tvm_is_imported(root: Path, tmp_path: Path) -> None:
    """A module `tvm` that fails when it is imported, and a package that states its version."""
    (tmp_path / "tvm.py").write_text("raise RuntimeError('imported')\n", encoding="utf-8")
    stated = tmp_path / "apache_tvm-0.25.0.dist-info"
    stated.mkdir()
    (stated / "METADATA").write_text(
        "Metadata-Version: 2.1\nName: apache-tvm\nVersion: 0.25.0\n", encoding="utf-8"
    )
    (tmp_path / "net.tflite").write_bytes(b"\x1c\x00\x00\x00TFL3")
    done = subprocess.run(
        [sys.executable, "-m", "loadstone", "compile", "net.tflite", "--target", "vtaq-1x16x16"],
        cwd=tmp_path,
        env={"PYTHONPATH": str(tmp_path), "PATH": "/usr/bin:/bin"},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 2
    assert done.stderr.startswith("loadstone: apache-tvm 0.25.0 is installed, and the ")
    assert done.stderr.count("\n") == 1
