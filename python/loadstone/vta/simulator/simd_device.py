# SPDX-License-Identifier: Apache-2.0
"""A simulated VTA behind a socket: its register page, its interrupt, and injected faults.

In:   a HwConfig and a SharedMemory; the faults to inject into jobs.
Out:  SimulatedDevice, which simulator/server.py serves.
Next: `loadstone simd`; hw_sim/include/lds_simdev.h implements it.
"""

from __future__ import annotations

import contextlib
import os
import re
from dataclasses import dataclass
from itertools import pairwise

from loadstone.errors import DeviceError
from loadstone.library.native import CData, ffi, lib, raise_for
from loadstone.simulator.simd import SharedMemory
from loadstone.vta.device.hw_config import HwConfig
from loadstone.vta.simulator.sim import ORDERS

__all__ = ["FAULTS", "Fault", "SimulatedDevice"]

#: Bytes of the register page, by kind; the order is that of LDS_SIMDEV_* in lds_simdev.h.
_PAGE_BYTES = {"native": 0x1000, "vta-chisel": 0x1000, "vta-hls": 0x4000}

#: Faults that can be ordered for a job, and what their argument is.
FAULTS = {
    "hang": "stays RUNNING at instruction ARG until ABORT",
    "hang-reset": "stays RUNNING at instruction ARG until SOFT_RESET",
    "hang-hw-reset": "stays RUNNING at instruction ARG until the board resets it",
    "dead": "stays RUNNING at instruction ARG for ever",
    "lost-irq": "ends as it should, but the interrupt line stays low",
    "bus-error": "the bus answers with an error at instruction ARG",
    "bit-flip": "before the job, bit ARG of the memory changes (bit 0 of bus address 0 is "
    "the first)",
    "done-lingers": "the HLS page says DONE of the job before for ARG more reads",
    "absent": "from this job on every register reads ARG, as on an empty bus",
    "lies": "until the next job the register that says DONE reads ARG",
}


@dataclass(frozen=True, order=True)
class Fault:
    """One fault, of job `job` since the start (the first is 0)."""

    job: int
    kind: str
    argument: int = 0

    @classmethod
    def parse(cls, text: str) -> Fault:
        """Reads KIND@JOB or KIND@JOB:ARG; numbers may be hexadecimal."""
        number = "(0[xX][0-9a-fA-F]{1,16}|[0-9]{1,20})"
        match = re.fullmatch(f"([a-z-]+)@{number}(?::{number})?", text)
        if match is None or match[1] not in FAULTS:
            raise DeviceError(
                f"fault {text[:60]!r} is not KIND@JOB or KIND@JOB:ARG with KIND one of "
                f"{', '.join(FAULTS)}"
            )
        fault = cls(int(match[2], 0), match[1], int(match[3] or "0", 0))
        if fault.job >= 1 << 32:
            raise DeviceError(f"fault {text!r}: job {fault.job} is not below 2^32")
        if fault.kind != "bit-flip" and fault.argument >= 1 << 32:
            raise DeviceError(f"fault {text!r}: argument {fault.argument} is not below 2^32")
        return fault

    def check(self, memory: SharedMemory) -> None:
        """Raises DeviceError for a bit that the memory does not have."""
        first, end = memory.bus_address, memory.bus_address + memory.size_bytes
        if self.kind == "bit-flip" and not first <= self.argument // 8 < end:
            raise DeviceError(
                f"fault bit-flip@{self.job}:{self.argument:#x}: the bit is not in the "
                f"memory, bytes {first:#x} to {end:#x} "
                f"(bits {8 * first:#x} to {8 * end:#x})"
            )


class SimulatedDevice:
    """A simulated device on a shared memory: its register page, its interrupt, and the faults
    ordered of it."""

    def __init__(
        self,
        config: HwConfig,
        memory: SharedMemory,
        *,
        registers: str | None = None,
        faults: tuple[Fault, ...] = (),
        order: str = "program",
    ) -> None:
        """registers: "native", "vta-chisel" or "vta-hls"; by default what the configuration
        says. order: one of sim.py's ORDERS."""
        registers = registers or config.registers
        self.page_bytes = _PAGE_BYTES[registers]
        self._faults = sorted(faults)
        for fault in faults:
            fault.check(memory)
        for one, other in pairwise(self._faults):
            if one.job == other.job:
                raise DeviceError(
                    f"faults {one.kind} and {other.kind} are both of job {one.job}: a job "
                    "has one fault at most"
                )
        fingerprint = ffi.from_buffer(config.fingerprint())
        page = list(_PAGE_BYTES).index(registers)
        self._device = lib().lds_simdev_create(
            ffi.cast("lds_hw_config *", fingerprint), config.bus_bits, page
        )
        if self._device == ffi.NULL:
            raise DeviceError(f"device {config.name} cannot be simulated: out of memory")
        simulator = lib().lds_simdev_sim(self._device)
        for name, constant in config.timing.items():
            lib().lds_sim_set_timing(simulator, name.encode(), constant.value)
        lib().lds_sim_set_option(simulator, lib().LDS_SIM_ORDER, ORDERS.index(order))
        self._memory: CData = None
        self.use(memory)
        self._changed = os.eventfd(0, os.EFD_NONBLOCK | os.EFD_CLOEXEC)
        self._notify: CData = ffi.callback(
            "void(void *, int)", lambda _ctx, _level: os.eventfd_write(self._changed, 1)
        )
        lib().lds_simdev_on_irq(self._device, self._notify, ffi.NULL)

    def share_bus(self, other: SimulatedDevice) -> None:
        """Its reads and writes go by the bus of the other from now on. Raises DeviceError."""
        if lib().lds_simdev_share_bus(self._device, other._device):
            raise DeviceError("a simulated device cannot share a bus: out of memory")

    def use(self, memory: SharedMemory) -> bool:
        """Works on this memory from now on; False, and nothing has changed, while a job runs."""
        buffer = ffi.from_buffer(memory.map, require_writable=True)
        flags = 0 if memory.sealed else lib().LDS_SIM_GUARDED
        status = lib().lds_simdev_remap(
            self._device, memory.bus_address, buffer, memory.size_bytes, flags
        )
        if status == lib().LDS_SIM_BUSY:
            ffi.release(buffer)
            return False
        if status:
            raise DeviceError(
                f"{memory.size_bytes} bytes of memory at bus address {memory.bus_address:#x} "
                "cannot be mapped"
            )
        if self._memory is not None:
            ffi.release(self._memory)
        self._memory = buffer
        return True

    def read32(self, offset: int) -> int:
        """One register."""
        return int(lib().lds_simdev_read32(self._device, offset))

    def write32(self, offset: int, value: int) -> None:
        """One register. A job that it starts runs in a thread of its own."""
        if self._faults and self._faults[0].job == self.jobs():
            fault = self._faults.pop(0)
            number = list(FAULTS).index(fault.kind) + 1
            status = lib().lds_simdev_fault(self._device, number, 0, fault.argument)
            raise_for(status, fault.kind)  # Fault.parse and Fault.check let no other through
        lib().lds_simdev_write32(self._device, offset, value)

    def jobs(self) -> int:
        """Jobs that have ended."""
        return int(lib().lds_simdev_result(self._device, ffi.new("lds_sim_result *")))

    def irq_level(self) -> int:
        """The interrupt line, 0 or 1."""
        return int(lib().lds_simdev_irq(self._device))

    def fileno(self) -> int:
        """A descriptor that is readable when the line has changed since irq_seen()."""
        return self._changed

    def irq_seen(self) -> None:
        """Makes the descriptor unreadable until the next change."""
        with contextlib.suppress(BlockingIOError):
            os.eventfd_read(self._changed)

    def close(self) -> None:
        """Ends the device; a job that runs is aborted."""
        lib().lds_simdev_destroy(self._device)
        self._device = ffi.NULL
        if self._memory is not None:
            ffi.release(self._memory)
        os.close(self._changed)
