"""quantize/: the digits network from float to int8, on the simulator and on ONNX Runtime."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from loadstone.cli import main
from loadstone.compiler import compile, quantize_model
from loadstone.demo import load_digits, network_path
from loadstone.errors import LoadstoneError

SAMPLES = 100


def onnx_scores(path: Path, images: np.ndarray) -> np.ndarray:
    onnxruntime = pytest.importorskip("onnxruntime")
    options = onnxruntime.SessionOptions()
    options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_DISABLE_ALL
    session = onnxruntime.InferenceSession(str(path), options, providers=["CPUExecutionProvider"])
    name = session.get_inputs()[0].name
    return np.stack([session.run(None, {name: image})[0] for image in images])


def accuracy(scores: np.ndarray, labels: np.ndarray) -> float:
    return float(100 * np.mean(scores.reshape(len(labels), -1).argmax(axis=1) == labels))


@pytest.mark.parametrize(("scheme", "device", "points"), [("affine", "vtaq-1x16x16", 0.5), ("pow2", "vta-pynq", 1.5)])
def test_digits_lose_little_and_equal_onnx_runtime(scheme: str, device: str, points: float, tmp_path: Path) -> None:
    digits = load_digits()
    images = digits.test_images[:, None]
    quantized = quantize_model(network_path(), digits.train_images[:SAMPLES, None], scheme=scheme)
    quantized.save(tmp_path / "digits.onnx")
    (scores,) = compile(tmp_path / "digits.onnx", device).run(images)
    float_accuracy = accuracy(onnx_scores(network_path(), images), digits.test_labels)
    assert accuracy(scores, digits.test_labels) >= float_accuracy - points
    np.testing.assert_array_equal(scores, onnx_scores(tmp_path / "digits.onnx", images))


def test_the_module_and_the_exported_file_compile_to_the_same_integers(tmp_path: Path) -> None:
    digits = load_digits()
    quantized = quantize_model(network_path(), digits.train_images[:20, None])
    quantized.save(tmp_path / "digits.onnx")
    images = digits.test_images[:40, None]
    (a,), (b,) = (compile(model, "vtaq-tiny").run(images) for model in (quantized.module, tmp_path / "digits.onnx"))
    np.testing.assert_array_equal(a, b)


@pytest.mark.parametrize(
    "samples",
    [np.zeros((0, 1, 1, 8, 8), np.float32), np.zeros((4, 1, 1, 8, 7), np.float32), np.full((4, 1, 1, 8, 8), np.nan, np.float32)],
    ids=["none", "shape", "nan"],
)
def test_samples_that_do_not_fit_are_one_line(samples: np.ndarray) -> None:
    with pytest.raises(LoadstoneError) as caught:
        quantize_model(network_path(), samples)
    assert "\n" not in str(caught.value)


def test_the_demo_runs(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["demo", "-o", str(tmp_path)]) == 0
    out = capsys.readouterr().out
    assert "0 differ" in out
    assert (tmp_path / "timeline.html").read_text(encoding="utf-8").startswith("<!doctype html>")
    assert (tmp_path / "digits.lds").is_file()
