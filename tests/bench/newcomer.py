# SPDX-License-Identifier: Apache-2.0
"""A newcomer's way: from a clone to a network of one's own, and to an accelerator of one's own.

In:   this repository as it is committed; ../shared/models for a network; an index of packages.
Out:  a line for each step: seconds of the clock and of the processor, and those since the clone.
Next: docs/getting-started.md states them.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import time
from pathlib import Path
from tempfile import TemporaryDirectory

from tests.conftest import ROOT, SHARED

__all__ = ["run"]

#: What is typed, in order; each runs in the clone.
STEPS = (
    ("install", "make lib"),
    (
        "own network",
        ".venv/bin/loadstone compile net.tflite --target vtaq-1x16x16 -o net.lds && "
        ".venv/bin/loadstone profile net.lds",
    ),
    (
        "own accelerator",
        ".venv/bin/loadstone backend new npu -o mine && .venv/bin/loadstone conform npu "
        "--uma-backends mine --cases 2 && "
        ".venv/bin/loadstone compile net.tflite --target npu --uma-backends mine -o npu.lds",
    ),
)


def run() -> bool:
    """Prints; there is no limit, since most of it is the machine's and the index's."""
    with TemporaryDirectory() as folder:
        clone = Path(folder) / "loadstone"
        subprocess.run(["git", "clone", "-q", str(ROOT), str(clone)], check=True)
        shutil.copyfile(SHARED / "models/mlpt_resnet8_int8.tflite", clone / "net.tflite")
        since = 0.0
        for name, command in STEPS:
            begin, before = time.perf_counter(), _cpu_seconds()
            subprocess.run(command, shell=True, cwd=clone, check=True, stdout=subprocess.DEVNULL)
            seconds, cpu = time.perf_counter() - begin, _cpu_seconds() - before
            since += seconds
            print(
                f"  {name:15} {seconds:6.1f} s, {cpu:6.1f} s of CPU; {since:6.1f} s since the "
                "clone",
                flush=True,
            )
    return True


def _cpu_seconds() -> float:
    """Of all processes that have ended."""
    times = os.times()
    return times.children_user + times.children_system
