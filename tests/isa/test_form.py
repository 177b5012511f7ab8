# SPDX-License-Identifier: Apache-2.0
"""isa/form.py: limits of fields, places of a reach."""

from __future__ import annotations

from loadstone.isa.form import Bits, Reach


def test_limits_of_a_field() -> None:
    assert (Bits("a", 5).lowest, Bits("a", 5).highest) == (0, 31)
    assert (Bits("a", 5, signed=True).lowest, Bits("a", 5, signed=True).highest) == (-16, 15)
    assert Bits("a", 5, values=("x", "y")).highest == 1
    assert (Bits("a", 5, low=2, high=9).lowest, Bits("a", 5, low=2, high=9).highest) == (2, 9)


def test_places_of_a_reach() -> None:
    reach = Reach("dram", "address", (("rows", "stride"), (2, 100)), 16, offset="chunk*64")
    fields = {"address": 0x1000, "rows": 3, "stride": 32, "chunk": 2}
    assert reach.places(fields) == (0x1080, 0x1080 + 2 * 32 + 100 + 16)
    assert reach.places({**fields, "rows": 0}) == (0x1080, 0x1080)
    kept = Reach("dram", "base", index="which", extent=8)
    assert kept.places({"which": 1}, {"base": [0, 0x2000]}) == (0x2000, 0x2008)
