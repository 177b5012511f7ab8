# SPDX-License-Identifier: Apache-2.0
"""tools/train_digits.py: the split, the file in the repository, the gradients."""

from __future__ import annotations

from importlib.util import find_spec

import numpy as np
import pytest

from loadstone.demo import load_digits, network_path

pytest.importorskip("onnxruntime")

from tests.onnx_builder import session
from tools import train_digits

# Not imported before a test needs it: a second of processor time in every worker.
pytestmark = pytest.mark.skipif(find_spec("sklearn") is None, reason="scikit-learn is absent")


def test_the_split_is_the_same_every_time_and_shares_no_image() -> None:
    one, two = load_digits(), load_digits()
    assert one.train_images.shape == (1197, 1, 8, 8)
    assert one.test_images.shape == (600, 1, 8, 8)
    assert np.array_equal(one.test_images, two.test_images)
    assert np.array_equal(one.test_labels, two.test_labels)
    seen = {image.tobytes() for image in one.train_images}
    assert not any(image.tobytes() in seen for image in one.test_images)


def test_the_network_in_the_repository_reads_digits_in_onnx_runtime() -> None:
    digits = load_digits()
    opened = session(network_path())
    scores = np.concatenate(
        [opened.run(None, {"image": image[None]})[0] for image in digits.test_images]
    )
    assert (scores.argmax(axis=1) == digits.test_labels).mean() >= 0.985
    assert network_path().stat().st_size < 16_384


def test_the_written_file_is_the_trained_network(tmp_path) -> None:
    network = train_digits.DigitNetwork(np.random.default_rng(3))
    train_digits.save(network, tmp_path / "net.onnx")
    images = load_digits().test_images[:8]
    opened = session(tmp_path / "net.onnx")
    found = np.concatenate([opened.run(None, {"image": image[None]})[0] for image in images])
    np.testing.assert_allclose(
        found, network.forward(images.transpose(0, 2, 3, 1))[0], rtol=1e-4, atol=1e-3
    )


def test_the_gradients_are_those_of_finite_differences() -> None:
    rng = np.random.default_rng(5)
    network = train_digits.DigitNetwork(rng)
    network.parameters = {
        name: value.astype(np.float64) for name, value in network.parameters.items()
    }
    images, weights = rng.random((3, 8, 8, 1)), rng.normal(size=(3, 10))
    gradients = network.backward(weights, network.forward(images)[1])
    for name, parameter in network.parameters.items():
        flat = parameter.reshape(-1)
        for index in rng.integers(0, flat.size, 4):
            values = []
            for step in (1e-6, -2e-6, 1e-6):
                flat[index] += step
                values.append(float((network.forward(images)[0] * weights).sum()))
            assert (values[0] - values[1]) / 2e-6 == pytest.approx(
                gradients[name].reshape(-1)[index], rel=1e-3, abs=1e-5
            ), name
