# SPDX-License-Identifier: Apache-2.0
"""Run compiled models on a device, from Python: the C runtime and its drivers through cffi.

In:   an artifact's file; NumPy arrays.
Out:  NumPy arrays; counters; DeviceError and ArtifactError with the step, layer and instruction
      that failed.
Next: a board runs the same C code without Python.

    with device.open("sim") as dev, dev.load("model.lds") as session:
        (y,) = session.run([x])              # x: a leading axis of samples, then the model's own
             shape

    session.inputs[0][...] = x               # zero-copy: views of the device's memory (NumPy, so
    DLPack too)
    session.execute()
    y = session.outputs[0]

Needs NumPy and cffi, not TVM.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from functools import partial
from pathlib import Path
from types import TracebackType

from loadstone.artifact.format import Artifact
from loadstone.backend.builtin import device_names, device_of, further_device, load_config
from loadstone.backend.device import NO_DEVICE, Device
from loadstone.errors import ArtifactError, ConfigError, DeviceError
from loadstone.files import is_file, read_whole
from loadstone.library.native import CData, ffi, lib, owned, raise_for
from loadstone.printable import one_line
from loadstone.runtime.handle import Handle
from loadstone.runtime.lent_files import LentFiles
from loadstone.runtime.session import (
    Counters,
    External,
    Session,
    Totals,
    register_external,
)
from loadstone.runtime.simulated import open_simulated, quit_simulated

__all__ = [
    "Counters",
    "External",
    "Handle",
    "OpenedDevice",
    "Session",
    "Totals",
    "device_of_artifact",
    "is_private",
    "open",
    "register_external",
    "validate",
]

_POOL_BYTES = 1 << 30  # address space, not memory: pages are touched when used


def device_of_artifact(artifact: Artifact) -> Device:
    """The device that an artifact was compiled for, as it describes it; one that says its name
    alone is built in, under this name or with the same fingerprint. Raises ConfigError."""
    said = artifact.devices[0]
    if said.has_configuration and said.attributes != "{}":
        return further_device(said)
    return _built_in(artifact)


def _built_in(artifact: Artifact) -> Device:
    found = device_of(artifact.device, artifact.fingerprint)
    if found is not None:
        return found
    raise ConfigError(
        f"model {artifact.name!r} was compiled for device {artifact.device or 'unknown'!r}, "
        "which is not built in: name its file, sim:FILE"
    )


def open(spec: str = "sim", *, shadow: bool = False, timing: bool = True) -> OpenedDevice:  # noqa: A001
    """A device. Raises DeviceError when it is not there.

    sim            the simulator, as the device that the first model was compiled for
    sim:DEVICE     the simulator of a built-in device or a JSON file (plain DEVICE is the same)
    simd:SOCKET    a simulator that is a process of its own (`loadstone simd SOCKET`), its
                   further devices at SOCKET.NAME
    null           a device that computes nothing: the host's own time
    uio:PATH       a board under Linux: registers and interrupt from a UIO device, DMA memory from
    its second map,
                   or from u-dma-buf: uio:PATH,/dev/udmabuf0
    devmem:ADDRESS+BYTES   a board under Linux through /dev/mem: registers where the configuration
    says, memory there

    shadow (sim): CPU and device have copies of DMA memory, as with caches that are not coherent.
    timing (sim): count cycles.
    """
    if "\0" in spec or (not spec.isascii() and not _encodes(spec)):
        raise DeviceError(f"device {one_line(spec)!r}: a name that no file can have")
    kind, _, argument = spec.partition(":")
    if kind not in _KINDS and (spec in device_names() or is_file(Path(spec))):
        kind, argument = "sim", spec
    if kind not in _KINDS:
        raise DeviceError(
            f"device {spec!r} is not one of {', '.join(_KINDS)}, a built-in device, or a JSON file"
        )
    config = load_config(argument) if kind == "sim" and argument else None
    return OpenedDevice(kind, argument, config, shadow=shadow, timing=timing)


def validate(artifact: Artifact | bytes) -> tuple[int, int, int]:
    """The C validator's verdict on a model: (status, step, instruction), with status 0 when it
    accepts all programs.

    Raises ArtifactError for an invalid file.
    """
    data = artifact if isinstance(artifact, bytes) else artifact.to_bytes()
    model, fault = ffi.new("lds_model *"), ffi.new("lds_fault *")
    buffer = ffi.from_buffer(data)
    raise_for(lib().lds_model_open(model, buffer, len(data)), "file")
    scratch = ffi.new("uint64_t[]", lib().lds_model_scratch_bytes(model) // 8 + 1)
    status = lib().lds_model_validate(model, scratch, ffi.sizeof(scratch), fault)
    return status, fault.step, fault.instruction


def is_private(spec: str) -> bool:
    """Whether each open() creates a separate device, as for simulated ones and null."""
    kind = spec.partition(":")[0]
    return kind in ("sim", "null") or kind not in _KINDS


# --- devices --------------------------------------------------------------------------------------
def _open_sim(opened: OpenedDevice) -> tuple[CData, CData]:
    opened.sim = open_simulated(
        opened.device, _POOL_BYTES, shadow=opened.shadow, timing=opened.timing
    )
    return opened.sim, lib().lds_hal_sim_hal(opened.sim)


def _open_null(opened: OpenedDevice) -> tuple[CData, CData]:
    if opened.argument:
        raise DeviceError(f"device null takes no argument, not {opened.argument!r}")
    null = lib().lds_hal_null_create(opened.device.config_hash, _POOL_BYTES)
    if null == ffi.NULL:
        raise DeviceError("device null: out of memory")
    return owned(null, lib().lds_hal_null_destroy), lib().lds_hal_null_hal(null)


def _open_simd(opened: OpenedDevice) -> tuple[CData, CData]:
    return _simd_at(opened.argument)


def _simd_at(path: str) -> tuple[CData, CData]:
    simd = ffi.new("lds_hal_simd **")
    status = lib().lds_hal_simd_open(path.encode(), simd)
    if status == lib().LDS_HAL_UNSUPPORTED:
        raise DeviceError(f"the simulator at {path} is of another version of loadstone")
    if status == lib().LDS_HAL_TIMEOUT:
        raise DeviceError(
            f"the simulator at {path} is in use by another client: end that one, "
            "or start a second simulator"
        )
    if status == lib().LDS_HAL_NO_MEMORY:
        raise DeviceError(
            f"the memory of the simulator at {path} cannot be used safely: it is "
            "not sealed (--memory FILE is for emulated "
            "machines), or too large to be mapped"
        )
    if status:
        raise DeviceError(
            f"no simulator answers at {path!r}: start `loadstone simd {path or 'SOCKET'}`"
        )
    return owned(simd[0], lib().lds_hal_simd_close), lib().lds_hal_simd_hal(simd[0])


def _open_uio(opened: OpenedDevice) -> tuple[CData, CData]:
    uio, comma, udmabuf = opened.argument.partition(",")
    if not uio or (comma and not udmabuf):
        raise DeviceError(
            f"device uio:{opened.argument} is not uio:PATH, such as uio:/dev/uio0, or "
            "uio:PATH,UDMABUF, such as uio:/dev/uio0,/dev/udmabuf0"
        )
    board = ffi.new("lds_linux *")
    device, memory = opened.device, udmabuf.encode() if udmabuf else ffi.NULL
    status = lib().lds_linux_open_uio(
        board,
        uio.encode(),
        device.register_block.size_bytes,
        memory,
        device.bus_offset,
        ffi.NULL,
    )
    return _linux(board, status)


def _open_devmem(opened: OpenedDevice) -> tuple[CData, CData]:
    device = opened.device
    try:
        memory, size = (int(number, 0) for number in opened.argument.split("+"))
    except ValueError:
        memory, size = 0, 0
    if not (0 <= memory < 1 << 64 and 0 < size < 1 << 48):
        raise DeviceError(
            f"device devmem:{opened.argument} is not devmem:ADDRESS+BYTES, the memory that "
            "is reserved for DMA"
        )
    board = ffi.new("lds_linux *")
    registers = device.register_block
    if registers.base_address == 0:
        raise DeviceError(
            f"device devmem:{opened.argument}: {device.name} has no register_base, so the "
            "address of its registers is unknown: uio:PATH reads it from the device tree"
        )
    status = lib().lds_linux_open_devmem(
        board,
        b"/dev/mem",
        registers.base_address,
        registers.size_bytes,
        memory,
        size,
        device.bus_offset,
    )
    return _linux(board, status)


def _message(board: CData) -> str:
    return str(ffi.string(board.message).decode())


def _simd_message(simd: CData) -> str:
    return str(ffi.string(lib().lds_hal_simd_message(simd)).decode())


def _linux(board: CData, status: int) -> tuple[CData, CData]:
    if status:
        raise DeviceError(_message(board))
    return owned(board, lib().lds_linux_close), ffi.addressof(board, "hal")


#: Kind -> what makes (owner of the memory, lds_hal).
_KINDS: Mapping[str, Callable[[OpenedDevice], tuple[CData, CData]]] = {
    "sim": _open_sim,
    "simd": _open_simd,
    "null": _open_null,
    "uio": _open_uio,
    "devmem": _open_devmem,
}


#: Kinds that have registers at addresses of the machine.
_BOARDS = ("uio", "devmem")

#: Kind -> what says why it had no memory.
_MESSAGES: Mapping[str, Callable[[CData], str]] = {
    "simd": _simd_message,
    "uio": _message,
    "devmem": _message,
}


class OpenedDevice:
    """One device. It is opened when the first model is loaded, because the model may determine its
    configuration. A context manager."""

    def __init__(
        self,
        kind: str,
        argument: str,
        device: Device | None,
        *,
        shadow: bool = False,
        timing: bool = True,
    ) -> None:
        self.kind = kind
        self.argument = argument
        self.shadow = shadow
        self.timing = timing
        self.sim: CData = None  # lds_hal_sim *, for tests that order faults
        self._device = device
        self._handle: Handle | None = None
        self._idle: Handle | None = None  # as long as no model has programs
        self._process: int | None = None  # that opened it
        self._further: dict[str, tuple[CData, CData]] = {}
        self._sessions: list[Session] = []

    @property
    def device(self) -> Device:
        """The opened device, known from the first model on."""
        assert self._device is not None
        return self._device

    def load(
        self,
        model: Artifact | str | Path | bytes,
        *,
        hang_seconds: float | None = None,
        trust: bool = False,
    ) -> Session:
        """A session of a model (an Artifact, its bytes, or its file). hang_seconds: after this time
        without progress the device counts as hung; None: the time follows from the program
        (docs/runtime.md). Raises ArtifactError, DeviceError."""
        given = _read(model) if isinstance(model, str | Path) else model
        data = given.to_bytes() if isinstance(given, Artifact) else given
        artifact = model if isinstance(model, Artifact) else Artifact.from_bytes(data)
        if self._device is None:
            # on a board, where registers stand is not for a file to say
            found = _built_in if self.kind in _BOARDS else device_of_artifact
            self._device = found(artifact)
        if self.device.fingerprint() != artifact.fingerprint:
            raise ArtifactError(
                f"model {artifact.name!r} was compiled for device "
                f"{artifact.device or 'unknown'!r}, not for {self.device.name!r}"
            )
        session = Session(self.device, self.handle(artifact), artifact, data, hang_seconds, trust)
        self._sessions.append(session)
        return session

    def forget(self, session: Session) -> None:
        """Closes a session that is no longer needed, and frees its memory for others."""
        session.close()
        if session in self._sessions:
            self._sessions.remove(session)

    def handle(self, artifact: Artifact | None = None) -> Handle:
        """The open device as a C struct, opened on demand. artifact: the first model. Raises
        DeviceError, also in a forked process whose parent has opened it."""
        # a device without programs needs no simulator: nothing is ever sent to it
        alone = artifact is None or not artifact.further
        if self._handle is None and self.kind == "sim" and self.device is NO_DEVICE and alone:
            handle = self._idle = self._idle or self._opened("null")
        else:  # a later model may have programs of further devices
            handle = self._handle = self._handle or self._opened(self.kind)
        if self._process not in (None, os.getpid()):
            raise DeviceError(
                f"device {self.kind!r} was opened by process {self._process}, of which this one is "
                "a fork: open it here"
            )
        return handle

    def _opened(self, kind: str) -> Handle:
        self._process = self._process or os.getpid()
        owner, hal = _KINDS[kind](self)
        name = "native" if kind == "null" else self.device.register_block.name
        registers = lib().lds_registers_named(name.encode())
        device = ffi.new("lds_device *")
        raise_for(lib().lds_device_open(device, hal, registers, self.device.config_hash), "open")
        sim = owner if kind == "sim" else None
        message = partial(_MESSAGES[kind], owner) if kind in _MESSAGES else str
        files = None if sim is None or self.shadow else LentFiles(sim)
        return Handle(device, owner, sim, self.timing, self._connect, message, files)

    def _connect(self, name: str) -> tuple[CData, CData] | None:
        """Another device of the same board: (owner, lds_hal); None where there is none. A simulator
        process has a socket for each, with one memory."""
        is_equal = name.startswith(f"{self.device.name}.")  # vta/device/cores.py
        if name not in self._further and self.kind == "null" and is_equal:
            self._further[name] = _open_null(self)
        socket = f"{self.argument}.{name}"
        if name not in self._further and self.kind == "simd" and Path(socket).is_socket():
            self._further[name] = _simd_at(socket)
        return self._further.get(name)

    def close(self) -> None:
        """Closes its sessions, then itself; arrays that still exist keep its memory."""
        for session in self._sessions:
            session.close()
        self._sessions.clear()
        if self.sim is not None:
            quit_simulated(self.sim)
        self._further.clear()
        self._handle = self._idle = self.sim = self._process = None

    def __enter__(self) -> OpenedDevice:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()


def _read(path: str | Path) -> bytes:
    try:
        return read_whole(path)
    except OSError as error:
        raise ArtifactError(f"{path}: {error.strerror}") from None


def _encodes(text: str) -> bool:
    try:
        text.encode()
    except UnicodeEncodeError:
        return False
    return True
