# SPDX-License-Identifier: Apache-2.0
"""runtime/handle.py: what a device that stands alone says of others."""

from __future__ import annotations

from loadstone.runtime import device
from tests.sample_model import copy_model


def test_a_device_of_this_process_has_no_other_at_a_socket() -> None:
    with device.open("null") as opened, opened.load(copy_model()):
        handle = opened.handle()
        assert handle.sim is None
        assert handle.connect("vtaq-1x8x8") is None
