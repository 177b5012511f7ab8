"""Run compiled models on a device, from Python: the C runtime and its drivers through cffi.

In:   an artifact's file; NumPy arrays.
Out:  NumPy arrays; counters; DeviceError and ArtifactError with the step, layer and instruction that failed.
Next: a board runs the same C code without Python.

    with device.open("sim") as dev, dev.load("model.lds") as session:
        (y,) = session.run([x])              # x: a leading axis of samples, then the model's own shape

    session.inputs[0][...] = x               # zero-copy: views of the device's memory (NumPy, so DLPack too)
    session.execute()
    y = session.outputs[0]

Needs NumPy and cffi, not TVM.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import Any

import numpy as np
import numpy.typing as npt

from loadstone._native import ffi, lib
from loadstone.artifact import Artifact, DataType, DeviceProgram, HostStep, Tensor
from loadstone.backend import External
from loadstone.errors import ArtifactError, ConfigError, DeviceError, DeviceHungError, LoadstoneError
from loadstone.vta.hw_config import HwConfig, device_names, load_config
from loadstone.vta.isa.registers import ERRORS

__all__ = ["Array", "Counters", "Device", "External", "Session", "config_of", "open", "register_external", "validate"]

Array = npt.NDArray[Any]

#: Seconds without progress after which a device hangs.
HANG_SECONDS = 10.0
_POOL_BYTES = 1 << 30  # address space, not memory: pages are touched when used
_REGISTER_PAGES = {"native": 0, "vta-chisel": 1, "vta-hls": 2}
_REGISTER_BYTES = {"native": 0x1000, "vta-chisel": 0x1000, "vta-hls": 0x4000}
_EXTERNALS: dict[str, External] = {}


def register_external(name: str, function: External) -> None:
    """Makes `function` known for external steps called `name`; a later one replaces an earlier one."""
    _EXTERNALS[name] = function


@dataclass(frozen=True)
class Counters:
    """What the device counted over the last run; 0 for what it does not count."""

    cycles: int
    load_busy_cycles: int
    compute_busy_cycles: int
    store_busy_cycles: int
    read_bytes: int
    write_bytes: int


def config_of(artifact: Artifact) -> HwConfig:
    """The built-in device that an artifact was compiled for: by name, else the first of the same fingerprint. Raises ConfigError."""
    names = device_names()
    for name in sorted(names, key=lambda n: n != artifact.device):
        config = load_config(name)
        if config.fingerprint() == artifact.fingerprint:
            return config
    raise ConfigError(
        f"model {artifact.name!r} was compiled for device {artifact.device or 'unknown'!r}, which is not built in: name its file, sim:FILE"
    )


def open(spec: str = "sim", *, shadow: bool = False, timing: bool = True) -> Device:  # noqa: A001
    """A device. Raises DeviceError when it is not there.

    sim            the simulator, as the device that the first model was compiled for
    sim:DEVICE     the simulator of a built-in device or a JSON file (plain DEVICE is the same)
    simd:SOCKET    a simulator that is a process of its own (`loadstone simd SOCKET`)
    null           a device that computes nothing: the host's own time
    uio:PATH       a board under Linux: registers and interrupt from a UIO device, DMA memory from its second map,
                   or from u-dma-buf: uio:PATH,/dev/udmabuf0
    devmem:ADDRESS+BYTES   a board under Linux through /dev/mem: registers where the configuration says, memory there

    shadow (sim): CPU and device have copies of DMA memory, as with caches that are not coherent. timing (sim): count cycles.
    """
    kind, _, argument = spec.partition(":")
    if kind not in _KINDS and (spec in device_names() or Path(spec).is_file()):
        kind, argument = "sim", spec
    if kind not in _KINDS:
        raise DeviceError(f"device {spec!r} is not one of {', '.join(_KINDS)}, a built-in device, or a JSON file")
    config = load_config(argument) if kind == "sim" and argument else None
    return Device(kind, argument, config, shadow=shadow, timing=timing)


def validate(artifact: Artifact | bytes) -> tuple[int, int, int]:
    """What the C validator says of a model: (status, step, instruction), status 0 when it accepts all programs.

    Raises ArtifactError for a file that is not sound.
    """
    data = artifact if isinstance(artifact, bytes) else artifact.to_bytes()
    open_model = lib().lds_model_open
    model, fault = ffi.new("lds_model *"), ffi.new("lds_fault *")
    buffer = ffi.from_buffer(data)
    _raise(open_model(model, buffer, len(data)), "file")
    scratch = ffi.new("uint64_t[]", lib().lds_validate_scratch_bytes(model) // 8 + 1)
    status = lib().lds_model_validate(model, scratch, ffi.sizeof(scratch), fault)
    return status, fault.step, fault.instruction


# --- devices --------------------------------------------------------------------------------------
def _open_sim(device: Device) -> tuple[Any, Any]:
    config = device.require_config()
    fingerprint = ffi.from_buffer(config.fingerprint())
    flags = lib().LDS_HAL_SIM_SHADOW if device.shadow else 0
    page = _REGISTER_PAGES[config.registers]
    sim = lib().lds_hal_sim_create(ffi.cast("lds_hw_config *", fingerprint), config.bus_bits, page, _POOL_BYTES, flags)
    if sim == ffi.NULL:
        raise DeviceError(f"device {config.name} cannot be simulated: out of memory")
    core = lib().lds_simdev_sim(lib().lds_hal_sim_device(sim))
    for name, constant in config.timing.items():
        if lib().lds_sim_set_timing(core, name.encode(), constant.value):
            raise DeviceError(f"device {config.name}: {ffi.string(lib().lds_sim_message(core)).decode()}")
    lib().lds_sim_set_option(core, lib().LDS_SIM_TIMING, int(device.timing))
    device.sim = sim
    return ffi.gc(sim, lib().lds_hal_sim_destroy), lib().lds_hal_sim_hal(sim)


def _open_null(device: Device) -> tuple[Any, Any]:
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
        raise DeviceError(f"no simulator answers at {device.argument!r}: start `loadstone simd {device.argument or 'SOCKET'}`")
    return ffi.gc(simd[0], lib().lds_hal_simd_close), lib().lds_hal_simd_hal(simd[0])


def _open_uio(device: Device) -> tuple[Any, Any]:
    uio, _, udmabuf = device.argument.partition(",")
    board = ffi.new("lds_linux *")
    memory = udmabuf.encode() if udmabuf else ffi.NULL
    return _linux(board, lib().lds_linux_open_uio(board, uio.encode(), memory, device.require_config().bus_offset, ffi.NULL))


def _open_devmem(device: Device) -> tuple[Any, Any]:
    config = device.require_config()
    try:
        memory, size = (int(number, 0) for number in device.argument.split("+"))
    except ValueError:
        raise DeviceError(f"device devmem:{device.argument} is not devmem:ADDRESS+BYTES, the memory that is reserved for DMA") from None
    board = ffi.new("lds_linux *")
    pages = _REGISTER_BYTES[config.registers]
    return _linux(board, lib().lds_linux_open_devmem(board, b"/dev/mem", config.register_base, pages, memory, size, config.bus_offset))


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
    """One device: opens when the first model is loaded, as its configuration may come from that. A context manager."""

    def __init__(self, kind: str, argument: str, config: HwConfig | None, *, shadow: bool = False, timing: bool = True) -> None:
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

    def load(self, model: Artifact | str | Path | bytes, *, hang_seconds: float = HANG_SECONDS) -> Session:
        """A session of a model (an Artifact, its bytes, or its file). Raises ArtifactError, DeviceError."""
        data = model.to_bytes() if isinstance(model, Artifact) else model if isinstance(model, bytes) else _read(model)
        artifact = model if isinstance(model, Artifact) else Artifact.from_bytes(data)
        if self.config is None:
            self.config = config_of(artifact)
        if self.config.fingerprint() != artifact.fingerprint:
            raise ArtifactError(
                f"model {artifact.name!r} was compiled for device {artifact.device or 'unknown'!r}, not for {self.config.name!r}"
            )
        session = Session(self, artifact, data, hang_seconds)
        self._sessions.append(session)
        return session

    def handle(self) -> Any:
        """lds_device *, opened on demand."""
        if self._device is None:
            self._owner, hal = _KINDS[self.kind](self)
            name = "native" if self.kind == "null" else self.require_config().registers
            registers = lib().lds_registers_named(name.encode())
            self._device = ffi.new("lds_device *")
            _raise(lib().lds_device_open(self._device, hal, registers, self.require_config().config_hash), "open")
        return self._device

    def close(self) -> None:
        """Closes its sessions, then itself."""
        for session in self._sessions:
            session.close()
        self._sessions.clear()
        if self._owner is not None:
            ffi.release(self._owner)
        self._owner = self._device = self.sim = None

    def __enter__(self) -> Device:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        self.close()


def _read(path: str | Path) -> bytes:
    try:
        return Path(path).read_bytes()
    except OSError as error:
        raise ArtifactError(f"{path}: {error.strerror}") from None


# --- sessions -------------------------------------------------------------------------------------
class Session:
    """A model on a device. A context manager; close it before the device (Device.close does both)."""

    def __init__(self, device: Device, artifact: Artifact, data: bytes, hang_seconds: float) -> None:
        self.device = device
        self.artifact = artifact
        self._session: Any = ffi.NULL
        self._error: BaseException | None = None
        self._check_externals()
        open_model = lib().lds_model_open  # the library first: it brings the types
        self._bytes = ffi.from_buffer(data)
        self._model = ffi.new("lds_model *")
        _raise(open_model(self._model, self._bytes, len(data)), artifact.name)
        config = ffi.new("lds_session_config *")
        lib().lds_session_config_default(config)
        config.hang_ns = int(hang_seconds * 1e9)
        self._callback = ffi.callback("int(void *, lds_session *, uint32_t)", self._external)
        config.external = self._callback
        size = lib().lds_session_size_bytes(self._model, config)
        self._memory = np.empty(size, np.uint8)
        fault, session = ffi.new("lds_fault *"), ffi.new("lds_session **")
        memory = ffi.cast("void *", self._memory.ctypes.data)
        status = lib().lds_session_open(session, self._model, device.handle(), config, memory, size, fault)
        if status:
            self._raise(status, fault)
        self._session = session[0]
        self.inputs = tuple(self._view(lib().lds_session_input, k, i) for k, i in enumerate(artifact.inputs))
        self.outputs = tuple(self._view(lib().lds_session_output, k, i) for k, i in enumerate(artifact.outputs))

    # --- running ----------------------------------------------------------------------------------
    def run(self, inputs: Sequence[Array] | Mapping[str, Array], progress: Callable[[int], None] | None = None) -> list[Array]:
        """All samples through the model: arrays with a leading axis of samples, then the model's own shape.

        inputs: in the model's order, or by tensor name. progress: called with the number of samples done.
        Raises DeviceError for arrays that do not fit, naming name, shape and type wanted.
        """
        arrays = self._checked(inputs)
        count = len(arrays[0]) if arrays else 1
        outputs = [np.empty((count, *_sample_shape(t, self.artifact.samples)), t.dtype.numpy) for t in self._tensors(self.artifact.outputs)]
        group = self.artifact.samples
        for begin in range(0, count, group):
            end = min(begin + group, count)
            for view, array in zip(self.inputs, arrays, strict=True):
                rows = view.reshape(group, *array.shape[1:])
                rows[: end - begin] = array[begin:end]
                rows[end - begin :] = 0
            self.execute()
            for view, out in zip(self.outputs, outputs, strict=True):
                out[begin:end] = view.reshape(group, *out.shape[1:])[: end - begin]
            if progress is not None:
                progress(end)
        return outputs

    def execute(self) -> None:
        """One run on what stands in `inputs`; the result stands in `outputs`. Raises DeviceError."""
        self._error = None
        status = lib().lds_session_run(self._open())
        if self._error is not None:
            raise self._error
        self._finish(status)

    def start(self) -> None:
        """Begins a run without waiting for the device."""
        self._finish(lib().lds_session_start(self._open()))

    def wait(self, seconds: float = float("inf")) -> bool:
        """Whether the run is done; False when the time has passed before."""
        status = lib().lds_session_wait(self._open(), (1 << 64) - 1 if seconds == float("inf") else int(seconds * 1e9))
        if status != lib().LDS_BUSY:
            self._finish(status)
        return bool(status != lib().LDS_BUSY)

    @property
    def counters(self) -> Counters:
        """Of the last run, all its device programs together."""
        raw = ffi.new("lds_counters *")
        lib().lds_session_counters(self._open(), raw)
        return Counters(*(int(getattr(raw, name)) for name in Counters.__dataclass_fields__))

    def close(self) -> None:
        """Stops the device if it runs, and frees its memory. The views of inputs and outputs must not be used any more."""
        if self._session != ffi.NULL:
            self.inputs = self.outputs = ()
            lib().lds_session_close(self._session)
        self._session = ffi.NULL

    def __enter__(self) -> Session:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        self.close()

    # --- inside -----------------------------------------------------------------------------------
    def _open(self) -> Any:
        if self._session == ffi.NULL:
            raise DeviceError(f"the session of model {self.artifact.name!r} is closed")
        return self._session

    def _tensors(self, indices: Sequence[int]) -> list[Tensor]:
        return [self.artifact.tensors[i] for i in indices]

    def _view(self, get: Any, port: int, index: int) -> Array:
        return _array(get(self._session, port), self.artifact.tensors[index])

    def _checked(self, inputs: Sequence[Array] | Mapping[str, Array]) -> list[Array]:
        tensors = self._tensors(self.artifact.inputs)
        if isinstance(inputs, Mapping):
            missing = [t.name for t in tensors if t.name not in inputs]
            if missing:
                raise DeviceError(f"input {missing[0]!r} is missing; the model's are {', '.join(t.name for t in tensors)}")
            inputs = [inputs[t.name] for t in tensors]
        if len(inputs) != len(tensors):
            raise DeviceError(f"{len(inputs)} inputs were given, the model has {len(tensors)}: {', '.join(t.name for t in tensors)}")
        arrays = [np.asarray(a) for a in inputs]
        for tensor, array in zip(tensors, arrays, strict=True):
            shape = _sample_shape(tensor, self.artifact.samples)
            if array.shape[1:] != shape or array.dtype != tensor.dtype.numpy:
                raise DeviceError(
                    f"input {tensor.name!r} has shape {array.shape} and type {array.dtype}, "
                    f"not (samples, {', '.join(map(str, shape))}) and {tensor.dtype.name.lower()}"
                )
            if len(array) != len(arrays[0]):
                raise DeviceError(f"input {tensor.name!r} has {len(array)} samples, {tensors[0].name!r} has {len(arrays[0])}")
        return arrays

    def _check_externals(self) -> None:
        for step in self.artifact.steps:
            if isinstance(step, HostStep) and step.function and step.function.startswith("loadstone.") and step.function not in _EXTERNALS:
                from loadstone.externals import EXTERNALS  # what the compiler leaves to Python; a board without it never comes here

                _EXTERNALS.update(EXTERNALS)
            if isinstance(step, HostStep) and step.function and step.function not in _EXTERNALS:
                from loadstone.plugins import load_plugins  # an installed back end makes its functions known

                load_plugins()
            if isinstance(step, HostStep) and step.function and step.function not in _EXTERNALS:
                raise ArtifactError(
                    f"step {step.name!r} needs the external function {step.function!r}: name its back end's folder with --uma-backends, "
                    "or make it known with device.register_external"
                )

    def _external(self, _ctx: Any, session: Any, step: int) -> int:
        """The C runtime has come to an external step. An exception waits until C has returned."""
        try:
            host = self.artifact.steps[step]
            assert isinstance(host, HostStep)
            arrays = [self._operand(session, step, k, i) for k, i in enumerate((*host.inputs, *host.outputs))]
            count = len(host.inputs)
            results = _EXTERNALS[host.function](arrays[:count], host.attributes)
            for out, result in zip(arrays[count:], results, strict=True):
                out[...] = result
        except BaseException as error:
            self._error = error
            return int(lib().LDS_ERR_HAL)
        return 0

    def _operand(self, session: Any, step: int, k: int, index: int) -> Array:
        operand = ffi.new("lds_operand *")
        _raise(lib().lds_session_operand(session, step, k, operand), self.artifact.name)
        return _array(operand.data, self.artifact.tensors[index])

    def _finish(self, status: int) -> None:
        if status:
            fault = ffi.new("lds_fault *")
            lib().lds_session_fault(self._session, fault)
            self._raise(status, fault)

    def _raise(self, status: int, fault: Any) -> None:
        place = ""
        if fault.step < len(self.artifact.steps):
            step = self.artifact.steps[fault.step]
            place = f", step {step.name!r}"
            if isinstance(step, DeviceProgram):
                layer = ffi.string(fault.layer).decode() if fault.layer != ffi.NULL else ""
                place += f", instruction {fault.instruction}" + (f" (layer {layer!r})" if layer else "")
        if fault.error:
            name, text = next((n, t) for n, (code, t) in ERRORS.items() if code == fault.error)
            place += f": {name}, {text}; bus address {fault.error_addr:#010x}"
        _raise(status, self.artifact.name, place)


def _sample_shape(tensor: Tensor, samples: int) -> tuple[int, ...]:
    return (tensor.shape[0] // samples, *tensor.shape[1:])


def _array(data: Any, tensor: Tensor) -> Array:
    """The tensor's memory as an array that shares it."""
    buffer = ffi.buffer(ffi.cast("char *", data), tensor.size_bytes)
    dtype = tensor.dtype.numpy if tensor.dtype != DataType.BOOL else np.dtype(np.bool_)
    return np.frombuffer(buffer, dtype).reshape(tensor.memory_shape)


def _raise(status: int, what: str, place: str = "") -> None:
    """The exception that fits a status of the C runtime; none for 0."""
    if not status:
        return
    text = ffi.string(lib().lds_status_text(status)).decode()
    kinds: list[tuple[range, type[LoadstoneError]]] = [(range(-26, -9), ArtifactError), (range(-32, -30), DeviceHungError)]
    kind = next((k for codes, k in kinds if status in codes), DeviceError)
    raise kind(f"model {what!r}{place}: {text}")
