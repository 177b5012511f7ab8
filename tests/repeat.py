# SPDX-License-Identifier: Apache-2.0
"""How often a test repeats what it does, and when it runs: a representative part in `make test`,
what takes long in `make test-slow`, all of it in `make test-all`.

In:   LOADSTONE_ALL, which `make test-all` sets; slow.txt and more.txt beside this file.
Out:  `times`, the number of repetitions; `more`, for parameters that repeat what others show;
      `is_slow` and `is_repeated`, by a test's name.
Next: every test that draws networks, programs or seeds, or runs the same network on many devices;
      conftest.py, which marks the slow ones.

What `make test` and `make test-slow` leave out is repetition only: every operator, device, kernel
path and front end has a test without `more`.
"""

from __future__ import annotations

import os
from pathlib import Path

import pytest

__all__ = ["ALL", "REPEATED", "SLOW", "is_repeated", "is_slow", "more", "times"]

#: Whether everything is repeated.
ALL = bool(os.environ.get("LOADSTONE_ALL"))


def _names(file: str) -> frozenset[str]:
    """The lines of a list beside this file, without its comments."""
    lines = Path(__file__).with_name(file).read_text(encoding="utf-8").splitlines()
    return frozenset(line for line in lines if line and not line.startswith("#"))


#: Names in slow.txt.
SLOW = _names("slow.txt")

#: Names in more.txt.
REPEATED = _names("more.txt")

#: On a test or a parameter: it runs in `make test-all` only.
more = pytest.mark.more


def times(some: int, everything: int) -> int:
    """`some` in `make test`, `everything` in `make test-all`."""
    assert 0 < some <= everything
    return everything if ALL else some


def is_slow(name: str) -> bool:
    """name: a node's, with its parameter (file::function[parameter])."""
    return name in SLOW or name.partition("[")[0] in SLOW


def is_repeated(name: str) -> bool:
    """name: a node's, with its parameter: whether it runs in `make test-all` only."""
    return name in REPEATED
