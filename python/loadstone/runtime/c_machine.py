# SPDX-License-Identifier: Apache-2.0
"""Programs of a plug-in's device whose meanings are all in C: decoded, executed and timed in C.

In:   the compiled file of isa/c_machine.py; an Accelerator, the state of its machine.
Out:  CClock: completed instructions, and the program's time, like isa/machine.py's own clock.
Next: isa/machine.py uses it instead of its own clock.
"""

from __future__ import annotations

import ctypes
from collections.abc import Callable, Mapping, Sequence
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

from loadstone.isa.accelerator import Accelerator
from loadstone.isa.c_machine import BLOCK_BYTES, units_in_order
from loadstone.isa.state import NOWHERE, Dram, MachineEvent, MachineState

__all__ = ["CClock", "struct"]

#: A structure, an array or a function of ctypes, whose members have names of the table.
Seen: TypeAlias = Any
Numbers: TypeAlias = NDArray[np.int64] | NDArray[np.uint64]
_LARGEST = (1 << 64) - 1


def struct(**members: Seen) -> Seen:
    """A structure of ctypes with these members."""
    return type("Seen", (ctypes.Structure,), {"_fields_": list(members.items())})


_PORT = ("bytes_per_cycle", "burst_bytes", "burst_cycles", "latency_cycles")
_BY_UNIT = ("free", "busy", "stalled", "given", "began", "order")
_CLOCK = struct(
    **dict.fromkeys((*_PORT, "queue", "issued", "port_free", "end"), ctypes.c_int64),
    **dict.fromkeys((*_BY_UNIT, "written", "read", "spans"), ctypes.c_void_p),
    units=ctypes.c_uint64,
    **dict.fromkeys(("registers", "known"), ctypes.c_void_p),
)


class CClock:
    """One program. run: NAME_run; seen: the state as C sees it; kept: its address registers."""

    def __init__(
        self,
        accelerator: Accelerator,
        state: MachineState,
        run: Callable[..., int],
        seen: Seen,
        kept: Mapping[str, Seen],
    ) -> None:
        self.state, self._run, self._seen, self._kept = state, run, seen, kept
        self._units = units_in_order(accelerator.table)
        self.events: Sequence[MachineEvent] = []
        self._arrays: dict[str, Numbers] = {}  # of which C has addresses
        self._clock = _CLOCK(queue=accelerator.queue)
        if accelerator.port is not None:
            for name in _PORT:
                setattr(self._clock, name, getattr(accelerator.port, name))
        for name in _BY_UNIT:
            each = accelerator.queue if name == "began" else 1
            setattr(self._clock, name, self._zeros(name, len(self._units) * each))
        for name in ("written", "read"):
            table = accelerator.table
            places = {memory.name: memory.rows for memory in table.memories}
            places["(registers)"] = len(table.registers)
            rows = [self._zeros(f"{name} of {held}", count) for held, count in places.items()]
            setattr(self._clock, name, self._kept_alive(name, np.array(rows or [0], np.uint64)))
        self._signed = {one.name: one.signed for one in accelerator.table.registers}
        self._numbers = list(self._signed)
        for name in ("registers", "known"):
            setattr(self._clock, name, self._zeros(name, len(self._numbers)))
        spans = _spans(state.dram)
        entries = [
            (first, count, *(self._zeros(f"{name} from {first}", count) for name in ("w", "r")))
            for first, count in spans
        ]
        self._clock.spans = self._kept_alive("spans", np.array(entries, np.uint64))
        self._registers = (ctypes.c_void_p * max(len(kept), 1))(
            *(ctypes.addressof(kept[name]) for name in state.kept)
        )

    def _zeros(self, name: str, count: int) -> int:
        return self._kept_alive(name, np.zeros(count, np.int64))

    def _kept_alive(self, name: str, array: Numbers) -> int:
        """Its address."""
        self._arrays[name] = array
        return int(array.ctypes.data)

    def advance(self, code: bytes, at: int, count: int) -> tuple[int, int]:
        """Does up to `count` instructions from byte `at` on: how many, and the byte behind. Fewer
        than asked for: the next is refused; `fault_address` says where its meaning reached."""
        for name, held in self.state.kept.items():
            self._kept[name][:] = [min(address, _LARGEST) for address in held]
        for k, name in enumerate(self._numbers):
            self._arrays["known"][k] = name in self.state.held
            self._arrays["registers"][k] = _signed(self.state.held.get(name, 0))
        self._seen.read_bytes = self._seen.write_bytes = self._seen.fault = 0
        place = ctypes.c_uint64(at)
        arguments = ctypes.byref(self._clock), code, len(code), ctypes.byref(place), count
        done = self._run(ctypes.byref(self._seen), self._registers, *arguments)
        self.state.dram.read_bytes += self._seen.read_bytes
        self.state.dram.write_bytes += self._seen.write_bytes
        for name, held in self.state.kept.items():
            held[:] = [NOWHERE if address == _LARGEST else address for address in self._kept[name]]
        self.state.held.update(self._held())
        return done, place.value

    def _held(self) -> Mapping[str, int]:
        """What registers hold now, those that are set."""
        known, held = self._arrays["known"], self._arrays["registers"]
        signed = self._signed
        return {
            name: int(held[k]) % (1 << 64) if not signed[name] else int(held[k])
            for k, name in enumerate(self._numbers)
            if known[k]
        }

    @property
    def fault_address(self) -> int | None:
        """Where the meaning of the instruction that was not done reached for what is not there."""
        return int(self._seen.fault_address) if self._seen.fault else None

    @property
    def end(self) -> int:
        """Cycles so far."""
        return int(self._clock.end)

    @property
    def busy(self) -> Mapping[str, int]:
        """Cycles of work of each unit that had any, in the order in which they began."""
        return self._by_unit("busy")

    @property
    def stalled(self) -> Mapping[str, int]:
        """Cycles in which an instruction waited at its unit."""
        return self._by_unit("stalled")

    def _by_unit(self, name: str) -> Mapping[str, int]:
        had = [k for k in range(len(self._units)) if self._arrays["given"][k]]
        had.sort(key=lambda k: int(self._arrays["order"][k]))
        return {self._units[k]: int(self._arrays[name][k]) for k in had}


def _signed(value: int) -> int:
    """64 bits as a number with a sign."""
    return value - (1 << 64) if value >> 63 > 0 else value


def _spans(dram: Dram) -> list[tuple[int, int]]:
    """First block and blocks of each run of blocks that windows are in; a block that two windows
    share is one."""
    found: list[list[int]] = []
    for window in dram.windows:  # ascending
        first, end = window.bus // BLOCK_BYTES, -(-(window.bus + len(window.data)) // BLOCK_BYTES)
        if found and first <= found[-1][1]:
            found[-1][1] = max(found[-1][1], end)
        else:
            found.append([first, end])
    return [(first, end - first) for first, end in found]
