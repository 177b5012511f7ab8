# SPDX-License-Identifier: Apache-2.0
"""prove/definition.py and the operators: what symbols stand for is what the network computes."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from loadstone.prove.definition import Definition
from loadstone.prove.network import ModelNetwork, ModelOperator, ModelTensor
from loadstone.prove.read_tflite import read_tflite
from loadstone.prove.verdict import Unsupported
from tests.prove.comparison import MODELS, golden_differs
from tests.prove.definition import outputs
from tests.prove.values_at import ValuesAt
from tests.random_tflite import network as random_network
from tests.repeat import times


def bytes_of(array: NDArray[Any]) -> NDArray[np.int64]:
    return array.astype(np.int64) - 128 * (array.dtype == np.uint8)


def stated(network: ModelNetwork, inputs: Sequence[NDArray[Any]]) -> list[NDArray[np.int64]]:
    """The outputs as symbols, with the bytes that these have for the inputs."""
    given = np.concatenate([bytes_of(array).reshape(-1) for array in inputs])
    values = ValuesAt(given)
    definition = Definition(values, network)
    definition.state()
    return [values.bytes(definition.elements.symbols(number)) for number in network.outputs]


def check(network: ModelNetwork, inputs: Sequence[NDArray[Any]]) -> None:
    for made, wanted in zip(stated(network, inputs), outputs(network, inputs), strict=True):
        assert (made.reshape(-1) == bytes_of(wanted).reshape(-1)).all()


@pytest.mark.parametrize("seed", range(times(12, 300)))
def test_random_networks_are_what_they_compute(seed: int) -> None:
    drawn = random_network(seed)
    network = read_tflite(drawn.model, "random.tflite")
    if any(operator.kind == "softmax" for operator in network.operators):
        pytest.skip("of a softmax a proof knows no byte")
    try:
        check(network, [array[0] for array in drawn.draw_inputs(seed, 1)])
    except Unsupported as error:
        pytest.skip(str(error))


@pytest.mark.parametrize(("low", "high"), [(-128, 127), (127, 127), (-128, -128), (-5, 90)])
def test_clamps_of_a_max_pool(low: int, high: int) -> None:
    """At every end of the range."""
    x = ModelTensor("x", (1, 4, 4, 2), "int8", (0.1,), (0,))
    y = ModelTensor("y", (1, 2, 2, 2), "int8", (0.1,), (0,))
    said = {"layout": "NHWC", "kernel": (2, 2), "strides": (2, 2), "pads": (0, 0, 0, 0)}
    pool = ModelOperator("max_pool", (0,), (1,), {**said, "low": low, "high": high}, "pool")
    network = ModelNetwork("net", (x, y), (pool,), (0,), (1,))
    check(network, [np.random.default_rng(1).integers(-128, 128, (1, 4, 4, 2)).astype(np.int8)])


@pytest.mark.skipif(not MODELS.is_dir(), reason="the real models are not here")
def test_a_real_network_is_what_it_computes() -> None:
    file = "mlpt_ad_int8.tflite"
    network = read_tflite((MODELS / file).read_bytes(), file)
    assert golden_differs(network, file) == 0
    with np.load(MODELS / "golden" / f"{file}.npz") as arrays:
        check(network, [arrays["in0"][0].reshape(network.tensors[network.inputs[0]].shape)])
