# SPDX-License-Identifier: Apache-2.0
"""Calibration sees every value of every quantized tensor, once."""

from __future__ import annotations

import threading
from typing import Any

import numpy as np
import pytest

from loadstone.errors import ModelError
from loadstone.quantization.calibrate import calibrate
from loadstone.quantization.equalize import channel_factors, scalable
from loadstone.quantization.network import Role
from loadstone.quantization.samples import samples_from
from loadstone.quantization.simulate import FakeQuantizedRunner
from tests import float_models
from tests.float_models import images


@pytest.fixture(scope="module")
def runner() -> FakeQuantizedRunner:
    return float_models.runner()


def test_statistics_are_those_of_the_float_network(runner: FakeQuantizedRunner) -> None:
    samples = samples_from(images(6), runner.network.parameters)
    calibration = calibrate(runner, samples)
    recorded = [
        {variable: array.copy() for variable, array in runner.run(inputs)[1].items()}
        for inputs in samples
    ]
    for variable, channels in calibration.channels.items():
        values = np.stack([entry[variable] for entry in recorded])
        np.testing.assert_array_equal(
            channels.high, values.reshape(-1, values.shape[-1]).max(axis=0)
        )
    for layer in runner.network.layers:
        if layer.role is Role.WEIGHTED and layer.inputs[0] in runner.network.parameters:
            histogram = calibration.histograms[runner.network.groups[layer.inputs[0]]]
            values = np.stack([entry[layer.inputs[0]] for entry in recorded])
            assert (histogram.low, histogram.high, histogram.size) == (
                values.min(),
                values.max(),
                values.size,
            )


def test_a_group_is_judged_by_what_is_computed_with(runner: FakeQuantizedRunner) -> None:
    """Two tensors are read before and after the concatenation and the pool; what the pool drops
    does not count."""
    found = runner.network
    first = found.weighted[0].output
    joined = next(layer for layer in found.layers if layer.kind == "concat").output
    pooled = next(layer for layer in found.layers if layer.kind == "nn.max_pool2d").output
    samples = samples_from(images(4), found.parameters)
    calibration = calibrate(runner, samples)
    sizes = [
        int(np.prod([int(extent) for extent in variable.ty.shape])) for variable in (pooled, joined)
    ]
    assert calibration.histograms[found.groups[first]].size == 4 * sum(sizes)


def test_a_network_that_overflows_is_named(runner: FakeQuantizedRunner) -> None:
    with pytest.raises(ModelError, match="overflows") as caught:
        calibrate(
            runner,
            samples_from(np.clip(images(2), -1, 1) * np.float32(3e38), runner.network.parameters),
        )
    assert "\n" not in str(caught.value)


def test_runs_made_ahead_are_the_same_runs(
    runner: FakeQuantizedRunner, monkeypatch: pytest.MonkeyPatch
) -> None:
    """In a thread of their own: in their order, what goes wrong included."""
    samples = samples_from(images(5), runner.network.parameters)
    plain = calibrate(runner, samples)
    monkeypatch.setattr("loadstone.quantization.calibrate._LARGE", 0)
    threads: list[int] = []
    whole = runner.run

    def noted(*arguments: Any) -> Any:
        threads.append(threading.get_ident())
        return whole(*arguments)

    monkeypatch.setattr(runner, "run", noted)
    found = calibrate(runner, samples)
    assert len(threads) == 5
    assert threading.get_ident() not in threads
    for group, histogram in plain.histograms.items():
        np.testing.assert_array_equal(histogram.counts, found.histograms[group].counts)
    huge = samples_from(np.clip(images(2), -1, 1) * np.float32(3e38), runner.network.parameters)
    with pytest.raises(ModelError, match="overflows"):
        calibrate(runner, huge)


def test_channels_are_watched_where_they_may_be_scaled(runner: FakeQuantizedRunner) -> None:
    samples = samples_from(images(4), runner.network.parameters)
    whole = calibrate(runner, samples)
    growing = scalable(runner.network)
    few = calibrate(runner, samples, channels_of=growing)
    assert set(few.channels) == set(growing) < set(whole.channels)
    factors = [channel_factors(runner.network, calibration) for calibration in (whole, few)]
    assert any((entry != 1).any() for entry in factors[0].values())
    for variable, expected in factors[0].items():
        np.testing.assert_array_equal(expected, factors[1][variable])
        if variable not in growing:
            assert (expected == 1).all()
