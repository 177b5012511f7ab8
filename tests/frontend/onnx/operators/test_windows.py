# SPDX-License-Identifier: Apache-2.0
"""frontend/onnx/operators/windows.py: the places that windows read, and what contradicts itself."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

pytest.importorskip("tvm", reason="TVM is not installed (the extra `compiler`)")
pytest.importorskip("onnxruntime", reason="ONNX Runtime is not installed")

from loadstone.errors import ModelError
from loadstone.frontend.onnx.operators.windows import Windows
from tests.frontend.onnx.models import refusal
from tests.frontend.onnx.operators.single import single


def test_the_places_of_each_window_and_what_is_padding() -> None:
    found = Windows((3, 4), (2, 2), (2, 1), (1, 2), (1, 0), (0, 1), (2, 3))
    places, inside = found.read()
    assert found.pads == [1, 0, 0, 1]
    assert found.overhang == (0, 0)
    padded = np.pad(np.arange(12).reshape(3, 4), ((1, 0), (0, 1)), constant_values=-1)
    wanted = [
        [padded[2 * row + i, column + 2 * j] for i in range(2) for j in range(2)]
        for row in range(2)
        for column in range(3)
    ]
    np.testing.assert_array_equal(np.where(inside, places, -1), wanted)
    np.testing.assert_array_equal(found.by_columns(np.array([0, 1, 4, 11])), [0, 3, 1, 11])


@pytest.mark.parametrize(
    ("shape", "attributes", "message"),
    [
        ((1, 2, 7, 5), {"kernel_shape": [2, 2], "pads": [2, 0, 0, 0]}, "do not all reach an"),
        ((1, 2, 5, 5), {"kernel_shape": [2, 2], "auto_pad": "SAME"}, "auto_pad is SAME, which"),
        ((1, 2, 5, 5), {"kernel_shape": [3]}, "kernel_shape"),
        ((1, 2, 5, 5), {"kernel_shape": [2, 2], "strides": [1, 0]}, "strides"),
        ((1, 2, 0, 5), {"kernel_shape": [7, 2]}, "has no elements"),
    ],
)
def test_what_contradicts_itself_is_one_line(
    shape: tuple[int, ...], attributes: Any, message: str
) -> None:
    model = single("MaxPool", [(1, 2, 6, 6)], shape=shape, **attributes)
    assert message in refusal(model, ModelError)
