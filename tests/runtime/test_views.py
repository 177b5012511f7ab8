# SPDX-License-Identifier: Apache-2.0
"""views.py: an array shares C's memory, in the tensor's shape and type, and keeps its owner."""

from __future__ import annotations

import gc
import weakref

import numpy as np

from loadstone.artifact.format import BufferView, DataType, ViewLayout
from loadstone.library.native import ffi
from loadstone.runtime.views import view_of


class Owner:
    """Of memory."""


def test_a_view_shares_memory_and_keeps_its_owner() -> None:
    memory, owner = ffi.new("uint8_t[]", bytes(range(24))), Owner()
    alive = weakref.ref(owner)
    x = view_of(memory, BufferView("x", (2, 3), DataType.INT32, 0, 0), owner)
    assert x.tolist() == np.arange(24, dtype=np.uint8).view("<i4").reshape(2, 3).tolist()
    x[1, 2] = -1
    assert bytes(memory)[20:24] == b"\xff" * 4
    part = x[0]
    del owner, x
    gc.collect()
    assert alive() is not None
    del part
    gc.collect()
    assert alive() is None


def test_bool_and_blocks() -> None:
    memory = ffi.new("uint8_t[]", 32)
    assert view_of(memory, BufferView("b", (4,), DataType.BOOL, 0, 0), None).dtype == np.bool_
    blocked = BufferView("t", (1, 1, 1, 5), DataType.INT8, 0, 0, 0, 0, ViewLayout.BLOCKED, 2, 4)
    assert view_of(memory, blocked, None).shape == (1, 2, 1, 1, 2, 4)
