"""The simulator as a process of its own: registers over a socket, DMA in a shared memory file.

In:   a device (its register page, its interrupt) and the file that is its memory.
Out:  Server, which answers one client at a time.
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
                   have no other way to the memory.
    kind 1 READ    one register; the answer's value is the register's.
    kind 2 WRITE   one register; the answer's value is 0.
    kind 3 IRQ     from the server only, unasked: the interrupt line has changed. sequence and value
                            are 0.

A client counts `sequence` up with each request, and the answer repeats it. It waits for the answer
before the next request; packets of kind 3 that come first are older. So a write that clears an
interrupt has lowered the line before the client goes on.
"""

from __future__ import annotations

import contextlib
import mmap
import os
import re
import select
import socket
import struct
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from loadstone.errors import DeviceError
from loadstone.runtime.native import ffi, lib
from loadstone.vta.hw_config import HwConfig

__all__ = ["FAULTS", "PROTOCOL_VERSION", "Device", "Fault", "Memory", "Server"]

PROTOCOL_VERSION = 1
HELLO, READ, WRITE, IRQ = range(4)
_MESSAGE = struct.Struct("<4I")
_WELCOME = struct.Struct("<4I2I2Q")
_BACKLOG = 1
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
        number = "(0[xX][0-9a-fA-F]+|[0-9]+)"
        match = re.fullmatch(f"([a-z-]+)@{number}(?::{number})?", text)
        if match is None or match[1] not in FAULTS:
            raise DeviceError(
                f"fault {text!r} is not KIND@JOB or KIND@JOB:ARG with KIND one of "
                f"{', '.join(FAULTS)}"
            )
        return cls(int(match[2], 0), match[1], int(match[3] or "0", 0))


class Device:
    """A simulated device on a shared memory: its register page, its interrupt, and the faults
    ordered of it."""

    def __init__(
        self,
        config: HwConfig,
        memory: Memory,
        *,
        registers: str | None = None,
        faults: tuple[Fault, ...] = (),
    ) -> None:
        """registers: "native", "vta-chisel" or "vta-hls"; by default what the configuration
        says."""
        registers = registers or config.registers
        self.page_bytes = _PAGE_BYTES[registers]
        self._memory = ffi.from_buffer(memory.map, require_writable=True)
        self._faults = sorted(faults)
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
        if lib().lds_simdev_map(
            self._device, memory.bus_address, self._memory, memory.size_bytes, 0
        ):
            raise DeviceError(
                f"{memory.size_bytes} bytes of memory at bus address "
                f"0x{memory.bus_address:X}: it ends beyond 64 bits"
            )
        self._changed = os.eventfd(0, os.EFD_NONBLOCK | os.EFD_CLOEXEC)
        self._notify: Any = ffi.callback(
            "void(void *, int)", lambda _ctx, _level: os.eventfd_write(self._changed, 1)
        )
        lib().lds_simdev_on_irq(self._device, self._notify, ffi.NULL)

    def read32(self, offset: int) -> int:
        """One register."""
        return int(lib().lds_simdev_read32(self._device, offset))

    def write32(self, offset: int, value: int) -> None:
        """One register. A job that it starts runs in a thread of its own."""
        if self._faults and self._faults[0].job == self.jobs():
            fault = self._faults.pop(0)
            lib().lds_simdev_fault(
                self._device, list(FAULTS).index(fault.kind) + 1, 0, fault.argument
            )
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
        os.close(self._changed)


class Memory:
    """A file that the device and its host share, placed at a bus address."""

    def __init__(self, fd: int, bus_address: int, size_bytes: int) -> None:
        """Takes over `fd`. The file must have size_bytes at least."""
        self.fd, self.bus_address, self.size_bytes = fd, bus_address, size_bytes
        self.map = mmap.mmap(fd, size_bytes)

    @classmethod
    def of_file(cls, path: Path, bus_address: int) -> Memory:
        """All of an existing file, such as the one QEMU's memory-backend-file uses."""
        fd = os.open(path, os.O_RDWR | os.O_CLOEXEC)
        size = os.fstat(fd).st_size
        if size == 0:
            os.close(fd)
            raise DeviceError(
                f"memory file {path} is empty: give it the size of the machine's memory "
                f"first (truncate -s 256M {path})"
            )
        return cls(fd, bus_address, size)

    @classmethod
    def anonymous(cls, bus_address: int, size_bytes: int) -> Memory:
        """Memory that only clients of the server can reach."""
        fd = os.memfd_create("loadstone-simd")
        os.ftruncate(fd, size_bytes)
        return cls(fd, bus_address, size_bytes)


class Server:
    """Answers clients of one device, one after the other. The device keeps its state between them,
    as a board does."""

    def __init__(self, path: Path, device: Device, memory: Memory) -> None:
        """Listens at `path`. A socket that nobody listens at is replaced."""
        self._device, self._memory, self._path = device, memory, path
        self._socket = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        if path.is_socket() and not _listened_at(path):
            path.unlink()
        try:
            self._socket.bind(str(path))
        except OSError as error:
            raise DeviceError(f"socket {path}: {error.strerror or error}") from error
        self._socket.listen(_BACKLOG)

    def serve(self, *, clients: int | None = None) -> None:
        """Serves so many clients (None: for ever), each until it hangs up."""
        while clients is None or clients > 0:
            connection, _ = self._socket.accept()
            with connection, contextlib.suppress(ConnectionError):
                self._serve_one(connection)
            clients = None if clients is None else clients - 1

    def close(self) -> None:
        """Stops listening."""
        self._socket.close()
        with contextlib.suppress(FileNotFoundError):
            self._path.unlink()

    def _serve_one(self, connection: socket.socket) -> None:
        level = 0  # as the client has it
        poll = select.poll()
        poll.register(connection, select.POLLIN)
        poll.register(self._device.fileno(), select.POLLIN)
        while True:
            ready = [fd for fd, _ in poll.poll()]
            if self._device.fileno() in ready:
                self._device.irq_seen()
                if self._device.irq_level() != level:
                    level ^= 1
                    connection.send(_MESSAGE.pack(IRQ, 0, 0, level))
            if connection.fileno() in ready:
                request = connection.recv(_MESSAGE.size)
                if len(request) != _MESSAGE.size:
                    return
                kind, sequence, offset, value = _MESSAGE.unpack(request)
                answer = self._answer(kind, offset, value)
                level = self._device.irq_level()
                if kind == HELLO:
                    self._welcome(connection, sequence, level)
                else:
                    connection.send(_MESSAGE.pack(kind, sequence, answer, level))

    def _answer(self, kind: int, offset: int, value: int) -> int:
        if kind == READ:
            return self._device.read32(offset)
        if kind == WRITE:
            self._device.write32(offset, value)
        return 0

    def _welcome(self, connection: socket.socket, sequence: int, level: int) -> None:
        memory = self._memory
        text = _WELCOME.pack(
            HELLO,
            sequence,
            PROTOCOL_VERSION,
            level,
            self._device.page_bytes,
            0,
            memory.bus_address,
            memory.size_bytes,
        )
        socket.send_fds(connection, [text], [memory.fd])


def _listened_at(path: Path) -> bool:
    with socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET) as probe:
        return probe.connect_ex(str(path)) == 0
