# SPDX-License-Identifier: Apache-2.0
"""The parameters of a device for its hardware: what they are, and what the RTL cannot be."""

from __future__ import annotations

import re
from dataclasses import replace

import pytest

from loadstone.errors import ConfigError
from loadstone.vta.device.hw_config import load_config
from loadstone.vta.device.rtl_package import config_package

TINY = load_config("vtaq-tiny")


def parameters(text: str) -> dict[str, int]:
    found = re.findall(r"localparam int (\w+) = (\d+);", text)
    return {name: int(value) for name, value in found}


def test_sizes_and_choices_are_the_devices() -> None:
    text = config_package(TINY)
    values = parameters(text)
    assert {name: values[name] for name in ("LU", "LI", "LW", "LA")} == {
        name.upper(): width for name, width in TINY.widths.items()
    }
    assert (values["LOG_BLOCK"], values["BUS_BITS"]) == (2, 32)
    assert values["CAPABILITIES"] == int(TINY.capabilities)
    assert values["FETCH_BATCH"] == TINY.timing["fetch_batch_instructions"].value
    assert f"CONFIG_HASH = 32'h{TINY.config_hash:08X}" in text
    assert values["PRODUCTS_PER_MULTIPLIER"] == 1
    shared = parameters(config_package(replace(TINY, products_per_multiplier=2)))
    assert shared["PRODUCTS_PER_MULTIPLIER"] == 2
    pynq = load_config("vta-pynq")
    assert parameters(config_package(pynq))["ALU_TENSOR_STEP_CYCLES"] == 2


def test_what_the_rtl_cannot_be_is_refused() -> None:
    with pytest.raises(ConfigError, match="bus of 64 bits is wider than an INP tile of 32"):
        config_package(replace(TINY, bus_bits=64))
    for name, value, words in (
        ("stage_queue_entries", 500, "must be a power of two"),
        ("alu_tensor_step_cycles", 3, "must be 1"),
    ):
        timing = {**TINY.timing, name: replace(TINY.timing[name], value=value)}
        with pytest.raises(ConfigError, match=words):
            config_package(replace(TINY, timing=timing))
