# SPDX-License-Identifier: Apache-2.0
"""driver/hal_sim.c: what the drivers do when the simulated device hangs, errs or flips bits."""

from __future__ import annotations

import numpy as np
import pytest

from loadstone.errors import DeviceError, DeviceHungError
from loadstone.runtime import device
from loadstone.runtime.native import ffi, lib
from tests.driver.test_registers import POOL_BUS
from tests.sample_model import copy_model

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
