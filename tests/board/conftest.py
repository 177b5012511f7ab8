# SPDX-License-Identifier: Apache-2.0
"""Networks that the boards run."""

from __future__ import annotations

import pytest

from tests.board import models
from tests.board.models import Network
from tests.conftest import SHARED


@pytest.fixture(scope="session")
def convolutions(tmp_path_factory: pytest.TempPathFactory) -> Network:
    return models.convolutions(tmp_path_factory.mktemp("network"))


@pytest.fixture(scope="session")
def systolic(tmp_path_factory: pytest.TempPathFactory) -> Network:
    if SHARED.is_dir():
        file = "mlpt_resnet8_int8.tflite"
        return models.on_example(SHARED, [models.SYSTOLIC], "systolic", file)
    return models.convolutions_on_systolic(tmp_path_factory.mktemp("network"))


@pytest.fixture(scope="session")
def network(request: pytest.FixtureRequest) -> Network:
    """A real network where the shared models are, else a small one of ours: each costs a boot for
    each machine."""
    if SHARED.is_dir():
        return models.resnet8(SHARED)
    found: Network = request.getfixturevalue("convolutions")
    return found


@pytest.fixture(scope="session")
def divided(tmp_path_factory: pytest.TempPathFactory) -> Network:
    """The same on two equal devices with one bus to the memory, which share its layers."""
    target = "vtaq-1x16x16 -count=2 -bus=shared"
    if SHARED.is_dir():
        found = models.resnet8(SHARED, target)
    else:
        found = models.convolutions(tmp_path_factory.mktemp("divided"), target, 48)
    assert {program.device for program in found.artifact.programs} == {0, 1}
    return found
