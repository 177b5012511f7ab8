# SPDX-License-Identifier: Apache-2.0
"""vta/device/timing_tables.py: tables by name, as objects, one upon another; mistakes are one
line."""

from __future__ import annotations

import pytest

from loadstone.backend.device import TimingConstant
from loadstone.errors import ConfigError
from loadstone.vta.device.timing_tables import (
    builtin_timing,
    compact_timing,
    table_names,
    timing_table,
)


def test_built_in_tables_have_a_source_for_each_constant() -> None:
    assert table_names() == sorted(table_names())
    assert {"vta-rtl", "vtaq-rtl"} <= set(table_names())
    for name in table_names():
        table = builtin_timing(name)
        assert table
        assert all(constant.value >= 0 and constant.source for constant in table.values())


def test_an_object_changes_its_base() -> None:
    base = builtin_timing("vta-rtl")
    said = {"base": "vta-rtl", "gemm_step_cycles": {"value": 3, "source": "mine"}}
    table = timing_table(said, "mine")
    assert table == {**base, "gemm_step_cycles": TimingConstant(3, "mine")}
    alone = {"nop_cycles": {"value": 0, "source": "s"}}
    assert timing_table(alone, "mine") == {"nop_cycles": TimingConstant(0, "s")}


@pytest.mark.parametrize(
    ("table", "part"),
    [
        (
            "no-such-table",
            "timing table 'no-such-table' is not one of ours (vta-de10nano, vta-rtl, vtaq",
        ),
        ("../vta-pynq\0", "is not one of ours"),
        (7, "timing is a int, not a table's name or an object of constants"),
        ({"x": 3}, "timing.x must be"),
        ({"x": {"value": "3", "source": "s"}}, "timing.x must be"),
        ({"x": {"value": 3}}, "timing.x must be"),
        ({"x": {"value": True, "source": "s"}}, "timing.x must be"),
        ({"x": {"value": 1, "source": "s"}}, "timing.x is no constant of the timing model"),
        (
            {"gemm_step_cycle": {"value": 1, "source": "s"}},
            "timing.gemm_step_cycle is no constant of the timing model (docs/timing.md); "
            "gemm_step_cycles is meant?",
        ),
        *(
            ({name: {"value": value, "source": "s"}}, f"timing.{name}={value} is {limit}")
            for name, value, limit in (
                ("nop_cycles", -1, "outside [0, 2147483647]"),
                ("read_bursts_outstanding", 0, "outside [1, 1024]"),
                ("read_bursts_outstanding", 1025, "outside [1, 1024]"),
                ("loads_in_flight", 0, "outside [1, 64]"),
                ("loads_in_flight", 65, "outside [1, 64]"),
                ("pad_tiles_per_cycle", 0, "outside [1, 2147483647]"),
                ("burst_max_beats", 257, "outside [1, 256]"),
                ("burst_max_beats", 96, "not a power of 2"),
                ("burst_boundary_bytes", 3000, "not a power of 2"),
            )
        ),
        ({"base": "nothing"}, "is not one of ours"),
    ],
)
def test_mistakes_name_the_device_and_the_constant(table: object, part: str) -> None:
    with pytest.raises(ConfigError) as caught:
        timing_table(table, "mine")  # type: ignore[arg-type]
    assert str(caught.value).startswith("device mine: ")
    assert part in str(caught.value)


def test_what_is_compact_makes_the_same_constants() -> None:
    for name in table_names():
        assert timing_table(compact_timing(builtin_timing(name)), "mine") == builtin_timing(name)
    known = builtin_timing("vtaq-rtl")
    changed = {**known, "read_latency_cycles": TimingConstant(31, "a sweep")}
    said = compact_timing(changed)
    assert said == {
        "base": "vtaq-rtl",
        "read_latency_cycles": {"value": 31, "source": "a sweep"},
    }
    assert timing_table(said, "mine") == changed
