# SPDX-License-Identifier: Apache-2.0
"""Simulated VTAs in this process.

In:   a device; DMA memory's size, or another simulated VTA whose memory it shares.
Out:  lds_hal_sim *, with the device's own constants of time.
Next: device.py opens one, accelerators.py further ones beside it.
"""

from __future__ import annotations

from loadstone.backend.device import Device
from loadstone.errors import DeviceError
from loadstone.runtime.native import CData, ffi, lib, owned

__all__ = ["open_simulated", "open_simulated_beside"]


def open_simulated(device: Device, pool_bytes: int, *, shadow: bool, timing: bool) -> CData:
    """With memory of its own. shadow: CPU and device have copies. Raises DeviceError."""
    flags = lib().LDS_HAL_SIM_SHADOW if shadow else 0
    sim = lib().lds_hal_sim_create(*_described(device), pool_bytes, flags)
    return _timed(sim, device, timing)


def open_simulated_beside(first: CData, device: Device, *, timing: bool) -> CData:
    """With the memory of the first; goes before that. Raises DeviceError."""
    return _timed(lib().lds_hal_sim_create_beside(first, *_described(device)), device, timing)


def _described(device: Device) -> tuple[CData, int, int]:
    buffer = ffi.from_buffer(device.fingerprint())
    config = ffi.new("lds_hw_config *", ffi.cast("lds_hw_config *", buffer)[0])
    return config, device.bus_bits, device.register_block.page


def _timed(sim: CData, device: Device, timing: bool) -> CData:
    if sim == ffi.NULL:
        raise DeviceError(f"device {device.name} cannot be simulated: out of memory")
    simulated = owned(sim, lib().lds_hal_sim_destroy)
    core = lib().lds_simdev_sim(lib().lds_hal_sim_device(sim))
    for name, constant in device.timing.items():
        if lib().lds_sim_set_timing(core, name.encode(), constant.value):
            raise DeviceError(
                f"device {device.name}: {ffi.string(lib().lds_sim_message(core)).decode()}"
            )
    lib().lds_sim_set_option(core, lib().LDS_SIM_TIMING, int(timing))
    return simulated
