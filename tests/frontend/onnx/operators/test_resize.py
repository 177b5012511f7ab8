# SPDX-License-Identifier: Apache-2.0
"""frontend/onnx/operators/resize.py: every mode equals ONNX Runtime, and int8 stays on the device
where a device has it."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

pytest.importorskip("tvm", reason="TVM is not installed (the extra `compiler`)")
pytest.importorskip("onnxruntime", reason="ONNX Runtime is not installed")

from loadstone.compiler import compile
from loadstone.errors import UnsupportedError
from tests.frontend.onnx.models import refusal
from tests.frontend.onnx.operators.single import check, single
from tests.onnx_builder import Graph, run

IMAGE = (1, 2, 5, 7)


def scales(*numbers: float) -> np.ndarray[Any, np.dtype[np.float32]]:
    return np.array(numbers, np.float32)


@pytest.mark.parametrize(
    "coordinates",
    ["asymmetric", "half_pixel", "pytorch_half_pixel", "align_corners", "half_pixel_symmetric"],
)
@pytest.mark.parametrize("mode", ["nearest", "linear", "cubic"])
def test_coordinates(mode: str, coordinates: str) -> None:
    """With scales whose sizes are not whole."""
    check(
        "Resize", [IMAGE], None, scales(1, 1, 2.5, 1.3), opset=19, mode=mode,
        coordinate_transformation_mode=coordinates,
    )  # fmt: skip


@pytest.mark.parametrize("rounding", ["floor", "ceil", "round_prefer_floor", "round_prefer_ceil"])
@pytest.mark.parametrize("shape", [(7,), (3, 4), (2, 2, 3, 3, 2)])
def test_the_nearest_of_any_rank(rounding: str, shape: tuple[int, ...]) -> None:
    for scale in (2.5, 0.5):
        check(
            "Resize", [shape], None, scales(*[scale] * len(shape)), opset=18, mode="nearest",
            nearest_mode=rounding, coordinate_transformation_mode="asymmetric",
        )  # fmt: skip


@pytest.mark.parametrize(
    ("opset", "scaled", "attributes"),
    [
        (18, scales(1, 1, 0.6, 0.5), {"mode": "linear", "antialias": 1}),
        (18, scales(1, 1, 0.6, 1.5), {"mode": "cubic", "antialias": 1, "exclude_outside": 1}),
        (18, scales(1, 1, 0.6, 2), {"mode": "cubic", "antialias": 1, "cubic_coeff_a": -0.5}),
        (13, scales(1, 1, 0.6, 2.5), {"mode": "cubic", "exclude_outside": 1}),
        (18, scales(1.5, 2), {"mode": "linear", "axes": [3, 2]}),
        (10, scales(1, 1, 2, 0.5), {"mode": "linear"}),
        (10, scales(1, 1, 0.5, 1.5), {"mode": "nearest"}),
    ],
)
def test_what_else_the_modes_read(opset: int, scaled: Any, attributes: Any) -> None:
    first = [] if opset == 10 else [None]
    check("Resize", [IMAGE], *first, scaled, opset=opset, **attributes)


@pytest.mark.parametrize("policy", ["not_larger", "not_smaller"])
@pytest.mark.parametrize("mode", ["nearest", "linear"])
def test_the_ratio_of_the_sides_is_kept(policy: str, mode: str) -> None:
    sizes, kept = np.array([7, 8]), {"keep_aspect_ratio_policy": policy}
    check("Resize", [IMAGE], None, None, sizes, opset=18, axes=[2, 3], mode=mode, **kept)


@pytest.mark.parametrize("mode", ["nearest", "linear", "cubic"])
def test_a_part_that_reaches_beyond_the_image(mode: str) -> None:
    roi = scales(0, 0, -0.2, 0.3, 1, 1, 0.7, 1.2)
    crop = {"coordinate_transformation_mode": "tf_crop_and_resize", "extrapolation_value": 9.0}
    sizes = np.array([1, 2, 4, 9])
    check("Resize", [IMAGE], roi, None, sizes, opset=13, mode=mode, **crop)


@pytest.mark.parametrize("opset", [7, 9])
@pytest.mark.parametrize("mode", ["nearest", "linear"])
def test_what_resized_before_resize(opset: int, mode: str) -> None:
    if opset == 9:
        check("Upsample", [IMAGE], scales(1, 1, 2, 1.5), opset=9, mode=mode)
    else:
        check("Upsample", [IMAGE], opset=7, mode=mode, scales=[1.0, 1.0, 2.0, 1.5])


@pytest.mark.parametrize(
    ("constants", "attributes", "message"),
    [
        ((None, None), {}, "Either `sizes` or `scales` must be provided"),
        ((None, scales(1, 1, 0.5, 0.7)), {"coordinate_transformation_mode": "align_corners"}, ""),
        ((None, scales(1, 1, 1.01, 1)), {"mode": "linear"}, "scale along axis 2 is 1.01 and leave"),
        ((None, scales(1, 1, 1, 1)), {"mode": "area"}, "its mode is area, which ONNX does not"),
    ],
)
def test_what_has_no_one_meaning_is_refused(constants: Any, attributes: Any, message: str) -> None:
    model = single("Resize", [IMAGE], *constants, opset=18, shape=(1, 2, 5, 7), **attributes)
    assert message in refusal(model)


@pytest.mark.parametrize("target", ["vtaq-1x16x16"])
@pytest.mark.parametrize("mode", ["nearest", "linear"])
def test_integers_between_convolutions(mode: str, target: str, tmp_path: Path) -> None:
    """Twice the nearest is what devices know."""
    for scale in (2.0, 1.5):
        graph = Graph()
        x = graph.dequantize(graph.input((1, 16, 5, 5), np.int8), 0.5, 0)
        weights = graph.dequantize(graph.constant(np.eye(16, dtype=np.int8)[..., None, None]), 1, 0)
        y = graph.dequantize(graph.quantize(graph.node("Conv", x, weights), 0.5, 0), 0.5, 0)
        made = graph.node("Resize", y, "", graph.constant(scales(1, 1, scale, scale)), mode=mode)
        z = graph.dequantize(graph.quantize(made, 0.5, 0), 0.5, 0)
        end = graph.quantize(graph.node("Conv", z, weights), 0.5, 0)
        model = graph.save([(end, np.int8)])
        (tmp_path / "m.onnx").write_bytes(model)
        found = compile(tmp_path / "m.onnx", target)
        kinds = {row["kind"]: row["where"] for row in found.explain()}
        is_known = mode == "nearest" and scale == 2
        assert kinds.get("resize_nearest", "host") == ("vta" if is_known else "host")
        data = np.random.default_rng(4).integers(-128, 128, (1, 16, 5, 5)).astype(np.int8)
        np.testing.assert_array_equal(found.run(data[None])[0][0], run(model, [data])[0])


def test_integers_have_the_nearest_only() -> None:
    x = np.arange(12, dtype=np.int32).reshape(1, 1, 3, 4)
    check("Resize", [x], None, scales(1, 1, 2, 2), mode="nearest")
    model = single("Resize", [x], None, scales(1, 1, 2, 2), mode="linear")
    assert "its input int32, whose rounding is not defined" in refusal(model, UnsupportedError)
