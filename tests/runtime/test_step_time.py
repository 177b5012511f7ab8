# SPDX-License-Identifier: Apache-2.0
"""runtime/step_time.py: a step alone takes some time, and changes nothing."""

from __future__ import annotations

from loadstone.artifact.format import HostStep
from loadstone.runtime.step_time import measured_ns
from loadstone.vta.device.hw_config import load_config
from tests.sample_model import dense_model


def test_every_step_of_the_host_takes_time() -> None:
    config = load_config("vtaq-1x16x16")
    artifact = dense_model(config).artifact
    steps = [step for step in artifact.steps if isinstance(step, HostStep)]
    assert steps
    for step in steps:
        assert 0 < measured_ns(step, artifact, config, trust=False) < 60e9
