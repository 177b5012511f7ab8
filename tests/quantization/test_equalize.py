# SPDX-License-Identifier: Apache-2.0
"""Equalization leaves the network as it is, and its channels closer."""

from __future__ import annotations

import numpy as np
import pytest

from loadstone.quantization.calibrate import calibrate
from loadstone.quantization.equalize import GROWTH, channel_factors, equalize
from loadstone.quantization.planned import real_settings
from loadstone.quantization.samples import samples_from
from tests.float_models import images, runner


@pytest.mark.parametrize("seed", [0, 1, 2])
@pytest.mark.parametrize("strength", [0.5, 1.0])
def test_the_network_computes_the_same_with_closer_channels(seed: int, strength: float) -> None:
    compiled = runner(seed)
    before = compiled.network
    samples = samples_from(images(16), before.parameters)
    calibration = calibrate(compiled, samples)
    after = equalize(before, calibration, strength)
    settings = real_settings(after)
    again = calibrate(compiled, samples, settings)
    for inputs in samples:
        np.testing.assert_allclose(
            compiled.run(inputs, settings)[0][0],
            compiled.run(inputs)[0][0].copy(),
            rtol=1e-3,
            atol=1e-4,
        )

    changed = 0
    for variable, factors in channel_factors(before, calibration, strength).items():
        reach = [entry.channels[variable].reach(GROWTH) for entry in (calibration, again)]
        np.testing.assert_allclose(reach[1], reach[0] * factors, rtol=1e-3, atol=1e-4)
        assert reach[1].max() <= reach[0].max() * 1.0001  # no range grows
        changed += int(np.any(factors != 1))
    assert changed >= 3


def test_what_the_outside_sees_is_not_scaled() -> None:
    before = runner().network
    calibration = calibrate(runner(), samples_from(images(4), before.parameters))
    factors = channel_factors(before, calibration)
    for variable in (*before.parameters, *before.outputs):
        np.testing.assert_array_equal(factors[variable], 1.0)


def test_channels_that_meet_in_an_addition_have_one_factor() -> None:
    before = runner().network
    factors = channel_factors(
        before, calibrate(runner(), samples_from(images(8), before.parameters))
    )
    add = next(layer for layer in before.layers if layer.kind == "add")
    left, right = (factors[variable] for variable in add.inputs)
    np.testing.assert_array_equal(left, right)
    np.testing.assert_array_equal(left, factors[add.output])
    joined = next(layer for layer in before.layers if layer.kind == "concat")
    np.testing.assert_array_equal(
        factors[joined.output], np.concatenate([factors[variable] for variable in joined.inputs])
    )
