# SPDX-License-Identifier: Apache-2.0
"""backend/external.py: one table of functions for the whole process; the last of a name stands."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pytest

from loadstone.backend import external
from loadstone.backend.external import external_function, register_external
from loadstone.numerics import Array


def doubled(arrays: Sequence[Array], attributes: str) -> list[Array]:
    return [arrays[0] * int(attributes)]


def test_a_function_is_known_by_its_name(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(external, "_FUNCTIONS", dict(external._FUNCTIONS))
    assert external_function("test.doubled") is None
    register_external("test.doubled", doubled)
    found = external_function("test.doubled")
    assert found is not None
    assert found([np.ones(2)], "2")[0].tolist() == [2, 2]
    register_external("test.doubled", lambda *_: [])
    assert external_function("test.doubled") is not doubled
