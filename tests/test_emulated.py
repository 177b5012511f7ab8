# SPDX-License-Identifier: Apache-2.0
"""A processor without AVX (qemu-x86_64, Nehalem): the command line runs a model there, and compiles
one, with the same bytes. Of `make test-emulated`, which runs the tests there: what it emulates, and
what it writes down.

PyTorch is left out: importing TVM imports it where it is installed, which takes minutes there.
Without it the compiler is imported in about a minute (2 s of processor time without an emulator).
"""

from __future__ import annotations

import os
import platform
import subprocess
import sys
from collections.abc import Callable
from itertools import chain
from pathlib import Path

import numpy as np
import pytest

from loadstone.vta.device.hw_config import load_config
from tests.board.tools import need
from tests.conftest import THREADS
from tests.emulated import EMULATOR, Log, Round, environment, processor_seconds
from tests.emulated_file import emulated
from tests.repeat import more
from tests.sample_model import dense_model

pytestmark = pytest.mark.skipif(platform.machine() != "x86_64", reason="it is an x86-64 library")

#: The command line, and at its end the simulator's paths.
START = """
import sys
from loadstone.cli import main
from loadstone.vta.simulator.sim import kernels_available
from loadstone.vta.device.hw_config import load_config
status = main(sys.argv[1:])
print("kernels", *kernels_available(load_config("vtaq-1x16x16")))
sys.exit(status)
"""


@pytest.fixture
def python(tmp_path: Path) -> Path:
    """A Python on a Nehalem."""
    need("qemu-x86_64", "qemu-user")
    return environment(tmp_path / "emulated")


def said(python: Path, *words: object, timeout_s: float = 300) -> str:
    """What `loadstone WORDS` prints there."""
    done = subprocess.run(
        [python, "-c", START, *map(str, words)],
        capture_output=True,
        text=True,
        timeout=timeout_s,
        check=False,
        env={**os.environ, **dict.fromkeys(THREADS, "1")},
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_a_model_runs_without_avx(
    tmp_path: Path, python: Path, figure: Callable[[str], None]
) -> None:
    made = dense_model(load_config("vtaq-1x16x16"))
    made.artifact.save(tmp_path / "dense.lds")
    x = np.random.default_rng(3).integers(-128, 128, (5, 1, made.weights.shape[1]), np.int8)
    np.savez(tmp_path / "x.npz", in0=x)
    np.savez(tmp_path / "y.npz", out0=made.expected(x))
    files = {"--inputs": tmp_path / "x.npz", "--expect": tmp_path / "y.npz"}
    text = said(python, "run", tmp_path / "dense.lds", *chain(*files.items()))
    assert text.splitlines()[-1] == "kernels portable"
    figure("loadstone run on a processor without AVX (Nehalem): kernels portable, outputs equal")


@more
def test_the_demo_runs_without_avx(
    tmp_path: Path, python: Path, figure: Callable[[str], None]
) -> None:
    """Import, calibration, quantization, compilation, simulation: all that `make demo` does."""
    pytest.importorskip("tvm", reason="TVM is not installed (the extra `compiler`)")
    text = said(python, "demo", "-o", tmp_path / "demo", timeout_s=3600)
    assert text.splitlines()[-1] == "kernels portable"
    assert "99.17 % right of 600 images" in text
    figure("loadstone demo on a processor without AVX (Nehalem): as on this one")


def test_python_and_what_it_starts_is_emulated_without_pytorch(python: Path) -> None:
    code = "import os, subprocess, sys; print(os.getpid()); sys.stdin.read()"
    child = f"import subprocess, sys; subprocess.run([sys.executable, '-c', {code!r}])"
    with subprocess.Popen(
        [python, "-c", child], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as process:
        assert process.stdin is not None
        assert process.stdout is not None
        number = process.stdout.readline().strip()
        programs = [os.readlink(f"/proc/{n}/exe") for n in (process.pid, number)]
        process.stdin.close()
    assert [Path(program).name for program in programs] == ["qemu-x86_64"] * 2
    loads = subprocess.run(
        [
            python,
            "-c",
            "from importlib.util import find_spec as f; print(f('torch')); import torch",
        ],
        capture_output=True,
        text=True,
        check=False,
    )
    assert loads.stdout == "None\n"
    assert loads.stderr.splitlines()[-1] == "ModuleNotFoundError: No module named 'torch'"


def test_compiled_programs_are_emulated_unless_a_sanitizer_is_in_them(tmp_path: Path) -> None:
    (tmp_path / "plain").write_bytes(b"\x7fELF".ljust(18, b"\2") + b"\x3e\0 main")
    (tmp_path / "board").write_bytes(b"\x7fELF".ljust(18, b"\2") + b"\xb7\0 main")
    (tmp_path / "checked").write_bytes((tmp_path / "plain").read_bytes() + b"__tsan_init")
    (tmp_path / "script").write_text("#!/bin/sh\n")
    assert emulated([tmp_path / "plain", 3]) == [*EMULATOR, str(tmp_path / "plain"), "3"]
    for name in ("board", "checked", "script", "absent"):
        assert emulated([tmp_path / name]) == [str(tmp_path / name)]
    assert emulated(["/bin/true"]) == ["/bin/true"]  # nobody's test has compiled it


def test_processor_time_of_a_group_counts_children_that_ended() -> None:
    busy = "import time\nwhile time.process_time() < 0.5: pass\n"
    code = f"import subprocess, sys\nsubprocess.run([sys.executable, '-c', {busy!r}])\n"
    with subprocess.Popen(
        [sys.executable, "-c", code + "print(flush=True); sys.stdin.read()"],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        process_group=0,
    ) as process:
        assert process.stdin is not None
        assert process.stdout is not None
        process.stdout.readline()
        used = processor_seconds(process.pid)
        process.stdin.close()
    assert used >= 0.5
    assert processor_seconds(process.pid) == 0


def test_a_log_knows_what_is_left(tmp_path: Path) -> None:
    """A second run goes on where the first was ended, and tries again what failed if it is told."""
    log = Log(tmp_path / "log.tsv")
    quick, longer = Round(10, full=False), Round(100, full=True)
    for file in ("through.py", "slow.py", "hangs.py"):
        assert log.wants(file, quick)
    log.add("through.py::a[x y]", "passed", 1)
    log.add("through.py::b", "failed", 1, "assert 1\n  == 2\t")
    log.add("through.py", "done", 2)
    log.add("slow.py", "quick", 1)
    log.add("hangs.py::c", "late", 10)
    log.add("hangs.py", "late", 10, "10")
    for read in (log, Log(log.path)):
        assert not any(read.wants(file, quick) for file in ("through.py", "slow.py", "hangs.py"))
        assert not read.wants("through.py", longer)
        assert read.wants("slow.py", longer)
        assert read.wants("hangs.py", longer)
        assert read.known("through.py::a[x y]")
        assert not read.known("hangs.py::c")
        table = read.table(["through.py", "slow.py", "hangs.py", "unseen.py"]).splitlines()
        assert table[1].split() == ["1", "1", "0", "0", "2", "through.py", "(done)"]
        assert table[-3:] == [
            "files: 1 done, 1 late, 1 left, 1 quick",
            "tests: 1 passed, 1 failed, 0 skipped, 1 late",
            "through.py::b: assert 1 == 2",
        ]
    log.forget_failures()
    assert log.wants("through.py", quick)
    assert not log.known("through.py::b")
    assert log.known("through.py::a[x y]")
