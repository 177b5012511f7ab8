# SPDX-License-Identifier: Apache-2.0
"""quantization/accuracy.py: what was lost, and what samples lack, is said."""

from __future__ import annotations

import re
from typing import Any

import numpy as np
import pytest

from loadstone.compiler import quantize
from loadstone.frontend import onnx
from loadstone.frontend.rewrites import canonical
from loadstone.quantization.accuracy import outputs_text, warnings_of
from loadstone.quantization.report import as_html
from tests.float_models import images, module
from tests.onnx_builder import Graph


def of(samples: Any, model: Any = None) -> dict[str, Any]:
    return quantize(module() if model is None else model, samples).report


def test_good_samples_are_passed_in_silence() -> None:
    report = of(images(8))
    assert warnings_of(report) == []
    assert re.fullmatch(r"\d\d\.\d dB", outputs_text(report))


@pytest.mark.parametrize(
    ("samples", "words"),
    [
        (images(1), "1 sample: every range is that of this one; give 32 to 256"),
        (np.repeat(images(1), 5, 0), "input 'in0' is the same in all 5 samples"),
        (np.ones_like(images(4)), "input 'in0' is the same in all 4 samples"),
        (
            images(4) * np.array([1, 0, 1, 0], np.float32).reshape(-1, 1, 1, 1, 1),
            "input 'in0' has one value everywhere in 2 of 4 samples",
        ),
    ],
)
def test_samples_that_show_little(samples: Any, words: str) -> None:
    assert any(words in text for text in warnings_of(of(samples)))


def dense(weights: Any, bias: Any) -> Any:
    graph = Graph()
    x = graph.input((1, 8), np.float32)
    y = graph.node("Gemm", x, graph.constant(weights, np.float32), graph.constant(bias, np.float32))
    return canonical(onnx.from_bytes(graph.save([(y, np.float32)]), "dense.onnx"))


def test_an_output_that_is_noise() -> None:
    """Two large terms that cancel: what is left is below the input's own step."""
    rng = np.random.default_rng(0)
    x = rng.normal(0, 1, (40, 1, 8)).astype(np.float32)
    x[..., 4:] = x[..., :4] + 1e-3 * x[..., 4:]
    weights = np.concatenate([np.eye(4), -np.eye(4)]).astype(np.float32)
    report = of(x, dense(weights, np.zeros(4, np.float32)))
    assert report["output_sqnr_db"][0] < 15
    found = warnings_of(report)
    assert re.search(r"output 0 has -?\d+\.\d dB of signal to noise, below 15: give", found[0])
    assert re.search(r"below 15 dB of signal to noise, in order: ", found[1])
    assert "warnings" in as_html(report, "t")


def test_zeros_are_not_exact() -> None:
    report = of(np.zeros((4, 1, 8), np.float32), dense(np.eye(8), np.zeros(8)))
    assert report["silent_outputs"] == [0]
    assert outputs_text(report) == "zero on all samples"
    assert any("output 0 is zero on all samples" in text for text in warnings_of(report))
    assert "exact" not in as_html(report, "t").partition("<table>")[2].partition("<p>")[0]
