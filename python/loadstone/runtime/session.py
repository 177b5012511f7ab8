# SPDX-License-Identifier: Apache-2.0
"""A model on a device: inputs, runs, outputs, counters, and errors.

In:   an opened device (device.py), an artifact, NumPy arrays.
Out:  NumPy arrays; exceptions that name the step, the layer and the instruction that failed.
Next: runtime/session.c and runtime/run.c do the work.

Arrays of a session are views of the device's memory and keep it alive; after close they are
undefined.
"""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from itertools import islice
from types import TracebackType
from typing import TYPE_CHECKING

import numpy as np

from loadstone.artifact.format import Artifact, HostStep, ProgramStep
from loadstone.backend.device import Device
from loadstone.backend.external import External, register_external
from loadstone.errors import DeviceError, LoadstoneError
from loadstone.library.native import CData, ffi, lib, raise_for
from loadstone.numerics import Array
from loadstone.runtime.counters import Counters, Totals
from loadstone.runtime.external_steps import CallTimes, call_external, check_externals, place_of
from loadstone.runtime.handle import Handle
from loadstone.runtime.lent_files import in_place
from loadstone.runtime.long_steps import LongSteps
from loadstone.runtime.ports import EntryPorts, Inputs
from loadstone.runtime.views import view_of

if TYPE_CHECKING:
    from loadstone.runtime.accelerators import AcceleratorSet

__all__ = [
    "Array",
    "Counters",
    "External",
    "Session",
    "Totals",
    "register_external",
]

#: The interval in which Python checks, while a device works, for Ctrl-C and cancel().
_LOOK_SECONDS = 0.04


class Session:
    """A model on a device. A context manager; close it before the device (OpenedDevice.close closes
    both).

    A session belongs to one thread at a time, and to the process that opened it: a call from a
    second thread while it runs, or from a forked process, raises DeviceError. Sessions of one
    device may run in several threads: a start while another session runs raises DeviceError, too.
    Load models of a device only while no other thread runs one of it. Closing a session ends its
    run in another thread.
    """

    def __init__(
        self,
        device: Device,
        opened: Handle,
        artifact: Artifact,
        data: bytes,
        hang_seconds: float | None,
        trust: bool,
    ) -> None:
        """data: the artifact's bytes. trust: whether steps that are code may run (SECURITY.md)."""
        self.device = device
        self.artifact = artifact
        self._session: CData = ffi.NULL
        self._error: BaseException | None = None
        self._cancelled = False
        self._started = False
        self._process = os.getpid()
        self._turn = threading.RLock()
        self.totals = Totals()
        self._calls = CallTimes()
        if hang_seconds is not None and not hang_seconds > 0:
            raise DeviceError(f"hang_seconds={hang_seconds} is not above 0")
        check_externals(artifact, trust)
        self._bytes = ffi.from_buffer(data)
        self._model = ffi.new("lds_model *")
        raise_for(lib().lds_model_open(self._model, self._bytes, len(data)), artifact.name)
        config = ffi.new("lds_session_config *")
        lib().lds_session_config_default(config)
        lib().lds_session_config_all(config)
        config.hang_ns = 0 if hang_seconds is None else max(1, _nanoseconds(hang_seconds))
        config.clock_hz = device.clock_mhz * 1_000_000
        self._callback: CData = ffi.callback("int(void *, lds_session *, uint32_t)", self._external)
        config.external = self._callback
        self._long_steps: LongSteps | None = LongSteps(artifact, config.operators, self._go_on)
        config.operators = self._long_steps.table
        self.accelerators: AcceleratorSet | None = None
        if artifact.further:
            from loadstone.runtime.accelerators import AcceleratorSet  # large, and seldom needed

            self.accelerators = AcceleratorSet(artifact, opened)
            self.accelerators.configure(config)
        size = lib().lds_session_size_bytes(self._model, config)
        try:
            self._memory = np.empty(size, np.uint8)
        except (MemoryError, ValueError):  # ValueError: more than an array may have
            raise DeviceError(
                f"model {artifact.name!r} needs {size} bytes of the host's memory, which are "
                "not available"
            ) from None
        self._keep: object = (opened.owner, self._memory, self._bytes, self.accelerators)
        fault, session = ffi.new("lds_fault *"), ffi.new("lds_session **")
        memory = ffi.cast("void *", self._memory.ctypes.data)
        files = opened.files if self.accelerators is None else None
        self._give_back = in_place(files, self._bytes, config)
        status = lib().lds_session_open(
            session, self._model, opened.device, config, memory, size, fault
        )
        if status:
            self._refuse(status, fault, opened)
        self._session = session[0]
        inputs, outputs = (
            iter([self._view(get, k, i) for k, i in enumerate(indices)])
            for get, indices in (
                (lib().lds_session_input, artifact.inputs),
                (lib().lds_session_output, artifact.outputs),
            )
        )
        every = (artifact.only(number) for number in range(len(artifact.entry_names)))
        self.ports = tuple(
            EntryPorts(
                number,
                own,
                tuple(islice(inputs, len(own.inputs))),
                tuple(islice(outputs, len(own.outputs))),
            )
            for number, own in enumerate(every)
        )

    @property
    def inputs(self) -> tuple[Array, ...]:
        """Views of the memory of the first entry's inputs, in their shapes; `ports`
        has those of all entries."""
        return self.ports[0].inputs if self.ports else ()

    @property
    def outputs(self) -> tuple[Array, ...]:
        """The same of its outputs, in their shapes."""
        return self.ports[0].outputs if self.ports else ()

    # --- running ----------------------------------------------------------------------------------
    def run(
        self,
        inputs: Inputs,
        progress: Callable[[int], None] | None = None,
        *,
        allow_nan: bool = False,
        entry: str | None = None,
    ) -> list[Array]:
        """Runs all samples: arrays with a leading axis of samples, then the model's own shape.

        inputs: as arrays.as_inputs accepts them: in the entry's order, or by name. progress: called
            with the number of finished samples. allow_nan: NaN is accepted. entry: by its name; the
            first where it is not said.
        Raises DeviceError for arrays that do not fit, naming the name, shape and type needed;
        ModelError for NaN; ArtifactError for an entry that the model does not have.
        """
        with self._alone():
            if self._started:
                raise DeviceError(
                    f"model {self.artifact.name!r}: a run was started and not waited for"
                )
            ports = self.ports[self.artifact.entry_number(entry)]
            arrays = ports.checked(inputs, allow_nan)
            count, group = len(arrays[0]) if arrays else 1, self.artifact.samples
            outputs = ports.empty_outputs(count)
            for begin in range(0, count, group):
                end = min(begin + group, count)
                ports.bring(arrays, begin, end)
                self.execute(entry)
                ports.take(outputs, begin, end)
                if progress is not None:
                    progress(end)
            return outputs

    def execute(self, entry: str | None = None) -> None:
        """One run on the content of the entry's inputs (`ports`); the result is in its outputs.
        Raises DeviceError. Ctrl-C stops the device."""
        with self._alone():
            self._go_on()
            try:
                self.start(entry)
                while not self.wait(_LOOK_SECONDS):
                    self._go_on()
            except BaseException:
                lib().lds_session_stop(self._session)  # of a run that failed nothing is left
                self._started = False
                raise

    def reset(self) -> None:
        """Sets the model's states to their values when the session was opened. Raises DeviceError
        while it runs."""
        with self._alone():
            raise_for(lib().lds_session_reset(self._session), self.artifact.name)

    def cancel(self) -> None:
        """Called from another thread: run() and execute(), now and later, end within a tenth of a
        second with DeviceError."""
        self._cancelled = True

    def start(self, entry: str | None = None) -> None:
        """Starts a run without waiting for the device. Raises DeviceError while the device runs
        another session."""
        number = self.artifact.entry_number(entry)
        with self._alone():
            status = lib().lds_session_start_entry(self._session, number)
            self._finish(self._not_beside_another(status))
            self._started = True

    def wait(self, seconds: float = float("inf")) -> bool:
        """Whether the run has ended; False when the time passed before."""
        if not seconds >= 0:
            raise DeviceError(f"{seconds} seconds are no time to wait")
        with self._alone():
            status = lib().lds_session_wait(self._session, _nanoseconds(seconds))
            if status != lib().LDS_BUSY:
                self._started = False
                self._finish(status)
                self.totals += Totals(1, self.counters)
            return bool(status != lib().LDS_BUSY)

    @property
    def counters(self) -> Counters:
        """The sum over all device programs of the last run."""
        raw = ffi.new("lds_counters *")
        lib().lds_session_counters(self._open(), raw)
        return Counters(*(int(getattr(raw, name)) for name in Counters.__dataclass_fields__))

    def close(self) -> None:
        """Stops the device if it runs, and frees its memory. The views of inputs and outputs must
        no longer be used."""
        if self._process != os.getpid():  # a copy: device and lock are the other process's
            self._session = ffi.NULL
            return
        self._cancelled = True  # for a thread that runs it
        with self._turn:
            if self._session != ffi.NULL:
                self.ports = ()
                lib().lds_session_close(self._session)
                self._give_back()
            self._session = ffi.NULL
            self._callback = self._keep = self._long_steps = None

    def __enter__(self) -> Session:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()

    # --- for schedule.py --------------------------------------------------------------------------
    def c_session(self) -> CData:
        """lds_session *, as long as it is open."""
        return self._open()

    def error_of(self, status: int) -> LoadstoneError | None:
        """What a run that ended with this status would have raised."""
        try:
            self._finish(status)
        except LoadstoneError as error:
            return error
        return None

    # --- inside -----------------------------------------------------------------------------------
    def _refuse(self, status: int, fault: CData, opened: Handle) -> None:
        """Raises what says why a session could not be opened."""
        self._give_back()
        if fault.layer != ffi.NULL:  # an instruction was refused
            self._raise(status, fault)
        if status == lib().LDS_ERR_MEMORY and opened.message():
            raise DeviceError(f"model {self.artifact.name!r}: {opened.message()}")
        if status == lib().LDS_ERR_CONFIG and self.accelerators is not None:
            self.accelerators.find_stranger()
        raise_for(status, self.artifact.name)

    def _go_on(self) -> None:
        if self._cancelled:
            raise DeviceError(f"the run of model {self.artifact.name!r} was cancelled")

    def _open(self) -> CData:
        if self._process != os.getpid():
            raise DeviceError(
                f"the session of model {self.artifact.name!r} was opened by process "
                f"{self._process}, of which this one is a fork: open the device here"
            )
        if self._session == ffi.NULL:
            raise DeviceError(f"the session of model {self.artifact.name!r} is closed")
        return self._session

    @contextmanager
    def _alone(self) -> Iterator[None]:
        """While open, and used by no other thread."""
        self._open()
        if not self._turn.acquire(blocking=False):
            raise DeviceError(
                f"the session of model {self.artifact.name!r} is in a call of another thread: "
                "wait for it, or load the model once for each thread"
            )
        try:
            self._open()
            yield
        finally:
            self._turn.release()

    def _not_beside_another(self, status: int) -> int:
        """The status of a start. Raises DeviceError when it was refused for another session's
        run."""
        if status == lib().LDS_ERR_STATE and not self._started:
            raise DeviceError(
                f"model {self.artifact.name!r}: another session of its device is running; "
                "wait for it or close it"
            )
        return status

    def _view(self, get: Callable[..., CData], port: int, index: int) -> Array:
        return view_of(get(self._session, port), self.artifact.tensors[index], self._keep)

    def _external(self, _ctx: CData, session: CData, step: int) -> int:
        """Called by the C runtime for an external step. An exception is kept until C has
        returned."""
        host = self.artifact.steps[step]
        assert isinstance(host, HostStep)
        try:
            self._go_on()
            indices = (*host.inputs, *host.outputs)
            operands = [self._operand(session, step, k, i) for k, i in enumerate(indices)]
            begin = time.perf_counter()
            call_external(host, operands)
            spent = self._calls.added(step, time.perf_counter() - begin)
            self.totals += Totals(external_seconds={place_of(host): spent})
        except BaseException as error:
            self._error = error
            return int(lib().LDS_ERR_HAL)
        return 0

    def _operand(self, session: CData, step: int, k: int, index: int) -> Array:
        operand = ffi.new("lds_operand *")
        raise_for(lib().lds_session_operand(session, step, k, operand), self.artifact.name)
        return view_of(operand.data, self.artifact.tensors[index], self._keep)

    def _finish(self, status: int) -> None:
        error, self._error = self._error, None
        for part in (self._long_steps, self.accelerators):
            if part is not None and part.error is not None:
                error, part.error = part.error, None
        if error is not None:
            lib().lds_session_stop(self._session)  # what stood behind a long step that was ended
            raise error
        if status:
            fault = ffi.new("lds_fault *")
            lib().lds_session_fault(self._session, fault)
            self._raise(status, fault)

    def _raise(self, status: int, fault: CData) -> None:
        place = ""
        if fault.status == status and fault.step < len(
            self.artifact.steps
        ):  # else the call was refused, and no step has failed
            step = self.artifact.steps[fault.step]
            if self.artifact.further:
                place = f", device {self.artifact.devices[fault.device].name!r}"
            place += f", step {step.name!r}"
            if not isinstance(step, HostStep):
                layer = ffi.string(fault.layer).decode() if fault.layer != ffi.NULL else ""
                place += f", instruction {fault.instruction}" + (
                    f" (layer {layer!r})" if layer else ""
                )
        if fault.error:
            meaning = self.device.describe_error(fault.error)
            step = self.artifact.steps[fault.step]
            if self.accelerators is not None and isinstance(step, ProgramStep) and step.device:
                device = self.artifact.device_of(step)
                meaning = self.accelerators.describe_error(device.name, fault.error)
            place += f": {meaning}; bus address {fault.error_addr:#010x}"
        raise_for(status, self.artifact.name, place)


def _nanoseconds(seconds: float) -> int:
    """In the runtime's unit; a number that is too large means for ever."""
    return int(seconds * 1e9) if seconds * 1e9 < 2.0**63 else (1 << 64) - 1
