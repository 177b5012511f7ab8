# SPDX-License-Identifier: Apache-2.0
"""Both ways of compensated rounding against the definition: each column takes, before it is
rounded, the value for which the error of the layer's output is least."""

from __future__ import annotations

import numpy as np
import pytest
from numpy.typing import NDArray

from loadstone.quantization.compensation import _factor, compensated
from loadstone.quantization.moments import Moments

DAMPING = 0.5


def by_definition(
    weights: NDArray[np.float64], steps: NDArray[np.float64], moments: Moments
) -> NDArray[np.float64]:
    """Of one group, with a solution of the normal equations for each column."""
    covariance = moments.covariance[0]
    size = len(covariance)
    damped = covariance + DAMPING * np.trace(covariance) / size * np.eye(size)
    order = list(np.argsort(-np.diagonal(covariance)))
    integers = np.zeros_like(weights)
    for place, column in enumerate(order):
        before, free = order[:place], order[place:]
        errors = integers[:, before] * steps[:, None] - weights[:, before]
        best = np.linalg.solve(damped[np.ix_(free, free)], damped[np.ix_(free, before)])
        wanted = weights[:, column] - errors @ best[0]
        integers[:, column] = np.clip(np.rint(wanted / steps), -127, 127)
    return integers


@pytest.mark.parametrize("rows", [5, 80, 400])
def test_few_and_many_rows_give_the_integers_of_the_definition(rows: int) -> None:
    """160 columns are more than one block, and more than one triangle."""
    rng = np.random.default_rng(rows)
    mixed = rng.normal(0, 1, (160, 160))
    moments = Moments(1, 160)
    moments.update((rng.normal(0, 1, (1, rows, 160)) @ mixed).astype(np.float32))
    weights = rng.normal(0, 1, (1, 6, 160))
    steps = np.abs(weights).max(axis=2) / 20
    assert (moments.spread is None) == (rows > 80)
    found = compensated(weights.copy(), steps, moments, DAMPING)
    np.testing.assert_array_equal(found[0], by_definition(weights[0], steps[0], moments))
    assert np.any(found != np.rint(weights / steps[:, :, None]))


def test_groups_are_apart() -> None:
    rng = np.random.default_rng(1)
    rows = rng.normal(0, 1, (3, 10, 40)).astype(np.float32)
    weights, steps = rng.normal(0, 1, (3, 2, 40)), np.full((3, 2), 0.1)
    together = Moments(3, 40)
    together.update(rows)
    found = compensated(weights.copy(), steps, together, DAMPING)
    for group in range(3):
        apart = Moments(1, 40)
        apart.update(rows[group : group + 1])
        one = slice(group, group + 1)
        expected = compensated(weights[one].copy(), steps[one], apart, DAMPING)
        np.testing.assert_array_equal(found[one], expected)


def test_the_factor_gives_the_inverse() -> None:
    rng = np.random.default_rng(2)
    rows = rng.normal(0, 1, (2, 400, 300))
    matrix = rows.transpose(0, 2, 1) @ rows / 400 + np.eye(300)
    factor = _factor(matrix)
    assert not np.tril(factor, -1).any()
    np.testing.assert_allclose(
        factor.transpose(0, 2, 1) @ factor, np.linalg.inv(matrix), rtol=0, atol=1e-12
    )
