# SPDX-License-Identifier: Apache-2.0
"""prove/terms.py: short lists of terms are those that a dictionary of each lane has."""

from __future__ import annotations

from collections import Counter

import numpy as np
import pytest

from loadstone.prove.terms import Terms
from tests.repeat import times

LANES, SLOTS = 5, 3


def held(terms: Terms, lane: int) -> dict[int, int]:
    count = int(terms.count[lane])
    symbols = terms.symbol[lane, :count].tolist()
    assert len(set(symbols)) == count
    return dict(zip(symbols, terms.coefficient[lane, :count].tolist(), strict=True))


@pytest.mark.parametrize("seed", range(times(40, 2000)))
def test_lists_are_dictionaries_with_a_limit(seed: int) -> None:
    """Lanes that have had more terms than they can hold stay so until they are cleared."""
    rng = np.random.default_rng(seed)
    terms, wanted = Terms(LANES, SLOTS), [Counter[int]() for _ in range(LANES)]
    full = [False] * LANES
    for _ in range(25):
        what = int(rng.integers(5))
        lanes = rng.permutation(LANES)[: int(rng.integers(1, LANES))]
        if what == 0 and rng.random() < 0.3:
            terms.clear(lanes)
            for lane in lanes:
                wanted[lane], full[lane] = Counter(), False
        elif what == 1 and rng.random() < 0.3:
            symbols = rng.integers(300, 304, len(lanes))
            terms.one(lanes, symbols)
            for lane, symbol in zip(lanes, symbols.tolist(), strict=True):
                wanted[lane], full[lane] = Counter({symbol: 1}), False
        elif what == 2:
            factors = rng.integers(-3, 4, len(lanes))
            terms.scale(lanes, factors)
            for lane, factor in zip(lanes, factors.tolist(), strict=True):
                for symbol in wanted[lane]:
                    wanted[lane][symbol] *= factor
        else:  # lanes that occur several times
            lanes = rng.integers(0, LANES, int(rng.integers(0, 6)))
            symbols, coefficients = (
                rng.integers(300, 305, len(lanes)),
                rng.integers(-5, 6, len(lanes)),
            )
            terms.add(lanes, symbols, coefficients)
            for lane, symbol, k in zip(lanes, symbols.tolist(), coefficients.tolist(), strict=True):
                if symbol not in wanted[lane] and len(wanted[lane]) == SLOTS:
                    full[lane] = True
                elif not full[lane]:
                    wanted[lane][symbol] += k
        for lane in range(LANES):
            if full[lane]:
                assert terms.count[lane] == SLOTS + 1
            else:
                assert held(terms, lane) == wanted[lane]
