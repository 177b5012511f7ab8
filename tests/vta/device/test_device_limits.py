# SPDX-License-Identifier: Apache-2.0
"""device_limits.py: each number at its limits and beyond, and what a device of bfloat16 cannot
be."""

from __future__ import annotations

from typing import Any

import pytest

from loadstone.errors import ConfigError
from loadstone.vta.device.device_limits import DeviceNumbers, check_capabilities, check_numbers
from loadstone.vta.device.hw_config import config_of, load_config
from loadstone.vta.isa.spec import Capability

FLOAT = load_config("vtab-1x16x16").to_json()
#: Numbers of vtaq-1x16x16, but for its scratchpads: small, so that each may be as large as it can.
NUMBERS = DeviceNumbers(3, 0, 4, 13, 1, 1, 1, 8192, 100, 64, 0, 0, 1)
ADDRESS = (1 << 64) - 1


@pytest.mark.parametrize(
    ("name", "low", "high"),
    [
        ("log_width", 3, 4),
        ("log_batch", 0, 6),
        ("log_block", 1, 7),
        ("li", 1, 15),
        ("lw", 1, 15),
        ("la", 1, 11),
        ("uop_depth", 1, 8192),
        ("clock_mhz", 1, 10_000),
        ("register_base", 0, ADDRESS),
        ("bus_offset", 0, ADDRESS),
        ("products_per_multiplier", 1, 2),
    ],
)
def test_each_number_has_its_limits(name: str, low: int, high: int) -> None:
    for value in (low, high):
        check_numbers("mine", NUMBERS._replace(**{name: value}))
    for value in (low - 1, high + 1):
        with pytest.raises(ConfigError, match=rf"device mine: \S+={value} is outside \[{low}, "):
            check_numbers("mine", NUMBERS._replace(**{name: value}))


@pytest.mark.parametrize(
    ("numbers", "why"),
    [
        ({"log_width": 4}, "is of integers"),
        ({"log_block": 1}, "needs blocks of 4 lanes or more"),
        ({"li": 1}, "reads 4 banks of INP, which has 2 tiles"),
        ({"products_per_multiplier": 2}, "needs products_per_multiplier=1, not 2"),
    ],
)
def test_windows_have_their_limits(numbers: dict[str, int], why: str) -> None:
    fine = NUMBERS._replace(log_block=2, li=2)
    check_capabilities("mine", fine, Capability.DEPTHWISE)
    bad = fine._replace(**numbers)
    check_capabilities("mine", bad, Capability.CONFIG)
    with pytest.raises(ConfigError, match=f"device mine: capability depthwise {why}"):
        check_capabilities("mine", bad, Capability.DEPTHWISE)


@pytest.mark.parametrize(
    ("fine", "bad", "why"),
    [
        ({}, {"log_width": 4}, "is of integers"),
        (
            {"log_block": 2},
            {"log_block": 1, "bus_bits": 32},
            "needs blocks of 4 to 32 lanes, not 2",
        ),
        ({"log_block": 5}, {"log_block": 6}, "needs blocks of 4 to 32 lanes, not 64"),
        ({"bus_bits": 256}, {"bus_bits": 512}, "needs a bus of 256 bits or less, not 512"),
    ],
)
def test_weights_of_4_bits_have_their_limits(
    fine: dict[str, int], bad: dict[str, int], why: str
) -> None:
    check_capabilities("mine", NUMBERS._replace(**fine), Capability.WEIGHTS4)
    check_capabilities("mine", NUMBERS._replace(**bad), Capability.CONFIG)
    with pytest.raises(ConfigError, match=f"device mine: capability weights4 {why}"):
        check_capabilities("mine", NUMBERS._replace(**bad), Capability.WEIGHTS4)


def test_numbers_that_limit_each_other() -> None:
    check_numbers("mine", NUMBERS._replace(lu=1, uop_depth=2))
    with pytest.raises(ConfigError, match=r"uop_depth=3 is outside \[1, 2\]"):
        check_numbers("mine", NUMBERS._replace(lu=1, uop_depth=3))
    for lu in (-1, 0, 14, 1 << 63):
        with pytest.raises(ConfigError, match=rf"lu=LOG_UOP_BUFF_SIZE-2={lu} is outside \[1, 13\]"):
            check_numbers("mine", NUMBERS._replace(lu=lu))
    check_numbers("mine", NUMBERS._replace(la=11, li=11, lw=10))
    with pytest.raises(ConfigError, match=r"la\+li\+lw=33 is outside"):
        check_numbers("mine", NUMBERS._replace(la=11, li=11, lw=11))
    with pytest.raises(ConfigError, match=r"la\+max\(la,li\)\+lw=33 is outside"):
        check_numbers("mine", NUMBERS._replace(la=11, li=10, lw=11))
    for bits in (32, 512):
        check_numbers("mine", NUMBERS._replace(bus_bits=bits))
    for bits in (0, 16, 33, 1024):
        with pytest.raises(ConfigError, match=f"bus_bits={bits} is not one of 32, 64,"):
            check_numbers("mine", NUMBERS._replace(bus_bits=bits))


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"LOG_INP_WIDTH": 3}, "LOG_INP_WIDTH=3 is not 4: only int8 inputs and weights"),
        ({"LOG_WGT_WIDTH": 5}, "LOG_WGT_WIDTH=5 is not 4"),
        ({"LOG_ACC_WIDTH": 4}, "LOG_ACC_WIDTH=4 is not 5"),
        ({"profile": "vtaq"}, "LOG_INP_WIDTH=4 is not 3"),
        (
            {"capabilities": ["config", "requantize"]},
            "capability requantize is of integers, and the device computes on bfloat16",
        ),
        ({"LOG_INP_BUFF_SIZE": 5}, "li=LOG_INP_BUFF_SIZE-LOG_BATCH-LOG_BLOCK=0 is outside"),
    ],
)
def test_what_a_device_of_bfloat16_cannot_be(change: dict[str, Any], message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        load_config({**FLOAT, **change})


def test_a_device_of_bfloat16_is_known_by_its_fingerprint() -> None:
    config = load_config("vtab-1x8x8")
    assert config.is_float
    assert config.fingerprint()[1:4] == bytes((4, 4, 5))
    assert config_of(config.fingerprint()) == config
    unnamed = load_config({**config.to_json(), "name": "mine", "LOG_ACC_BUFF_SIZE": 14})
    found = config_of(unnamed.fingerprint())
    assert (found.profile, found.is_float) == ("vtab", True)
    assert load_config(FLOAT) == load_config("vtab-1x16x16")


def test_whole_accumulators_are_stored_on_devices_of_integers() -> None:
    floats = {**FLOAT, "capabilities": ["regions", "store_acc"]}
    with pytest.raises(ConfigError, match="capability store_acc is of integers"):
        load_config(floats)


def test_stores_reach_inp_on_devices_of_integers_with_regions() -> None:
    second = load_config("vtaq2-1x16x16").to_json()
    capabilities = {*second["capabilities"], "store_inp"}
    assert load_config({**second, "capabilities": [*capabilities]}).has(Capability.STORE_INP)
    with pytest.raises(ConfigError, match="capability store_inp needs capability regions"):
        load_config({**second, "capabilities": [*capabilities - {"regions"}]})
    floats = {**FLOAT, "capabilities": ["regions", "store_inp"]}
    with pytest.raises(ConfigError, match="capability store_inp is of integers"):
        load_config(floats)


@pytest.mark.parametrize(
    ("bad", "why"),
    [
        ({"log_width": 4}, "is of integers"),
        ({"log_block": 3}, "needs blocks of 16 lanes or more, not 8"),
        ({"bus_bits": 128}, "needs a bus of 64 bits, not 128"),
        ({"bus_bits": 32}, "needs a bus of 64 bits, not 32"),
    ],
)
def test_bit_planes_have_their_limits(bad: dict[str, int], why: str) -> None:
    fine = NUMBERS._replace(bus_bits=64)
    check_capabilities("mine", fine, Capability.WEIGHT_CODE)
    check_capabilities("mine", fine._replace(log_block=5), Capability.WEIGHT_CODE)
    with pytest.raises(ConfigError, match=f"device mine: capability weight_code {why}"):
        check_capabilities("mine", fine._replace(**bad), Capability.WEIGHT_CODE)
