# SPDX-License-Identifier: Apache-2.0
"""How `loadstone run` ends: with the documented status, whatever refused it and whenever it was
interrupted, and never by a signal.

Each is a process of its own: what is looked at is the end of one, where threads and libraries go.
Most are copies of one that has imported what `run` imports, and has no threads: they end as any.
"""

from __future__ import annotations

import dataclasses
import json
import os
import random
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Iterator, Sequence
from pathlib import Path

import numpy as np
import pytest

from loadstone.artifact.format import Artifact
from loadstone.vta.device.hw_config import load_config
from tests.commands.test_mistakes import external_model
from tests.repeat import times
from tests.sample_model import copy_model, endless_model

X = np.zeros((2, 1, 16), np.int8)

#: What is refused before a device is opened, while it is, by its session, and behind it.
REFUSALS: dict[str, tuple[Artifact, Sequence[str], str]] = {
    "no trust": (external_model("loadstone.c", "lds_c_0\n"), (), "--trust"),
    "a relax module": (external_model("loadstone.relax", ""), (), "--trust"),
    "an operator": (external_model("loadstone.operator", "{}"), (), "loadstone.operator"),
    "no function": (external_model("tests.absent", ""), (), "needs the external function"),
    "another device": (copy_model(), ("--device", "vtaq-tiny"), "was compiled for device"),
    "no board": (copy_model(), ("--device", "uio:/absent"), "/absent"),
    "wrong samples": (copy_model(), ("--inputs", "wrong.npz"), "has shape"),
    "two threads": (copy_model(), ("--threads", "2", "--inputs", "wrong.npz"), "has shape"),
    "no place": (copy_model(), ("-o", "absent/y.npz"), "absent"),
}


#: Says a process's number when the command has taken Ctrl-C: before, it is Python's own business.
_ANNOUNCED = """
import os, signal, sys
signal.signal(signal.SIGINT, signal.default_int_handler)  # a background job ignores it
taken, pipe = signal.signal, os.dup(1)
def announced(number, handler):
    signal.signal = taken
    old = taken(number, handler)
    os.write(pipe, b"%d\\n" % os.getpid())
    return old
signal.signal = announced
from loadstone.__main__ import start
"""
#: Reads words, copies itself, says the copy's status as of waitpid; the copy leaves the loop, runs
#: the command and ends as Python ends.
_SERVER = f"""
{_ANNOUNCED}
import json
import loadstone.cli, loadstone.commands.run, loadstone.runtime.device
loadstone.runtime.device.lib()
assert len(os.listdir("/proc/self/task")) == 1
while words := sys.stdin.readline():
    if (child := os.fork()) == 0:
        for stream, name in ((1, "out"), (2, "err")):
            os.dup2(os.open(name, os.O_WRONLY | os.O_CREAT | os.O_TRUNC), stream)
        break
    os.write(pipe, b"%d\\n" % os.waitpid(child, 0)[1])
if words:
    start(["run", *json.loads(words)])
"""
_FRESH = f"""
{_ANNOUNCED}
start(["run", *sys.argv[1:]])
"""


class Runs:
    """`loadstone run` in copies of one process, in the current folder."""

    def __init__(self, server: subprocess.Popen[str]) -> None:
        assert server.stdin is not None
        assert server.stdout is not None
        self._questions, self._answers = server.stdin, server.stdout

    def end(self, words: Sequence[str], interrupt_after: float | None = None) -> tuple[int, str]:
        """(exit status, what it said on stderr) of a run, with SIGINT after so many seconds; a
        signal's number is negative. It says nothing else."""
        print(json.dumps(words), file=self._questions, flush=True)
        child = int(self._answers.readline())
        if interrupt_after is not None:
            time.sleep(interrupt_after)
            os.kill(child, signal.SIGINT)
        hung = threading.Timer(60, os.kill, (child, signal.SIGKILL))
        hung.start()
        status = os.waitstatus_to_exitcode(int(self._answers.readline()))
        hung.cancel()
        assert Path("out").read_text() == ""
        return status, Path("err").read_text()


@pytest.fixture
def runs(folder: Path) -> Iterator[Runs]:
    with subprocess.Popen(
        [sys.executable, "-c", _SERVER],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
        env={**os.environ, "OPENBLAS_NUM_THREADS": "1"},  # which would start some as it is imported
    ) as server:
        yield Runs(server)


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    np.savez(tmp_path / "x.npz", in0=X)
    np.savez(tmp_path / "wrong.npz", in0=X[:, :, :7])
    monkeypatch.chdir(tmp_path)
    return tmp_path


@pytest.mark.parametrize("name", REFUSALS)
def test_a_refusal_ends_with_status_2(folder: Path, name: str, runs: Runs) -> None:
    """The thread of a device that nobody closed once ran on in a library that was gone."""
    model, words, complaint = REFUSALS[name]
    model.save(folder / "m.lds")
    for _ in range(times(3, 200)):
        status, err = runs.end(["m.lds", "--inputs", "x.npz", *words])
        assert status == 2, err
        assert complaint in err
        assert err.count("\n") == 1


@pytest.mark.parametrize("threads", ["1", "2"])
def test_an_interrupt_at_any_time_ends_with_status_130(
    folder: Path, threads: str, runs: Runs
) -> None:
    """In one instruction that would take weeks, or before; nothing is said but an empty line."""
    endless_model(load_config("vtaq-1x16x16")).save(folder / "m.lds")
    drawn, words = random.Random(int(threads)), ["m.lds", "--inputs", "x.npz", "--threads", threads]
    for _ in range(times(20, 200)):
        status, err = runs.end(words, interrupt_after=drawn.uniform(0.001, 0.3))
        assert (status, err.strip()) == (130, "")


def test_an_interrupt_while_it_is_imported_ends_with_status_130(folder: Path) -> None:
    endless_model(load_config("vtaq-1x16x16")).save(folder / "m.lds")
    drawn = random.Random(1)
    for _ in range(times(4, 200)):
        with subprocess.Popen(
            [sys.executable, "-c", _FRESH, "m.lds", "--inputs", "x.npz"],
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        ) as child:
            assert child.stdout is not None
            assert int(child.stdout.readline()) == child.pid
            time.sleep(drawn.uniform(0, 0.5))
            child.send_signal(signal.SIGINT)
            try:
                _, err = child.communicate(timeout=60)
            finally:
                child.kill()
        assert (child.returncode, err.strip()) == (130, "")


def test_a_device_that_only_the_collector_would_close_is_ended(folder: Path) -> None:
    """A session in the middle of a run, a device in a cycle, and views that live to the end."""
    dataclasses.replace(endless_model(), name="m").save(folder / "m.lds")
    program = """
import gc
from loadstone.runtime import device
gc.disable()
opened = [device.open() for _ in range(3)]
sessions = [one.load("m.lds") for one in opened]
views = [view for session in sessions for view in session.inputs]
for session in sessions:
    session.start()
opened[0].close()
opened.append(opened)
gc.freeze()
"""
    for _ in range(times(2, 200)):
        done = subprocess.run([sys.executable, "-c", program], capture_output=True, timeout=60)
        assert (done.returncode, done.stdout, done.stderr) == (0, b"", b"")
