# SPDX-License-Identifier: Apache-2.0
"""served.py: `loadstone run` on a device that another process has gives what it gives alone."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from loadstone.errors import DeviceError
from loadstone.runtime.device import open as open_device
from loadstone.runtime.served import is_served, run_served
from loadstone.vta.device.hw_config import load_config
from tests.hosts.serving import serving
from tests.sample_model import dense_model

ARTIFACT = dense_model(load_config("vtaq-4x16x16")).artifact


def test_a_name_says_whether_another_process_has_the_device() -> None:
    assert is_served("served:npu.sock;priority=2")
    assert not is_served("simd:served:s")


def test_samples_of_several_runs_equal_those_of_a_device_of_ones_own(tmp_path: Path) -> None:
    width = ARTIFACT.tensors[ARTIFACT.inputs[0]].shape[-1]
    x = np.random.default_rng(1).integers(-128, 128, (9, 1, width)).astype(np.int8)
    with open_device("sim") as opened, opened.load(ARTIFACT) as session:
        wanted = session.run([x])
    told: list[int] = []
    with serving(tmp_path) as served:
        found, totals, device = run_served(ARTIFACT, [x], served.name(priority=1), told.append)
        assert served.end()["runs"] == totals.runs == 3
    assert device.name == "vtaq-4x16x16"
    assert told == [4, 8, 9]
    for got, want in zip(found, wanted, strict=True):
        np.testing.assert_array_equal(got, want)


def test_without_a_server_it_is_one_line(tmp_path: Path) -> None:
    with pytest.raises(DeviceError, match=r"^no server answers at .*: start `loadstone serve"):
        run_served(ARTIFACT, [np.zeros((1, 1, 16), np.int8)], f"served:{tmp_path}/s")
