# SPDX-License-Identifier: Apache-2.0
"""Simulated VTAs in this process.

In:   a device; DMA memory's size, or another simulated VTA whose memory it shares.
Out:  lds_hal_sim *, with the device's own timing constants.
Next: device.py opens one, accelerators.py further ones beside it.

Each has a thread, until it is closed; its memory remains while arrays refer to it. Devices that
were not closed are stopped before the process ends. A forked process has their memory but not their
threads, and leaves it to the parent to free them.
"""

from __future__ import annotations

import atexit
import os

from loadstone.backend.device import Device
from loadstone.errors import DeviceError
from loadstone.library.native import CData, ffi, lib

__all__ = ["open_simulated", "open_simulated_beside", "quit_simulated", "share_bus"]

#: Those that are there, by address, with the address of what each stands beside (else its own): not
#: owned, so that each goes with its last user.
_there: dict[int, tuple[CData, int]] = {}
os.register_at_fork(after_in_child=_there.clear)


def open_simulated(device: Device, pool_bytes: int, *, shadow: bool, timing: bool) -> CData:
    """With memory of its own. shadow: CPU and device have copies. Raises DeviceError."""
    flags = lib().LDS_HAL_SIM_SHADOW if shadow else 0
    sim = lib().lds_hal_sim_create(*_described(device), pool_bytes, flags)
    return _timed(sim, None, device, timing)


def open_simulated_beside(first: CData, device: Device, *, timing: bool) -> CData:
    """With the memory of the first; goes before that. Raises DeviceError."""
    sim = lib().lds_hal_sim_create_beside(first, *_described(device))
    return _timed(sim, first, device, timing)


def share_bus(beside: CData, first: CData) -> None:
    """Puts a simulated device on the bus of another one, before it works. Raises DeviceError."""
    devices = [lib().lds_hal_sim_device(sim) for sim in (beside, first)]
    if lib().lds_simdev_share_bus(*devices):
        raise DeviceError("a simulated device cannot share a bus: out of memory")


def quit_simulated(sim: CData) -> None:
    """Ends what a device and those beside it do, and their threads. Memory stays while anything
    refers to it."""
    which = _address(sim)
    for there, beside in list(_there.values()):
        if which in (beside, _address(there)):
            lib().lds_hal_sim_quit(there)


@atexit.register
def _quit_all() -> None:
    for there, _ in list(_there.values()):
        lib().lds_hal_sim_quit(there)
    _there.clear()  # the process ends, and takes their memory


def _destroy(sim: CData) -> None:
    if _there and _there.pop(_address(sim), None) is not None:
        lib().lds_hal_sim_destroy(sim)


def _address(sim: CData) -> int:
    return int(ffi.cast("uintptr_t", sim))


def _described(device: Device) -> tuple[CData, int, int]:
    buffer = ffi.from_buffer(device.fingerprint())
    config = ffi.new("lds_hw_config *", ffi.cast("lds_hw_config *", buffer)[0])
    return config, device.bus_bits, device.register_block.page


def _timed(sim: CData, first: CData | None, device: Device, timing: bool) -> CData:
    if sim == ffi.NULL:
        raise DeviceError(f"device {device.name} cannot be simulated: out of memory")
    _there[_address(sim)] = sim, _address(sim if first is None else first)
    owned = ffi.gc(sim, _destroy)
    core = lib().lds_simdev_sim(lib().lds_hal_sim_device(sim))
    for name, constant in device.timing.items():
        if lib().lds_sim_set_timing(core, name.encode(), constant.value):
            raise DeviceError(
                f"device {device.name}: {ffi.string(lib().lds_sim_message(core)).decode()}"
            )
    lib().lds_sim_set_option(core, lib().LDS_SIM_TIMING, int(timing))
    return owned
