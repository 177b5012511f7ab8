# SPDX-License-Identifier: Apache-2.0
"""vta/integers/search.py: what it finds, and how it says that there is nothing."""

from __future__ import annotations

import numpy as np

from loadstone.vta.integers.search import search_parts
from tests.vta.integers.made import made_runs


def test_parts_keep_their_limit() -> None:
    runs = made_runs(np.array([0.0123]), (-9_000, 30_000), "double", -128)
    small, large = (search_parts(runs, np.array([limit]), 31) for limit in (3, 1 << 23))
    assert not small.ok.any()
    assert large.ok.all()
    assert large.multipliers.max() <= 1 << 23
