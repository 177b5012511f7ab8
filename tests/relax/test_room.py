# SPDX-License-Identifier: Apache-2.0
"""room.py: a process whose address space is too small for TVM says so in one line; what is hidden
cannot be imported, until it is shown again."""

from __future__ import annotations

import resource
import subprocess
import sys
from pathlib import Path

import pytest

pytest.importorskip("tvm", reason="TVM is not installed (the extra `compiler`)")

from loadstone.relax.room import hidden
from tests.search.small_network import small_network


@pytest.mark.parametrize("kib", [200_000, 400_000])
def test_without_room_it_is_one_line(tmp_path: Path, kib: int) -> None:
    (tmp_path / "net.onnx").write_bytes(small_network())
    words = [sys.executable, "-m", "loadstone", "compile", "net.onnx", "-t", "vtaq-1x16x16"]

    def limit() -> None:
        resource.setrlimit(resource.RLIMIT_AS, (kib << 10, kib << 10))

    done = subprocess.run(
        words, cwd=tmp_path, preexec_fn=limit, capture_output=True, text=True, check=False
    )
    assert (done.returncode, done.stdout) == (2, ""), done.stderr
    assert done.stderr.count("\n") == 1
    assert f"TVM cannot be loaded: this process may have {kib} KiB" in done.stderr
    assert not (tmp_path / "net.lds").exists()


def test_what_is_hidden_is_absent_and_only_then(monkeypatch: pytest.MonkeyPatch) -> None:
    """A package that was imported before stays as it is."""
    monkeypatch.delitem(sys.modules, "this", raising=False)
    with pytest.raises(ModuleNotFoundError, match="this"), hidden("this", "subprocess"):  # noqa: PT012
        assert sys.modules["subprocess"] is subprocess
        import this  # noqa: F401
    assert "this" not in sys.modules
