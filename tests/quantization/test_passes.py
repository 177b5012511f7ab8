# SPDX-License-Identifier: Apache-2.0
"""Each step as a module pass, alone and in a sequence."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from loadstone.errors import ModelError
from loadstone.graph.reference import run as run_graph
from loadstone.partition.eager import partition
from loadstone.quantization import passes
from loadstone.quantization.options import Options
from loadstone.quantization.pipeline import prepare
from loadstone.quantization.simulate import FakeQuantizedRunner
from loadstone.relax.compat import tvm
from tests.float_models import images, module

SAMPLES = images(16)


@pytest.fixture(scope="module")
def exact() -> FakeQuantizedRunner:
    return prepare(module())


def scores(found: FakeQuantizedRunner) -> Any:
    return np.stack([found.run(sample)[0][0] for sample in SAMPLES[:, None]])


@pytest.mark.full
def test_folding_and_equalizing_change_no_result(exact: FakeQuantizedRunner) -> None:
    found = tvm.transform.Sequential([passes.fold_constants(), passes.equalize_channels(SAMPLES)])(
        module()
    )
    np.testing.assert_allclose(scores(prepare(found)), scores(exact), rtol=1e-3, atol=1e-4)


@pytest.mark.full
def test_weights_become_values_that_int8_has() -> None:
    found = prepare(passes.round_weights(SAMPLES)(module()))
    for layer in found.network.weighted:
        for row in layer.weights.reshape(len(layer.weights), -1):
            steps = np.abs(row[row != 0])
            assert any(
                np.allclose(row / unit, np.rint(row / unit), atol=1e-3)
                for unit in steps.max() / np.arange(1, 128)
            ), layer.name


def test_biases_alone_change(exact: FakeQuantizedRunner) -> None:
    found = prepare(passes.correct_biases(SAMPLES)(module()))
    for before, after in zip(exact.network.weighted, found.network.weighted, strict=True):
        np.testing.assert_array_equal(before.weights, after.weights)
    assert any(
        np.any(before.bias != after.bias)
        for before, after in zip(exact.network.weighted, found.network.weighted, strict=True)
    )


def test_the_last_pass_gives_integers(exact: FakeQuantizedRunner) -> None:
    quantized = passes.to_qdq(SAMPLES, Options(equalize=False, scheme="pow2"))(module())
    graph = partition(quantized, [], "small").graph
    found = np.stack([run_graph(graph, [sample])[0] for sample in SAMPLES])
    assert 10 * np.log10((scores(exact) ** 2).sum() / ((scores(exact) - found) ** 2).sum()) > 15


def test_a_mistake_keeps_its_line() -> None:
    with pytest.raises(ModelError, match="no samples"):  # through TVM, which runs the pass
        passes.to_qdq(SAMPLES[:0])(module())
