# SPDX-License-Identifier: Apache-2.0
"""`make` on a machine that lacks something: one line that names the thing and the Debian package
that brings it."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

#: What the Makefile's checks themselves use.
TOOLS = ("bash", "sed", "env")


def make_without(
    root: Path,
    folder: Path,
    *,
    python: str | None = None,
    tools: tuple[str, ...] = ("cc", "c++", "git"),
) -> subprocess.CompletedProcess[str]:
    """`make system` with a PATH that holds only `tools`, and a python3 that is the script
    `python`."""
    for tool in (*TOOLS, *tools):
        found = shutil.which(tool)
        if found is None:
            pytest.skip(f"{tool} is absent here")
        (folder / tool).symlink_to(found)
    if python is not None:
        (folder / "python3").write_text(f"#!{shutil.which('bash')}\n{python}\n")
        (folder / "python3").chmod(0o755)
    make = shutil.which("make")
    if make is None:
        pytest.skip("make is absent here")
    return subprocess.run(
        [make, "-s", "--no-print-directory", "-C", str(root), "system"],
        env={"PATH": str(folder)},
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )


#: The interpreter itself: a `python3` on PATH may be a launcher that needs the rest of PATH.
PYTHON, SED = os.path.realpath(sys.executable), shutil.which("sed")
REAL = f'exec {PYTHON} "$@"'
OLD = f"""exec {PYTHON} -c "$(echo "$2" | {SED} 's/v = sys.version_info/v = (3, 9, 2)/')" """
NO_VENV = 'case "$2" in *ensurepip*) exit 1;; esac; exit 0'


@pytest.mark.parametrize(
    ("python", "tools", "line"),
    [
        (None, ("cc", "c++", "git"), "python3 is missing: apt-get install python3 python3-venv"),
        (
            OLD,
            ("cc", "c++", "git"),
            "Python 3.9 is older than 3.11: apt-get install python3.11 python3.11-venv, then "
            "make PY=python3.11",
        ),
        (
            NO_VENV,
            ("cc", "c++", "git"),
            "Python's venv module is missing: apt-get install python3-venv",
        ),
        (REAL, ("c++", "git"), "a C compiler is missing: apt-get install gcc"),
        (REAL, ("cc", "git"), "a C++ compiler is missing: apt-get install g++"),
        (REAL, ("cc", "c++"), "git is missing: apt-get install git"),
    ],
)
def test_a_missing_tool_is_one_line(
    python: str | None, tools: tuple[str, ...], line: str, root: Path, tmp_path: Path
) -> None:
    done = make_without(root, tmp_path, python=python, tools=tools)
    assert done.returncode != 0
    assert (done.stdout + done.stderr).splitlines()[0] == line
    assert "Traceback" not in done.stderr


def test_nothing_is_said_when_all_is_there(root: Path, tmp_path: Path) -> None:
    done = make_without(root, tmp_path, python=REAL)
    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")
