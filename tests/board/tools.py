# SPDX-License-Identifier: Apache-2.0
"""Tools that a rung of the ladder needs, and what it says when one is missing.

In:   a program's name and the Debian package that brings it.
Out:  a skipped test whose reason names the package (a failed one where LOADSTONE_NEED_ALL is set,
      as in CI); run(); folders.
Next: everything here.
"""

from __future__ import annotations

import atexit
import fcntl
import functools
import os
import shutil
import subprocess
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import IO, NoReturn

import pytest

__all__ = ["BUILD", "ROOT", "locked", "missing", "need", "run", "work"]

ROOT = Path(__file__).resolve().parents[2]
#: What is kept from one run to the next. Tests run in several processes: whoever writes here holds
#: `locked`, or renames into place.
BUILD = ROOT / "build" / "board"


@functools.cache
def work() -> Path:
    """A folder of this process alone, gone at its end."""
    BUILD.mkdir(parents=True, exist_ok=True)
    folder = Path(tempfile.mkdtemp(prefix="work-", dir=BUILD))
    atexit.register(shutil.rmtree, folder, ignore_errors=True)
    return folder


@contextmanager
def locked(name: str) -> Iterator[None]:
    """One process at a time."""
    BUILD.mkdir(parents=True, exist_ok=True)
    with (BUILD / f"{name}.lock").open("w") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        yield


def missing(reason: str) -> NoReturn:
    """Skips the test; fails it where nothing may be skipped."""
    if os.environ.get("LOADSTONE_NEED_ALL"):
        pytest.fail(reason)
    pytest.skip(reason)


def need(program: str, package: str) -> None:
    """Skips the test unless `program` is there."""
    if shutil.which(program) is None:
        missing(f"{program} is missing: apt-get install {package}")


def run(
    command: Sequence[str | Path],
    *,
    cwd: Path | None = None,
    stdin: IO[bytes] | None = None,
    or_skip: str = "",
    timeout_s: float = 600,
) -> str:
    """What a program printed; its complaint as an AssertionError, or a skipped test where `or_skip`
    says what a failure means."""
    words = [str(word) for word in command]
    done = subprocess.run(
        words, cwd=cwd, stdin=stdin, capture_output=True, text=True, check=False, timeout=timeout_s
    )
    if done.returncode != 0:
        complaint = (done.stderr or done.stdout).strip()
        if or_skip:
            missing(f"{or_skip}: {complaint.splitlines()[-1] if complaint else words[0]}")
        raise AssertionError(f"{' '.join(words)}\nexit status {done.returncode}\n{complaint}")
    return done.stdout
