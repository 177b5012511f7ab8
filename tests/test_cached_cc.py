# SPDX-License-Identifier: Apache-2.0
"""tests/cached_cc.py: what has changed is compiled again, and what a compiler says is heard."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

from tests import cached_cc
from tests.board.tools import need

MAIN = '#include "answer.h"\nint other(void);\nint main(void) { return ANSWER + other(); }\n'


@pytest.fixture
def project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    need("gcc", "gcc")
    folder = tmp_path / "project"
    folder.mkdir()
    (folder / "main.c").write_text(MAIN)
    (folder / "other.c").write_text("int other(void);\nint other(void) { return OTHER; }\n")
    (folder / "answer.h").write_text("#define ANSWER 30\n")
    monkeypatch.chdir(folder)
    return folder


def answer(store: Path, *flags: str) -> int:
    """What the program of the project returns, compiled now."""
    words = ["gcc", "-I.", "-DOTHER=2", *flags, "main.c", "other.c", "-lm", "-o", "program"]
    Path("program").unlink(missing_ok=True)
    assert cached_cc.main(words, store) == 0
    return subprocess.run(["./program"], check=False).returncode


def objects(store: Path) -> int:
    return len(list(store.glob("*/in-*/object.o")))


def test_what_has_changed_is_compiled_again(project: Path, tmp_path: Path) -> None:
    store = tmp_path / "store"
    assert (answer(store), objects(store)) == (32, 2)
    assert (answer(store), objects(store)) == (32, 2)
    (project / "answer.h").write_text("#define ANSWER 40\n")
    assert (answer(store), objects(store)) == (42, 3)
    assert (answer(store, "-UOTHER", "-DOTHER=3"), objects(store)) == (43, 5)
    (project / "answer.h").write_text("#define ANSWER 30\n")
    assert (answer(store), objects(store)) == (32, 5)  # of the first time


def test_what_a_compiler_says_is_heard_each_time(
    project: Path, tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    (project / "other.c").write_text("int other(void) { int unused; return OTHER; }\n")
    for _ in range(2):
        assert answer(tmp_path / "store", "-Wall") == 32
        assert "unused" in capfd.readouterr().err
    (project / "other.c").write_text("nonsense\n")
    for _ in range(2):
        words = ["gcc", "-I.", "main.c", "other.c", "-o", "program"]
        assert cached_cc.main(words, tmp_path / "store") != 0
        assert "nonsense" in capfd.readouterr().err
