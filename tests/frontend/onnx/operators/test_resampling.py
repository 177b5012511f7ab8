# SPDX-License-Identifier: Apache-2.0
"""frontend/onnx/operators/resampling.py: weights of every curve sum to one, and a device's nearest
elements are those of exact fractions."""

from __future__ import annotations

from fractions import Fraction
from math import floor

import numpy as np
import pytest

pytest.importorskip("tvm", reason="TVM is not installed (the extra `compiler`)")

from loadstone.frontend.onnx.operators.resampling import ResizedAxis, exact_nearest, weighted


def axis(size: int, made: int, coordinates: str = "half_pixel") -> ResizedAxis:
    return ResizedAxis(2, size, made, np.float32(made) / np.float32(size), coordinates)


@pytest.mark.parametrize("mode", ["linear", "cubic"])
@pytest.mark.parametrize("antialias", [0, 1])
@pytest.mark.parametrize("exclude_outside", [0, 1])
def test_weights_sum_to_one_and_read_what_is_there(
    mode: str, antialias: int, exclude_outside: int
) -> None:
    attributes = {"antialias": antialias, "exclude_outside": exclude_outside}
    for size, made in ((7, 3), (5, 12), (9, 1)):
        found = weighted(axis(size, made), mode, attributes)
        assert found.weights is not None
        np.testing.assert_allclose(found.weights.sum(1), 1, rtol=1e-6)
        assert found.places.min() >= 0
        assert found.places.max() < size


def test_the_nearest_by_exact_fractions() -> None:
    half = Fraction(1, 2)
    for size in range(1, 9):
        for made in range(2, 12):
            ratio, gaps = Fraction(size, made), Fraction(size - 1, made - 1)
            wanted = {
                "asymmetric": [floor(i * ratio) for i in range(made)],
                "half_pixel": [floor((i + half) * ratio - half + half) for i in range(made)],
                "align_corners": [floor(i * gaps + half) for i in range(made)],
            }
            for coordinates, places in wanted.items():
                found = exact_nearest(axis(size, made, coordinates))
                assert found.places.reshape(-1).tolist() == places
