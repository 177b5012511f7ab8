"""parallel.py: shares of samples on devices of their own give what one device gives."""

from __future__ import annotations

import numpy as np
import pytest

from loadstone.errors import DeviceError
from loadstone.runtime import device
from loadstone.runtime.parallel import run_in_threads
from loadstone.vta.hw_config import load_config
from tests.sample_model import dense_model


@pytest.mark.parametrize("name", ["vtaq-1x16x16", "vtaq-4x16x16"])
@pytest.mark.parametrize("threads", [1, 2, 3, 50])
def test_threads_change_nothing(name: str, threads: int) -> None:
    artifact = dense_model(load_config(name)).artifact
    shape = artifact.tensors[artifact.inputs[0]].shape
    shape = (shape[0] // artifact.samples, *shape[1:])
    x = np.random.default_rng(0).integers(-128, 128, (23, *shape)).astype(np.int8)
    (one,), counters, _ = run_in_threads(artifact, [x], lambda: device.open(name), 1)
    told: list[int] = []
    (many,), again, config = run_in_threads(
        artifact, [x], lambda: device.open(name), threads, told.append
    )
    np.testing.assert_array_equal(one, many)
    assert counters.cycles == again.cycles
    assert config.name == name
    assert max(told) == 23


def test_no_thread_is_a_mistake() -> None:
    artifact = dense_model(load_config("vtaq-tiny")).artifact
    with pytest.raises(DeviceError, match="threads=0 is not in"):
        run_in_threads(artifact, [], device.open, 0)
