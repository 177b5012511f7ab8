# SPDX-License-Identifier: Apache-2.0
"""cores.py: equal devices differ in their names, and say whose bus they share."""

from __future__ import annotations

from dataclasses import replace

import pytest

from loadstone.errors import ConfigError
from loadstone.vta.device.cores import cores_of
from loadstone.vta.device.hw_config import load_config

CONFIG = load_config("vtaq-1x16x16")


def test_devices_differ_in_their_names_alone() -> None:
    cores = cores_of(CONFIG, 3, bus="private")
    assert [core.name for core in cores] == ["vtaq-1x16x16", "vtaq-1x16x16.1", "vtaq-1x16x16.2"]
    assert {replace(core, name="same") for core in cores} == {replace(CONFIG, name="same")}
    assert cores_of(CONFIG, 1, bus="shared") == (CONFIG,)


def test_those_beside_the_first_say_whose_bus_they_share() -> None:
    first, *beside = cores_of(CONFIG, 3, bus="shared")
    assert (first.bus_of, [core.bus_of for core in beside]) == ("", ["vtaq-1x16x16"] * 2)
    assert load_config(beside[0].to_json()).bus_of == "vtaq-1x16x16"
    assert "bus_of" not in first.to_json()


def test_a_bus_is_named_as_a_device_is() -> None:
    with pytest.raises(ConfigError, match="a name is"):
        replace(CONFIG, bus_of="two words")
