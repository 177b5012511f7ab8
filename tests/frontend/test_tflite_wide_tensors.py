# SPDX-License-Identifier: Apache-2.0
"""frontend/tflite_wide_tensors.py: scales that are not there, not alike, or with a zero point are
one line."""

from __future__ import annotations

import numpy as np
import pytest

pytest.importorskip("tvm", reason="TVM is not installed (the extra `compiler`)")

from loadstone.errors import UnsupportedError
from loadstone.frontend.tflite import from_bytes
from loadstone.frontend.tflite_wide_tensors import checked_scale
from tests.tflite_builder import Graph


@pytest.mark.parametrize(
    ("source", "target", "words"),
    [
        ((np.int16, 0.01, 3), (np.int16, 0.01, 0), "is int16 with a zero point other than 0"),
        ((np.int16, 0.01, 0), (np.int16, 0.02, 0), "its input and output have other scales"),
        ((np.int16, 0.01, 0), (np.int16, 0.01, 5), "is int16 with a zero point other than 0"),
    ],
)
def test_a_scale_that_is_not_the_one_is_named(source: tuple, target: tuple, words: str) -> None:
    graph = Graph()
    x, y = graph.input((1, 2), *source), graph.tensor((2, 1), *target)
    graph.operator("RESHAPE", [x], [y], new_shape=[2, 1])
    with pytest.raises(UnsupportedError, match=words) as caught:
        from_bytes(graph.save([y]), "m.tflite")
    assert "\n" not in str(caught.value)


def test_scales_that_no_shift_of_litert_reaches_are_refused() -> None:
    for scale in (2.0**-40, 0.7, 2.0**6):
        assert checked_scale(scale, 24) == scale
    with pytest.raises(UnsupportedError, match="which LiteRT's fixed point does not hold"):
        checked_scale(np.array([1.0, 2.0**8]), 24)
