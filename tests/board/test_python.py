# SPDX-License-Identifier: Apache-2.0
"""Rung 4 in Python: the package on an arm64 processor, with Debian's Python, NumPy and cffi."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from tests import toolchains
from tests.board import models
from tests.board.debian_python import check_runs, interpreter
from tests.board.tools import ROOT

pytestmark = [pytest.mark.full, pytest.mark.rung("4")]


def test_a_network_gives_the_native_bytes_and_cycles(tmp_path: Path) -> None:
    """The library is gcc's; tests/test_wheels.py runs wheels, whose compiler is zig's."""
    package = tmp_path / "site" / "loadstone"
    ignored = shutil.ignore_patterns("*.so", "__pycache__")
    shutil.copytree(ROOT / "python/loadstone", package, ignore=ignored)
    shutil.copy(toolchains.library("arm64") / "libloadstone.so", package)
    check_runs(interpreter("arm64", package.parent), models.dense("vtaq-1x16x16"), tmp_path)
