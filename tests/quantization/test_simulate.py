# SPDX-License-Identifier: Apache-2.0
"""The runner: exact in float, and QDQ's meaning with scales."""

from __future__ import annotations

import numpy as np
import pytest

from loadstone.graph import Quantization
from loadstone.quantization.simulate import FakeQuantizedRunner, Grid, Settings
from tests import float_models
from tests.float_models import images, small_onnx
from tests.onnx_builder import run


@pytest.fixture(scope="module")
def runner() -> FakeQuantizedRunner:
    return float_models.runner()


def test_float_is_onnx_runtimes(runner: FakeQuantizedRunner) -> None:
    for image in images(4):
        outputs, recorded = runner.run([image])
        np.testing.assert_allclose(outputs[0], run(small_onnx(), [image])[0], rtol=1e-4, atol=1e-5)
        assert set(recorded) == set(runner.network.groups)


def test_every_tensor_can_be_rounded_alone(runner: FakeQuantizedRunner) -> None:
    image = images(1)[0]
    exact = {variable: array.copy() for variable, array in runner.run([image])[1].items()}
    for variable in runner.network.boundaries():
        grid = Quantization(0.125, 7)
        rounded = runner.run([image], Settings(activations={variable: Grid(grid)}))[1][variable]
        np.testing.assert_array_equal(
            rounded, np.clip(np.rint(exact[variable] / 0.125), -135, 120) * 0.125
        )


def test_weights_and_biases_are_arguments(runner: FakeQuantizedRunner) -> None:
    image = images(1)[0]
    last = runner.network.weighted[-1]
    assert last.weights is not None
    assert last.bias is not None
    found = runner.run(
        [image],
        Settings(
            {last.name: np.zeros_like(last.weights)}, {last.name: np.arange(5, dtype=np.float32)}
        ),
    )
    np.testing.assert_array_equal(found[0][0], [[0, 1, 2, 3, 4]])


def test_settings_do_not_linger(runner: FakeQuantizedRunner) -> None:
    image = images(1)[0]
    before = runner.run([image])[0][0].copy()
    runner.run(
        [image],
        Settings(
            activations=dict.fromkeys(runner.network.boundaries(), Grid(Quantization(4.0, 0)))
        ),
    )
    np.testing.assert_array_equal(runner.run([image])[0][0], before)
