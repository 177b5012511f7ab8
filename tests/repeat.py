# SPDX-License-Identifier: Apache-2.0
"""How often a test repeats what it does: a representative part in `make test`, all of it in `make
test-all`.

In:   LOADSTONE_ALL, which `make test-all` sets.
Out:  `times`, the number of repetitions; `more`, for parameters that repeat what others show.
Next: every test that draws networks, programs or seeds, or runs the same network on many devices.

What `make test` leaves out is repetition only: every operator, device, kernel path and front end
has a test without `more`.
"""

from __future__ import annotations

import os

import pytest

__all__ = ["ALL", "more", "times"]

#: Whether everything is repeated.
ALL = bool(os.environ.get("LOADSTONE_ALL"))

#: On a test or a parameter: it runs in `make test-all` only.
more = pytest.mark.more


def times(some: int, everything: int) -> int:
    """`some` in `make test`, `everything` in `make test-all`."""
    assert 0 < some <= everything
    return everything if ALL else some
