# SPDX-License-Identifier: Apache-2.0
"""What capabilities take: synthesis's counts, and what they grow with."""

from __future__ import annotations

from dataclasses import replace

import pytest

from loadstone.search.capability_area import (
    moving_bits,
    moving_tables,
    second_inp_bytes,
    unpacking_multipliers,
    window_bits,
    window_tables,
)
from loadstone.vta.device.hw_config import HwConfig, load_config
from loadstone.vta.isa.spec import Capability


def having(name: str, *capabilities: Capability, loads: int = 1) -> HwConfig:
    config = load_config(name)
    own = config.capabilities
    for capability in capabilities:
        own |= capability
    flight = replace(load_config("vtaq2-1x16x16").timing["loads_in_flight"], value=loads)
    timing = {**config.timing, "loads_in_flight": flight}
    return replace(config, capabilities=own, timing=timing)


def test_a_device_of_the_first_generation_takes_nothing() -> None:
    config = having("vtaq-1x8x8")
    counts = (window_tables, window_bits, moving_tables, moving_bits, unpacking_multipliers)
    assert [count(config) for count in counts] == [0] * 5
    assert second_inp_bytes(config) == 0


def test_counts_are_those_of_the_devices_that_were_synthesized() -> None:
    """docs/hardware.md's table, a cell of a carry chain as two tables of four inputs."""
    windows = having("vtaq-1x8x8", Capability.DEPTHWISE)
    assert 64 * window_tables(windows) == pytest.approx(1266 + 2 * 228)
    assert 64 * window_bits(windows) == pytest.approx(698)
    ahead = having("vtaq-1x8x8", loads=4)
    assert (moving_tables(ahead), moving_bits(ahead)) == pytest.approx((2339, 1506))
    whole = having("vtaq-1x8x8", Capability.STORE_ACC)
    assert (moving_tables(whole), moving_bits(whole)) == pytest.approx((457, 48))


PACKED, PLANES = Capability.WEIGHTS4, Capability.WEIGHT_CODE


@pytest.mark.parametrize(
    ("own", "tables", "bits"),
    [
        ([PACKED], 2253 + 2 * 173, 1200),
        ([PLANES], 2080 + 2 * 104, 1094),
        ([PACKED, PLANES], 3655 + 2 * 277, 1387),
    ],
)
def test_four_receivers_take_what_their_engine_was_synthesized_with(
    own: list[Capability], tables: int, bits: int
) -> None:
    """Beside an engine for four LOADs that has neither; what both share counts once."""
    config, plain = (having("vtaq-1x16x16", *c, loads=4) for c in (own, []))
    assert moving_tables(config) - moving_tables(plain) == pytest.approx(tables, rel=0.001)
    assert moving_bits(config) - moving_bits(plain) == pytest.approx(bits, rel=0.05)


def test_one_unpacker_serves_all_receivers() -> None:
    one, four = (having("vtaq-1x16x16", PACKED, loads=loads) for loads in (1, 4))
    assert unpacking_multipliers(one) == unpacking_multipliers(four) == 9
    assert unpacking_multipliers(replace(one, bus_bits=128)) == 18
    more = moving_tables(four) - moving_tables(having("vtaq-1x16x16", loads=4))
    assert more - moving_tables(one) == pytest.approx(3 * 678 / 4)


def test_stores_to_inp_have_as_much_of_it_once_more() -> None:
    config = having("vtaq-1x16x16", Capability.STORE_INP)
    assert second_inp_bytes(config) == (32 << 10) + 2048 * 4 // 8
    small = replace(config, log_inp_buff=config.log_inp_buff - 1)
    assert second_inp_bytes(config) == 2 * second_inp_bytes(small)
