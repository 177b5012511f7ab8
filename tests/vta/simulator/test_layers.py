# SPDX-License-Identifier: Apache-2.0
"""vta/simulator/layers.py: what a layer's cycles were spent on; sums are those of the simulator."""

from __future__ import annotations

from pathlib import Path

import pytest

from loadstone.vta.device.hw_config import HwConfig, config_of, load_config
from loadstone.vta.simulator.layers import BOUNDS, device_figures, layer_figures
from loadstone.vta.simulator.profile import Profile, profile
from tests.compiled import network
from tests.sample_model import copy_model, dense_model, stored_twice_model

DEVICES = [load_config(name) for name in ("vtaq-1x16x16", "vta-pynq")]


def check_sums(entry: Profile, config: HwConfig) -> None:
    figures = layer_figures(entry, config)
    result = entry.result
    assert sum(layer.cycles for layer in figures) == result.cycles
    assert sum(layer.macs for layer in figures) == result.macs
    for layer in figures:
        assert sum(layer.spent_cycles.values()) == layer.cycles
        assert all(cycles >= 0 for cycles in layer.spent_cycles.values())
        assert layer.bound in BOUNDS
    moved = {name: sum(layer.bytes[name] for layer in figures) for name in figures[0].bytes}
    finish = 16
    assert moved.pop("out") == result.write_bytes
    assert {**moved, "fetch": moved["fetch"] + finish} == result.read_bytes
    for stage, cycles in result.busy_cycles.items():
        assert sum(layer.busy_cycles[stage] for layer in figures) <= cycles


@pytest.mark.parametrize("config", DEVICES, ids=lambda c: c.name)
def test_figures_sum_to_what_the_simulator_counts(config: HwConfig) -> None:
    (entry,) = profile(dense_model(config).artifact, config)
    check_sums(entry, config)


def test_sums_and_bounds_of_a_network(shared: Path) -> None:
    compiled = network(shared, "mlpt_resnet8_int8.tflite", "vtaq-1x16x16")
    config = load_config("vtaq-1x16x16")
    (entry,) = profile(compiled.artifact, config)
    check_sums(entry, config)
    figures = layer_figures(entry, config)
    wide = max(figures, key=lambda layer: layer.macs)
    assert wide.bound == "multipliers"
    assert wide.best_cycles <= wide.cycles
    # Its additions too: sums of products of the GEMM core.
    assert {layer.kind for layer in figures} == {"multiply"}


def test_a_copy_is_bound_by_what_it_waits_for() -> None:
    config = DEVICES[0]
    (entry,) = profile(copy_model(), config)
    (layer,) = layer_figures(entry, config)
    assert (layer.name, layer.macs, layer.kind) == ("copy", 0, "elementwise")
    assert layer.bytes == {"fetch": 64, "uop": 4, "inp": 0, "wgt": 0, "acc": 16, "out": 16}


def test_what_is_stored_to_inp_is_no_byte_of_dram() -> None:
    model = stored_twice_model()
    config = config_of(model.fingerprint)
    (entry,) = profile(model, config)
    check_sums(entry, config)
    assert [(f.name, f.bytes["out"]) for f in layer_figures(entry, config)] == [
        ("kept", 0),
        ("copy", 16),
    ]


def test_what_a_device_could_do() -> None:
    facts = device_figures(DEVICES[0])
    assert (facts.macs_per_cycle, facts.bus_bytes) == (256, 8)
    assert set(facts.scratchpad_tiles) == {"inp", "wgt", "acc", "uop"}
