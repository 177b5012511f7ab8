# SPDX-License-Identifier: Apache-2.0
"""Moments against NumPy's covariance, of rows that are few, many, and first few, then many."""

from __future__ import annotations

import numpy as np
import pytest

from loadstone.quantization.moments import MAX_INPUTS, Moments


@pytest.mark.parametrize("counts", [(3, 4), (40,), (3, 4, 5, 40, 2)])
def test_both_forms_are_the_covariance_of_all_rows(counts: tuple[int, ...]) -> None:
    rng = np.random.default_rng(0)
    rows = [rng.normal(1, 2, (2, count, 20)).astype(np.float32) for count in counts]
    moments = Moments(2, 20)
    for each in rows:
        moments.update(each)
    every = np.concatenate(rows, axis=1)
    assert (moments.spread is None) == (2 * sum(counts) > 20)
    np.testing.assert_allclose(moments.mean, every.mean(axis=1), atol=1e-6)
    for group, found in enumerate(moments.covariance):
        np.testing.assert_allclose(found, np.cov(every[group].T, bias=True), atol=1e-5)


def test_without_rows_everything_is_zero() -> None:
    moments = Moments(1, 3)
    assert not moments.mean.any()
    np.testing.assert_array_equal(moments.covariance, np.zeros((1, 3, 3)))


def test_of_very_many_inputs_no_row_is_kept() -> None:
    moments = Moments(1, MAX_INPUTS + 1)
    moments.update(np.ones((1, 3, MAX_INPUTS + 1), np.float32))
    assert not moments.has_covariance
    assert moments.spread is None
