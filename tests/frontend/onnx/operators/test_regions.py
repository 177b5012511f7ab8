# SPDX-License-Identifier: Apache-2.0
"""frontend/onnx/operators/regions.py: regions of images give what ONNX Runtime gives."""

from __future__ import annotations

import numpy as np
import pytest

pytest.importorskip("tvm", reason="TVM is not installed (the extra `compiler`)")
pytest.importorskip("onnxruntime", reason="ONNX Runtime is not installed")
pytest.importorskip("onnx", reason="onnx is not installed")

from loadstone.errors import UnsupportedError
from tests.frontend.onnx import sweep
from tests.frontend.onnx.models import refusal
from tests.frontend.onnx.operators.single import single


def regions(s: sweep.Sketch) -> None:
    """Some reach beyond the image."""
    s.opset, images, count = s.one(10, 16), s.number(1, 3), s.number(1, 4)
    height, width = s.number(1, 9), s.number(1, 9)
    s.input(s.values((images, s.number(1, 3), height, width)))
    corners = np.sort(s.rng.uniform(-2, 12, (count, 2, 2)), axis=1)  # (regions, begin, x and y)
    s.constant(corners.reshape(count, 4), "float32")
    s.constant(s.rng.integers(0, images, count))
    s.maybe(
        mode=s.one("avg", "max"),
        output_height=s.number(1, 4),
        output_width=s.number(1, 4),
        sampling_ratio=s.number(0, 3),
        spatial_scale=s.one(0.5, 0.25, 1.5),
    )
    if s.opset > 10:
        s.maybe(coordinate_transformation_mode=s.one("half_pixel", "output_half_pixel"))


def test_what_is_drawn_equals_onnx_runtime() -> None:
    assert sweep.check({"RoiAlign": regions}, range(16)) == {"equal": 16, "refused": 0}


def test_regions_that_are_computed_and_images_that_are_not_there_are_refused() -> None:
    roi = np.array([[0, 0, 2, 2]], np.float32)
    computed = single("RoiAlign", [(1, 2, 5, 5), roi], np.array([0]), opset=16)
    assert "is computed when the model runs" in refusal(computed, UnsupportedError)
    missing = single("RoiAlign", [(1, 2, 5, 5)], roi, np.array([1]), opset=16)
    assert "its regions are of images up to 1 of 1" in refusal(missing, UnsupportedError)
