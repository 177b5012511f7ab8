# SPDX-License-Identifier: Apache-2.0
"""vta/simulator/profile.py: each device program once, its layers in time."""

from __future__ import annotations

import pytest

from loadstone.vta.device.hw_config import load_config
from loadstone.vta.simulator.profile import cycles, profile
from tests.sample_model import copy_model, dense_model

VTAQ, PYNQ = load_config("vtaq-1x16x16"), load_config("vta-pynq")


@pytest.mark.parametrize("config", [VTAQ, PYNQ], ids=lambda c: c.name)
def test_layers_lie_within_the_run(config: object) -> None:
    """Also on a device without regions, whose programs are placed by rewriting their addresses."""
    (found,) = profile(dense_model(config).artifact, config)  # type: ignore[arg-type]
    assert found.result.status == "NONE"
    assert len(found.events) == len(found.layer_of) == len(found.program)
    for layer in found.layers():
        assert 0 <= layer.first_cycle < layer.last_cycle <= found.result.cycles
        assert sum(layer.busy_cycles.values()) > 0
    starts = [layer.first_cycle for layer in found.layers()]
    assert starts == sorted(starts)


def test_cycles_are_those_of_the_profile() -> None:
    model = copy_model()
    (found,) = profile(model, VTAQ)
    assert cycles(model, VTAQ) == [found.result.cycles]
    assert [layer.name for layer in found.layers()] == ["copy"]
