# SPDX-License-Identifier: Apache-2.0
"""frontend/onnx/operators/columns.py: blocks that overlap add up as in ONNX Runtime."""

from __future__ import annotations

import numpy as np
import pytest

pytest.importorskip("tvm", reason="TVM is not installed (the extra `compiler`)")
pytest.importorskip("onnxruntime", reason="ONNX Runtime is not installed")
pytest.importorskip("onnx", reason="onnx is not installed")

from loadstone.errors import UnsupportedError
from tests.frontend.onnx import sweep
from tests.frontend.onnx.models import refusal
from tests.frontend.onnx.operators.single import check_model, single


def blocks(s: sweep.Sketch, rank: int = 2) -> None:
    """With gaps and without."""
    s.opset = 18
    block = [s.number(1, 3) for _ in range(rank)]
    dilations, strides = ([s.number(1, 2) for _ in range(rank)] for _ in range(2))
    pads = [s.number(0, 1) for _ in range(2 * rank)]
    spans = [step * (size - 1) + 1 for step, size in zip(dilations, block, strict=True)]
    image = [span + s.number(0, 3) for span in spans]
    counts = [
        (image[a] + pads[a] + pads[a + rank] - spans[a]) // strides[a] + 1 for a in range(rank)
    ]
    rows = s.number(1, 2) * int(np.prod(block))
    s.input(s.values((s.number(1, 2), rows, int(np.prod(counts)))))
    s.constant(image)
    s.constant(block)
    s.attributes |= {"dilations": dilations, "strides": strides, "pads": pads}


def test_what_is_drawn_equals_onnx_runtime() -> None:
    assert sweep.check({"Col2Im": blocks}, range(12)) == {"equal": 12, "refused": 0}


@pytest.mark.parametrize("rank", [1, 3])
def test_of_one_and_three_axes_onnx_itself_judges(rank: int) -> None:
    """ONNX Runtime adds blocks to the wrong places there where an image is padded."""
    for seed in range(6):
        case = sweep.drawn("Col2Im", lambda s: blocks(s, rank), seed)
        assert case is not None
        check_model(case.model.SerializeToString(), list(case.inputs), by_reference=True)


def test_blocks_that_do_not_fill_the_image_are_refused() -> None:
    model = single(
        "Col2Im", [(1, 4, 9)], np.array([3, 3]), np.array([2, 2]), opset=18, shape=(1, 1, 3, 3)
    )
    text = refusal(model, UnsupportedError)
    assert "its input has 4 times 9 elements, and blocks of [2, 2] in [3, 3] 4 times 4" in text
