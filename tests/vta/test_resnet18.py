"""ResNet-18's convolutions on VTA as it is: exact, inside its safe subset, free of races, exported
for RTL and replayed."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from loadstone.artifact.deploy import deploy
from loadstone.cli import main
from loadstone.graph.reference import run
from loadstone.runtime.device import OpenedDevice
from loadstone.vta.hw_config import load_config
from loadstone.vta.offload import OffloadedRegion
from tests.resnet18 import LAYERS, network

QUICK = ("C10", "C11")


@pytest.mark.parametrize(
    "name", [n if n in QUICK else pytest.param(n, marks=pytest.mark.full) for n in LAYERS]
)
def test_a_layer_is_exact_and_its_vector_replays_without_a_race(name: str, tmp_path: Path) -> None:
    config = load_config("vta-pynq")
    graph = network(name)
    region = OffloadedRegion(
        name, graph.operators, graph.inputs, (*graph.inputs, *graph.outputs), config
    )
    artifact = deploy(graph, [region], config).artifact
    x = np.random.default_rng(1).integers(-128, 128, graph.inputs[0].shape).astype(np.int8)
    with OpenedDevice("sim", "", config) as device, device.load(artifact) as session:
        (got,) = session.run([x[None]])
    (want,) = run(graph, [x])
    assert len(np.unique(want)) > 50
    np.testing.assert_array_equal(got[0], want)
    artifact.save(tmp_path / "layer.lds")
    assert main(["vectors", str(tmp_path / "layer.lds"), "-o", str(tmp_path / "vectors")]) == 0
    assert main(["replay", str(tmp_path / "vectors"), "--check", "races"]) == 0
