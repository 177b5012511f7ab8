# SPDX-License-Identifier: Apache-2.0
"""Ranges and scales: what each method and scheme promises."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from loadstone.quantization.scales import (
    METHODS,
    SCHEMES,
    activation_range,
    shiftable_scales,
    squared_error,
    weight_scales,
)
from loadstone.quantization.statistics import Histogram


def histogram_of(values: np.ndarray) -> Histogram:
    histogram = Histogram()
    for part in np.array_split(values.astype(np.float32), 8):
        histogram.update(part)
    return histogram


@given(st.floats(-1e4, 0), st.floats(0, 1e4), st.sampled_from(sorted(SCHEMES)))
@settings(max_examples=300, deadline=None)
def test_a_range_is_covered_and_zero_is_exact(low: float, high: float, name: str) -> None:
    quantization = SCHEMES[name].quantization(low, high)
    assert -128 <= quantization.zero_point <= 127
    ends = [(limit - quantization.zero_point) * quantization.scale for limit in (-128, 127)]
    assert ends[0] <= low + 0.51 * quantization.scale
    assert ends[1] >= high - 0.51 * quantization.scale
    if name != "affine":
        assert quantization.zero_point == 0
    if name == "pow2":
        assert math.log2(quantization.scale) == round(math.log2(quantization.scale))


def test_affine_uses_all_steps_and_symmetric_255() -> None:
    affine, symmetric, pow2 = (
        SCHEMES[name].quantization(-1.0, 3.0) for name in ("affine", "symmetric", "pow2")
    )
    assert affine.scale == pytest.approx(4 / 255)
    assert affine.zero_point == -64
    assert symmetric.scale == pytest.approx(3 / 127)
    assert pow2.scale == 1 / 32  # 3 / 127 upward


def test_pixels_are_exact() -> None:
    """The integers 0 to 255 need no rounding: scale 1, zero point -128."""
    quantization = SCHEMES["affine"].quantization(0.0, 255.0)
    assert (quantization.scale, quantization.zero_point) == (1.0, -128)


@pytest.mark.parametrize("scheme", sorted(SCHEMES))
def test_mse_is_no_worse_than_the_others_on_its_own_terms(scheme: str) -> None:
    rng = np.random.default_rng(0)
    histogram = histogram_of(rng.standard_t(3, 50_000))
    used = histogram.counts > 0
    values, counts = histogram.centres[used], histogram.counts[used]
    errors = {
        method: squared_error(
            values,
            counts,
            SCHEMES[scheme].quantization(*activation_range(histogram, method, SCHEMES[scheme])),
        )
        for method in METHODS
    }
    assert errors["mse"] == min(errors.values())


def test_percentile_drops_the_outliers_and_expected_goes_beyond() -> None:
    rng = np.random.default_rng(1)
    values = rng.normal(size=200_000)
    values[0] = 1000.0
    histogram, scheme = histogram_of(values), SCHEMES["affine"]
    assert activation_range(histogram, "percentile", scheme)[1] < 10
    assert activation_range(histogram, "minmax", scheme)[1] == 1000.0
    assert activation_range(histogram, "expected", scheme)[1] > 1000.0


def test_entropy_cuts_a_long_tail_but_not_a_uniform_distribution() -> None:
    rng = np.random.default_rng(2)
    scheme = SCHEMES["symmetric"]
    long = histogram_of(rng.standard_t(2, 100_000))
    flat = histogram_of(rng.uniform(-1, 1, 100_000))
    assert activation_range(long, "entropy", scheme)[1] < 0.5 * long.high
    assert activation_range(flat, "entropy", scheme)[1] > 0.8 * flat.high


@pytest.mark.parametrize("method", sorted(METHODS))
def test_a_tensor_that_is_always_zero_gets_a_scale(method: str) -> None:
    histogram = histogram_of(np.zeros(64))
    for scheme in SCHEMES.values():
        assert scheme.quantization(*activation_range(histogram, method, scheme)).scale == 1.0


@given(st.integers(0, 2**32 - 1), st.sampled_from(sorted(SCHEMES)), st.booleans(), st.booleans())
@settings(max_examples=40, deadline=None)
def test_weights_fit_and_a_searched_scale_errs_less(
    seed: int, name: str, per_channel: bool, tiny: bool
) -> None:
    rng = np.random.default_rng(seed)
    weights = (rng.normal(size=(5, 3, 3, 4)) * (1e-20 if tiny else 1)).astype(np.float32)
    weights[2] = 0
    scheme = SCHEMES[name]
    plain, searched = (
        weight_scales(weights, scheme, per_channel=per_channel, mse=mse) for mse in (False, True)
    )
    assert plain.dtype == np.float32
    assert np.all(plain > 0)
    assert len(set(plain.tolist())) == 1 or per_channel
    along = plain.reshape(-1, 1, 1, 1).astype(np.float64)
    assert np.abs(weights / along).max() <= 127.001

    def error(scales: np.ndarray) -> float:
        steps = scales.reshape(-1, 1, 1, 1).astype(np.float64)
        return float(((np.clip(np.rint(weights / steps), -127, 127) * steps - weights) ** 2).sum())

    assert error(searched) <= error(plain) * (1 + 1e-9)


def test_shifts_of_a_layer_agree_where_little_is_lost() -> None:
    """144 inputs: weights finer than a shift of 10 make no noise that counts beside the output's
    own rounding."""
    finest = 2.0**-3

    def shifts(*given: int) -> list[int]:
        scales = (finest * 2.0 ** -np.array(given)).astype(np.float32)
        return list(np.log2(finest / shiftable_scales(scales, finest, 144)).astype(int))

    assert shifts(8, 9, 8, 9) == [8, 8, 8, 8]
    assert shifts(6, 9, 8, 9) == [6, 9, 8, 9]
    assert shifts(6, 40, 10, 9) == [6, 10, 10, 9]
    assert shifts(9, 30, 12, 11) == [9, 9, 9, 9]
    assert shifts(14, 14, 20, 15) == [14, 14, 14, 14]


@pytest.mark.parametrize("name", sorted(SCHEMES))
def test_steps_of_many_scales_are_the_step_of_each(name: str) -> None:
    rng = np.random.default_rng(0)
    scales = np.concatenate([[0.0, 1e-40, 1e35, 2.0**-120], 10 ** rng.uniform(-12, 12, 500)])
    scheme = SCHEMES[name]
    assert scheme.steps(scales).tolist() == [scheme.step(float(scale)) for scale in scales]
