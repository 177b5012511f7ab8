# SPDX-License-Identifier: Apache-2.0
"""driver/hal_sim.c: what the drivers do when the simulated device hangs, errs or flips bits."""

from __future__ import annotations

import numpy as np
import pytest

from loadstone.errors import DeviceError, DeviceHungError
from loadstone.library.native import ffi, lib
from loadstone.runtime import device
from loadstone.vta.device.hw_config import load_config
from tests.driver.test_registers import POOL_BUS
from tests.sample_model import copy_model, dense_model

pytestmark = pytest.mark.rung("3")

X = np.arange(-24, 24, dtype=np.int8).reshape(3, 1, 16)


HANGS = ["LDS_FAULT_HANG", "LDS_FAULT_HANG_RESET", "LDS_FAULT_HANG_HW_RESET"]


def order(dev: device.OpenedDevice, fault: str, argument: int = 0, after: int = 0) -> None:
    lib().lds_simdev_fault(
        lib().lds_hal_sim_device(dev.sim), getattr(lib(), fault), after, argument
    )


@pytest.mark.parametrize("fault", HANGS)
@pytest.mark.parametrize("shadow", [False, True])
def test_a_hang_is_an_error_and_the_next_run_works(fault: str, shadow: bool) -> None:
    with (
        device.open("sim", shadow=shadow) as dev,
        dev.load(copy_model(), hang_seconds=0.05) as session,
    ):
        order(dev, fault, argument=2, after=1)
        session.run([X[:1]])
        with pytest.raises(
            DeviceHungError,
            match=r"step 'copy', instruction 2 \(layer 'copy'\): the device hung and was reset",
        ):
            session.run([X[1:2]])
        assert np.array_equal(session.run([X])[0], X)


def test_a_dead_device_is_said_to_be_dead_again_and_again() -> None:
    with device.open("sim") as dev, dev.load(copy_model(), hang_seconds=0.02) as session:
        order(dev, "LDS_FAULT_DEAD")
        for _ in range(2):
            with pytest.raises(DeviceHungError, match="does not answer a reset"):
                session.run([X])


def test_a_lost_interrupt_costs_time_only() -> None:
    with device.open("sim") as dev, dev.load(copy_model(), hang_seconds=0.2) as session:
        order(dev, "LDS_FAULT_LOST_IRQ")
        assert np.array_equal(session.run([X])[0], X)


def test_a_bus_error_names_step_instruction_and_layer() -> None:
    with device.open("sim") as dev, dev.load(copy_model()) as session:
        order(dev, "LDS_FAULT_BUS_ERROR", argument=3)
        with pytest.raises(
            DeviceError,
            match=r"step 'copy', instruction 3 \(layer 'copy'\): BUS, the bus answered with "
            r"an error",
        ):
            session.run([X])
        assert np.array_equal(session.run([X])[0], X)


def pool_of(dev: device.OpenedDevice) -> np.ndarray:
    """The first 64 KiB of the simulated device's memory; the first byte is at bus address
    POOL_BUS."""
    hal = lib().lds_hal_sim_hal(dev.sim)
    buffer = ffi.new("lds_dma_buffer *")
    assert hal.dma_alloc(hal.ctx, 64, 64, 1, buffer) == 0
    start = int(ffi.cast("uintptr_t", buffer.cpu)) - (int(buffer.bus) - POOL_BUS)
    hal.dma_free(hal.ctx, buffer)
    return np.frombuffer(ffi.buffer(ffi.cast("char *", start), 1 << 16), np.uint8)


def test_a_flipped_bit_in_the_input_is_one_wrong_element() -> None:
    with device.open("sim") as dev, dev.load(copy_model()) as session:
        session.inputs[0][...] = X[1]
        at = pool_of(dev).tobytes().index(X[1].tobytes())
        order(dev, "LDS_FAULT_BIT_FLIP", argument=8 * (POOL_BUS + at + 5) + 6)
        session.inputs[0][...] = X[0]
        session.execute()
        wanted = X[0].copy()
        wanted[0, 5] ^= 64
        assert np.array_equal(session.outputs[0], wanted)


def test_flipped_bits_in_the_stream_are_an_error_or_the_device_stays_in_its_regions() -> None:
    """The device checks its own bounds: what was validated may change in memory, but not reach
    beyond the regions."""
    model = copy_model()
    outcomes = set()
    with device.open("sim") as dev, dev.load(model, hang_seconds=0.05) as session:
        stream = POOL_BUS + pool_of(dev).tobytes().index(model.programs[0].instructions)
        for bit in range(8 * len(model.programs[0].instructions)):
            order(dev, "LDS_FAULT_BIT_FLIP", argument=8 * stream + bit)
            try:
                session.run([X[:1]])
                outcomes.add("ran")
            except DeviceError as error:
                outcomes.add("hung" if isinstance(error, DeviceHungError) else "error")
            order(dev, "LDS_FAULT_BIT_FLIP", argument=8 * stream + bit)
            try:
                session.run([X[:1]])
            except DeviceError as error:
                raise AssertionError(f"bit {bit}: {error}") from None
    assert {"ran", "error"} <= outcomes


def test_closing_while_the_device_runs_stops_it_first() -> None:
    with device.open("sim") as dev:
        session = dev.load(copy_model(), hang_seconds=5.0)
        order(dev, "LDS_FAULT_HANG")
        session.start()
        assert not session.wait(0.01)
        session.close()
        with dev.load(copy_model()) as again:
            assert np.array_equal(again.run([X])[0], X)


#: A device of each register page.
PAGES = ["vta-pynq", "vta-de10nano", "vtaq-1x16x16"]


@pytest.mark.parametrize("reads", [0, 1, 2, 3, 100, 10_000])
def test_done_of_the_last_program_is_not_taken_for_this_ones(reads: int) -> None:
    """VTA's HLS design: DONE stays until compute has taken its first instruction."""
    dense = dense_model(load_config("vta-pynq"))
    x = np.random.default_rng(reads).integers(-128, 128, (4, 1, dense.weights.shape[1]), np.int8)
    with device.open("sim") as dev, dev.load(dense.artifact) as session:
        for sample in x:
            order(dev, "LDS_FAULT_DONE_LINGERS", argument=reads)
            (y,) = session.run([sample[None]])
            assert np.array_equal(y, dense.expected(sample[None]))


@pytest.mark.parametrize("value", [0xFFFFFFFF, 0])
@pytest.mark.parametrize("name", PAGES)
def test_a_device_that_vanishes_is_absent_until_it_is_back(name: str, value: int) -> None:
    dense = dense_model(load_config(name))
    x = np.ones((1, 1, dense.weights.shape[1]), np.int8)
    with device.open("sim") as dev, dev.load(dense.artifact) as session:
        session.run([x])
        order(dev, "LDS_FAULT_ABSENT", argument=value)
        for _ in range(2):
            with pytest.raises(DeviceError, match="no device answers"):
                session.run([x])
        lib().lds_simdev_hw_reset(lib().lds_hal_sim_device(dev.sim))
        assert np.array_equal(session.run([x])[0], dense.expected(x))


@pytest.mark.parametrize("name", PAGES)
def test_a_state_that_no_device_has_is_an_error(name: str) -> None:
    dense = dense_model(load_config(name))
    x = np.ones((1, 1, dense.weights.shape[1]), np.int8)
    with device.open("sim") as dev, dev.load(dense.artifact) as session:
        session.run([x])
        order(dev, "LDS_FAULT_LIES", argument=77)
        with pytest.raises(DeviceError, match="the device stopped with an error"):
            session.run([x])
        assert np.array_equal(session.run([x])[0], dense.expected(x))


def beside(dev: device.OpenedDevice) -> device.OpenedDevice:
    """The same device as another process has it: what it does is nobody's that this one knows."""
    other = device.OpenedDevice("sim", "", dev.device)
    handle = ffi.new("lds_device *")
    hal, block = lib().lds_hal_sim_hal(dev.sim), dev.device.register_block.name.encode()
    assert lib().lds_device_open(handle, hal, lib().lds_registers_named(block), 0) == 0
    other._handle = device.Handle(handle, dev.sim)
    return other


@pytest.mark.parametrize("fault", ["LDS_FAULT_HANG", "LDS_FAULT_NONE"])
@pytest.mark.parametrize("name", PAGES)
def test_what_a_killed_process_began_is_over_before_a_session_begins(name: str, fault: str) -> None:
    """It ends by itself, or is stopped, or the device is reset; the new session is right."""
    dense = dense_model(load_config(name))
    x = np.ones((1, 1, dense.weights.shape[1]), np.int8)
    with device.open("sim") as dev, dev.load(dense.artifact) as killed:
        order(dev, fault, argument=1)
        killed.start()
        with beside(dev) as other, other.load(dense.artifact) as session:
            assert np.array_equal(session.run([x])[0], dense.expected(x))


@pytest.mark.parametrize("name", PAGES)
def test_a_device_that_works_for_nobody_and_cannot_be_stopped_is_dead(name: str) -> None:
    dense = dense_model(load_config(name))
    with device.open("sim") as dev, dev.load(dense.artifact) as killed:
        order(dev, "LDS_FAULT_DEAD", argument=1)
        killed.start()
        with (
            beside(dev) as other,
            pytest.raises(DeviceHungError, match="does not answer a reset"),
        ):
            other.load(dense.artifact)
