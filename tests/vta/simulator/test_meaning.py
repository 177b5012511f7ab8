# SPDX-License-Identifier: Apache-2.0
"""vta/simulator/meaning.py: memory behind an instruction is what the simulator has there."""

from __future__ import annotations

import numpy as np

from loadstone.artifact.format import ProgramStep
from loadstone.vta.device.hw_config import config_of
from loadstone.vta.simulator.meaning import memory_behind
from tests.sample_model import copy_model


def test_a_copy_in_the_middle_and_at_the_end() -> None:
    artifact = copy_model()
    (program,) = artifact.steps
    assert isinstance(program, ProgramStep)
    x = np.arange(16, dtype=np.int8).tobytes()
    y = artifact.tensors[1]
    config = config_of(artifact.fingerprint)
    seen = memory_behind(program, artifact, config, {1: x.ljust(64, b"\0")}, {2: y, 3: y})
    assert seen == {2: bytes(16), 3: x}
