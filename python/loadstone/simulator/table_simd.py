# SPDX-License-Identifier: Apache-2.0
"""A simulated accelerator of a plug-in behind a socket: what simd.py is for VTA's simulator.

In:   an Accelerator and a SharedMemory.
Out:  TableSimulated, which server.py serves.
Next: `loadstone simd --device NAME --uma-backends FOLDER`, for other processes and emulated boards.
"""

from __future__ import annotations

import contextlib
import os

import numpy as np

from loadstone.isa.accelerator import Accelerator
from loadstone.isa.device import TableDevice
from loadstone.isa.state import Dram, DramWindow
from loadstone.simulator.simd import SharedMemory

__all__ = ["TableSimulated"]


class TableSimulated:
    """A TableDevice on a shared memory; its methods are Served's. A program runs in a
    thread."""

    def __init__(self, accelerator: Accelerator, memory: SharedMemory) -> None:
        self._changed = os.eventfd(0, os.EFD_NONBLOCK | os.EFD_CLOEXEC)
        self._device = TableDevice(accelerator, _dram(memory), notify=self._notify)
        self.page_bytes = self._device.page.size_bytes

    def use(self, memory: SharedMemory) -> bool:
        """Works on this memory from now on; False, and nothing has changed, while a program
        runs."""
        if self._device.running:
            return False
        self._device.machine.use(_dram(memory))
        return True

    def read32(self, offset: int) -> int:
        """One register."""
        return self._device.read32(offset)

    def write32(self, offset: int, value: int) -> None:
        """One register."""
        self._device.write32(offset, value)

    def irq_level(self) -> int:
        """The interrupt line, 0 or 1."""
        return self._device.page.irq()

    def fileno(self) -> int:
        """A descriptor that is readable when the line may have changed since irq_seen()."""
        return self._changed

    def irq_seen(self) -> None:
        """Makes the descriptor unreadable until the next change."""
        with contextlib.suppress(BlockingIOError):
            os.eventfd_read(self._changed)

    def close(self) -> None:
        """Ends the device, in the middle of a program too."""
        self._device.stop()
        self._device.machine.use(Dram([]))
        os.close(self._changed)

    def _notify(self) -> None:
        os.eventfd_write(self._changed, 1)


def _dram(memory: SharedMemory) -> Dram:
    return Dram([DramWindow(memory.bus_address, np.frombuffer(memory.map, np.uint8))])
