# SPDX-License-Identifier: Apache-2.0
"""runtime/beside.py: what a network answers beside another one, and when, by numbers that are known
by hand: a run is so many programs of the same length, and only their ends are places to switch."""

from __future__ import annotations

import dataclasses
from functools import partial

import numpy as np
import pytest

from loadstone.artifact.format import Artifact
from loadstone.errors import ArtifactError, DeviceError
from loadstone.numerics import Array
from loadstone.runtime import device
from loadstone.runtime.beside import Beside, run_beside
from loadstone.simulator.programs import elapsed_cycles, program_runs
from loadstone.vta.device.hw_config import load_config
from tests.further import branches
from tests.runtime.test_schedule import in_parts
from tests.sample_model import copy_model

CONFIG = load_config("vtaq-1x16x16")


def _inputs(artifact: Artifact, samples: int) -> list[Array]:
    shape = artifact.tensors[artifact.inputs[0]].shape
    rng = np.random.default_rng(1)
    return [rng.integers(-128, 128, (samples, *shape)).astype(np.int8)]


def _beside(own: Artifact, other: Artifact, samples: int) -> Beside:
    sim = partial(device.open, "sim")
    return run_beside(own, _inputs(own, samples), other, sim)


@pytest.mark.parametrize(("parts", "samples"), [(1, 12), (5, 12), (5, 1)])
def test_a_sample_waits_for_one_program_at_most(parts: int, samples: int) -> None:
    own, other = in_parts(1), in_parts(parts)
    found = _beside(own, other, samples)
    each = found.own.alone_cycles
    assert found.other.alone_cycles == parts * each
    assert len(found.own.cycles) == found.totals.runs == samples
    assert each <= min(found.own.cycles)
    assert max(found.own.cycles) < 2 * each
    assert found.totals.counters.cycles == samples * each
    if samples > 1:  # at other places of a program each time
        assert len(set(found.own.cycles)) > samples // 2
        assert max(found.own.cycles) > 1.5 * each
    # what comes between delays the other network by itself alone, and the device never waits
    assert set(found.other.cycles) <= {parts * each + k * each for k in (0, 1)}
    assert len(found.other.cycles) >= samples


def test_outputs_are_those_of_the_network_alone() -> None:
    own = in_parts(5)
    inputs = _inputs(own, 7)
    with device.open("sim") as opened, opened.load(own) as session:
        alone = session.run(inputs)
        counters = session.totals.counters
    told: list[int] = []
    found = run_beside(own, inputs, in_parts(1), partial(device.open, "sim"), told.append)
    assert all(np.array_equal(a, b) for a, b in zip(alone, found.outputs, strict=True))
    assert told == list(range(1, 8))
    assert found.totals.counters.cycles == counters.cycles
    assert found.device == CONFIG


def test_a_network_of_two_devices_takes_as_long_as_the_longer() -> None:
    _, both = branches(CONFIG, dataclasses.replace(CONFIG, name="beside", bus_of=CONFIG.name))
    found = _beside(both, in_parts(2), 3)
    alone = elapsed_cycles(both, program_runs(both, CONFIG))
    assert found.own.alone_cycles == alone
    assert alone <= min(found.own.cycles) <= max(found.own.cycles) < 2 * alone


def test_what_shares_no_device_is_refused() -> None:
    own = in_parts(1)
    with pytest.raises(ArtifactError, match="compiled for device"):
        _beside(own, copy_model(load_config("vtaq-1x32x32")), 1)
    with pytest.raises(DeviceError, match="takes no cycles"):
        run_beside(own, _inputs(own, 1), own, partial(device.open, "null"))
