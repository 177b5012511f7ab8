# SPDX-License-Identifier: Apache-2.0
"""device_limits.py: what a device of bfloat16 cannot be (sizes: test_hw_config.py)."""

from __future__ import annotations

from typing import Any

import pytest

from loadstone.errors import ConfigError
from loadstone.vta.device.hw_config import config_of, load_config

FLOAT = load_config("vtab-1x16x16").to_json()


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
