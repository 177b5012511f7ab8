# SPDX-License-Identifier: Apache-2.0
"""What is measured: decibels, saturation, accuracy."""

from __future__ import annotations

import gc
import math
import weakref
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from loadstone.graph import Quantization
from loadstone.quantization.calibrate import calibrate
from loadstone.quantization.compare import Pair, compare, compare_all, decibels, saturation
from loadstone.quantization.equalize import equalize
from loadstone.quantization.planned import real_settings
from loadstone.quantization.samples import samples_from
from loadstone.quantization.simulate import FLOAT, Grid, Settings
from loadstone.quantization.statistics import Histogram
from tests import float_models
from tests.float_models import images


def test_decibels() -> None:
    assert decibels(100.0, 1.0) == 20.0
    assert decibels(1.0, 0.0) == math.inf
    assert decibels(0.0, 1.0) == -math.inf
    assert math.isnan(decibels(0.0, 0.0)), "of nothing nothing is known"


def test_saturation_counts_what_lies_outside() -> None:
    histogram = Histogram()
    histogram.update(np.linspace(-1, 1, 200_001, dtype=np.float32))
    assert saturation(histogram, Quantization(1 / 128, 0)) == pytest.approx(0, abs=0.003)
    assert saturation(histogram, Quantization(1 / 256, 0)) == pytest.approx(0.5, abs=0.01)
    assert saturation(histogram, Quantization(1 / 128, -128)) == pytest.approx(0.5, abs=0.01)


def test_a_comparison_is_the_difference_of_two_runs() -> None:
    runner = float_models.runner()
    samples = samples_from(images(6), runner.network.parameters)
    grids = Settings(
        activations=dict.fromkeys(runner.network.boundaries(), Grid(Quantization(0.25, 0)))
    )
    labels = np.array([int(np.argmax(runner.run(inputs)[0][0])) for inputs in samples])
    labels[0] = (labels[0] + 1) % 5
    found = compare(runner, grids, replace(samples, labels=labels))
    exact = [runner.run(inputs)[0][0].copy() for inputs in samples]
    rounded = [runner.run(inputs, grids)[0][0].copy() for inputs in samples]
    ratio = 10 * np.log10(np.sum(np.square(exact)) / np.sum(np.square(np.subtract(exact, rounded))))
    assert found.outputs[0] == pytest.approx(ratio, abs=1e-3)
    assert found.float_top1 == pytest.approx(5 / 6)
    assert found.top1 == pytest.approx(
        np.mean([np.argmax(y) == label for y, label in zip(rounded, labels, strict=True)])
    )
    assert set(found.tensors) == set(runner.network.groups)


def test_without_settings_nothing_differs() -> None:
    runner = float_models.runner()
    found = compare(runner, Settings(), samples_from(images(2), runner.network.parameters))
    assert set(found.tensors.values()) == {math.inf}
    assert found.top1 is None


def test_an_equalized_network_is_compared_with_itself() -> None:
    """Its tensors are multiples of the others: no noise, where `real` says so."""
    runner = float_models.runner()
    samples = samples_from(images(4), runner.network.parameters)
    settings = real_settings(equalize(runner.network, calibrate(runner, samples)))
    assert set(compare(runner, settings, samples, real=settings).tensors.values()) == {math.inf}
    assert min(compare(runner, settings, samples).tensors.values()) < 20


def test_pairs_share_runs_and_let_go_of_them(monkeypatch: pytest.MonkeyPatch) -> None:
    """Each settings' network runs once a sample; no more than two runs' tensors are there."""
    runner = float_models.runner()
    samples = samples_from(images(2), runner.network.parameters)
    every, whole = tuple(runner.network.groups), runner.run
    coarse, fine = (
        Settings(
            activations=dict.fromkeys(runner.network.boundaries(), Grid(Quantization(scale, 0)))
        )
        for scale in (0.5, 0.125)
    )
    # What is there is not collected again at every run; nor later (conftest.py freezes most of it).
    gc.freeze()
    alive: list[weakref.ref[Any]] = []
    order: list[Settings] = []

    def counted(inputs: Any, settings: Settings) -> Any:
        gc.collect()
        assert sum(entry() is not None for entry in alive) <= 1
        outputs, recorded = whole(inputs, settings)
        alive.append(weakref.ref(recorded))
        order.append(settings)
        return outputs, recorded

    monkeypatch.setattr(runner, "run", counted)
    other = Settings()
    pairs = [Pair(FLOAT, coarse, every), Pair(FLOAT, fine, every), Pair(other, fine, every)]
    found = compare_all(runner, pairs, samples)
    assert order == [FLOAT, coarse, fine, other] * 2
    assert found[1].tensors == found[2].tensors
    monkeypatch.undo()
    assert [comparison.tensors for comparison in found[:2]] == [
        compare(runner, settings, samples).tensors for settings in (coarse, fine)
    ]
