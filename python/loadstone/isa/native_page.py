# SPDX-License-Identifier: Apache-2.0
"""Register pages of simulated accelerators: the native one, and the interface of others.

In:   reads and writes of 32-bit registers.
Out:  jobs, resets and aborts for the device; its state, its counters, its interrupt line.
Next: device.py works them; driver/regs_native.c is the other side of the native page.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass
from enum import Enum

from loadstone.isa.state import MachineFault, MachineRun

__all__ = ["Action", "NativePage", "PageJob", "RegisterPage"]

_IDLE, _RUNNING, _DONE, _ERROR = 1, 2, 3, 4
_ABORTED = 6
_ID, _VERSION = 0x3153444C, 1


class Action(Enum):
    """What a write asks of the device."""

    START = "start"
    RESET = "reset"
    ABORT = "abort"


@dataclass(frozen=True)
class PageJob:
    """A program: where it begins, how many instructions it has. code: the program itself, of a
    device that is fed and fetches nothing."""

    address: int
    count: int
    code: bytes | None = None


class RegisterPage(ABC):
    """What the host sees of a device. Any method but `write32` may be called while a job runs."""

    #: Of the page in the bus's address space.
    size_bytes = 0x1000

    @abstractmethod
    def read32(self, offset: int) -> int:
        """One register."""

    @abstractmethod
    def write32(self, offset: int, value: int) -> Action | None:
        """One register, and what it asks for."""

    @abstractmethod
    def job(self) -> PageJob:
        """What START is for."""

    @abstractmethod
    def started(self) -> None:
        """The job runs."""

    @abstractmethod
    def moved(self, completed: int) -> None:
        """So many instructions of the job are done: the host sees that it does not hang."""

    @abstractmethod
    def ended(self, result: MachineRun | MachineFault | None) -> None:
        """It does no more; None: it was stopped."""

    @abstractmethod
    def irq(self) -> int:
        """The interrupt line, 0 or 1."""


class NativePage(RegisterPage):
    """Loadstone's own page (docs/isa.md), without regions: addresses in instructions are the
    bus's."""

    def __init__(self, config_hash: int) -> None:
        self.config_hash = config_hash
        self.values: dict[int, int] = {}
        self.state, self.pending, self.mask = _IDLE, 0, 0
        self.error, self.error_pc, self.error_address, self.completed = 0, 0, 0, 0
        self.counters = [0] * 6

    def read32(self, offset: int) -> int:
        """One register; 0 for those that are none."""
        fixed = {
            0x00: _ID,
            0x04: _VERSION,
            0x08: self.config_hash,
            0x14: self.state,
            0x18: self.pending,
            0x1C: self.mask,
            0x20: self.error,
            0x24: self.error_pc,
            0x28: self.error_address,
            0x3C: self.completed,
        }
        if offset in fixed:
            return fixed[offset]
        if 0xC0 <= offset < 0xF0:
            return self.counters[(offset - 0xC0) // 8] >> 32 * (offset // 4 % 2) & 0xFFFFFFFF
        return self.values.get(offset, 0)

    def write32(self, offset: int, value: int) -> Action | None:
        """One register."""
        if offset == 0x18:
            self.pending &= ~value
        elif offset == 0x1C:
            self.mask = value & 3
        elif offset == 0x10:
            if value & 2:
                return Action.RESET
            if value & 4:
                return Action.ABORT
            return Action.START if value & 1 else None
        elif 0x30 <= offset < 0x3C or 0x40 <= offset < 0xC0:
            self.values[offset] = value
        return None

    def job(self) -> PageJob:
        """INSN_BASE and INSN_COUNT."""
        low, high, count = (self.values.get(offset, 0) for offset in (0x30, 0x34, 0x38))
        return PageJob(low | high << 32, count)

    def started(self) -> None:
        """RUNNING."""
        self.state, self.error, self.completed = _RUNNING, 0, 0

    def moved(self, completed: int) -> None:
        """INSN_PC."""
        if self.state == _RUNNING:
            self.completed = completed

    def ended(self, result: MachineRun | MachineFault | None) -> None:
        """DONE, ERROR, or IDLE after a reset."""
        if result is None:
            self.state, self.error = _IDLE, _ABORTED
        elif isinstance(result, MachineFault):
            self.error, self.error_pc = result.error, result.instruction
            self.error_address = result.address
            self.state, self.pending = _ERROR, self.pending | 2
        else:
            busy = [*result.busy_cycles.values(), 0, 0, 0][:3]
            self.counters = [result.cycles, *busy, result.read_bytes, result.write_bytes]
            self.completed = result.instructions
            self.state, self.pending = _DONE, self.pending | 1

    def irq(self) -> int:
        """Pending and not masked."""
        return int(self.pending & self.mask != 0)
