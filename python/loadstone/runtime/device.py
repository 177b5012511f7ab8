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

from collections.abc import Callable, Mapping
from pathlib import Path
from types import TracebackType
from typing import Any

from loadstone.artifact.format import Artifact
from loadstone.errors import ArtifactError, ConfigError, DeviceError
from loadstone.files import is_file
from loadstone.printable import one_line
from loadstone.runtime.native import ffi, lib
from loadstone.runtime.session import Counters, External, Session, raise_for, register_external
from loadstone.vta.hw_config import HwConfig, device_names, load_config

__all__ = [
    "Counters",
    "Device",
    "External",
    "Session",
    "builtin_config",
    "is_private",
    "open",
    "register_external",
    "validate",
]

#: Seconds without progress after which a device hangs.
HANG_SECONDS = 10.0
_POOL_BYTES = 1 << 30  # address space, not memory: pages are touched when used
_REGISTER_PAGES = {"native": 0, "vta-chisel": 1, "vta-hls": 2}
_REGISTER_BYTES = {"native": 0x1000, "vta-chisel": 0x1000, "vta-hls": 0x4000}


def builtin_config(artifact: Artifact) -> HwConfig:
    """The built-in device that an artifact was compiled for: by name, else the first of the same
    fingerprint. Raises ConfigError."""
    names = device_names()
    for name in sorted(names, key=lambda n: n != artifact.device):
        config = load_config(name)
        if config.fingerprint() == artifact.fingerprint:
            return config
    raise ConfigError(
        f"model {artifact.name!r} was compiled for device {artifact.device or 'unknown'!r}, "
        "which is not built in: name its file, sim:FILE"
    )


def open(spec: str = "sim", *, shadow: bool = False, timing: bool = True) -> Device:  # noqa: A001
    """A device. Raises DeviceError when it is not there.

    sim            the simulator, as the device that the first model was compiled for
    sim:DEVICE     the simulator of a built-in device or a JSON file (plain DEVICE is the same)
    simd:SOCKET    a simulator that is a process of its own (`loadstone simd SOCKET`)
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
    return Device(kind, argument, config, shadow=shadow, timing=timing)


def validate(artifact: Artifact | bytes) -> tuple[int, int, int]:
    """What the C validator says of a model: (status, step, instruction), status 0 when it accepts
    all programs.

    Raises ArtifactError for a file that is not sound.
    """
    data = artifact if isinstance(artifact, bytes) else artifact.to_bytes()
    model, fault = ffi.new("lds_model *"), ffi.new("lds_fault *")
    buffer = ffi.from_buffer(data)
    raise_for(lib().lds_model_open(model, buffer, len(data)), "file")
    scratch = ffi.new("uint64_t[]", lib().lds_validate_scratch_bytes(model) // 8 + 1)
    status = lib().lds_model_validate(model, scratch, ffi.sizeof(scratch), fault)
    return status, fault.step, fault.instruction


def is_private(spec: str) -> bool:
    """Whether each open() makes a device of its own: simulated ones, and null."""
    kind = spec.partition(":")[0]
    return kind in ("sim", "null") or kind not in _KINDS


# --- devices --------------------------------------------------------------------------------------
def _open_sim(device: Device) -> tuple[Any, Any]:
    config = device.require_config()
    fingerprint = ffi.from_buffer(config.fingerprint())
    flags = lib().LDS_HAL_SIM_SHADOW if device.shadow else 0
    page = _REGISTER_PAGES[config.registers]
    sim = lib().lds_hal_sim_create(
        ffi.cast("lds_hw_config *", fingerprint), config.bus_bits, page, _POOL_BYTES, flags
    )
    if sim == ffi.NULL:
        raise DeviceError(f"device {config.name} cannot be simulated: out of memory")
    core = lib().lds_simdev_sim(lib().lds_hal_sim_device(sim))
    for name, constant in config.timing.items():
        if lib().lds_sim_set_timing(core, name.encode(), constant.value):
            raise DeviceError(
                f"device {config.name}: {ffi.string(lib().lds_sim_message(core)).decode()}"
            )
    lib().lds_sim_set_option(core, lib().LDS_SIM_TIMING, int(device.timing))
    device.sim = sim
    return ffi.gc(sim, lib().lds_hal_sim_destroy), lib().lds_hal_sim_hal(sim)


def _open_null(device: Device) -> tuple[Any, Any]:
    if device.argument:
        raise DeviceError(f"device null takes no argument, not {device.argument!r}")
    null = lib().lds_hal_null_create(device.require_config().config_hash, _POOL_BYTES)
    if null == ffi.NULL:
        raise DeviceError("device null: out of memory")
    return ffi.gc(null, lib().lds_hal_null_destroy), lib().lds_hal_null_hal(null)


def _open_simd(device: Device) -> tuple[Any, Any]:
    simd = ffi.new("lds_hal_simd **")
    status = lib().lds_hal_simd_open(device.argument.encode(), simd)
    if status == lib().LDS_HAL_UNSUPPORTED:
        raise DeviceError(f"the simulator at {device.argument} is of another version of loadstone")
    if status:
        raise DeviceError(
            f"no simulator answers at {device.argument!r}: start `loadstone simd "
            f"{device.argument or 'SOCKET'}`"
        )
    return ffi.gc(simd[0], lib().lds_hal_simd_close), lib().lds_hal_simd_hal(simd[0])


def _open_uio(device: Device) -> tuple[Any, Any]:
    uio, _, udmabuf = device.argument.partition(",")
    board = ffi.new("lds_linux *")
    config, memory = device.require_config(), udmabuf.encode() if udmabuf else ffi.NULL
    pages = _REGISTER_BYTES[config.registers]
    return _linux(
        board,
        lib().lds_linux_open_uio(board, uio.encode(), pages, memory, config.bus_offset, ffi.NULL),
    )


def _open_devmem(device: Device) -> tuple[Any, Any]:
    config = device.require_config()
    try:
        memory, size = (int(number, 0) for number in device.argument.split("+"))
    except ValueError:
        memory, size = 0, 0
    if not (0 <= memory < 1 << 64 and 0 < size < 1 << 48):
        raise DeviceError(
            f"device devmem:{device.argument} is not devmem:ADDRESS+BYTES, the memory that "
            "is reserved for DMA"
        )
    board = ffi.new("lds_linux *")
    pages = _REGISTER_BYTES[config.registers]
    return _linux(
        board,
        lib().lds_linux_open_devmem(
            board, b"/dev/mem", config.register_base, pages, memory, size, config.bus_offset
        ),
    )


def _linux(board: Any, status: int) -> tuple[Any, Any]:
    if status:
        raise DeviceError(ffi.string(board.message).decode())
    return ffi.gc(board, lib().lds_linux_close), ffi.addressof(board, "hal")


#: Kind -> what makes (owner of the memory, lds_hal).
_KINDS: Mapping[str, Callable[[Device], tuple[Any, Any]]] = {
    "sim": _open_sim,
    "simd": _open_simd,
    "null": _open_null,
    "uio": _open_uio,
    "devmem": _open_devmem,
}


class Device:
    """One device: opens when the first model is loaded, as its configuration may come from that. A
    context manager."""

    def __init__(
        self,
        kind: str,
        argument: str,
        config: HwConfig | None,
        *,
        shadow: bool = False,
        timing: bool = True,
    ) -> None:
        self.kind = kind
        self.argument = argument
        self.config = config
        self.shadow = shadow
        self.timing = timing
        self.sim: Any = None  # lds_hal_sim *, for tests that order faults
        self._owner: Any = None
        self._device: Any = None
        self._sessions: list[Session] = []

    def require_config(self) -> HwConfig:
        """The configuration, known from the first model on."""
        assert self.config is not None
        return self.config

    def load(
        self,
        model: Artifact | str | Path | bytes,
        *,
        hang_seconds: float = HANG_SECONDS,
        trust: bool = False,
    ) -> Session:
        """A session of a model (an Artifact, its bytes, or its file). Raises ArtifactError,
        DeviceError."""
        data = (
            model.to_bytes()
            if isinstance(model, Artifact)
            else model
            if isinstance(model, bytes)
            else _read(model)
        )
        artifact = model if isinstance(model, Artifact) else Artifact.from_bytes(data)
        if self.config is None:
            self.config = builtin_config(artifact)
        if self.config.fingerprint() != artifact.fingerprint:
            raise ArtifactError(
                f"model {artifact.name!r} was compiled for device "
                f"{artifact.device or 'unknown'!r}, not for {self.config.name!r}"
            )
        handle = self.handle()
        session = Session(handle, self._owner, artifact, data, hang_seconds, trust)
        self._sessions.append(session)
        return session

    def handle(self) -> Any:
        """lds_device *, opened on demand."""
        if self._device is None:
            self._owner, hal = _KINDS[self.kind](self)
            name = "native" if self.kind == "null" else self.require_config().registers
            registers = lib().lds_registers_named(name.encode())
            self._device = ffi.new("lds_device *")
            raise_for(
                lib().lds_device_open(
                    self._device, hal, registers, self.require_config().config_hash
                ),
                "open",
            )
        return self._device

    def close(self) -> None:
        """Closes its sessions, then itself; arrays that are still there keep its memory."""
        for session in self._sessions:
            session.close()
        self._sessions.clear()
        self._owner = self._device = self.sim = None

    def __enter__(self) -> Device:
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
        return Path(path).read_bytes()
    except OSError as error:
        raise ArtifactError(f"{path}: {error.strerror}") from None


def _encodes(text: str) -> bool:
    try:
        text.encode()
    except UnicodeEncodeError:
        return False
    return True
