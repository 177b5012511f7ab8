# SPDX-License-Identifier: Apache-2.0
"""How `loadstone run` ends: with the documented status, whatever refused it and whenever it was
interrupted, and never by a signal.

Each is a process of its own: what is looked at is the end of one, where threads and libraries go.
"""

from __future__ import annotations

import dataclasses
import random
import signal
import subprocess
import sys
import time
from collections.abc import Sequence
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


def started(*words: str | Path) -> subprocess.Popen[str]:
    command = [sys.executable, "-m", "loadstone", "run", *map(str, words)]
    return subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    np.savez(tmp_path / "x.npz", in0=X)
    np.savez(tmp_path / "wrong.npz", in0=X[:, :, :7])
    monkeypatch.chdir(tmp_path)
    return tmp_path


@pytest.mark.parametrize("name", REFUSALS)
def test_a_refusal_ends_with_status_2(folder: Path, name: str) -> None:
    """The thread of a device that nobody closed once ran on in a library that was gone."""
    model, words, complaint = REFUSALS[name]
    model.save(folder / "m.lds")
    for _ in range(times(1, 200)):
        with started("m.lds", "--inputs", "x.npz", *words) as child:
            out, err = child.communicate(timeout=60)
        assert (child.returncode, out) == (2, ""), err
        assert complaint in err
        assert err.count("\n") == 1


@pytest.mark.parametrize("threads", ["1", "2"])
def test_an_interrupt_at_any_time_ends_with_status_130(folder: Path, threads: str) -> None:
    """In one instruction that would take weeks, or before; nothing is said but an empty line."""
    name = "vtaq-1x16x16"
    endless_model(load_config(name)).save(folder / "m.lds")
    drawn = random.Random(int(threads))
    for _ in range(times(8, 200)):
        with subprocess.Popen(
            [sys.executable, "-c", _RUN, "m.lds", "--inputs", "x.npz", "--threads", threads],
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        ) as child:
            assert child.stdout is not None
            assert child.stdout.readline() == "begun\n"
            time.sleep(drawn.uniform(0, 0.5))
            child.send_signal(signal.SIGINT)
            try:
                _, err = child.communicate(timeout=60)
            finally:
                child.kill()
        assert (child.returncode, err.strip()) == (130, "")


#: The command, which says when Python has begun it: before, an interrupt is Python's own business.
_RUN = """
import os, signal, sys
from loadstone.__main__ import start
signal.signal(signal.SIGINT, signal.default_int_handler)  # a background job ignores it
os.write(1, b"begun\\n")
start(["run", *sys.argv[1:]])
"""


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
