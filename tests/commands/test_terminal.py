# SPDX-License-Identifier: Apache-2.0
"""terminal.py and the command line in a real terminal: tables are drawn there, and plain in a pipe;
rich is imported for a table alone."""

from __future__ import annotations

import os
import pty
import subprocess
import sys
from pathlib import Path

import pytest

from loadstone.commands.terminal import print_table


def in_terminal(*words: str, term: str = "xterm", columns: str = "100") -> str:
    """What a command prints on a terminal of this kind."""
    leader, follower = pty.openpty()
    environment = {**os.environ, "TERM": term, "COLUMNS": columns}
    with subprocess.Popen(
        [sys.executable, "-m", "loadstone", *words],
        stdout=follower,
        stdin=follower,
        stderr=subprocess.PIPE,
        env=environment,
    ) as child:
        os.close(follower)
        said = b""
        while True:
            try:
                part = os.read(leader, 65536)
            except OSError:  # the other end is closed
                break
            if not part:
                break
            said += part
        assert child.stderr is not None
        errors = child.stderr.read()
    os.close(leader)
    assert child.returncode == 0, errors
    return said.decode()


def test_a_terminal_gets_a_drawn_table_and_a_pipe_plain_text() -> None:
    pytest.importorskip("rich", reason="rich is not installed (the extra `terminal`)")
    drawn = in_terminal("devices")
    assert "─" in drawn
    assert "\x1b[1m" in drawn, "titles are bold"
    plain = in_terminal("devices", term="dumb")
    assert "─" not in plain
    assert "\x1b" not in plain
    words = [sys.executable, "-m", "loadstone", "devices"]
    piped = subprocess.run(words, capture_output=True, text=True, check=True).stdout
    assert plain.replace("\r\n", "\n") == piped
    for name in ("vta-pynq", "vtaq-1x16x16", "vtab-1x8x8"):
        assert name in drawn
        assert name in piped


def test_rich_is_imported_for_a_table_in_a_terminal_alone(tmp_path: Path) -> None:
    """Neither a pipe nor a command without tables waits for it."""
    code = "import sys; from loadstone.cli import main; main(['devices']); "
    code += "assert 'rich' not in sys.modules"
    subprocess.run([sys.executable, "-c", code], capture_output=True, check=True, cwd=tmp_path)


def test_without_rich_the_text_is_plain(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(sys.stdout, "isatty", lambda: True)
    monkeypatch.setenv("TERM", "xterm")
    monkeypatch.setitem(sys.modules, "rich", None)
    print_table(("a", ">b"), [("x", "1")], "plain")
    assert capsys.readouterr().out == "plain\n"


def test_a_foot_stands_below_a_drawn_table(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    pytest.importorskip("rich", reason="rich is not installed (the extra `terminal`)")
    monkeypatch.setattr(sys.stdout, "isatty", lambda: True)
    monkeypatch.setenv("TERM", "xterm")
    print_table(("a", ">b"), [("[red]x", "1")], "plain", "foot")
    lines = capsys.readouterr().out.splitlines()
    assert lines[-1] == "foot"
    assert any("[red]x" in line for line in lines), "a name is no markup"
