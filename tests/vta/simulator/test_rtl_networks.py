# SPDX-License-Identifier: Apache-2.0
"""Whole networks on the hardware: every device program of MLPerf Tiny's five, in bytes, cycles,
beats and bursts the simulator's, and through the driver the outputs that LiteRT computed."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from loadstone.commands.vectors import of_artifact
from loadstone.runtime import device
from loadstone.vta.device.hw_config import load_config
from loadstone.vta.simulator.rtl_replay import RtlReplay
from loadstone.vta.simulator.rtl_simd import rtl_socket
from tests.compiled import golden, network
from tests.repeat import more

pytestmark = pytest.mark.usefixtures("verilator")

SMALLEST = ("mlpt_ad_int8.tflite", "vtaq-tiny")
FILES = [f"mlpt_{name}_int8.tflite" for name in ("ad", "kws", "resnet8", "strww", "vww")]
DEVICES = ("vtaq-1x8x8", "vtaq-1x16x16", "vtaq2-1x16x16")
EACH = [(file, name) for name in DEVICES for file in FILES]


@pytest.mark.parametrize(
    ("file", "name"), [SMALLEST, *(pytest.param(*each, marks=more) for each in EACH)]
)
def test_a_network_takes_the_simulators_cycles(shared: Path, file: str, name: str) -> None:
    """The simulator's counts of each program, and the bytes, are the vector's."""
    hardware = RtlReplay()
    vectors = of_artifact(network(shared, file, name).artifact, load_config(name))
    for vector in vectors:
        replayed = hardware.replay(vector)
        assert (replayed.exact, replayed.message) == (True, ""), vector.name
        assert replayed.cycles == replayed.measured, vector.name
        assert min(vector.counters.values()) > 0
    assert vectors


@pytest.mark.parametrize(
    ("file", "name"), [SMALLEST, *(pytest.param(*each, marks=more) for each in EACH)]
)
def test_a_network_computes_what_litert_does(shared: Path, file: str, name: str) -> None:
    artifact = network(shared, file, name).artifact
    inputs, outputs = golden(shared, file, 1)
    with (
        rtl_socket(load_config(name)) as socket,
        device.open(socket) as opened,
        opened.load(artifact) as session,
    ):
        found = session.run(inputs)
    for got, wanted in zip(found, outputs, strict=True):
        assert np.array_equal(got, wanted)
