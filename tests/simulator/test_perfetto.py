# SPDX-License-Identifier: Apache-2.0
"""simulator/perfetto.py: a trace of a compiled model, read with Perfetto's own schema."""

from __future__ import annotations

from pathlib import Path

import pytest
from perfetto.protos.perfetto.trace import perfetto_trace_pb2

from loadstone.backend.device import NO_DEVICE
from loadstone.errors import SimulationError
from loadstone.simulator.perfetto import write_profile_trace
from loadstone.vta.device.hw_config import load_config
from tests.sample_model import copy_model, dense_model


def test_every_instruction_is_in_the_trace(tmp_path: Path) -> None:
    config = load_config("vtaq-1x16x16")
    artifact = dense_model(config).artifact
    write_profile_trace(tmp_path / "t.pftrace", artifact, config)
    trace = perfetto_trace_pb2.Trace()
    trace.ParseFromString((tmp_path / "t.pftrace").read_bytes())
    names = [p.track_event.name for p in trace.packet if p.track_event.name]
    assert len(names) == len(artifact.programs[0])


def test_a_device_without_a_simulator_has_no_trace(tmp_path: Path) -> None:
    with pytest.raises(SimulationError, match="device none has no simulator"):
        write_profile_trace(tmp_path / "t", copy_model(), NO_DEVICE)
