# SPDX-License-Identifier: Apache-2.0
"""frontend/onnx/operators/signal.py: transforms equal NumPy's."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

pytest.importorskip("tvm", reason="TVM is not installed (the extra `compiler`)")
pytest.importorskip("onnxruntime", reason="ONNX Runtime is not installed")

from loadstone.graph.reference import run as run_graph
from tests.frontend.onnx.models import refusal
from tests.frontend.onnx.operators.single import arrays, single
from tests.imported import onnx_graph


def computed(model: bytes, x: Any) -> Any:
    return run_graph(onnx_graph(model), [x])[0]


def complex_of(parts: Any) -> Any:
    return parts[..., 0] + (1j * parts[..., 1] if parts.shape[-1] == 2 else 0)


def parts_of(numbers: Any) -> Any:
    return np.stack([numbers.real, numbers.imag], -1)


@pytest.mark.parametrize("inverse", [0, 1])
@pytest.mark.parametrize("parts", [1, 2])
@pytest.mark.parametrize(("axis", "length"), [(2, 7), (1, 4)])
def test_a_transform(inverse: int, parts: int, axis: int, length: int | None) -> None:
    """Longer than the signal and shorter, along any axis."""
    (x,) = arrays([(2, 5, 6, parts)])
    size = None if length is None else np.array(length)
    model = single("DFT", [x], size, np.array(axis), opset=20, inverse=inverse)
    transform = np.fft.ifft if inverse else np.fft.fft
    want = parts_of(transform(complex_of(x), length, axis))
    np.testing.assert_allclose(computed(model, x), want, rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize("opset", [17, 20])
def test_half_a_spectrum(opset: int) -> None:
    (x,) = arrays([(2, 7, 3, 1)])
    if opset == 17:
        model = single("DFT", [x], opset=17, axis=1, onesided=1)
    else:
        model = single("DFT", [x], None, np.array(1), opset=20, onesided=1)
    want = parts_of(np.fft.rfft(x[..., 0], axis=1))
    np.testing.assert_allclose(computed(model, x), want, rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize("onesided", [0, 1])
@pytest.mark.parametrize("windowed", [False, True])
def test_frames(onesided: int, *, windowed: bool) -> None:
    (x,) = arrays([(2, 40, 1)])
    window = np.hanning(12).astype(np.float32)
    given = (window, None) if windowed else (None, np.array(12))
    model = single("STFT", [x], np.array(5), *given, opset=17, onesided=onesided)
    frames = np.stack([x[:, start : start + 12, 0] for start in range(0, 29, 5)], 1)
    frames = frames * (window if windowed else 1)
    want = parts_of((np.fft.rfft if onesided else np.fft.fft)(frames))
    np.testing.assert_allclose(computed(model, x), want, rtol=1e-4, atol=1e-4)


def test_frames_are_onesided_where_nothing_is_said() -> None:
    (x,) = arrays([(2, 40, 1)])
    given = (np.array(5), None, np.array(12))
    left_out = single("STFT", [x], *given, opset=17, shape=(2, 6, 7, 2))
    said = single("STFT", [x], *given, opset=17, onesided=1)
    np.testing.assert_array_equal(computed(left_out, x), computed(said, x))


def test_half_a_spectrum_of_complex_numbers_is_refused() -> None:
    model = single("DFT", [(1, 6, 2)], None, np.array(1), opset=20, onesided=1, shape=(1, 4, 2))
    assert "one-sided DFT requires real input" in refusal(model)
