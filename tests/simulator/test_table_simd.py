# SPDX-License-Identifier: Apache-2.0
"""A plug-in's accelerator behind a socket: the C runtime of this process is its client."""

from __future__ import annotations

import os
import threading
from pathlib import Path

import numpy as np
import pytest

from loadstone.isa import accelerator as accelerators
from loadstone.isa.accelerator import register_accelerator
from loadstone.runtime import device
from loadstone.simulator.server import Server
from loadstone.simulator.simd import SharedMemory
from loadstone.simulator.table_simd import TableSimulated
from tests.artifact.test_program_step import program_model
from tests.isa.tables import npu


def test_runs_through_the_socket(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(accelerators, "_FACTORIES", {})
    register_accelerator("npu", lambda _: npu())
    memory = SharedMemory.anonymous(0x20000000, 1 << 20)
    served = TableSimulated(npu(), memory)
    server = Server(tmp_path / "sock", served, memory)
    stop = os.eventfd(0)
    thread = threading.Thread(target=server.serve, kwargs={"stop": stop})
    thread.start()
    try:
        with (
            device.open(f"simd:{tmp_path / 'sock'}") as opened,
            opened.load(program_model()) as session,
        ):
            for seed in range(3):
                x = np.random.default_rng(seed).integers(-128, 128, (1, 64), np.int8)
                session.inputs[0][...] = x
                session.execute()
                np.testing.assert_array_equal(session.outputs[0], x)
            assert session.counters.cycles == 11
    finally:
        os.eventfd_write(stop, 1)
        thread.join()
        server.close()
        served.close()
        os.close(stop)
