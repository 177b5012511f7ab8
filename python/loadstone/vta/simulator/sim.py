# SPDX-License-Identifier: Apache-2.0
"""The simulator, from Python: it executes a program, and counts its cycles.

In:   a HwConfig; NumPy arrays placed at bus addresses; a stream of instructions.
Out:  the arrays after the program; a Result with cycles and counters; findings; events.
Next: replay.py compares with vectors; trace.py writes events for Perfetto; runtime/device.py
      accesses the same core through registers. docs/timing.md defines the cycles.

    simulator = Simulator(load_config("vta-pynq"), races=True)
    simulator.map(0x1000, image)
    result = simulator.run(insns)

Simulators are independent: several can run at once, each in its own thread, because a run does not
hold Python's lock. Ctrl-C ends one of the main thread within milliseconds. Needs no TVM.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, TypedDict

import numpy as np
import numpy.typing as npt

from loadstone.errors import EncodingError, SimulationError
from loadstone.library.native import CData, ffi, lib
from loadstone.numerics import Array
from loadstone.vta.device.hw_config import HwConfig
from loadstone.vta.isa.asm import text_of
from loadstone.vta.isa.codec import decode
from loadstone.vta.isa.registers import ERRORS
from loadstone.vta.isa.spec import INSN_BYTES, Memory, Opcode, Stage
from loadstone.vta.simulator import signals
from loadstone.vta.simulator.result import Event, Finding, Result, SimulationStopped

if TYPE_CHECKING:
    from typing_extensions import Unpack  # typing's own from Python 3.11 on

__all__ = [
    "KERNELS",
    "ORDERS",
    "Simulator",
    "SimulatorOptions",
    "kernels_available",
]

#: Inner loops that can be forced; all give the same bits. "best" takes the widest that the CPU has.
KERNELS = ("best", "portable", "avx2", "avx512", "neon", "wasm")
#: Which instruction runs next where tokens leave a choice: the first in program order; loads ahead;
#: stores ahead. Programs without races compute the same in all of them.
ORDERS = ("program", "load-first", "store-first")
_READERS = ("fetch", "uop", "inp", "wgt", "acc")
_KINDS = {1: "race", 2: "race", 3: "uninitialised"}
_NONE = 0xFFFFFFFF
#: Free places for streams that the simulator puts into the memory map itself.
_PAGE = 4096


class SimulatorOptions(TypedDict, total=False):
    """How a Simulator runs: what it checks and records, all of it optional."""

    strict: bool | None  # stop where real VTA hardware would differ; None: for profile vta
    timing: bool  # the timing model; on by default
    races: bool
    uninitialised: bool
    trace: bool  # keep the events
    kernels: str  # one of KERNELS
    order: str  # one of ORDERS
    place_bytes: int  # what memory begins at multiples of, as of lds_sim_at_worst; 0: as it stands


class Simulator:
    """One device, with the options of SimulatorOptions."""

    def __init__(self, config: HwConfig, **options: Unpack[SimulatorOptions]) -> None:
        unknown = options.keys() - SimulatorOptions.__annotations__
        if unknown:
            raise TypeError(f"Simulator takes no option {', '.join(sorted(unknown))}")
        self.config = config
        fingerprint = ffi.from_buffer(config.fingerprint())
        self._sim = ffi.gc(
            lib().lds_sim_create(ffi.cast("lds_hw_config *", fingerprint), config.bus_bits),
            lib().lds_sim_destroy,
        )
        if self._sim == ffi.NULL:
            raise SimulationError(f"device {config.name} cannot be simulated: out of memory")
        lib().lds_sim_on_poll(self._sim, signals.ASK, ffi.NULL)
        self._mapped: list[tuple[int, int]] = []
        self._keep: list[Array] = []
        self._stream = b""
        self.place_bytes = options.get("place_bytes", 0)
        self._done(lib().lds_sim_at_worst(self._sim, self.place_bytes))
        for name, constant in config.timing.items():
            self.set_timing(name, constant.value)
        strict = options.get("strict")
        self._option("STRICT", config.profile == "vta" if strict is None else strict)
        self._option("TIMING", options.get("timing", True))
        self._option("CHECK_RACES", options.get("races", False))
        self._option("CHECK_INIT", options.get("uninitialised", False))
        self._option("TRACE", options.get("trace", False))
        order = options.get("order", "program")
        if order not in ORDERS:
            raise SimulationError(f"order={order!r} is not one of {', '.join(ORDERS)}")
        self._option("ORDER", ORDERS.index(order))
        self.use_kernels(options.get("kernels", "best"))

    @property
    def core(self) -> CData:
        """lds_sim *, as long as this object is there."""
        return self._sim

    # --- set up -----------------------------------------------------------------------------------
    def set_timing(self, name: str, value: int) -> None:
        """One constant of the timing model. Raises SimulationError for an unknown name."""
        self._done(lib().lds_sim_set_timing(self._sim, name.encode(), value))

    def use_kernels(self, kernels: str) -> None:
        """Forces a path of inner loops. Raises SimulationError when the CPU lacks it."""
        if kernels not in KERNELS:
            raise SimulationError(f"kernels={kernels!r} is not one of {', '.join(KERNELS)}")
        if lib().lds_sim_set_option(self._sim, lib().LDS_SIM_KERNELS, KERNELS.index(kernels)):
            raise SimulationError(f"kernels={kernels!r}: this CPU lacks them; use portable or best")

    @property
    def kernels(self) -> str:
        """The path in use: for a small block it can be a simpler one than asked for."""
        return KERNELS[lib().lds_sim_get_option(self._sim, lib().LDS_SIM_KERNELS)]

    def map(self, address: int, memory: Array, *, read_only: bool = False) -> None:
        """Places a C-contiguous array at a bus address; the program reads and writes the array
        itself.

        memory: of any shape; its bytes count, in order. Raises SimulationError for memory that is
            not C-contiguous, or not writeable without read_only.
        """
        if not memory.flags.c_contiguous or not (read_only or memory.flags.writeable):
            raise SimulationError(
                "memory to map must be C-contiguous, and writeable unless read_only"
            )
        data = ffi.cast("void *", memory.ctypes.data)
        self._done(
            lib().lds_sim_map(
                self._sim, address, data, memory.nbytes, lib().LDS_SIM_READ_ONLY if read_only else 0
            )
        )
        self._mapped.append((address, memory.nbytes))
        self._keep.append(memory)

    def unmap_all(self) -> None:
        """Forgets all memory."""
        lib().lds_sim_unmap_all(self._sim)
        self._mapped.clear()
        self._keep.clear()

    def set_region(self, region: int, base: int, size: int, *, read_only: bool = False) -> None:
        """DRAM region `region`: bus address and bytes."""
        self._done(
            lib().lds_sim_set_region(self._sim, region, base, size | (1 << 63 if read_only else 0))
        )

    def reset(self) -> None:
        """Scratchpads to zero, as if never written."""
        lib().lds_sim_reset(self._sim)

    # --- run --------------------------------------------------------------------------------------
    def run(
        self,
        insns: npt.NDArray[np.uint8] | bytes,
        *,
        address: int | None = None,
        cycle_limit: int = 0,
        check: bool = True,
    ) -> Result:
        """Runs a stream (uint8 (N, 16), or bytes) that is placed at `address`, by default on the
        first page after all memory.

        cycle_limit: 0 is none. With `check` a program that stops before FINISH raises
            SimulationStopped, else its result says so.
        """
        stream = (
            np.frombuffer(insns, np.uint8)
            if isinstance(insns, bytes)
            else np.ascontiguousarray(insns, np.uint8).reshape(-1)
        )
        if stream.size % INSN_BYTES:
            raise EncodingError(
                f"instruction stream of {stream.size} bytes is no multiple of {INSN_BYTES}"
            )
        if address is None:
            end = max((base + size for base, size in self._mapped), default=0)
            address = -(-end // _PAGE) * _PAGE
        if stream.size:
            data = ffi.cast("void *", stream.ctypes.data)
            self._done(
                lib().lds_sim_map(self._sim, address, data, stream.size, lib().LDS_SIM_READ_ONLY)
            )
        try:
            return self._run_at(address, stream, cycle_limit, check)
        finally:
            self._remap()

    def run_at(
        self, address: int, count: int, *, cycle_limit: int = 0, check: bool = True
    ) -> Result:
        """Runs `count` instructions that already stand in mapped memory."""
        return self._run_at(
            address, self._peek(address, count * INSN_BYTES), cycle_limit, check, count
        )

    def abort(self) -> None:
        """From another thread: ends the run within milliseconds, also inside a long instruction."""
        lib().lds_sim_abort(self._sim)

    def progress(self) -> int:
        """From another thread: instructions completed."""
        return int(lib().lds_sim_progress(self._sim))

    # --- look -------------------------------------------------------------------------------------
    def findings(self) -> list[Finding]:
        """What the checks of the last run found (the first 1000)."""
        array = ffi.new("const lds_sim_finding **")
        count = lib().lds_sim_findings(self._sim, array)
        return [self._finding(array[0][k]) for k in range(count)]

    def events(self) -> Iterator[Event]:
        """The instructions of the last run in time, if it was traced."""
        array = ffi.new("const lds_sim_event **")
        count = lib().lds_sim_events(self._sim, array)
        for k in range(count):
            e = array[0][k]
            yield Event(
                e.insn,
                Stage(e.stage),
                e.enter,
                e.ready,
                e.start,
                e.end,
                _index(e.from_prev),
                _index(e.from_next),
                e.dram_cycles,
            )

    def scratchpad(
        self, memory: Memory, first: int = 0, count: int | None = None
    ) -> npt.NDArray[np.uint8]:
        """Tiles as a LOAD would have brought them from DRAM: uint8 (count, tile_bytes)."""
        count = self.config.depth(memory) - first if count is None else count
        out = np.zeros((count, self.config.tile_bytes(memory)), np.uint8)
        self._done(
            lib().lds_sim_read_scratchpad(
                self._sim, int(memory), first, count, ffi.cast("void *", out.ctypes.data)
            )
        )
        return out

    def assembler(self, index: int) -> str:
        """Instruction `index` of the last stream as text."""
        raw = self._stream[index * INSN_BYTES : (index + 1) * INSN_BYTES]
        try:
            return text_of(decode(raw, self.config))
        except EncodingError:
            return raw.hex() or "no instruction"

    # --- inside -----------------------------------------------------------------------------------
    def _option(self, name: str, value: int) -> None:
        self._done(
            lib().lds_sim_set_option(self._sim, getattr(lib(), f"LDS_SIM_{name}"), int(value))
        )

    def _done(self, status: int) -> None:
        if status:
            raise SimulationError(self.message or "the host has no memory left")

    @property
    def message(self) -> str:
        """Of the last call or run, one line; empty where there is none."""
        return str(ffi.string(lib().lds_sim_message(self._sim)).decode())

    def _remap(self) -> None:
        mapped = list(zip(self._mapped, self._keep, strict=True))
        lib().lds_sim_unmap_all(self._sim)
        for (address, size), memory in mapped:
            flags = 0 if memory.flags.writeable else lib().LDS_SIM_READ_ONLY
            lib().lds_sim_map(
                self._sim, address, ffi.cast("void *", memory.ctypes.data), size, flags
            )

    def _peek(self, address: int, size: int) -> npt.NDArray[np.uint8]:
        for (base, length), memory in zip(self._mapped, self._keep, strict=True):
            if base <= address and address + size <= base + length:
                return np.asarray(
                    memory.reshape(-1).view(np.uint8)[address - base : address - base + size]
                )
        return np.zeros(0, np.uint8)

    def _run_at(
        self,
        address: int,
        stream: npt.NDArray[np.uint8],
        cycle_limit: int,
        check: bool,
        count: int | None = None,
    ) -> Result:
        self._stream = stream.tobytes()
        raw = ffi.new("lds_sim_result *")
        insns = stream.size // INSN_BYTES if count is None else count
        status = lib().lds_sim_run(self._sim, address, insns, cycle_limit, raw)
        signals.raise_what_was_caught()
        if status < 0:
            raise SimulationError(self.message)
        result = self.result_of(raw)
        if status and check:
            raise SimulationStopped(result)
        return result

    def result_of(self, raw: CData) -> Result:
        """lds_sim_result of a run of this device."""
        status = next(name for name, (code, _) in ERRORS.items() if code == raw.status)
        message = self.message
        if status not in ("NONE", "DEADLOCK"):
            message = f"{message} ({self.assembler(raw.error_pc)})"
        if status == "DEADLOCK":
            message = f"deadlock: {message}" + "".join(
                f"; {k}: {self.assembler(k)}" for k in self._waiting()
            )
        stages = [s.name.lower() for s in Stage]

        def by(names: list[str] | tuple[str, ...], values: CData) -> dict[str, int]:
            return {name: int(values[k]) for k, name in enumerate(names)}

        return Result(
            status=status,
            message=message,
            error_pc=raw.error_pc,
            error_address=raw.error_address,
            cycles=raw.cycles,
            insns_done=raw.insns_done,
            insns=by([o.name.lower() for o in Opcode], raw.insns),
            busy_cycles=by(stages, raw.busy_cycles),
            stall_token_cycles=by(stages, raw.stall_token_cycles),
            stall_fetch_cycles=by(stages, raw.stall_fetch_cycles),
            stall_dram_cycles=by(stages, raw.stall_dram_cycles),
            read_bytes=by(_READERS, raw.read_bytes),
            write_bytes=raw.write_bytes,
            read_beats=raw.read_beats,
            write_beats=raw.write_beats,
            read_bursts=raw.read_bursts,
            write_bursts=raw.write_bursts,
            macs=raw.macs,
            gemm_steps=raw.gemm_steps,
            alu_steps=raw.alu_steps,
            findings=raw.findings,
        )

    def _waiting(self) -> list[int]:
        waiting = ffi.new("lds_sim_waiting *")
        lib().lds_sim_deadlock(self._sim, waiting)
        return [k for k in waiting.insn if k != _NONE]

    def _finding(self, f: CData) -> Finding:
        kind, memory = (
            _KINDS[f.kind],
            "DRAM" if f.kind == lib().LDS_SIM_FINDING_RACE_DRAM else Memory(f.memory).name,
        )
        writes = (bool(f.writes & 1), bool(f.writes & 2))
        if memory == "DRAM":
            what = f"DRAM bytes 0x{f.first:x} to 0x{f.first + f.count:x}"
        else:
            what = f"{memory} tiles {f.first} to {f.first + f.count - 1}"
        if kind == "uninitialised":
            text = (
                f"uninitialised: instruction {f.insn} reads {what}, never written "
                f"({self.assembler(f.insn)})"
            )
            return Finding(kind, memory, f.insn, None, writes, f.first, f.count, text)
        verbs = ["writes" if w else "reads" for w in writes]
        text = (
            f"race: instruction {f.insn} {verbs[0]} and {f.other} {verbs[1]} {what}, and no "
            "token orders them "
            f"({self.assembler(f.insn)}; {self.assembler(f.other)})"
        )
        return Finding(kind, memory, f.insn, f.other, writes, f.first, f.count, text)


def _index(value: int) -> int | None:
    return None if value == _NONE else int(value)


def kernels_available(config: HwConfig) -> list[str]:
    """The paths that this CPU and this build have for a device's block size."""
    simulator = Simulator(config, strict=False)
    found = []
    for name in KERNELS[1:]:
        try:
            simulator.use_kernels(name)
        except SimulationError:
            continue
        if simulator.kernels == name:
            found.append(name)
    return found
