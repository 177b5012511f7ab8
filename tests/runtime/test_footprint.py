# SPDX-License-Identifier: Apache-2.0
"""footprint.py: no less than a session takes."""

from __future__ import annotations

import pytest

from loadstone.artifact.format import Artifact
from loadstone.runtime.footprint import footprint, pool_bytes, session_bytes
from loadstone.vta.device.hw_config import load_config
from tests.artifact.test_program_step import program_model
from tests.sample_model import copy_model, dense_model, state_model


@pytest.mark.parametrize(
    "model",
    [copy_model(), state_model(), program_model(), dense_model(load_config("vtaq-tiny")).artifact],
    ids=["copy", "state", "another device", "dense"],
)
def test_parts_are_the_model_s(model: Artifact) -> None:
    found, data = footprint(model), model.to_bytes()
    assert found.model_bytes == len(data)
    assert found.session_bytes == session_bytes(data)
    on_device = [r.size_bytes for r in model.regions if r.on_device]
    assert found.pool_bytes == pool_bytes(model) >= sum(on_device)
    assert found.ram_bytes == found.pool_bytes + found.session_bytes
    assert found.arena_bytes <= found.pool_bytes
    assert found.c_steps == 0
