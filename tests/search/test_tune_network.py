# SPDX-License-Identifier: Apache-2.0
"""The whole network with one set of choices after the other."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from loadstone.errors import ConfigError
from loadstone.search.tune_network import SimulatedNetwork
from tests.onnx_builder import Graph
from tests.search.small_network import SIZE, small_network


def test_trials_of_a_network(tmp_path: Path) -> None:
    path = tmp_path / "small.onnx"
    path.write_bytes(small_network())
    network = SimulatedNetwork(path, "vtaq-1x16x16")
    layers = network.layers(network.default)
    assert [layer.op.kind for layer in layers] == ["conv2d", "conv2d", "add"]
    assert layers[0].key == layers[1].key != layers[2].key  # weights differ, cycles do not
    assert sum(network.default.layers.values()) == network.default.cycles
    slow = network.trial({layers[0].key: {"tile": [1, 1, 1, 1, 1, SIZE], "order": "pixels"}})
    assert slow is not None
    assert slow.cycles > network.default.cycles
    assert network.trial({layers[0].key: {"tile": [9, 9], "order": "pixels"}}) is None


def test_a_network_of_which_nothing_runs_there(tmp_path: Path) -> None:
    graph = Graph()
    x = graph.dequantize(graph.input((1, 16), np.int8), 0.125, 0)
    out = graph.quantize(graph.node("Softmax", x), 2.0**-8, -128)
    path = tmp_path / "softmax.onnx"
    path.write_bytes(graph.save([(out, np.int8)]))
    with pytest.raises(ConfigError, match="nothing of softmax runs on vtaq-1x16x16"):
        SimulatedNetwork(path, "vtaq-1x16x16")
