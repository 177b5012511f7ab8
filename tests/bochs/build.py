# SPDX-License-Identifier: Apache-2.0
"""C++ programs as one file without libraries, for a machine without an operating system.

In:   a source; libloadstone's objects as `make lib` compiled them.
Out:  an executable that runs natively, and on machine.py's machine.
Next: test_avx512.py, campaign.py.
"""

from __future__ import annotations

import platform
import sys
from collections.abc import Sequence
from pathlib import Path

from tests.board.tools import ROOT, locked, missing, need, run
from tests.bochs.machine import PROGRAM_AT

__all__ = ["replayer"]

_NATIVE = ROOT / "build/native"
_HEADERS = ("runtime/include", "driver/include", "hw_sim/include")


def replayer(folder: Path, more: Sequence[str | Path] = ()) -> Path:
    """tests/c/replay_kernels.cc, with the very objects of the library that the package uses. more:
    objects that take the place of some of them."""
    if platform.machine() != "x86_64":
        missing("this processor is no x86-64, nor is the library that the package uses")
    need("g++", "g++")
    with locked("static-library"):
        run([Path(sys.executable).parent / "cmake", "--build", _NATIVE, "-t", "loadstone_static"])
    out = folder / "replay_kernels"
    includes = [f"-I{ROOT / header}" for header in _HEADERS]
    sources = [ROOT / "tests/c/replay_kernels.cc", *more, _NATIVE / "libloadstone.a"]
    link = ["-static", f"-Wl,-Ttext-segment={PROGRAM_AT:#x}", "-pthread"]
    run(["g++", "-std=c++17", "-O1", *includes, *sources, *link, "-o", out])
    return out
