# SPDX-License-Identifier: Apache-2.0
"""checked_row.py: any change of a row makes it none."""

from __future__ import annotations

import numpy as np

from loadstone.search.checked_row import opened_row, sealed_row


def test_a_row_comes_back_for_its_key_alone() -> None:
    for value in ({"cycles": 3, "why": "ß\n"}, [1, 2.5], "", None, 0):
        stored = sealed_row("key", value).encode()
        assert opened_row("key", stored) == value
        assert opened_row("other", stored) is None


def test_any_change_makes_it_none() -> None:
    stored, random = sealed_row("key", {"cycles": 71727, "layers": [1, 2]}).encode(), 0
    drawn = np.random.default_rng(random)
    for at in range(len(stored)):
        changed = bytearray(stored)
        changed[at] ^= int(drawn.integers(1, 256))
        assert opened_row("key", bytes(changed)) is None
        assert opened_row("key", stored[:at]) is None
    for other in (None, 3, 2.5, "text", b"", b"{}", b"not json", b"\xff\xfe"):
        assert opened_row("key", other) is None
