# SPDX-License-Identifier: Apache-2.0
"""lent_files.py: a simulated device reads a model's file where it is; results are those of a
copy, and so are cycles but for the ends of bursts."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from loadstone.artifact.format import Artifact
from loadstone.library.native import ffi
from loadstone.runtime import lent_files
from loadstone.runtime.device import OpenedDevice
from loadstone.vta.device.hw_config import load_config
from tests.compiled import golden, network

FILE = ffi.new("uint8_t[]", 20 << 20)
SIZE = 20 << 20
FILE_NAME = "mlpt_kws_int8.tflite"


@pytest.fixture(name="opened")
def _opened() -> OpenedDevice:
    return OpenedDevice("sim", "", load_config("vtaq-1x16x16"))


def test_files_stand_behind_each_other_and_gaps_are_used_again(opened: OpenedDevice) -> None:
    with opened:
        files = opened.handle().files
        assert files is not None
        first, second, third = (files.lend(FILE, SIZE) for _ in range(3))
        assert first is not None
        assert second is not None
        assert third is not None
        assert first % (1 << 16) == second % (1 << 16) == 0
        assert third - second == second - first == SIZE
        files.take_back(second)
        assert files.lend(FILE, SIZE - 1) == second
        assert files.lend(FILE, SIZE) == third + SIZE
        assert files.lend(FILE, (1 << 24) - 1) is None  # small
        assert files.lend(FILE, 1 << 32) is None  # it is not looked at: no addresses are left


def test_other_devices_copy() -> None:
    for opened in (
        OpenedDevice("null", "", load_config("vtaq-1x16x16")),
        OpenedDevice("sim", "", load_config("vtaq-1x16x16"), shadow=True),
    ):
        with opened:
            assert opened.handle().files is None


@pytest.mark.parametrize("target", ["vtaq-1x16x16", "vta-pynq"])
def test_a_network_computes_the_same(
    target: str, shared: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """vta-pynq's programs are bound to addresses in a copy; its constants stay in the file, too."""
    artifact = network(shared, FILE_NAME, target).artifact
    (x,), (wanted,) = golden(shared, FILE_NAME, 1)
    data, cycles = artifact.to_bytes(), []
    for least, opens in ((1 << 30, 1), (1, 3)):
        monkeypatch.setattr(lent_files, "LARGE_BYTES", least)
        with OpenedDevice("sim", "", load_config(target)) as opened:
            for _ in range(opens):  # the second file stands where the first one stood
                with opened.load(data) as session:
                    (y,) = session.run([x])
                    cycles.append(session.counters.cycles)
                    np.testing.assert_array_equal(np.asarray(y).reshape(-1), wanted.reshape(-1))
            files = opened.handle().files
            assert files is not None
            assert not files._lent
            with opened.load(data) as session, opened.load(data) as other:
                assert len(files._lent) == (0 if opens == 1 else 2)
                session.close()
                (y,) = other.run([x])
                np.testing.assert_array_equal(np.asarray(y).reshape(-1), wanted.reshape(-1))
                assert len(files._lent) == (0 if opens == 1 else 1)
    assert len(set(cycles[1:])) == 1
    assert max(cycles) - min(cycles) < 0.001 * max(cycles)  # bursts end elsewhere
    assert data == artifact.to_bytes() == Artifact.from_bytes(data).to_bytes()
