# SPDX-License-Identifier: Apache-2.0
"""tests/forked.py: what a script starts is a process of its own, as far as a shell can tell."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

import pytest

pytest.importorskip("tvm", reason="TVM is not installed (the extra `compiler`)")

from tests.forked import tools


def shell(folder: Path, command: str) -> subprocess.CompletedProcess[str]:
    path = os.pathsep.join([str(tools(folder / "tools")), os.environ["PATH"]])
    return subprocess.run(
        ["bash", "-c", f"set -o pipefail; {command}"],
        cwd=folder,
        env={**os.environ, "PATH": path, "WORD": "given"},
        capture_output=True,
        text=True,
        check=False,
        timeout=300,
    )


def test_streams_folder_and_environment_are_its_own(tmp_path: Path) -> None:
    (tmp_path / "here.py").write_text(
        "import os, sys\nprint(sys.argv[1:], os.environ['WORD'], sys.stdin.read())\n"
        "print(os.getcwd(), file=sys.stderr)\nos.environ['WORD'] = 'changed'\n"
    )
    for _ in range(2):
        done = shell(tmp_path, "echo said | python here.py a 'b c' | cat")
        assert done.stdout == "['a', 'b c'] given said\n\n"
        assert done.stderr == f"{tmp_path}\n"
        assert done.returncode == 0


@pytest.mark.parametrize(
    ("command", "status", "said"),
    [
        ("loadstone devices | cat", 0, ""),
        ("loadstone run absent.lds --inputs x.npz", 2, "loadstone: absent.lds: "),
        ("python -c 'raise SystemExit(7)'", 7, ""),
        ("python -c 'raise SystemExit(\"a reason\")'", 1, "a reason"),
        ("python -c '1 // 0'", 1, "ZeroDivisionError"),
        ("python -c 'import os; os.kill(os.getpid(), 9)'", 1, "ended by a signal"),
        ("python -c 'import threading; threading.Timer(0.1, print, [\"late\"]).start()'", 0, ""),
    ],
)
def test_how_it_ends_is_known(tmp_path: Path, command: str, status: int, said: str) -> None:
    done = shell(tmp_path, command)
    assert (done.returncode, said in done.stderr) == (status, True), done.stderr
    assert bool(done.stderr) == bool(said)
    assert ("late" in done.stdout) == ("late" in command)
