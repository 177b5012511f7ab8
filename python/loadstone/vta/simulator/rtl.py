# SPDX-License-Identifier: Apache-2.0
"""The hardware under Verilator, from Python, with the calls and the figures of the simulator.

In:   a HwConfig whose RTL has been built (rtl_build.py); NumPy arrays placed at bus addresses; a
      stream of instructions.
Out:  the arrays after the program; an RtlResult with the cycles that the hardware counted, and the
      beats and bursts on its bus.
Next: rtl_replay.py compares it with vectors, rtl_simd.py serves it through a socket.

All accesses go through the registers of the native page, like those of a driver.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import numpy as np
import numpy.typing as npt
from cffi import FFI

from loadstone.errors import SimulationError
from loadstone.library.native import CData
from loadstone.numerics import Array
from loadstone.vta.device.hw_config import HwConfig, builtin_timing
from loadstone.vta.isa.registers import BITS, ERRORS, NATIVE, STATES
from loadstone.vta.isa.spec import INSN_BYTES, Memory
from loadstone.vta.simulator.rtl_build import HEADER, library

__all__ = ["RtlDevice", "RtlResult"]

_OFFSETS = {register.name: register.offset for register in NATIVE}
_PAGE = 4096
_ERROR_NAMES = {code: name for name, (code, _) in ERRORS.items()}
_STATE_NAMES = {value: name for name, value in STATES.items()}
#: Cycles that a program may take when nobody says how many.
_PATIENCE = 1 << 40


@dataclass(frozen=True)
class RtlResult:
    """How a program ended, and what it took."""

    status: str  # a name of registers.ERRORS
    error_pc: int
    error_address: int
    cycles: int
    insns_done: int
    busy_cycles: tuple[int, int, int]  # load, compute, store
    read_bytes: int
    write_bytes: int
    read_beats: int
    write_beats: int
    read_bursts: int
    write_bursts: int


class RtlDevice:
    """One device. Scratchpads begin as zeros and keep their contents from run to run."""

    def __init__(self, config: HwConfig, path: Path | None = None) -> None:
        """path: the shared library; by default that of build/rtl, which `make rtl` makes."""
        self.config = config
        self._ffi = FFI()
        self._ffi.cdef(HEADER)
        self._lib = self._ffi.dlopen(str(path or library(config)))
        self._rtl: CData = self._ffi.gc(self._lib.lds_rtl_create(), self._lib.lds_rtl_destroy)
        if self._rtl == self._ffi.NULL:
            raise SimulationError(f"device {config.name} cannot be made: out of memory")
        if self.register("CONFIG_HASH") != config.config_hash:
            raise SimulationError(
                f"the RTL library was built for another device than {config.name}: `make rtl`"
            )
        self._mapped: list[tuple[int, Array]] = []
        self.set_latency(0)

    # --- registers, the clock ---------------------------------------------------------------------
    def read32(self, offset: int) -> int:
        """One register."""
        return int(self._lib.lds_rtl_read32(self._rtl, offset))

    def write32(self, offset: int, value: int) -> None:
        """One register."""
        self._lib.lds_rtl_write32(self._rtl, offset, value)

    def register(self, name: str) -> int:
        """A register of 32 bits by its name."""
        return self.read32(_OFFSETS[name])

    def counter(self, name: str) -> int:
        """A register of two halves by its name."""
        offset = _OFFSETS[name]
        return self.read32(offset) | self.read32(offset + 4) << 32

    def step(self, cycles: int) -> int:
        """Turns the clock until the interrupt line changes, so many times at most. Returns it."""
        return int(self._lib.lds_rtl_step(self._rtl, cycles))

    def irq(self) -> int:
        """The interrupt line."""
        return int(self._lib.lds_rtl_irq(self._rtl))

    def hw_reset(self) -> None:
        """The reset pin; scratchpads keep what they hold."""
        self._lib.lds_rtl_hw_reset(self._rtl)

    # --- memory -----------------------------------------------------------------------------------
    def set_latency(self, burst_extra_cycles: int) -> None:
        """How slow memory is: the device's read latency, and cycles in front of every burst, or of
        as many as it works on at a time."""
        timing = {**builtin_timing("vta-rtl"), **self.config.timing}
        latency = timing["read_latency_cycles"].value
        outstanding = timing["read_bursts_outstanding"].value
        self._lib.lds_rtl_memory_latency(self._rtl, latency, burst_extra_cycles, outstanding)

    def set_stalls(self, seed: int) -> None:
        """A memory that is ready in about every other cycle, drawn by `seed`; 0: in every one, as
        the simulator counts."""
        self._lib.lds_rtl_memory_stalls(self._rtl, seed)

    def map(self, address: int, memory: Array, *, read_only: bool = False) -> None:
        """Places a C-contiguous array at a bus address; programs read and write the array
        itself.

        memory: of any shape; its bytes count, in order.
        """
        data = self._ffi.cast("void *", memory.ctypes.data)
        if self._lib.lds_rtl_map(self._rtl, address, data, memory.nbytes, int(read_only)):
            raise SimulationError(
                f"memory at 0x{address:x}, 0x{memory.nbytes:x} bytes overlaps what is mapped"
            )
        self._mapped.append((address, memory))

    def unmap_all(self) -> None:
        """Forgets all memory."""
        self._lib.lds_rtl_unmap_all(self._rtl)
        self._mapped.clear()

    def set_region(self, region: int, base: int, size: int, *, read_only: bool = False) -> None:
        """DRAM region `region`: bus address and bytes."""
        limit = size | (1 << 63 if read_only else 0)
        for name, value in (("REGION_BASE", base), ("REGION_LIMIT", limit)):
            offset = _OFFSETS[name] + 8 * region
            self.write32(offset, value & 0xFFFFFFFF)
            self.write32(offset + 4, value >> 32)

    # --- run --------------------------------------------------------------------------------------
    def run(self, insns: npt.NDArray[np.uint8] | bytes, *, cycle_limit: int = 0) -> RtlResult:
        """Runs a stream (uint8 (N, 16), or bytes) that is placed on the first page after all
        memory.

        cycle_limit: 0 is none; a program that needs more is aborted.
        """
        stream = np.frombuffer(insns, np.uint8) if isinstance(insns, bytes) else insns
        stream = np.ascontiguousarray(stream, np.uint8).reshape(-1)
        end = max((base + memory.nbytes for base, memory in self._mapped), default=0)
        address = -(-end // _PAGE) * _PAGE
        if stream.size:
            self.map(address, stream, read_only=True)
        try:
            return self.run_at(address, stream.size // INSN_BYTES, cycle_limit=cycle_limit)
        finally:
            if stream.size:
                kept = self._mapped[:-1]
                self.unmap_all()
                for base, memory in kept:
                    self.map(base, memory, read_only=not memory.flags.writeable)

    def run_at(self, address: int, count: int, *, cycle_limit: int = 0) -> RtlResult:
        """Runs `count` instructions that stand in mapped memory."""
        before = self._traffic()
        self.write32(_OFFSETS["INSN_BASE_LO"], address & 0xFFFFFFFF)
        self.write32(_OFFSETS["INSN_BASE_HI"], address >> 32)
        self.write32(_OFFSETS["INSN_COUNT"], count)
        self.write32(_OFFSETS["IRQ_STATUS"], 0xFFFFFFFF)
        self.write32(_OFFSETS["IRQ_MASK"], BITS["IRQ_DONE"] | BITS["IRQ_ERROR"])
        self.write32(_OFFSETS["CTRL"], BITS["CTRL_START"])
        if not self.step(cycle_limit or _PATIENCE):
            self.write32(_OFFSETS["CTRL"], BITS["CTRL_ABORT"])
            self.step(1 << 16)
        self.write32(_OFFSETS["IRQ_STATUS"], 0xFFFFFFFF)
        state = _STATE_NAMES[self.register("STATUS")]
        if state not in ("DONE", "ERROR"):
            raise SimulationError(f"the RTL does not end its program: state {state}")
        traffic = [now - then for now, then in zip(self._traffic(), before, strict=True)]
        return RtlResult(
            status=_ERROR_NAMES[self.register("ERROR")],
            error_pc=self.register("ERROR_PC"),
            error_address=self.register("ERROR_ADDR"),
            cycles=self.counter("CYCLES"),
            insns_done=self.register("INSN_PC"),
            busy_cycles=(
                self.counter("LOAD_BUSY"),
                self.counter("COMPUTE_BUSY"),
                self.counter("STORE_BUSY"),
            ),
            read_bytes=self.counter("READ_BYTES"),
            write_bytes=self.counter("WRITE_BYTES"),
            read_beats=traffic[0],
            write_beats=traffic[1],
            read_bursts=traffic[2],
            write_bursts=traffic[3],
        )

    def scratchpad(self, memory: Memory) -> npt.NDArray[np.uint8]:
        """All tiles of WGT, INP, OUT or ACC: uint8 (depth, tile_bytes)."""
        size = self.config.tile_bytes(memory)
        tiles = np.zeros((self.config.depth(memory), size), np.uint8)
        for number, tile in enumerate(tiles):
            data = self._ffi.cast("void *", tile.ctypes.data)
            self._lib.lds_rtl_peek(self._rtl, int(memory), number, data, size)
        return tiles

    def _traffic(self) -> tuple[int, int, int, int]:
        traffic = self._ffi.new("lds_rtl_traffic *")
        self._lib.lds_rtl_bus_traffic(self._rtl, traffic)
        return (
            int(traffic.read_beats),
            int(traffic.write_beats),
            int(traffic.read_bursts),
            int(traffic.write_bursts),
        )
