# SPDX-License-Identifier: Apache-2.0
"""One layer alone: exact cycles for each choice, and what it cannot do without."""

from __future__ import annotations

import pytest

from loadstone.search.tune_layer import LayerUnit, try_layer
from loadstone.search.tune_network import SimulatedNetwork
from loadstone.vta.schedule.choices import LayerChoice
from tests.search.small_network import SIZE, small_network


@pytest.fixture(scope="module")
def network(tmp_path_factory: pytest.TempPathFactory) -> SimulatedNetwork:
    path = tmp_path_factory.mktemp("layer") / "small.onnx"
    path.write_bytes(small_network())
    return SimulatedNetwork(path, "vtaq-1x16x16")


def test_choices_of_a_convolution(network: SimulatedNetwork) -> None:
    layer = network.layers(network.default)[0]
    choices = (
        LayerChoice(),
        LayerChoice((1, 1, 1, 1, SIZE, SIZE), "pixels"),  # whole: nothing overlaps
        LayerChoice((1, 1, 1, 1, SIZE + 1, SIZE), "pixels"),  # more rows than there are
        LayerChoice((1, 1, 1, 1, 1, 1), "channels"),
    )
    own, whole, impossible, small = try_layer(
        LayerUnit(layer.op, network.config, layer.from_host, choices)
    )
    assert own is not None
    assert whole is not None
    assert small is not None
    assert impossible is None
    assert own.cycles < whole.cycles < small.cycles
    # Each output is 9 GEMM steps, less those of padding, and one RQ. A tile of all rows leaves all
    # padding out; of tiles of a few rows, some cuts would not pay.
    assert whole.step_cycles == (3 * SIZE - 2) ** 2 + SIZE * SIZE
    assert whole.step_cycles <= own.step_cycles == own.bound < SIZE * SIZE * 10
    # Each tile of 16 bytes is two beats.
    assert own.write_cycles == SIZE * SIZE * 2
    # Input, nine weight tiles, and three tiles of operands.
    assert own.read_cycles == SIZE * SIZE * 2 + (9 * 256 + 3 * 64) // 8
