# SPDX-License-Identifier: Apache-2.0
"""`loadstone completion`: real shells complete commands, options, names of devices and files."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from loadstone.cli import main
from loadstone.commands.completion import words_so_far

pytest.importorskip("argcomplete", reason="argcomplete is not installed (the extra `terminal`)")

BASH = """
source <(loadstone completion bash)
COMP_LINE="$1" COMP_POINT=${#1} COMP_TYPE=9
read -ra COMP_WORDS <<< "$1"
[[ "$1" == *" " ]] && COMP_WORDS+=("")
COMP_CWORD=$((${#COMP_WORDS[@]} - 1))
_python_argcomplete loadstone
printf '%s\n' "${COMPREPLY[@]}"
"""
FISH = "loadstone completion fish | source; complete -C $argv[1]"
SCRIPTS = {"bash": ["-c", BASH, "bash"], "fish": ["-c", FISH]}


@pytest.fixture
def path(tmp_path: Path) -> str:
    """A PATH that has `loadstone`."""
    script = tmp_path / "loadstone"
    script.write_text(f'#!/bin/sh\nexec "{sys.executable}" -m loadstone "$@"\n')
    script.chmod(0o755)
    return f"{tmp_path}:{os.environ['PATH']}"


@pytest.mark.parametrize("shell", SCRIPTS)
@pytest.mark.parametrize(
    ("line", "wanted", "not_wanted"),
    [
        ("loadstone comp", {"compile", "compare", "completion"}, {"run"}),
        ("loadstone compare --fr", {"--framework"}, {"--all"}),
        ("loadstone simd --order load", {"load-first"}, {"program"}),
        ("loadstone replay --device vtab", {"vtab-1x16x16", "vtab-1x8x8"}, {"vta-pynq"}),
    ],
)
def test_a_shell_completes(
    path: str, tmp_path: Path, shell: str, line: str, wanted: set[str], not_wanted: set[str]
) -> None:
    if shutil.which(shell) is None:
        pytest.skip(f"{shell} is not installed")
    done = subprocess.run(
        [shell, *SCRIPTS[shell], line],
        capture_output=True,
        text=True,
        check=False,
        cwd=tmp_path,
        env={**os.environ, "PATH": path, "HOME": str(tmp_path)},
        stdin=subprocess.DEVNULL,
    )
    found = {text.split("\t")[0].strip() for text in done.stdout.splitlines()}
    assert wanted <= found, done
    assert not found & not_wanted


def test_zsh_takes_its_script(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    """Its line editor needs a terminal; here the script is read, and completes `loadstone`."""
    assert main(["completion", "zsh"]) == 0
    script = capsys.readouterr().out
    assert script.startswith("#compdef loadstone")
    if shutil.which("zsh") is None:
        pytest.skip("zsh is not installed")
    (tmp_path / "script").write_text(script)
    code = f"autoload -Uz compinit; compinit -u -d {tmp_path}/dump; source {tmp_path}/script; "
    code += "print $_comps[loadstone]"
    done = subprocess.run(
        ["zsh", "-f", "-c", code], capture_output=True, text=True, check=True, cwd=tmp_path
    )
    assert done.stdout.strip() == "_python_argcomplete", done


def test_the_line_ends_at_the_cursor(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COMP_LINE", "loadstone run 'a b' --dev x")
    monkeypatch.setenv("COMP_POINT", "25")
    assert words_so_far() == ["run", "a b", "--dev"]
    monkeypatch.setenv("COMP_LINE", "loadstone run 'a b")
    monkeypatch.setenv("COMP_POINT", "18")
    assert words_so_far() == ["run", "'a", "b"]


def test_without_argcomplete_the_pip_line_is_said(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setitem(sys.modules, "argcomplete", None)
    assert main(["completion", "bash"]) == 2
    assert "pip install 'loadstone[terminal]'" in capsys.readouterr().err
