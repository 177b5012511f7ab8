# SPDX-License-Identifier: Apache-2.0
"""The simulator as a process of its own: registers over a socket, DMA in a shared memory file.

In:   a device (its register page, its interrupt) and the file that is its memory.
Out:  SimulatedDevice and SharedMemory; and the protocol, which server.py speaks.
Next: the clients: driver/hal_simd.c, which runtime/device.py opens as "simd:SOCKET", and
      tests/board/qemu_plugin, an emulated SoC.

The protocol, version 1. A Unix socket of type SOCK_SEQPACKET; one packet is one message; all
integers are little-endian u32.

    to the server      kind  sequence  offset   value
    from the server    kind  sequence  value    interrupt level (0 or 1)

    kind 0 HELLO   first; offset = the client's protocol version. The answer's value is the
                   server's, and it has 24 bytes more:
                   u32 bytes of the register page, u32 0, u64 bus address and u64 bytes of the
                   memory. The memory file's descriptor comes with it (SCM_RIGHTS), for clients that
                   have no other way to the memory. It is sealed against shrinking, and a client
                   that maps it looks (F_GET_SEALS); that of a FILE is not, and is for who trusts
                   the server.
                   An answer of value 0, without the rest: another client has the device.
    kind 1 READ    one register; the answer's value is the register's.
    kind 2 WRITE   one register; the answer's value is 0.
    kind 3 IRQ     from the server only, unasked: the interrupt line has changed. sequence and value
                            are 0.

A client counts `sequence` up with each request, and the answer repeats it. It waits for the answer
before the next request; packets of kind 3 that come first are older. So a write that clears an
interrupt has lowered the line before the client goes on.
A packet of another size or kind, or another before HELLO, ends the connection.

Who said HELLO first has the device until it hangs up; the next waits, and is told after
BUSY_SECONDS that it is in use. A client that has been silent for SILENT_SECONDS, and for which no
job runs, gives way: its connection ends, and the next begins with fresh memory, so that whatever
the old one still writes reaches nobody. (Not where the memory is a FILE: that belongs to a machine,
which may be silent. Nor where several devices have one memory: each has a socket of its own, and
they are one board's.)
"""

from __future__ import annotations

import contextlib
import fcntl
import mmap
import os
import re
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from typing import Protocol

from loadstone.errors import DeviceError
from loadstone.library.native import CData, ffi, lib
from loadstone.simulator.sim import ORDERS
from loadstone.vta.device.hw_config import HwConfig

__all__ = [
    "FAULTS",
    "HELLO",
    "IRQ",
    "PROTOCOL_VERSION",
    "READ",
    "WRITE",
    "Fault",
    "Served",
    "SharedMemory",
    "SimulatedDevice",
]

PROTOCOL_VERSION = 1
HELLO, READ, WRITE, IRQ = range(4)
_ADDRESSES = 1 << 64
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
    "absent": "from this job on every register reads ARG: nobody is there",
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


class Served(Protocol):
    """What server.py needs of a device: SimulatedDevice, or the RTL of rtl_simd.py."""

    page_bytes: int

    def use(self, memory: SharedMemory) -> bool:
        """Works on this memory from now on; False while a job runs."""

    def read32(self, offset: int) -> int:
        """One register."""

    def write32(self, offset: int, value: int) -> None:
        """One register."""

    def irq_level(self) -> int:
        """The interrupt line, 0 or 1."""

    def fileno(self) -> int:
        """A descriptor that is readable when the line has changed since irq_seen()."""

    def irq_seen(self) -> None:
        """Makes the descriptor unreadable until the next change."""


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
            status = lib().lds_simdev_fault(
                self._device, list(FAULTS).index(fault.kind) + 1, 0, fault.argument
            )
            assert not status, "Fault.parse and Fault.check let no other through"
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


class SharedMemory:
    """A file that the device and its host share, placed at a bus address."""

    def __init__(self, fd: int, bus_address: int, size_bytes: int, *, sealed: bool) -> None:
        """Takes over `fd`. sealed: nobody can make the file shorter."""
        self.fd, self.bus_address, self.size_bytes, self.sealed = (
            fd,
            bus_address,
            size_bytes,
            sealed,
        )
        try:
            self.map = mmap.mmap(fd, size_bytes)
        except (OSError, OverflowError, ValueError) as error:
            os.close(fd)
            raise DeviceError(
                f"{size_bytes} bytes of memory cannot be mapped: {_reason(error)}"
            ) from error

    @classmethod
    def of_file(cls, path: Path, bus_address: int) -> SharedMemory:
        """All of an existing file, such as the one QEMU's memory-backend-file uses. Whoever can
        write it could make it shorter."""
        fd = os.open(path, os.O_RDWR | os.O_CLOEXEC)
        size = os.fstat(fd).st_size
        try:
            if size == 0:
                raise DeviceError(
                    f"memory file {path} is empty: give it the size of the machine's memory "
                    f"first (truncate -s 256M {path})"
                )
            _check_range(bus_address, size)
        except DeviceError:
            os.close(fd)
            raise
        return cls(fd, bus_address, size, sealed=False)

    @classmethod
    def anonymous(cls, bus_address: int, size_bytes: int) -> SharedMemory:
        """Memory that only clients of the server can reach, and none can make shorter."""
        _check_range(bus_address, size_bytes)
        fd = os.memfd_create("loadstone-simd", os.MFD_CLOEXEC | os.MFD_ALLOW_SEALING)
        try:
            os.ftruncate(fd, size_bytes)
            fcntl.fcntl(
                fd, fcntl.F_ADD_SEALS, fcntl.F_SEAL_SHRINK | fcntl.F_SEAL_GROW | fcntl.F_SEAL_SEAL
            )
        except (OSError, OverflowError) as error:
            os.close(fd)
            raise DeviceError(
                f"{size_bytes} bytes of memory cannot be had: {_reason(error)}"
            ) from error
        return cls(fd, bus_address, size_bytes, sealed=True)

    def fresh(self) -> SharedMemory:
        """Another of the same size at the same place, all zeros, that no client has."""
        return SharedMemory.anonymous(self.bus_address, self.size_bytes)

    def close(self) -> None:
        """Gives it back; clients keep what they have mapped."""
        self.map.close()
        os.close(self.fd)


def _check_range(bus_address: int, size_bytes: int) -> None:
    if size_bytes < 1:
        raise DeviceError(f"{size_bytes} bytes of memory are none: give the device 1 at least")
    if bus_address + size_bytes > _ADDRESSES:
        raise DeviceError(
            f"{size_bytes} bytes of memory at bus address {bus_address:#x} end beyond 64 "
            "bits: choose a lower one"
        )


def _reason(error: Exception) -> str:
    return (error.strerror if isinstance(error, OSError) else None) or str(error)
