# SPDX-License-Identifier: Apache-2.0
"""frontend/gemmlowp16.py: near the real functions over all values; test_tflite_lstm.py
compares them with LiteRT's."""

from __future__ import annotations

import numpy as np
import pytest

from loadstone.frontend.gemmlowp16 import MAX_INTEGER_BITS, logistic_table, tanh_table

X = np.arange(-32768, 32768)
#: Steps of 2^-15 that gemmlowp is off by, at most.
STEPS = 13


def test_logistic() -> None:
    real = 1 / (1 + np.exp(-X / 2**12))
    assert np.abs(logistic_table() - real * 2**15).max() < STEPS
    assert logistic_table()[32768] == 1 << 14


@pytest.mark.parametrize("bits", range(MAX_INTEGER_BITS + 1))
def test_tanh(bits: int) -> None:
    table = tanh_table(bits)
    assert np.abs(table - np.tanh(X / 2.0 ** (15 - bits)) * 2**15).max() < STEPS
    assert np.array_equal(table[1:][::-1], -table[1:])
