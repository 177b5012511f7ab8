# SPDX-License-Identifier: Apache-2.0
"""quantization/planned.py: what the runner is given of a plan."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from loadstone.quantization.calibrate import calibrate
from loadstone.quantization.plan import make_plan
from loadstone.quantization.planned import real_settings, settings
from loadstone.quantization.samples import samples_from
from loadstone.quantization.scales import SCHEMES
from tests import float_models
from tests.float_models import images


@pytest.mark.parametrize(("bits", "least"), [(32, 0.0), (16, 1e-9)])
def test_layers_of_the_host_are_real_or_of_16_bits(bits: int, least: float) -> None:
    runner = float_models.runner()
    found = runner.network
    samples = samples_from(images(4), found.parameters)
    plan = make_plan(found, calibrate(runner, samples).histograms, SCHEMES["affine"], "minmax")
    every = frozenset(layer.name for layer in found.layers)
    whole = settings(found, replace(plan, host=every, host_bits=bits))
    exact = real_settings(found)
    for name, weights in exact.weights.items():
        apart = np.abs(whole.weights[name] - weights).max() / np.abs(weights).max()
        assert least <= apart <= least * 1e5, name
    boundaries = set(found.boundaries()) if bits == 16 else set()
    assert set(whole.activations) == boundaries
    assert {grid.bits for grid in whole.activations.values()} <= {16}
