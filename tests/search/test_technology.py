# SPDX-License-Identifier: Apache-2.0
"""Process nodes: what a smaller one saves."""

from __future__ import annotations

import pytest

from loadstone.search.technology import NODES, area_factor, delay_factor, energy_factor


def test_the_example_of_the_paper() -> None:
    """Section 4.2.1, as its authors corrected it: from 65 nm at 1.3 V to 32 nm at 0.9 V."""
    old, new = NODES[65].energy, NODES[32].energy
    at = [a * v * v + b * v + c for (a, b, c), v in ((old, 1.3), (new, 0.9))]
    assert at[0] == pytest.approx(2.604, abs=1e-3)
    assert at[1] == pytest.approx(0.4571, abs=1e-3)


def test_45_nm_is_the_base_and_each_node_saves() -> None:
    assert [f(45) for f in (area_factor, delay_factor, energy_factor)] == [1.0, 1.0, 1.0]
    order = sorted(NODES, reverse=True)
    for factor in (area_factor, energy_factor):
        found = [factor(nm) for nm in order]
        assert found == sorted(found, reverse=True)
    assert delay_factor(7) < 0.3 < 1 < delay_factor(65)
