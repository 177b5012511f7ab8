# SPDX-License-Identifier: Apache-2.0
"""Simulated devices: a second one has the memory of the first, and constants of its own."""

from __future__ import annotations

import dataclasses

import numpy as np
import pytest

from loadstone.backend.device import TimingConstant
from loadstone.errors import DeviceError
from loadstone.library.native import ffi, lib
from loadstone.runtime.accelerators import sim_memory
from loadstone.runtime.simulated import open_simulated, open_simulated_beside
from tests.further import FIRST, SECOND


@pytest.mark.parametrize("shadow", [False, True])
def test_memory_is_shared(shadow: bool) -> None:
    first = open_simulated(FIRST, 1 << 16, shadow=shadow, timing=True)
    second = open_simulated_beside(first, SECOND, timing=True)
    hal, buffer = lib().lds_hal_sim_hal(second), ffi.new("lds_dma_buffer *")
    assert hal.dma_alloc(hal.ctx, 64, 64, 3, buffer) == 0
    buffer.size_bytes = 64
    seen = np.frombuffer(ffi.buffer(buffer.cpu, 64), np.uint8)
    seen[:] = np.arange(64)
    assert (hal.dma_sync != ffi.NULL) == shadow
    if shadow:
        assert hal.dma_sync(hal.ctx, buffer, 0, 64, 1) == 0
    window = sim_memory(first)
    at = int(buffer.bus) - window.bus
    np.testing.assert_array_equal(window.data[at : at + 64], np.arange(64))
    hal.dma_free(hal.ctx, buffer)


def test_an_unknown_constant_is_told() -> None:
    strange = dataclasses.replace(SECOND, timing={"no_such_constant": TimingConstant(1, "here")})
    first = open_simulated(FIRST, 1 << 16, shadow=False, timing=False)
    with pytest.raises(DeviceError, match="vtaq-1x8x8: .*no_such_constant"):
        open_simulated_beside(first, strange, timing=False)
