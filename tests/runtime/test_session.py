# SPDX-License-Identifier: Apache-2.0
"""runtime/session.c and runtime/run.c from C's side: what a caller may give, may ask in which
order, and gets back."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest

from loadstone.artifact.format import Artifact, MemoryRegion, ProgramStep, RegionKind
from loadstone.library.native import ffi, lib
from loadstone.vta.device.hw_config import load_config
from tests.sample_model import copy_model, dense_model, endless_model

CONFIG = load_config("vtaq-1x16x16")
X = np.arange(-8, 8, dtype=np.int8)


class Runtime:
    """A simulated device and the C API, without device.py."""

    def __init__(self, flags: int = 0) -> None:
        self.lib: Any = lib()
        fingerprint = ffi.from_buffer(CONFIG.fingerprint())
        self.sim = self.lib.lds_hal_sim_create(
            ffi.cast("lds_hw_config *", fingerprint), 64, 0, 1 << 20, flags
        )
        self.hal = self.lib.lds_hal_sim_hal(self.sim)
        self.device = ffi.new("lds_device *")
        assert (
            self.lib.lds_device_open(
                self.device, self.hal, self.lib.lds_registers_named(b"native"), 0
            )
            == 0
        )
        self.config = ffi.new("lds_session_config *")
        self.lib.lds_session_config_default(self.config)
        self.keep: list[Any] = []

    def model(self, artifact: Artifact, place: Any = None) -> Any:
        """An opened model; `place`: memory that its bytes shall stand in."""
        data = artifact.to_bytes()
        memory = place if place is not None else ffi.new("char[]", len(data))
        ffi.memmove(memory, data, len(data))
        model = ffi.new("lds_model *")
        assert self.lib.lds_model_open(model, memory, len(data)) == 0
        self.keep += [memory, model]
        return model

    def buffer(self, size: int, align: int = 64) -> Any:
        out = ffi.new("lds_dma_buffer *")
        assert self.hal.dma_alloc(self.hal.ctx, size, align, 3, out) == 0
        return out

    def open(self, model: Any, missing: int = 0) -> tuple[int, Any]:
        """(status, session); `missing` bytes less memory than is needed."""
        size = self.lib.lds_session_size_bytes(model, self.config) - missing
        memory = ffi.new("char[]", size)
        session = ffi.new("lds_session **")
        self.keep.append(memory)
        return self.lib.lds_session_open(
            session, model, self.device, self.config, memory, size, ffi.NULL
        ), session[0]

    def used(self) -> int:
        """Blocks that are in use: two buffers from the pool stand behind each other only if nothing
        else is there."""
        first = self.buffer(64)
        at = int(first.bus)
        self.hal.dma_free(self.hal.ctx, first)
        return at - 0x1000_0000


@pytest.fixture
def runtime() -> Iterator[Runtime]:
    result = Runtime()
    yield result
    result.lib.lds_hal_sim_destroy(result.sim)


def run(runtime: Runtime, session: Any) -> np.ndarray:
    assert runtime.lib.lds_session_set_input(session, 0, ffi.from_buffer(X), X.nbytes) == 0
    assert runtime.lib.lds_session_run(session) == 0
    out = np.zeros(16, np.int8)
    assert (
        runtime.lib.lds_session_get_output(
            session, 0, ffi.from_buffer(out, require_writable=True), out.nbytes
        )
        == 0
    )
    return out


def test_constants_and_instructions_in_place(runtime: Runtime) -> None:
    """The device reads the model's own bytes: only input and output take memory."""
    place = runtime.buffer(8192, 4096)
    model = runtime.model(copy_model(), place.cpu)
    runtime.config.model_bus = place.bus
    status, session = runtime.open(model)
    assert status == 0
    assert np.array_equal(run(runtime, session), X)
    assert runtime.used() == 8192 + 2 * 64
    runtime.lib.lds_session_close(session)
    assert runtime.used() == 8192


def second(runtime: Runtime, name: bytes) -> Any:
    """Another device with the same memory, as an accelerator of that name."""
    found = runtime.lib
    held = ffi.from_buffer(CONFIG.fingerprint())
    sim = found.lds_hal_sim_create_beside(runtime.sim, ffi.cast("lds_hw_config *", held), 64, 0)
    device, entry = ffi.new("lds_device *"), ffi.new("lds_accelerator *")
    hal, text = found.lds_hal_sim_hal(sim), ffi.new("char[]", name)
    assert found.lds_device_open(device, hal, found.lds_registers_named(b"native"), 0) == 0
    entry.name, entry.device = text, device
    runtime.keep += [ffi.gc(sim, found.lds_hal_sim_destroy), device, text]
    return entry


def test_programs_of_two_devices_run_in_place(runtime: Runtime) -> None:
    """Both from the model's own bytes; the second device is found by its name alone."""
    model = copy_model()
    (program,) = model.programs
    more = (*model.devices, dataclasses.replace(model.devices[0], name="second"))
    steps = (program, dataclasses.replace(program, device=1))
    place = runtime.buffer(8192, 4096)
    opened = runtime.model(dataclasses.replace(model, devices=more, steps=steps), place.cpu)
    runtime.config.model_bus = place.bus
    assert runtime.open(opened)[0] == runtime.lib.LDS_ERR_ACCELERATOR
    for name in (b"third", b"secon", b"seconds", b"second"):
        entry = second(runtime, name)
        runtime.lib.lds_session_config_accelerators(runtime.config, entry, 1)
        status, session = runtime.open(opened)
        assert status == (0 if name == b"second" else runtime.lib.LDS_ERR_ACCELERATOR)
    assert np.array_equal(run(runtime, session), X)
    assert runtime.used() == 8192 + 2 * 64
    runtime.lib.lds_session_close(session)
    runtime.keep.clear()


def test_regions_in_buffers_of_the_callers_own(runtime: Runtime) -> None:
    """A camera writes into the input's region, a display reads the output's: no copy."""
    model = runtime.model(copy_model())
    camera, display = runtime.buffer(64), runtime.buffer(64)
    runtime.config.region[1], runtime.config.region[2] = camera[0], display[0]
    status, session = runtime.open(model)
    assert status == 0
    ffi.memmove(camera.cpu, X.tobytes(), 16)
    assert runtime.lib.lds_session_run(session) == 0
    assert bytes(ffi.buffer(display.cpu, 16)) == X.tobytes()
    assert runtime.lib.lds_session_input(session, 0) == camera.cpu
    runtime.lib.lds_session_close(session)


def test_a_buffer_that_is_too_small_or_misaligned_is_refused(runtime: Runtime) -> None:
    model = runtime.model(copy_model())
    small = runtime.buffer(64)
    small.size_bytes = 63
    runtime.config.region[1] = small[0]
    assert runtime.open(model)[0] == runtime.lib.LDS_ERR_ARGUMENT
    shifted = runtime.buffer(128)
    shifted.bus += 32
    runtime.config.region[1] = shifted[0]
    assert runtime.open(model)[0] == runtime.lib.LDS_ERR_ADDRESS


def test_a_buffer_whose_addresses_wrap_is_refused(runtime: Runtime) -> None:
    """Its last byte would be at the beginning of memory, which a limit compared with a sum does not
    see."""
    model = runtime.model(copy_model())
    own = runtime.buffer(64)
    for bus, status in (
        ((1 << 64) - 64, 0),
        ((1 << 64) - 128, 0),
        ((1 << 64) - 32, runtime.lib.LDS_ERR_ADDRESS),
    ):
        own.bus = bus
        runtime.config.region[1] = own[0]
        assert runtime.open(model)[0] == status
    bigger = dataclasses.replace(
        copy_model(),
        regions=(
            *copy_model().regions[:2],
            MemoryRegion("out", RegionKind.OUTPUT, 128, 64, device_writes=True),
        ),
    )
    own = runtime.buffer(128)
    own.bus = (1 << 64) - 64
    runtime.config.region[1], runtime.config.region[2] = ffi.new("lds_dma_buffer *")[0], own[0]
    assert runtime.open(runtime.model(bigger))[0] == runtime.lib.LDS_ERR_ADDRESS


def test_memory_that_is_too_small_is_refused(runtime: Runtime) -> None:
    model = runtime.model(dense_model(CONFIG).artifact)
    assert runtime.open(model, missing=1)[0] == runtime.lib.LDS_ERR_MEMORY
    assert runtime.open(model)[0] == 0
    big = dataclasses.replace(
        copy_model(),
        regions=(
            *copy_model().regions,
            MemoryRegion("big", RegionKind.ARENA, 1 << 21, 64, True, True),
        ),
    )
    before = runtime.used()
    assert runtime.open(runtime.model(big))[0] == runtime.lib.LDS_ERR_MEMORY
    assert runtime.used() == before


def test_the_order_of_calls(runtime: Runtime) -> None:
    lib_ = runtime.lib
    _, session = runtime.open(runtime.model(copy_model()))
    assert lib_.lds_session_wait(session, 0) == lib_.LDS_ERR_STATE
    lib_.lds_simdev_fault(lib_.lds_hal_sim_device(runtime.sim), lib_.LDS_FAULT_HANG, 0, 0)
    assert lib_.lds_session_start(session) == 0
    assert lib_.lds_session_start(session) == lib_.LDS_ERR_STATE
    assert lib_.lds_session_set_input(session, 0, ffi.from_buffer(X), 16) == lib_.LDS_ERR_STATE
    assert lib_.lds_session_wait(session, 1_000_000) == lib_.LDS_BUSY
    lib_.lds_session_close(session)
    assert lib_.lds_session_set_input(ffi.NULL, 0, ffi.from_buffer(X), 16) == lib_.LDS_ERR_ARGUMENT


def test_a_run_is_stopped_inside_an_instruction(runtime: Runtime) -> None:
    lib_ = runtime.lib
    _, session = runtime.open(runtime.model(endless_model()))
    assert lib_.lds_session_start(session) == 0
    assert lib_.lds_session_wait(session, 1_000_000) == lib_.LDS_BUSY
    assert lib_.lds_session_stop(session) == 0
    assert lib_.lds_session_wait(session, 0) == lib_.LDS_ERR_STATE
    assert lib_.lds_session_stop(session) == 0, "nothing runs: nothing to stop"
    assert lib_.lds_session_start(session) == 0, "the device is free again"
    lib_.lds_session_close(session)
    _, session = runtime.open(runtime.model(copy_model()))
    assert np.array_equal(run(runtime, session), X)
    assert lib_.lds_session_stop(ffi.NULL) == lib_.LDS_ERR_ARGUMENT


def test_sizes_and_indices_are_checked(runtime: Runtime) -> None:
    lib_ = runtime.lib
    _, session = runtime.open(runtime.model(copy_model()))
    assert lib_.lds_session_set_input(session, 0, ffi.from_buffer(X), 15) == lib_.LDS_ERR_ARGUMENT
    assert lib_.lds_session_set_input(session, 1, ffi.from_buffer(X), 16) == lib_.LDS_ERR_ARGUMENT
    assert lib_.lds_session_input(session, 1) == ffi.NULL
    assert lib_.lds_session_output(session, 7) == ffi.NULL


def test_what_is_not_linked_in_is_refused(runtime: Runtime) -> None:
    runtime.config.operators = ffi.NULL
    assert (
        runtime.open(runtime.model(dense_model(CONFIG).artifact))[0] == runtime.lib.LDS_ERR_OPERATOR
    )
    runtime.config.validate = ffi.NULL
    status, session = runtime.open(runtime.model(copy_model()))
    assert status == 0
    assert np.array_equal(run(runtime, session), X)


def spoiled(runtime: Runtime, model: Any) -> None:
    """The file's bytes change behind the reader's back: no instruction is known any more."""
    data = ffi.buffer(model.bytes, model.size_bytes)
    program = copy_model().steps[0]
    assert isinstance(program, ProgramStep)
    at = bytes(data).index(program.instructions)
    data[at : at + 1] = b"\xff"


def test_a_file_is_validated_once_where_the_caller_keeps_its_checksum(runtime: Runtime) -> None:
    """A program that is spoiled after the first session shows whether the second looks at it."""
    model, other = runtime.model(copy_model()), runtime.model(dense_model(CONFIG).artifact)
    known = ffi.new("lds_validated *")
    runtime.config.validated = known
    for which in (model, model, other, model):
        status, session = runtime.open(which)
        assert status == 0
        assert known.size_bytes == which.size_bytes
        assert known.checksum == int.from_bytes(ffi.buffer(which.bytes, 16)[12:16], "little")
        runtime.lib.lds_session_close(session)
    spoiled(runtime, model)
    status, session = runtime.open(model)
    assert status == 0
    runtime.lib.lds_session_close(session)
    known.checksum ^= 1
    before = known.checksum
    assert runtime.open(model)[0] == runtime.lib.LDS_ERR_INSTRUCTION
    assert known.checksum == before, "what is refused is not remembered"
    runtime.config.validated = ffi.NULL
    assert runtime.open(model)[0] == runtime.lib.LDS_ERR_INSTRUCTION


def test_what_nobody_validated_is_not_remembered(runtime: Runtime) -> None:
    known = ffi.new("lds_validated *")
    runtime.config.validated, runtime.config.validate = known, ffi.NULL
    assert runtime.open(runtime.model(copy_model()))[0] == 0
    assert (known.checksum, known.size_bytes) == (0, 0)


def test_a_hal_that_lacks_something_is_refused(runtime: Runtime) -> None:
    native = runtime.lib.lds_registers_named(b"native")
    for field, value in (
        ("abi_version", 2),
        ("dma_alloc", ffi.NULL),
        ("now_ns", ffi.NULL),
        ("read32", ffi.NULL),
    ):
        hal = ffi.new("lds_hal *", runtime.hal[0])
        setattr(hal, field, value)
        assert (
            runtime.lib.lds_device_open(runtime.device, hal, native, 0) == runtime.lib.LDS_ERR_HAL
        )
    assert runtime.lib.lds_registers_named(b"nonsense") == ffi.NULL


def test_a_model_for_another_device_is_refused(runtime: Runtime) -> None:
    model = runtime.model(copy_model(load_config("vtaq-tiny")))
    assert runtime.open(model)[0] == runtime.lib.LDS_ERR_CONFIG
    runtime.device.config_hash = 1
    assert runtime.open(runtime.model(copy_model()))[0] == runtime.lib.LDS_ERR_CONFIG


def test_every_status_has_a_text_of_its_own() -> None:
    names = [n for n in dir(lib()) if n.startswith("LDS_ERR_") and "ERROR" not in n]
    texts = {ffi.string(lib().lds_status_text(getattr(lib(), n))).decode() for n in names}
    assert len(texts) == len(names) >= 20
    assert "unknown status" not in texts
    assert ffi.string(lib().lds_status_text(-99)) == b"unknown status"
