# SPDX-License-Identifier: Apache-2.0
"""The simulator as a process of its own: registers over a socket, DMA in a shared memory file.

In:   the file that is the device's memory.
Out:  Served, the interface of a served device; SharedMemory; and the protocol, which server.py
      implements.
Next: the clients: driver/hal_simd.c, which runtime/device.py opens as "simd:SOCKET", and
      tests/board/qemu_plugin, an emulated SoC.

The protocol, version 2. A Unix socket of type SOCK_SEQPACKET; one packet is one message; all
integers are little-endian u32.

    to the server      kind  sequence  offset   value
    from the server    kind  sequence  value    interrupt level (0 or 1)

    kind 0 HELLO   first; offset = the client's protocol version. The answer's value is the
                   server's, and it has 24 bytes more:
                   u32 bytes of the register page, u32 1 where other devices share the memory,
                   else 0, u64 bus address and u64 bytes of the
                   memory. The memory file's descriptor comes with it (SCM_RIGHTS), for clients that
                   have no other way to the memory. It is sealed against shrinking, and a client
                   that maps it looks (F_GET_SEALS); that of a FILE is not, and is for who trusts
                   the server.
                   An answer of value 0, without the rest: another client has the device.
    kind 1 READ    one register; the answer's value is the register's.
    kind 2 WRITE   one register; the answer's value is 0.
    kind 3 IRQ     from the server only, unasked: the interrupt line has changed. sequence and value
                            are 0.
    kind 4 POST    one register, as kind 2, and without an answer: for a client to which the line is
                   low, so that no write of its can mean to lower it. It goes on at once, which
                   makes of the writes that start a program one way instead of forty. Not where
                   other devices share the memory: nothing orders the requests of two sockets, and
                   what is started before a look at another device has to start before it.

A client counts `sequence` up with each request that is answered, and the answer repeats it. It
waits for the answer before the next request; packets of kind 3 that come first are older. So a
write that clears an interrupt has lowered the line before the client goes on. All requests are
done in their order.
A packet of another size or kind, or another before HELLO, ends the connection.

The client that sent HELLO first uses the device until it closes the connection; the next one waits,
and is told after BUSY_SECONDS that the device is in use. The connection of a client that has been
silent for SILENT_SECONDS, and for which no job runs, is ended in favour of the next, which begins
with new memory, so that later writes of the old client have no effect. (There are two exceptions: a
memory that is a FILE belongs to a machine, which may be silent; and devices that share one memory,
each with its own socket, belong to one board.)
"""

from __future__ import annotations

import fcntl
import mmap
import os
from pathlib import Path
from typing import Protocol

from loadstone.errors import DeviceError

__all__ = [
    "HELLO",
    "IRQ",
    "POST",
    "PROTOCOL_VERSION",
    "READ",
    "WRITE",
    "Served",
    "SharedMemory",
]

PROTOCOL_VERSION = 2
HELLO, READ, WRITE, IRQ, POST = range(5)
_ADDRESSES = 1 << 64


class Served(Protocol):
    """What server.py needs of a device."""

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
                f"{size_bytes} bytes of memory are not available: {_reason(error)}"
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
