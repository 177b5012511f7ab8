# SPDX-License-Identifier: Apache-2.0
"""backend/builtin.py: a built-in device is found by its name, or by an artifact's fingerprint."""

from __future__ import annotations

from dataclasses import replace

import pytest

from loadstone.backend.builtin import (
    attributes_of_device,
    backend_for,
    device_names,
    device_of,
    is_builtin,
    load_config,
)
from loadstone.backend.device import NO_DEVICE
from loadstone.errors import ConfigError


@pytest.mark.parametrize("name", device_names())
def test_a_device_is_found_by_its_fingerprint(name: str) -> None:
    device = load_config(name)
    assert is_builtin(device)
    assert device_of(name, device.fingerprint()) == device
    found = device_of("another name", device.fingerprint())
    assert found is not None
    assert found.fingerprint() == device.fingerprint()


def test_what_nobody_has_is_none_and_no_device_is_itself() -> None:
    unknown = replace(load_config("vtaq-tiny"), log_acc_buff=15).fingerprint()
    assert device_of("vtaq-tiny", unknown) is None
    assert device_of(NO_DEVICE.name, NO_DEVICE.fingerprint()) is NO_DEVICE


def test_a_target_may_change_what_no_instruction_shows() -> None:
    pytest.importorskip("tvm", reason="TVM is not installed (the extra `compiler`)")
    device = load_config("vtaq-tiny")
    attributes = attributes_of_device(device)
    assert {(a.name, a.default) for a in attributes} == {
        ("clock_mhz", 100),
        ("bus_bits", 32),
        ("count", 1),
        ("bus", "private"),
    }
    backend = backend_for(device, {"clock_mhz": 50})
    assert backend.name == "vta"
    with pytest.raises(ConfigError, match="clock_mhz"):
        backend_for(device, {"clock_mhz": 0})
