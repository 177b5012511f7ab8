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


def test_weights_of_4_bits_are_unpacked_in_each_receiver() -> None:
    one = having("vtaq-1x16x16", Capability.WEIGHTS4)
    four, plain = (having("vtaq-1x16x16", *own, loads=4) for own in ([Capability.WEIGHTS4], []))
    assert [unpacking_multipliers(config) for config in (one, four)] == [8, 32]
    assert moving_tables(four) - moving_tables(plain) == pytest.approx(4 * moving_tables(one))
    assert unpacking_multipliers(replace(one, bus_bits=128)) == 16


def test_bit_planes_have_one_decoder() -> None:
    one = having("vtaq-1x16x16", Capability.WEIGHT_CODE)
    four, plain = (having("vtaq-1x16x16", *own, loads=4) for own in ([Capability.WEIGHT_CODE], []))
    assert moving_tables(one) == pytest.approx(769 + 2 * 8 + 216 + 2 * 24)
    more = moving_tables(four) - moving_tables(plain) - moving_tables(one)
    assert more == pytest.approx(3 * (216 + 2 * 24))
    assert moving_bits(four) - moving_bits(plain) == pytest.approx(250 + 4 * 131)


def test_stores_to_inp_have_as_much_of_it_once_more() -> None:
    config = having("vtaq-1x16x16", Capability.STORE_INP)
    assert second_inp_bytes(config) == (32 << 10) + 2048 * 4 // 8
    small = replace(config, log_inp_buff=config.log_inp_buff - 1)
    assert second_inp_bytes(config) == 2 * second_inp_bytes(small)
