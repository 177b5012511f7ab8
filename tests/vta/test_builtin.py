# SPDX-License-Identifier: Apache-2.0
"""vta/builtin.py: the family knows its own devices, what a target may say of them, and their back
end."""

from __future__ import annotations

import pytest

from loadstone.backend import builtin
from loadstone.backend.device import NO_DEVICE
from loadstone.vta.builtin import FAMILY
from loadstone.vta.device.hw_config import TARGET_FIELDS, load_config


def test_it_is_the_family_that_targets_and_artifacts_ask() -> None:
    assert builtin._family() is FAMILY
    assert tuple(builtin.device_names()) == tuple(FAMILY.device_names())
    assert builtin.load_config("vta-pynq") == load_config("vta-pynq")


def test_only_its_own_devices_are_its() -> None:
    for name in FAMILY.device_names():
        assert FAMILY.is_device(FAMILY.load_config(name))
    mine = {**load_config("vtaq-tiny").to_json(), "name": "mine"}
    assert FAMILY.is_device(FAMILY.load_config(mine))
    for other in (NO_DEVICE, "vtaq-tiny", mine, None):
        assert not FAMILY.is_device(other)


def test_attributes_have_the_values_of_the_device() -> None:
    device = load_config("vta-de10nano")
    assert {a.name: a.default for a in FAMILY.attributes(device)} == {
        **{name: getattr(device, name) for name in TARGET_FIELDS},
        "count": 1,
        "bus": "private",
    }


def test_values_of_a_target_make_another_device_and_leave_this_one() -> None:
    pytest.importorskip("tvm", reason="TVM is not installed (the extra `compiler`)")
    device = load_config("vtaq-tiny")
    backend = FAMILY.backend(device, {"bus_bits": 128}, False)
    assert (backend.name, backend.device.bus_bits, device.bus_bits) == ("vta", 128, 32)
    assert FAMILY.backend(device, {}, True).name == "vtaq-tiny"
