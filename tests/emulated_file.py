# SPDX-License-Identifier: Apache-2.0
"""One test file in an emulated Python: a line in the log for each test as it ends.

In:   the file, what is known of its tests; the programs that its tests start.
Out:  lines of the log; the exit status of pytest.
Next: emulated.py, which calls `run` in a process of its own.
"""

from __future__ import annotations

import subprocess
import time
from collections.abc import Sequence
from pathlib import Path
from tempfile import gettempdir
from typing import Any

import pytest

from tests.conftest import ROOT
from tests.emulated import EMULATOR, NOW, Log
from tests.fuzz.worker import Worker

__all__ = ["emulated", "run"]

_ELF_X86_64 = (b"\x7fELF", b"\x3e\x00")
_SANITIZERS = (b"__asan_init", b"__tsan_init", b"__ubsan_handle", b"__msan_init")


class _Reports:
    """Leaves out what is known, and writes down what becomes of the rest."""

    def __init__(self, file: str, log: Log, full: bool) -> None:
        self.file = file
        self.log = log
        self.full = full
        self.left_full = False
        self.begin = time.monotonic()
        self.seconds = 0.0
        self.said: tuple[str, str] = ("passed", "")

    @pytest.hookimpl(trylast=True)
    def pytest_collection_modifyitems(
        self, config: pytest.Config, items: list[pytest.Item]
    ) -> None:
        """Tests that were late once come last; slow ones not at all, as in `make test`."""
        left = [item for item in items if not self.log.known(item.nodeid)]
        left = [item for item in left if not item.get_closest_marker("slow")]
        if not self.full:
            self.left_full = any(item.get_closest_marker("full") for item in left)
            left = [item for item in left if not item.get_closest_marker("full")]
        config.hook.pytest_deselected(items=[item for item in items if item not in left])
        items[:] = sorted(left, key=lambda item: item.nodeid in self.log.outcomes)

    def pytest_collectreport(self, report: pytest.CollectReport) -> None:
        """A file that is skipped as a whole, or cannot be imported."""
        if report.outcome != "passed":
            self.log.add(f"{self.file}::", report.outcome, 0, _reason(report))

    def pytest_runtest_logstart(self, nodeid: str) -> None:
        """The one that is late, if nothing more is heard."""
        NOW.write_text(nodeid, encoding="utf-8")
        self.seconds, self.said = 0.0, ("passed", "")

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        """Of its three parts, the worst counts."""
        self.seconds += report.duration
        if report.outcome == "failed" or (report.outcome == "skipped" and self.said[0] != "failed"):
            self.said = (report.outcome, _reason(report))
        if report.when == "teardown":
            self.log.add(report.nodeid, self.said[0], self.seconds, self.said[1])

    def pytest_sessionfinish(self) -> None:
        """The file is through."""
        NOW.unlink(missing_ok=True)
        state = "quick" if self.left_full else "done"
        self.log.add(self.file, state, time.monotonic() - self.begin)


def _reason(report: pytest.TestReport | pytest.CollectReport) -> str:
    if isinstance(report.longrepr, tuple):
        return report.longrepr[2]
    crash = getattr(report.longrepr, "reprcrash", None)
    return str(crash.message if crash is not None else report.longrepr)


def emulated(words: Sequence[Any]) -> list[str]:
    """`words`, behind the emulator if the program is one that a test has compiled. Sanitizers need
    an address space that the emulator does not have."""
    said = [str(word) for word in words]
    program = Path(said[0])
    made = any(program.is_relative_to(folder) for folder in (ROOT / "build", gettempdir()))
    if not made or not program.is_file():
        return said
    content = program.read_bytes()
    if (content[:4], content[18:20]) != _ELF_X86_64 or any(word in content for word in _SANITIZERS):
        return said
    return [*EMULATOR, *said]


def run(file: str, log: Log, full: bool) -> int:
    """Runs what is left of the file."""
    start = subprocess.Popen.__init__

    def start_emulated(self: Any, args: Any, *more: Any, **named: Any) -> None:
        if not isinstance(args, str | bytes | Path) and "executable" not in named:
            args = emulated(args)
        start(self, args, *more, **named)

    subprocess.Popen.__init__ = start_emulated  # type: ignore[method-assign]
    # In qemu 7.2 a copy of a process that has a thread aborts when it starts one.
    Worker.ask = Worker.answer_here  # type: ignore[method-assign]
    return int(pytest.main([file, "-p", "no:xdist", "-v"], plugins=[_Reports(file, log, full)]))
