# SPDX-License-Identifier: Apache-2.0
"""What a simulated accelerator works on, and what a program comes to.

In:   windows of memory at bus addresses.
Out:  Dram and MachineState, which the meanings of instructions are given; MachineRun, MachineFault.
Next: machine.py executes programs on them.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from loadstone.numerics import Array

__all__ = [
    "BAD_INSTRUCTION",
    "DEADLOCK",
    "DRAM_BOUNDS",
    "ERRORS",
    "LOCAL_BOUNDS",
    "NOWHERE",
    "Dram",
    "DramWindow",
    "MachineEvent",
    "MachineFault",
    "MachineRun",
    "MachineState",
    "outside",
]

BAD_INSTRUCTION, DRAM_BOUNDS, LOCAL_BOUNDS, DEADLOCK = 1, 2, 3, 5
#: An address where no memory is.
NOWHERE = 1 << 64
#: Error codes, those of the native register page.
ERRORS = {
    BAD_INSTRUCTION: "an opcode, field value or reserved bit that the device does not know",
    DRAM_BOUNDS: "an access outside the memory, or a store where it is read-only",
    LOCAL_BOUNDS: "an access outside a memory of the device",
    DEADLOCK: "every unit waits for a token",
}


class MachineFault(Exception):
    """The program stopped. error: a key of ERRORS."""

    def __init__(self, error: int, text: str, address: int = 0) -> None:
        super().__init__(text)
        self.error = error
        self.address = address
        self.instruction = 0


def outside(name: str, address: int) -> MachineFault:
    """What an instruction means reached for DRAM that is not there."""
    text = f"{name} reaches for {address:#x}, which it may not"
    return MachineFault(DRAM_BOUNDS, text, address & 0xFFFFFFFF)


@dataclass(frozen=True)
class DramWindow:
    """Memory at a bus address. data: (size_bytes,) uint8, shared with whoever else has it."""

    bus: int
    data: NDArray[np.uint8]
    writable: bool = True


class Dram:
    """What the device can reach: windows that do not overlap. Anything else is a MachineFault."""

    def __init__(self, windows: Sequence[DramWindow]) -> None:
        self.windows = sorted(windows, key=lambda window: window.bus)
        self.read_bytes = self.write_bytes = 0

    def window(self, address: int, size: int, writes: bool = False) -> NDArray[np.uint8]:
        """The bytes themselves, (size,). Raises MachineFault."""
        for window in self.windows:
            at = address - window.bus
            if at >= 0 and at + size <= len(window.data):
                if writes and not window.writable:
                    break
                return window.data[at : at + size]
        verb = "written" if writes else "read"
        text = f"{size} bytes at {address:#x} cannot be {verb}"
        raise MachineFault(DRAM_BOUNDS, text, address & 0xFFFFFFFF)

    def tail(self, address: int, limit: int) -> bytes:
        """What is there from an address on, at most `limit` bytes. Raises MachineFault."""
        for window in self.windows:
            at = address - window.bus
            if 0 <= at < len(window.data):
                return window.data[at : at + limit].tobytes()
        raise MachineFault(DRAM_BOUNDS, "no memory", address & 0xFFFFFFFF)

    def read(self, address: int, size: int, stride: int = 0, rows: int = 1) -> NDArray[np.uint8]:
        """A copy of `rows` runs of `size` bytes, `stride` bytes apart: (rows, size)."""
        whole = self.window(address, (rows - 1) * stride + size)
        self.read_bytes += rows * size
        return np.lib.stride_tricks.as_strided(whole, (rows, size), (stride, 1)).copy()

    def write(self, address: int, data: Array, stride: int = 0) -> None:
        """data: (rows, size) or (size,) of any type, each row `stride` bytes behind the last."""
        rows = np.atleast_2d(np.ascontiguousarray(data)).view(np.uint8)
        count, size = rows.shape
        whole = self.window(address, (count - 1) * stride + size, writes=True)
        self.write_bytes += count * size
        for k in range(count):
            whole[k * stride : k * stride + size] = rows[k]


@dataclass(frozen=True)
class MachineState:
    """What meanings work on. memory: by name, (rows, lanes) of the table's type. kept: what each
    address register holds, by name; those that the program has not set are NOWHERE. held: what the
    other registers hold, those that are set; a meaning finds what it reads among its fields."""

    dram: Dram
    memory: Mapping[str, Array]
    kept: Mapping[str, list[int]] = field(default_factory=dict)
    held: dict[str, int] = field(default_factory=dict)


@dataclass(frozen=True)
class MachineEvent:
    """Instruction `insn` worked in [start, end), after having waited from `ready` on."""

    insn: int
    name: str
    unit: str
    ready: int
    start: int
    end: int


@dataclass(frozen=True)
class MachineRun:
    """busy_cycles: by unit. stalled_cycles: by unit, an instruction was there and had to wait for
    another unit or the port."""

    cycles: int
    instructions: int
    busy_cycles: Mapping[str, int]
    stalled_cycles: Mapping[str, int]
    read_bytes: int
    write_bytes: int
    events: Sequence[MachineEvent] = ()
