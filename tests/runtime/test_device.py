# SPDX-License-Identifier: Apache-2.0
"""The C runtime and its drivers from Python: results, views, and what goes wrong."""

from __future__ import annotations

import dataclasses
import json
import subprocess
import sys
import threading
import time
from pathlib import Path

import numpy as np
import pytest

from loadstone.artifact import host_step
from loadstone.artifact.format import Artifact, BufferView, DataType, MemoryRegion, RegionKind
from loadstone.backend.device import ProgramDevice
from loadstone.backend.external import _FUNCTIONS
from loadstone.errors import ArtifactError, ConfigError, DeviceError
from loadstone.library.native import lib
from loadstone.runtime import device
from loadstone.vta.device.device_file import read_builtin
from loadstone.vta.device.hw_config import load_config
from loadstone.vta.isa.spec import Capability
from tests.sample_model import INTEGER_DEVICES, copy_model, dense_model, endless_model

X = np.arange(-24, 24, dtype=np.int8).reshape(3, 1, 16)


@pytest.mark.parametrize("name", ["vtaq-1x16x16", "vtaq-tiny", "vtaq-1x32x32"])
@pytest.mark.parametrize("shadow", [False, True])
def test_a_model_runs_on_the_simulator(name: str, shadow: bool) -> None:
    model = copy_model(load_config(name))
    x = np.random.default_rng(1).integers(-128, 128, (5, *model.tensors[0].shape), np.int8)
    with device.open("sim", shadow=shadow) as dev, dev.load(model) as session:
        (y,) = session.run([x])
        assert np.array_equal(y, x)
        assert session.counters.write_bytes == x[0].nbytes


@pytest.mark.parametrize("name", INTEGER_DEVICES)
@pytest.mark.parametrize("shadow", [False, True])
def test_a_matrix_product_is_what_numerics_say(name: str, shadow: bool) -> None:
    """Through every register page, with and without regions and RQ."""
    config = load_config(name)
    model = dense_model(config)
    x = np.random.default_rng(1).integers(-128, 128, (6, 1, model.weights.shape[1]), np.int8)
    with device.open("sim", shadow=shadow) as dev, dev.load(model.artifact) as session:
        assert np.array_equal(session.run([x])[0], model.expected(x))


def test_a_native_page_without_regions_adds_no_base(tmp_path: Path) -> None:
    """The runtime writes region bases into every native page; a device that has no regions counts
    from bus address 0, as the RTL's does."""
    file = tmp_path / "flat.json"
    description = read_builtin("vtaq-tiny")
    has = load_config("vtaq-tiny").capabilities & ~Capability.REGIONS
    description |= {"name": "flat", "capabilities": [c.name.lower() for c in has if c.name]}
    file.write_text(json.dumps(description))
    model = dense_model(load_config(file))
    x = np.random.default_rng(1).integers(-128, 128, (6, 1, model.weights.shape[1]), np.int8)
    with device.open(f"sim:{file}") as dev, dev.load(model.artifact) as session:
        assert np.array_equal(session.run([x])[0], model.expected(x))


def test_inputs_and_outputs_are_views_of_the_devices_memory() -> None:
    with device.open() as dev, dev.load(copy_model()) as session:
        session.inputs[0][...] = X[0]
        view = np.from_dlpack(session.outputs[0])
        session.execute()
        assert np.array_equal(view, X[0])


def test_views_outlive_their_device() -> None:
    with device.open() as dev, dev.load(copy_model()) as session:
        view = session.inputs[0]
        view[...] = X[0]
    assert view.shape == (1, 16)  # what it holds is undefined, but there is memory
    view[...] = 1


def test_start_and_wait_overlap_with_other_work() -> None:
    with device.open() as dev, dev.load(copy_model()) as session:
        session.inputs[0][...] = X[1]
        session.start()
        assert session.wait()
        assert np.array_equal(session.outputs[0], X[1])


def test_two_sessions_share_a_device() -> None:
    with device.open() as dev, dev.load(copy_model()) as a, dev.load(copy_model()) as b:
        assert np.array_equal(a.run([X])[0], b.run([X])[0])


def test_the_null_device_leaves_the_output_as_it_was() -> None:
    with device.open("null") as dev, dev.load(copy_model()) as session:
        assert not session.run([X])[0].any()


def test_samples_are_grouped_and_the_last_group_is_filled_up() -> None:
    model = copy_model(load_config("vtaq-4x16x16"))
    shape = (4, 16)
    tensors = tuple(dataclasses.replace(t, shape=shape) for t in model.tensors)
    x = np.random.default_rng(1).integers(-128, 128, (6, 1, 16), np.int8)
    with (
        device.open() as dev,
        dev.load(dataclasses.replace(model, tensors=tensors, samples=4)) as session,
    ):
        assert np.array_equal(session.run([x])[0], x)


def external_model() -> Artifact:
    """The copy model, then y = f(x) by a function of the host."""
    model = copy_model()
    return dataclasses.replace(
        model,
        regions=(*model.regions, MemoryRegion("host", RegionKind.HOST, 64, 4)),
        tensors=(*model.tensors, BufferView("sum", (1,), DataType.INT32, 3, 0)),
        outputs=(2,),
        steps=(*model.steps, host_step.external("total", (1,), (2,), "tests.total", "7")),
    )


def test_an_external_step_calls_python() -> None:
    device.register_external(
        "tests.total", lambda arrays, text: [arrays[0].astype(np.int32).sum(axis=1) + int(text)]
    )
    with device.open() as dev, dev.load(external_model()) as session:
        (y,) = session.run([X])
    assert y[:, 0].tolist() == (X.astype(np.int32).sum(axis=(1, 2)) + 7).tolist()


def test_an_exception_of_an_external_step_comes_through() -> None:
    def fail(arrays: object, text: str) -> list[np.ndarray]:
        raise ZeroDivisionError(text)

    device.register_external("tests.total", fail)
    with device.open() as dev, dev.load(external_model()) as session:
        for run in (lambda: session.run([X]), lambda: (session.start(), session.wait())):
            with pytest.raises(DeviceError, match="step 'total'.*ZeroDivisionError: 7"):
                run()


def test_a_closed_session_and_wrong_times_are_said_to_be_so() -> None:
    with device.open() as dev:
        for seconds in (0.0, -1.0, float("nan")):
            with pytest.raises(DeviceError, match=f"hang_seconds={seconds} is not above 0"):
                dev.load(copy_model(), hang_seconds=seconds)
        session = dev.load(copy_model(), hang_seconds=float("inf"))
        session.start()
        with pytest.raises(
            DeviceError, match=r"^model 'copy': called in the wrong order"
        ):  # of no step
            session.start()
        for seconds in (-1.0, float("nan")):
            with pytest.raises(DeviceError, match=f"{seconds} seconds are no time to wait"):
                session.wait(seconds)
        assert session.wait(1e30)
        session.close()
        for call in (lambda: session.run([X]), session.execute, session.start, session.wait):
            with pytest.raises(DeviceError, match="session of model 'copy' is closed"):
                call()
    for argument in ("-1+5", "0x10000000000000000+1", "0+0"):
        with (
            device.open(f"devmem:{argument}") as dev,
            pytest.raises(DeviceError, match="is not devmem:ADDRESS"),
        ):
            dev.load(copy_model())


@pytest.mark.parametrize(
    ("kind", "message"),
    [
        (RegionKind.ARENA, r"^model 'copy': memory is too small, or no DMA memory is left"),
        (
            RegionKind.HOST,
            r"^model 'copy' needs \d+ bytes of the host's memory, which are not available",
        ),
    ],
)
def test_a_model_of_too_much_memory_is_one_line_of_no_step(
    kind: RegionKind, message: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A file may ask for as much as it likes."""
    on_device = kind == RegionKind.ARENA
    huge = MemoryRegion(
        "huge", kind, 0xFFFF0000, 64, device_reads=on_device, device_writes=on_device
    )
    model = dataclasses.replace(copy_model(), regions=(*copy_model().regions, huge))

    def refuse(*_: object) -> np.ndarray:
        raise MemoryError

    if not on_device:  # a machine may have four GiB
        monkeypatch.setattr(np, "empty", refuse)
    with device.open() as dev, pytest.raises(DeviceError, match=message):
        dev.load(model)


def test_mistakes_are_one_clear_line(tmp_path: Path) -> None:
    with pytest.raises(DeviceError, match="device 'fpga' is not one of sim, "):
        device.open("fpga")
    with pytest.raises(ConfigError, match="'nowhere' is neither built in"):
        device.open("sim:nowhere")
    with (
        device.open("vtaq-tiny") as dev,
        pytest.raises(ArtifactError, match="for device 'vtaq-1x16x16', not for 'vtaq-tiny'"),
    ):
        dev.load(copy_model())
    with device.open() as dev, dev.load(copy_model()) as session:
        with pytest.raises(
            DeviceError,
            match=r"input 'x' has shape \(3, 16\) and type int8, not \(samples, 1, 16\) and int8",
        ):
            session.run([X[:, 0]])
        with pytest.raises(DeviceError, match="2 inputs were given, the model has 1: x"):
            session.run([X, X])
        with pytest.raises(DeviceError, match="input 'x' is missing"):
            session.run({"y": X})
        session.close()
        with pytest.raises(DeviceError, match="is closed"):
            session.execute()
    _FUNCTIONS.pop("tests.total", None)
    with (
        device.open() as dev,
        pytest.raises(ArtifactError, match=r"needs the external function 'tests\.total'"),
    ):
        dev.load(external_model())
    custom = dataclasses.replace(load_config("vtaq-tiny"), uop_depth=100)
    silent = ProgramDevice("mine", custom.fingerprint())
    with device.open() as dev, pytest.raises(ConfigError, match="which is not built in"):
        dev.load(dataclasses.replace(copy_model(), devices=(silent,)))
    with device.open() as dev:
        dev.load(copy_model(custom))
        assert dev.device == custom


def test_two_threads_in_one_session_is_an_error_not_numbers() -> None:
    with device.open("sim") as dev, dev.load(endless_model(), hang_seconds=60) as session:

        def until_cancelled() -> None:
            with pytest.raises(DeviceError, match="was cancelled"):
                session.execute()

        running = threading.Thread(target=until_cancelled)
        session.start()
        with pytest.raises(DeviceError, match="started and not waited for"):
            session.run([np.zeros((1, 1, 16), np.int8)])
        lib().lds_session_stop(session._session)
        session._started = False
        running.start()
        while session._turn.acquire(blocking=False):  # until the other thread is in its call
            session._turn.release()
            time.sleep(0.001)
        refused = (
            lambda: session.run([np.zeros((1, 1, 16), np.int8)]),
            session.execute,
            session.start,
            session.wait,
            session.reset,
        )
        for call in refused:
            with pytest.raises(DeviceError, match="is in a call of another thread"):
                call()
        session.cancel()
        running.join(10)
        assert not running.is_alive()


def test_sessions_of_threads_that_take_turns_are_right() -> None:
    x = np.arange(-24, 24, dtype=np.int8).reshape(3, 1, 16)
    wrong: list[object] = []
    refused: list[str] = []
    with device.open("sim") as dev, dev.load(copy_model()) as session:

        def work(seed: int) -> None:
            mine, done = np.roll(x, seed), 0
            while done < 20:
                try:
                    (y,) = session.run([mine])
                except DeviceError as error:
                    refused.append(str(error))
                    continue
                done += 1
                if not np.array_equal(y, mine):
                    wrong.append(y)

        threads = [threading.Thread(target=work, args=(k,)) for k in range(3)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join(60)
        assert not any(thread.is_alive() for thread in threads)
    assert not wrong
    assert all("another thread" in line for line in refused)


def test_behind_fork_is_an_error_not_a_hang() -> None:
    """The child says so in one line, whatever it calls, and ends, collecting what it has."""
    program = """
import gc, os, sys
import numpy as np
from loadstone.errors import DeviceError
from loadstone.runtime import device
from tests.sample_model import copy_model
x = np.zeros((1, 1, 16), np.int8)
dev = device.open("sim")
session = dev.load(copy_model())
child = os.fork()
if child == 0:
    for call in (lambda: session.run([x]), session.execute, session.start, session.wait,
                 session.reset, lambda: session.counters, lambda: dev.load(copy_model())):
        try:
            call()
            sys.exit(9)
        except DeviceError as error:
            print(error)
    dev.close()
    assert np.array_equal(dev.load(copy_model()).run([x + 2])[0], x + 2)  # its own now
    dev.close()
    del session, dev
    gc.collect()
    with device.open("sim") as own, own.load(copy_model()) as mine:
        assert np.array_equal(mine.run([x + 3])[0], x + 3)
    sys.exit(0)
assert os.waitpid(child, 0)[1] == 0
assert np.array_equal(session.run([x + 5])[0], x + 5)
"""
    done = subprocess.run(
        [sys.executable, "-c", program],
        capture_output=True,
        text=True,
        check=False,
        timeout=60,
        cwd=Path(__file__).parents[2],
    )
    assert (done.returncode, done.stderr) == (0, "")
    lines = done.stdout.splitlines()
    assert len(lines) == 7
    assert all("of which this one is a fork" in line for line in lines)


def test_closing_ends_a_run_of_another_thread() -> None:
    said: list[str] = []
    dev = device.open()
    session = dev.load(endless_model())
    begun = threading.Event()

    def work() -> None:
        begun.set()
        try:
            session.run([X])
        except DeviceError as error:
            said.append(str(error))

    thread = threading.Thread(target=work)
    thread.start()
    begun.wait()
    dev.close()
    thread.join(20)
    assert not thread.is_alive()
    assert len(said) == 1
    assert "cancelled" in said[0] or "is closed" in said[0]
