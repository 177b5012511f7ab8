# SPDX-License-Identifier: Apache-2.0
"""parallel.py: shares of samples on devices of their own give what one device gives."""

from __future__ import annotations

import threading
import time
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import numpy as np
import pytest

from loadstone.errors import DeviceError
from loadstone.runtime import device
from loadstone.runtime.parallel import run_in_threads
from loadstone.vta.device.hw_config import load_config
from tests.sample_model import copy_model, dense_model, endless_model


@pytest.mark.parametrize("name", ["vtaq-1x16x16", "vtaq-4x16x16"])
@pytest.mark.parametrize("threads", [1, 2, 3, 50])
def test_threads_change_nothing(name: str, threads: int) -> None:
    artifact = dense_model(load_config(name)).artifact
    shape = artifact.tensors[artifact.inputs[0]].shape
    shape = (shape[0] // artifact.samples, *shape[1:])
    x = np.random.default_rng(0).integers(-128, 128, (23, *shape)).astype(np.int8)
    (one,), totals, _ = run_in_threads(artifact, [x], lambda: device.open(name), 1)
    told: list[int] = []
    (many,), again, config = run_in_threads(
        artifact, [x], lambda: device.open(name), threads, told.append
    )
    np.testing.assert_array_equal(one, many)
    # all shares are counted, not the last alone
    assert totals.runs == again.runs == -(-23 // artifact.samples)
    assert totals.counters == again.counters
    assert totals.counters.cycles > 0
    assert config.name == name
    assert max(told) == 23


def test_no_thread_is_a_mistake() -> None:
    artifact = dense_model(load_config("vtaq-tiny")).artifact
    with pytest.raises(DeviceError, match="threads=0 is not in"):
        run_in_threads(artifact, [], device.open, 0)


def test_a_share_that_fails_ends_the_others() -> None:
    """The first would take weeks."""
    opened: list[device.Device] = []

    def one_only() -> device.Device:
        opened.append(device.open())
        if len(opened) > 1:
            raise DeviceError("no second device")
        return opened[0]

    x = np.zeros((2, 1, 16), np.int8)
    done: list[str] = []

    def run() -> None:
        with pytest.raises(DeviceError, match="no second device|cancelled"):
            run_in_threads(endless_model(), [x], one_only, 2)
        done.append("ended")

    thread = threading.Thread(target=run, daemon=True)
    thread.start()
    thread.join(5)
    assert done


def test_an_interrupt_while_shares_are_handed_out_ends_those_that_run(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Each would take weeks, and was waited for."""
    begun = threading.Event()
    submit, handed = ThreadPoolExecutor.submit, list[Any]()

    def interrupted(pool: ThreadPoolExecutor, *work: Any) -> Any:
        if handed:
            assert begun.wait(30)
            raise KeyboardInterrupt
        handed.append(submit(pool, *work))
        return handed[0]

    def opened() -> device.OpenedDevice:
        begun.set()
        return device.open()

    monkeypatch.setattr(ThreadPoolExecutor, "submit", interrupted)
    ended = threading.Event()

    def run() -> None:
        with pytest.raises(KeyboardInterrupt):
            run_in_threads(endless_model(), [np.zeros((2, 1, 16), np.int8)], opened, 2)
        ended.set()

    threading.Thread(target=run, daemon=True).start()
    assert ended.wait(30)
    assert isinstance(handed[0].exception(), DeviceError)


def test_a_cancelled_session_runs_no_more() -> None:
    with device.open() as dev, dev.load(endless_model()) as session:
        timer = threading.Timer(0.1, session.cancel)
        timer.start()
        begin = time.monotonic()
        for _ in range(2):
            with pytest.raises(DeviceError, match="the run of model 'endless' was cancelled"):
                session.execute()
        assert time.monotonic() - begin < 2
        timer.join()
        with dev.load(copy_model()) as other:
            assert np.array_equal(
                other.run([np.ones((1, 1, 16), np.int8)])[0], np.ones((1, 1, 16), np.int8)
            )
