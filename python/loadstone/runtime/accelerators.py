# SPDX-License-Identifier: Apache-2.0
"""Further devices for a session: accelerators of plug-ins, their tables and register blocks in C,
and further VTAs; simulated, their registers behind a HAL with the session's memory.

In:   an artifact with programs of other devices; the opened device whose memory they share.
Out:  the lds_accelerator table for lds_session_open, and the objects that must live as long.
Next: session.py opens a session with it; runtime/accelerator.c uses it.
"""

from __future__ import annotations

import ctypes
import re
import subprocess
import tempfile
from collections.abc import Mapping, Sequence
from functools import lru_cache
from pathlib import Path
from typing import Any

import numpy as np

from loadstone.artifact.format import Artifact
from loadstone.backend.builtin import further_device
from loadstone.backend.device import Device, ProgramDevice, config_hash_of
from loadstone.backend.plugins import load_plugins
from loadstone.errors import ConfigError, DeviceError
from loadstone.files import read_whole, source_folder
from loadstone.isa.accelerator import Accelerator, accelerator_named
from loadstone.isa.device import TableDevice
from loadstone.isa.state import BAD_INSTRUCTION, ERRORS, Dram, DramWindow, MachineFault
from loadstone.library.native import CData, ffi, lib
from loadstone.printable import one_line
from loadstone.runtime.c_step import C_FLAGS, c_compiler
from loadstone.runtime.handle import Handle
from loadstone.runtime.simulated import open_simulated_beside, share_bus
from loadstone.runtime.table_in_c import table_in_c

__all__ = [
    "AcceleratorSet",
    "accelerators_of",
    "driver_symbols",
    "further_devices",
    "sim_memory",
]

#: Devices besides its own that a session works with.
MAX_DEVICES = 16


def accelerators_of(artifact: Artifact) -> dict[int, Accelerator]:
    """The accelerators of plug-ins among the devices of an artifact, by their numbers. Raises
    ConfigError for one that no plug-in describes."""
    found: dict[int, Accelerator] = {}
    for number, said in _others(artifact):
        if said.has_configuration:
            continue
        wanted = said.name, said.attributes, said.fingerprint
        accelerator = accelerator_named(*wanted)
        if accelerator is None:
            load_plugins()
            accelerator = accelerator_named(*wanted)
        if accelerator is None:
            raise ConfigError(
                f"model {artifact.name!r} has programs of accelerator {said.name!r}, which no "
                "plug-in describes: name its folder with --uma-backends"
            )
        found[number] = accelerator
    return found


def further_devices(artifact: Artifact) -> dict[int, Device]:
    """The VTAs besides device 0 among the devices of an artifact, by their numbers. Raises
    ConfigError for one that is not what it was."""
    return {
        number: further_device(said) for number, said in _others(artifact) if said.has_configuration
    }


def _others(artifact: Artifact) -> Sequence[tuple[int, ProgramDevice]]:
    """The devices besides device 0 that have programs. Raises DeviceError for more than any board
    has: each is made, with a thread and memory of its own."""
    said = [(number, artifact.devices[number]) for number in artifact.further]
    if len(said) > MAX_DEVICES:
        raise DeviceError(
            f"model {artifact.name!r} has programs of {len(said)} other devices, more than "
            f"{MAX_DEVICES}: divide it into several models"
        )
    return said


class AcceleratorSet:
    """What a session needs of its accelerators. table: lds_accelerator *; count: of its entries."""

    def __init__(self, artifact: Artifact, opened: Handle) -> None:
        """opened: the session's own device. Where it is simulated, the others share its memory;
        else they are other devices of the same board, and one may be that device itself."""
        chosen = list(accelerators_of(artifact).values())
        further = list(further_devices(artifact).values())
        hal, sim = opened.device.hal, opened.sim
        self.simulated: dict[str, TableDevice] = {}
        self.further: dict[str, CData] = {}
        self.error: BaseException | None = None
        self._devices: dict[str, Device] = {device.name: device for device in further}
        self._drivers = {one.name: one.driver for one in chosen}
        self._keep: list[object] = [hal, sim]  # freed from the last to the first
        self.count = len(chosen) + len(further)
        names = [*(device.name for device in chosen), *self._devices]
        connected = self._connected(artifact, names, opened) if sim is None else {}
        self.table: CData = ffi.new("lds_accelerator[]", max(self.count, 1))
        memory = sim_memory(sim) if sim is not None else None
        for entry, accelerator in zip(self.table, chosen, strict=False):
            block, refuse = _driver(accelerator)
            own = connected.get(accelerator.name, hal)
            if memory is not None:
                dram = Dram([memory])
                self.simulated[accelerator.name] = TableDevice(accelerator, dram)
                own = self._hal(hal, self.simulated[accelerator.name])
            self._open(entry, accelerator.name, own, block)
            entry.table = table_in_c(accelerator.table, self._keep)
            entry.refuse = refuse
        for entry, device in zip(self.table[len(chosen) : self.count], further, strict=True):
            own = connected.get(device.name, hal)
            if sim is not None:
                beside = self._kept(open_simulated_beside(sim, device, timing=opened.timing))
                if device.bus_of:
                    share_bus(beside, self.further.get(device.bus_of, sim))
                self.further[device.name] = beside
                own = lib().lds_hal_sim_hal(beside)
            name = device.register_block.name.encode()
            self._open(entry, device.name, own, lib().lds_registers_named(name))

    def _connected(
        self, artifact: Artifact, names: Sequence[str], opened: Handle
    ) -> Mapping[str, CData]:
        """The HALs of those that are not the session's own device. Raises DeviceError where more
        than one would have to be that."""
        found: dict[str, CData] = {}
        for name in names:
            pair = opened.connect(name)
            if pair is not None:
                self._kept(pair[0])
                found[name] = pair[1]
        own = bool(artifact.programs_of(0))
        if len(names) - len(found) + own > 1:
            every = [artifact.device] * own + list(names)
            options = " ".join(f"--device {name}" for name in every)
            raise DeviceError(
                f"model {artifact.name!r} has programs of several devices, and this connection is "
                f"to one: use --device sim, `loadstone simd SOCKET {options}`, or C on the board"
            )
        return found

    def _open(self, entry: CData, name: str, hal: CData, block: CData) -> None:
        """Fills in an lds_accelerator except for its table, which a VTA lacks."""
        device = ffi.new("lds_device *")
        status = lib().lds_device_open(device, hal, block, 0)
        if status:
            raise DeviceError(f"accelerator {name} cannot be opened: {status}")
        entry.name = self._kept(ffi.new("char[]", name.encode()))
        entry.device = self._kept(device)

    def configure(self, config: CData) -> None:
        """Gives them to a session that is about to open. config: lds_session_config *."""
        lib().lds_session_config_accelerators(config, self.table, self.count)

    def find_stranger(self) -> None:
        """Where a session would not open because a device is another one: raises DeviceError for
        the accelerator whose register block does not find it."""
        for entry, (name, driver) in zip(self.table, self._drivers.items(), strict=False):
            crc = config_hash_of(bytes(entry.table.fingerprint))
            if entry.device.registers.identify(entry.device.hal, crc) != lib().LDS_HAL_OK:
                block = f"{driver.name}: identify" if driver is not None else "identify"
                raise DeviceError(
                    f"accelerator {name}: {block} does not find it: the device has other "
                    f"instructions or other registers (CRC-32 of its table's fingerprint: {crc:#x})"
                )

    def describe_error(self, device: str, code: int) -> str:
        """What an error of an accelerator means."""
        if device in self._devices:
            return self._devices[device].describe_error(code)
        return f"error {code} of {device}: {ERRORS.get(code, 'unknown to its description')}"

    def _kept(self, made: CData) -> CData:
        self._keep.append(made)
        return made

    def _hal(self, hal: CData, device: TableDevice) -> CData:
        """The HAL of a simulated accelerator: another's memory and clock, its own registers. A
        program runs while it is started."""
        own = ffi.new("lds_hal *", hal[0])
        own.counters = ffi.NULL  # those of the device that it stands beside
        own.irq_wait, own.irq_ack = ffi.NULL, ffi.NULL

        def write(_ctx: CData, offset: int, value: int) -> None:
            try:
                device.write32(offset, value)
            except BaseException as error:  # of a meaning, or Ctrl-C; waits until C has returned
                self.error = error
                device.page.ended(MachineFault(BAD_INSTRUCTION, "a meaning that failed"))

        def reset(_ctx: CData) -> int:
            device.page.ended(None)
            return 0

        own.read32 = self._kept(
            ffi.callback("uint32_t(void *, uint32_t)", lambda _ctx, offset: device.read32(offset))
        )
        own.write32 = self._kept(ffi.callback("void(void *, uint32_t, uint32_t)", write))
        own.hw_reset = self._kept(ffi.callback("int(void *)", reset))
        return self._kept(own)


def sim_memory(sim: CData) -> DramWindow:
    """The memory of lds_hal_sim as its device sees it."""
    out: Sequence[Any] = ffi.new("uint8_t **"), ffi.new("uint64_t *"), ffi.new("size_t *")
    lib().lds_hal_sim_memory(sim, *out)
    cpu, bus, size = (pointer[0] for pointer in out)
    return DramWindow(int(bus), np.frombuffer(ffi.buffer(cpu, size), np.uint8))


def driver_symbols(accelerator: Accelerator) -> tuple[str, str]:
    """What the plug-in's C defines: its register block and what refuses instructions; "" for what
    it leaves out."""
    if accelerator.driver is None:
        return "", ""
    try:
        text = read_whole(accelerator.driver).decode("utf-8", "replace")
    except OSError as error:
        why = error.strerror
        raise DeviceError(f"accelerator {accelerator.name}: {accelerator.driver}: {why}") from None
    names = f"{accelerator.table.name}_registers", f"{accelerator.table.name}_refuse"
    found = [name if re.search(rf"\b{name}\b", text) else "" for name in names]
    if not any(found) or (accelerator.page is not None and not found[0]):
        wanted = names[0] if accelerator.page is not None else " nor ".join(names)
        raise DeviceError(
            f"accelerator {accelerator.name}: {accelerator.driver} does not define {wanted}: "
            f"what it defines is called after the instruction table, {accelerator.table.name!r}"
        )
    return found[0], found[1]


def _driver(accelerator: Accelerator) -> tuple[CData, CData]:
    """Its register block, and what refuses instructions: the native one and nothing where the
    plug-in brings no C."""
    block, refuse = driver_symbols(accelerator)
    native = lib().lds_registers_named(b"native")
    if accelerator.driver is None:
        return native, ffi.NULL
    library = _compiled(accelerator.driver, accelerator.table.name)

    def found(name: str, kind: str) -> CData:
        return ffi.cast(kind, ctypes.addressof(ctypes.c_char.in_dll(library, name)))

    made = found(block, "lds_register_block *") if block else native
    for function in ("identify", "start", "state", "irq_clear", "stop", "counters"):
        if getattr(made, function) == ffi.NULL:
            raise DeviceError(
                f"accelerator {accelerator.name}: {accelerator.driver}: {block} has no function "
                f"{function!r} (driver/include/lds_hal.h)"
            )
    return made, found(refuse, "int (*)(const lds_insn_seen *)") if refuse else ffi.NULL


@lru_cache(maxsize=16)
def _compiled(file: Path, name: str) -> ctypes.CDLL:
    """The plug-in's C as a library of this process. Raises DeviceError with the compiler's first
    complaint."""
    root = source_folder()
    includes = [f"-I{root}/runtime/include", f"-I{root}/driver/include"]
    with tempfile.TemporaryDirectory(prefix="loadstone-") as folder:
        target = str(Path(folder, f"{name}.so"))
        command = [*c_compiler(), *C_FLAGS, *includes, "-fPIC", "-shared", "-o", target, str(file)]
        try:
            done = subprocess.run(command, capture_output=True, text=True, check=False)
        except OSError as error:
            text = f"{command[0] or 'a C compiler'}: {error.strerror}"
            raise DeviceError(f"accelerator {name}: {file} is C, and needs {text}") from None
        if done.returncode:
            complaint = next((t for t in done.stderr.splitlines() if "error" in t), done.stderr)
            raise DeviceError(f"accelerator {name}: {file}: {one_line(complaint)[:200]}")
        return ctypes.CDLL(target)
