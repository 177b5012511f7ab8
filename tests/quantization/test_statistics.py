# SPDX-License-Identifier: Apache-2.0
"""Streamed statistics are those of all values at once."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from loadstone.quantization.statistics import BINS, Channels, Histogram, gumbel_reach


@given(st.integers(0, 2**32 - 1), st.lists(st.floats(-6, 6), min_size=1, max_size=6))
@settings(max_examples=50, deadline=None)
def test_no_value_is_lost_however_the_range_grows(seed: int, exponents: list[float]) -> None:
    rng = np.random.default_rng(seed)
    histogram = Histogram()
    parts = [
        (rng.normal(rng.normal(), 1, 500) * 10**exponent).astype(np.float32)
        for exponent in exponents
    ]
    for part in parts:
        part[::7] = 0
        histogram.update(part)
    values = np.concatenate(parts)
    assert histogram.counts.sum() + histogram.zeros == histogram.size == values.size
    assert histogram.zeros == np.count_nonzero(values == 0)
    assert histogram.counts.min() >= 0
    assert (histogram.low, histogram.high) == (min(0.0, values.min()), max(0.0, values.max()))
    assert histogram.start <= histogram.low
    assert histogram.high <= histogram.start + BINS * histogram.width


@given(st.integers(0, 2**32 - 1), st.lists(st.floats(-3, 3), min_size=1, max_size=6))
@settings(max_examples=30, deadline=None)
def test_values_that_wait_reach_the_bins_of_their_time(seed: int, exponents: list[float]) -> None:
    rng = np.random.default_rng(seed)
    later, at_once = Histogram(), Histogram()
    for exponent in exponents:
        part = (rng.normal(rng.normal(), 1, 200) * 10**exponent).astype(np.float32)
        part[::5] = 0
        later.update(part)
        at_once.update(part)
        assert at_once.counts.sum() + at_once.zeros == at_once.size
    np.testing.assert_array_equal(later.counts, at_once.counts)
    np.testing.assert_array_equal(later.with_zeros(), at_once.with_zeros())


def test_the_distribution_is_numpys() -> None:
    rng = np.random.default_rng(1)
    histogram = Histogram()
    parts = [rng.normal(0, scale, 20_000).astype(np.float32) for scale in (0.1, 1, 3)]
    for part in parts:
        histogram.update(part)
    edges = histogram.start + histogram.width * np.arange(BINS + 1)
    counts, _ = np.histogram(np.concatenate(parts), edges)
    assert (
        np.abs(np.cumsum(counts) - np.cumsum(histogram.counts)).max() <= 5
    )  # values on an edge, in float32


def test_only_zeros_make_an_empty_histogram() -> None:
    histogram = Histogram()
    histogram.update(np.zeros((3, 4), np.float32))
    assert (histogram.zeros, histogram.size, histogram.counts.sum(), histogram.high) == (
        12,
        12,
        0,
        0.0,
    )


def test_channels_are_those_of_all_rows() -> None:
    rng = np.random.default_rng(2)
    parts = [rng.normal(size=(5, 6, 4)).astype(np.float32) for _ in range(3)]
    channels = Channels(4)
    for part in parts:
        assert channels.update(part) == (part.min(), part.max())
    rows = np.concatenate([part.reshape(-1, 4) for part in parts])
    np.testing.assert_array_equal(channels.low, rows.min(axis=0))
    np.testing.assert_array_equal(channels.high, rows.max(axis=0))
    assert np.all(channels.reach(1.0) == np.abs(rows).max(axis=0))
    assert np.all(channels.reach(4.0) > channels.reach(1.0))


def test_the_expected_extreme_is_met_on_average() -> None:
    """Of 4 n samples: the formula from n samples' extremes against what 4 n samples really have."""
    rng = np.random.default_rng(3)
    predicted, met = [], []
    for _ in range(300):
        extremes = rng.normal(size=(128, 200)).max(axis=1)
        few = extremes[:32]
        predicted.append(few.max() + gumbel_reach(np.std(few), 4.0))
        met.append(extremes.max())
    assert np.mean(predicted) == pytest.approx(np.mean(met), rel=0.05)


@pytest.mark.parametrize("shape", [(1, 1), (7, 3), (2304, 8), (64, 300), (1, 1000), (12, 1, 16)])
def test_extremes_are_those_of_each_channel_whatever_the_shape(shape: tuple[int, ...]) -> None:
    values = np.random.default_rng(1).standard_normal(shape).astype(np.float32)
    channels = Channels(shape[-1])
    channels.update(values)
    assert np.array_equal(channels.low, values.reshape(-1, shape[-1]).min(axis=0))
    assert np.array_equal(channels.high, values.reshape(-1, shape[-1]).max(axis=0))
