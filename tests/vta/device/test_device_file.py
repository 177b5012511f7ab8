# SPDX-License-Identifier: Apache-2.0
"""vta/device/device_file.py: the keys of a device's file, of VTA's own and of older ones."""

from __future__ import annotations

import pytest

from loadstone.errors import ConfigError
from loadstone.files import JsonObject
from loadstone.vta.device.device_file import (
    LOG_SIZES,
    LOG_WIDTHS,
    capabilities,
    complete,
    device_names,
    integer,
    read_builtin,
)
from loadstone.vta.isa.spec import Capability

SIZES: JsonObject = {**LOG_WIDTHS, **dict.fromkeys(LOG_SIZES, 4)}


def test_built_in_files_are_complete() -> None:
    for name in device_names():
        data = read_builtin(name)
        assert complete(data, name) == data
        assert {*LOG_WIDTHS, *LOG_SIZES} <= set(data)


def test_a_bare_file_of_vta_takes_the_rest_from_its_board() -> None:
    board = read_builtin("vta-ultra96")
    made = complete({**SIZES, "TARGET": "ultra96"}, "mine")
    assert made["clock_mhz"] == board["clock_mhz"]
    assert made["timing"] == board["timing"]
    assert made["LOG_BLOCK"] == 4
    assert made["uop_depth"] == 1 << 2  # what LOG_UOP_BUFF_SIZE has room for
    assert "description" not in made
    assert complete({**SIZES, "TARGET": "sim", "clock_mhz": 7}, "mine")["clock_mhz"] == 7


def test_older_files_give_two_sides() -> None:
    old = {key: value for key, value in SIZES.items() if key != "LOG_BLOCK"}
    assert complete({**old, "LOG_BLOCK_IN": 3, "LOG_BLOCK_OUT": 3}, "old")["LOG_BLOCK"] == 3
    with pytest.raises(ConfigError, match="only square weight tiles are supported"):
        complete({**old, "LOG_BLOCK_IN": 3, "LOG_BLOCK_OUT": 4}, "old")


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"colour": "red"}, "unknown key 'colour'; known are LOG_INP_WIDTH"),
        ({"LOG_INP_WIDTH": 4}, "LOG_INP_WIDTH=4 is not 3: only int8 inputs"),
        ({"LOG_ACC_WIDTH": "five"}, "LOG_ACC_WIDTH='five' is not an integer"),
    ],
)
def test_what_is_not_supported_is_named(changes: JsonObject, message: str) -> None:
    with pytest.raises(ConfigError) as caught:
        complete({**SIZES, **changes}, "mine")
    assert str(caught.value).startswith(f"device mine: {message}")
    assert complete({**SIZES, "FORKS_OWN_KEY": 1}, "mine")["FORKS_OWN_KEY"] == 1


def test_numbers_may_be_text() -> None:
    assert integer({"a": "0x10"}, "a", "mine") == 16
    assert integer({}, "a", "mine", 3) == 3
    for value in (True, 1.5, [], "ten"):
        with pytest.raises(ConfigError, match="is not an integer"):
            integer({"a": value}, "a", "mine")
    with pytest.raises(ConfigError, match="key a is missing"):
        integer({}, "a", "mine")


def test_capabilities_are_names() -> None:
    assert capabilities(["alu_mul", "config"], "d") == Capability.ALU_MUL | Capability.CONFIG
    assert capabilities([], "d") == Capability(0)
    for wrong in ("alu_mul", "ALU_MUL", 3):
        names = [wrong, "no_such"]
        with pytest.raises(ConfigError, match="is not one of alu_mul, load_acc8"):
            capabilities(names, "d")


@pytest.mark.parametrize("page", ["vta-hls", "vta-chisel"])
def test_regions_have_their_addresses_in_the_native_page(page: str) -> None:
    """A program of such a device was compiled, and then refused as one of another device."""
    first = read_builtin("vtaq-1x16x16")
    with pytest.raises(ConfigError, match=f"regions needs registers=native, not {page}, which"):
        complete({**first, "registers": page}, "mine")
    less: JsonObject = {**first, "registers": page, "capabilities": ["config"]}
    assert complete(less, "mine") == less
