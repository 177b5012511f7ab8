# SPDX-License-Identifier: Apache-2.0
"""prove/products.py: values at the points, constants and ranges of sums of products."""

from __future__ import annotations

import numpy as np
import pytest

from loadstone.prove import products as module
from loadstone.prove.fingerprints import POINTS
from loadstone.prove.products import products
from loadstone.prove.values import CONSTANT, CONSTANTS, Values


def test_products_are_told_apart() -> None:
    """By their values at the points, with constants and ranges."""
    values = Values()
    x = values.opaque(np.full(6, -128), np.full(6, 127))
    left, right = x[:4].reshape(2, 2), x[2:].reshape(2, 2)
    sums, constant, low, high = products(values, left, right)
    assert not constant.any()
    moduli = values.points.moduli[..., None]
    other, *_ = products(values, right, left)
    assert np.array_equal(sums, other.swapaxes(1, 2))
    assert len({tuple(column) for column in sums.reshape(len(sums), -1).T.tolist()}) == 4
    assert (low == -2 * 128 * 127).all()
    assert (high == 2 * 128 * 128).all()
    fixed = np.array([[3, CONSTANTS - 2]])  # 3 and -2
    sums, constant, low, high = products(values, fixed, np.array([[5, x[0]]]))
    assert constant.tolist() == [[15]]
    single = -2 * values.columns(x[:1])[: len(sums), :, None].astype(np.int64) % moduli
    assert np.array_equal(sums, single)
    assert (low.tolist(), high.tolist()) == ([[15 - 254]], [[15 + 256]])
    _, _, low, high = products(values, left, right, (128 - 1, 0))
    assert (low.tolist()[0][0], high.tolist()[0][0]) == (2 * -255 * 127, 2 * 255 * 128)


@pytest.mark.parametrize("chunk", [1, 30, 100, 1 << 20])
@pytest.mark.parametrize("zeros", [(0, 0), (5, -7), (-128, 127)])
def test_products_are_sums_over_their_places(
    chunk: int, zeros: tuple[int, int], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each made alone in integers without a limit; of elements of several ranges and constants."""
    monkeypatch.setattr(module, "_CHUNK", chunk)
    rng, values = np.random.default_rng(1), Values()
    low = rng.integers(-128, 100, 12)
    symbols = np.concatenate([values.opaque(low, low + rng.integers(1, 28, 12)), [3, 250, 0, 128]])
    left, right = rng.choice(symbols, (5, 6)), rng.choice(symbols, (3, 6))
    sums, constant, least, most = products(values, left, right, zeros)
    assert values.degree == 2
    assert sums.shape == (POINTS, 5, 3)
    moduli = values.points.moduli[:, 0].tolist()
    for n in range(5):
        for m in range(3):
            a, b = (values.columns(x).astype(np.int64).astype(object) for x in (left[n], right[m]))
            fixed = sum(a[CONSTANT] * b[CONSTANT])
            assert constant[n, m] == fixed
            for point, modulus in enumerate(moduli):
                sides = (side[point] + side[CONSTANT] for side in (a, b))
                whole = sum(x * y for x, y in zip(*sides, strict=True))
                assert sums[point, n, m] == (int(whole) - int(fixed)) % modulus
            ends = [[end - zero for end in values.limits(x)]
                    for x, zero in zip((left[n], right[m]), zeros, strict=True)]  # fmt: skip
            corners = np.array([x * y for x in ends[0] for y in ends[1]])
            assert least[n, m] == corners.min(0).sum()
            assert most[n, m] == corners.max(0).sum()


def test_products_of_nothing() -> None:
    values = Values()
    sums, constant, low, high = products(values, np.zeros((2, 0), int), np.zeros((3, 0), int))
    assert sums.shape == (POINTS, 2, 3)
    assert not any(made.any() for made in (sums, constant, low, high))
