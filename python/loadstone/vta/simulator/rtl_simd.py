# SPDX-License-Identifier: Apache-2.0
"""The hardware under Verilator behind a socket, like the simulator in simd_device.py.

In:   a device whose RTL can be built, and a SharedMemory.
Out:  RtlSimulated, which simulator/server.py serves; `rtl_socket`, a served device in this process.
Next: `loadstone simd --device rtl:NAME` for other processes and emulated boards; `loadstone run
      --device rtl`.

A thread drives the clock while a program runs; a lock excludes it from register accesses.
"""

from __future__ import annotations

import contextlib
import os
import tempfile
import threading
from collections.abc import Iterator
from pathlib import Path

import numpy as np

from loadstone.errors import DeviceError
from loadstone.simulator.server import Server
from loadstone.simulator.simd import SharedMemory
from loadstone.vta.device.hw_config import HwConfig
from loadstone.vta.isa.registers import NATIVE, STATES
from loadstone.vta.simulator.rtl import RtlDevice

__all__ = ["RtlSimulated", "rtl_name", "rtl_socket"]

_PAGE_BYTES = 0x1000
#: Cycles between two looks at who else wants the device: some milliseconds.
_TURN = 2000
_STATUS = next(register.offset for register in NATIVE if register.name == "STATUS")
_MEMORY_BASE, _MEMORY_BYTES = 0x10000000, 256 << 20


def rtl_name(device: str) -> str | None:
    """The NAME of rtl:NAME; "" for rtl alone, None for anything else."""
    kind, _, name = device.partition(":")
    return name if kind == "rtl" else None


class RtlSimulated:
    """A verilated device on a shared memory; its methods are Served's."""

    page_bytes = _PAGE_BYTES

    def __init__(self, config: HwConfig, memory: SharedMemory) -> None:
        if config.registers != "native":
            raise DeviceError(
                f"device {config.name} has registers {config.registers}, and the RTL has the "
                "native page only: take a device of VTA-Q"
            )
        self._rtl = RtlDevice(config)
        self._lock = threading.Lock()
        self._work = threading.Condition(self._lock)
        self._running = self._ends = False
        self._level = 0
        self._changed = os.eventfd(0, os.EFD_NONBLOCK | os.EFD_CLOEXEC)
        self.use(memory)
        self._clock = threading.Thread(target=self._turn, name="rtl-clock", daemon=True)
        self._clock.start()

    def use(self, memory: SharedMemory) -> bool:
        """Works on this memory from now on; False, and nothing has changed, while a program
        runs."""
        with self._lock:
            if self._running:
                return False
            self._rtl.unmap_all()
            self._rtl.map(memory.bus_address, np.frombuffer(memory.map, np.uint8))
        return True

    def read32(self, offset: int) -> int:
        """One register."""
        with self._lock:
            return self._rtl.read32(offset)

    def write32(self, offset: int, value: int) -> None:
        """One register. The clock runs on for as long as the device is at work."""
        with self._lock:
            self._rtl.write32(offset, value)
            self._rtl.step(4)
            self._look()
            self._work.notify_all()

    def irq_level(self) -> int:
        """The interrupt line, 0 or 1."""
        return self._level

    def fileno(self) -> int:
        """A descriptor that is readable when the line has changed since irq_seen()."""
        return self._changed

    def irq_seen(self) -> None:
        """Makes the descriptor unreadable until the next change."""
        with contextlib.suppress(BlockingIOError):
            os.eventfd_read(self._changed)

    def close(self) -> None:
        """Ends the device, in the middle of a program too."""
        with self._lock:
            self._ends = True
            self._work.notify_all()
        self._clock.join()
        self._rtl.unmap_all()
        os.close(self._changed)

    def _look(self) -> None:
        """What a client would see changed; the lock is held."""
        self._running = self._rtl.read32(_STATUS) == STATES["RUNNING"]
        if self._rtl.irq() != self._level:
            self._level ^= 1
            os.eventfd_write(self._changed, 1)

    def _turn(self) -> None:
        while not self._ends:
            with self._lock:
                if not self._running:
                    self._work.wait_for(lambda: self._running or self._ends)
                if not self._ends:
                    self._rtl.step(_TURN)
                    self._look()
            # An access that waits for the lock gets it before the next turn.
            threading.Event().wait(0)


@contextlib.contextmanager
def rtl_socket(config: HwConfig) -> Iterator[str]:
    """Serves the RTL of `config` from a thread of this process; gives its name for device.open."""
    with (
        tempfile.TemporaryDirectory(prefix="loadstone-rtl-") as folder,
        contextlib.ExitStack() as e,
    ):
        memory = SharedMemory.anonymous(_MEMORY_BASE, _MEMORY_BYTES)
        device = RtlSimulated(config, memory)
        e.callback(device.close)
        path = Path(folder) / "rtl.sock"
        server = Server(path, device, memory)
        stop = os.eventfd(0, os.EFD_CLOEXEC | os.EFD_NONBLOCK)
        e.callback(os.close, stop)
        thread = threading.Thread(target=server.serve, kwargs={"stop": stop}, daemon=True)
        thread.start()
        try:
            yield f"simd:{path}"
        finally:
            os.eventfd_write(stop, 1)
            thread.join()
            server.close()
