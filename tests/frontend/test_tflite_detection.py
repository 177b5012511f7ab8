# SPDX-License-Identifier: Apache-2.0
"""frontend/tflite_detection.py: a detector of TFLite with its post-processing gives LiteRT's boxes,
classes, scores and count, in C."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

pytest.importorskip("tvm", reason="TVM is not installed (the extra `compiler`)")
pytest.importorskip("ai_edge_litert", reason="LiteRT is not installed")

from loadstone.artifact.format import Artifact
from loadstone.compiler import compile
from loadstone.errors import UnsupportedError
from loadstone.runtime.device import open as open_device
from tests.tflite_builder import Graph, Padding, Tensor, interpreter, invoke

RNG = np.random.default_rng(31)
DETECTIONS, CLASSES, SIZE = 6, 3, 6
OPTIONS = {
    "max_detections": DETECTIONS,
    "max_classes_per_detection": 1,
    "num_classes": CLASSES,
    "nms_score_threshold": 0.45,
    "nms_iou_threshold": 0.3,
    "y_scale": 10.0,
    "x_scale": 10.0,
    "h_scale": 5.0,
    "w_scale": 5.0,
    "use_regular_nms": False,
}


def head(graph: Graph, x: Tensor, width: int, scale: float) -> Tensor:
    """A 3x3 convolution of int8, as (1, SIZE * SIZE, width)."""
    weights = graph.constant(RNG.integers(-127, 128, (width, 3, 3, 8)).astype(np.int8), 0.01, 0)
    bias = graph.constant(RNG.integers(-500, 500, width).astype(np.int32), 0.0005, 0)
    y = graph.tensor((1, SIZE, SIZE, width), np.int8, scale, 2)
    options = {"padding": Padding.SAME, "stride_h": 1, "stride_w": 1}
    options |= {"dilation_h_factor": 1, "dilation_w_factor": 1}
    graph.operator("CONV_2D", [x, weights, bias], [y], **options)
    flat = graph.tensor((1, SIZE * SIZE, width), np.int8, scale, 2)
    graph.operator("RESHAPE", [y, graph.constant(np.array(flat.shape, np.int32))], [flat])
    return flat


def detector(**changed: Any) -> bytes:
    """An SSD in small: a head of boxes, one of classes with a background, anchors on a grid."""
    graph = Graph()
    x = graph.input((1, SIZE, SIZE, 8), np.int8, 0.05, 0)
    encodings, scores = head(graph, x, 4, 0.15), head(graph, x, CLASSES + 1, 0.08)
    chances = graph.tensor(scores.shape, np.int8, 1 / 256, -128)
    graph.operator("LOGISTIC", [scores], [chances])
    real = []
    for tensor in (encodings, chances):
        real.append(graph.tensor(tensor.shape, np.float32))
        graph.operator("DEQUANTIZE", [tensor], [real[-1]])
    grid = (np.stack(np.meshgrid(*[np.arange(SIZE)] * 2, indexing="ij"), -1) + 0.5) / SIZE
    centres = grid.reshape(-1, 2)
    sizes = RNG.uniform(0.15, 0.4, centres.shape)
    anchors = graph.constant(np.concatenate([centres, sizes], 1).astype(np.float32))
    shapes = ((1, DETECTIONS, 4), (1, DETECTIONS), (1, DETECTIONS), (1,))
    found = [graph.tensor(shape, np.float32) for shape in shapes]
    kind = "CUSTOM TFLite_Detection_PostProcess"
    graph.operator(kind, [*real, anchors], found, **OPTIONS | changed)
    return graph.save(found)


def test_an_ssd(tmp_path: Path) -> None:
    """Over images that fill all places and images that do not."""
    model = detector(nms_score_threshold=0.9)
    (tmp_path / "ssd.tflite").write_bytes(model)
    found = compile(tmp_path / "ssd.tflite", "vtaq-1x16x16")
    assert not found.python_steps
    fainter = np.linspace(1, 40, 16).astype(int).reshape(-1, 1, 1, 1, 1)
    images = RNG.integers(-128, 128, (16, 1, SIZE, SIZE, 8)) // fainter
    opened, counts = interpreter(model), set()
    with (
        open_device("sim") as device,
        device.load(Artifact.from_bytes(found.artifact.to_bytes()), trust=True) as session,
    ):
        results = session.run([images.astype(np.int8)])
    for place, image in enumerate(images.astype(np.int8)):
        got, wanted = [array[place] for array in results], invoke(opened, [image])
        count = int(wanted[3][0])
        counts.add(count)
        assert got[3][0] == count
        np.testing.assert_allclose(got[0][:, :count], wanted[0][:, :count], rtol=1e-5, atol=1e-6)
        assert np.array_equal(got[1][:, :count], wanted[1][:, :count])
        assert np.array_equal(got[2][:, :count], wanted[2][:, :count])
        assert not np.any(got[0][:, count:])
    assert DETECTIONS in counts
    assert min(counts) < DETECTIONS


@pytest.mark.parametrize(
    ("changed", "line"),
    [
        ({"use_regular_nms": True}, "use_regular_nms is True, max_classes_per_detection 1: known"),
        ({"max_detections": 1000}, "max_detections is 1000: 1 to 200 are known"),
        ({"nms_iou_threshold": 0.0}, "nms_iou_threshold is 0"),
        ({"num_classes": 9}, "do not fit together with 9 classes"),
        ({"y_scale": "ten"}, "its options cannot be read"),
    ],
)
def test_refusals(changed: dict[str, Any], line: str, tmp_path: Path) -> None:
    (tmp_path / "ssd.tflite").write_bytes(detector(**changed))
    with pytest.raises(UnsupportedError, match=line):
        compile(tmp_path / "ssd.tflite", "vtaq-1x16x16")
