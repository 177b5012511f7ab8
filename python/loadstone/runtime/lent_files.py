# SPDX-License-Identifier: Apache-2.0
"""Files of models as memory of a simulated device: constants and programs stay where they are.

In:   lds_hal_sim *; the bytes of a file.
Out:  the bus address at which the device sees them, until they are taken back.
Next: session.py opens a session with it; runtime/session.c copies nothing that is in place.

A file of a few megabytes is copied, in less than a millisecond each: so the regions of small models
stand at addresses that do not depend on their file, and a burst ends where it does on a board.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from functools import partial

from loadstone.library.native import CData, ffi, lib

__all__ = ["LARGE_BYTES", "LentFiles", "in_place"]

#: A file of so many bytes is not copied.
LARGE_BYTES = 1 << 24
#: Above what regions of a file are aligned to (runtime/FORMAT.md, R11).
_ALIGN = 1 << 16
_END = 1 << 32  # of the addresses of a device with 32 bits


def in_place(files: LentFiles | None, content: CData, config: CData) -> Callable[[], None]:
    """Lets a session of this configuration read a file where it is, if that can be done; what ends
    it. files: None for a device that cannot."""
    bus = None if files is None else files.lend(content, len(content))
    if files is None or bus is None:
        return lambda: None
    config.model_bus = bus
    return partial(files.take_back, bus)


class LentFiles:
    """Of one device; any thread may lend and take back."""

    def __init__(self, sim: CData) -> None:
        self._device = lib().lds_hal_sim_device(sim)
        memory, bus, size = ffi.new("uint8_t **"), ffi.new("uint64_t *"), ffi.new("size_t *")
        lib().lds_hal_sim_memory(sim, memory, bus, size)
        self._pool = int(bus[0]), memory[0], int(size[0])
        self._lent: dict[int, tuple[CData, int]] = {}
        self._late: set[int] = set()  # that were given back while the device was at work
        self._turn = threading.Lock()

    def lend(self, content: CData, size_bytes: int) -> int | None:
        """The bus address of a file, which must stay until it is taken back; None where it is to be
        copied: it is small, or no addresses are left."""
        if size_bytes < LARGE_BYTES:
            return None
        with self._turn:
            self._forget()
            bus = self._free(size_bytes)
            if bus is None or self._map(bus, content, size_bytes, lib().LDS_SIM_READ_ONLY):
                return None
            self._lent[bus] = content, size_bytes
            return bus

    def take_back(self, bus: int) -> None:
        """While the device works for another session it keeps the file, until the next call."""
        with self._turn:
            self._late.add(bus)
            self._forget()

    # --- inside -----------------------------------------------------------------------------------
    def _free(self, size_bytes: int) -> int | None:
        """The first gap behind the device's own memory."""
        begin = self._pool[0] + self._pool[2]
        for bus, (_, size) in sorted(self._lent.items()):
            if begin + size_bytes <= bus:
                break
            begin = -(-(bus + size) // _ALIGN) * _ALIGN
        return begin if begin + size_bytes <= _END else None

    def _forget(self) -> None:
        if not self._late:
            return
        bus, memory, size = self._pool
        if lib().lds_simdev_remap(self._device, bus, memory, size, 0) != lib().LDS_SIM_OK:
            return  # it is busy
        for each in self._late:
            del self._lent[each]
        self._late.clear()
        for at, (content, count) in self._lent.items():
            self._map(at, content, count, lib().LDS_SIM_READ_ONLY)

    def _map(self, bus: int, content: CData, size_bytes: int, flags: int) -> int:
        """A status, 0 for success."""
        pointer = ffi.cast("void *", content)
        return int(lib().lds_simdev_map(self._device, bus, pointer, size_bytes, flags))
