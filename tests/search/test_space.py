# SPDX-License-Identifier: Apache-2.0
"""SPACE.yaml: what varies, and the device at each point."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from loadstone.errors import ConfigError
from loadstone.search.assumptions import area_mm2
from loadstone.search.space import read_space
from loadstone.vta.device.hw_config import load_config
from loadstone.vta.isa.spec import Capability

pytest.importorskip("yaml", reason="PyYAML is not installed (the extra `search`)")

SPACE = """
base: [vtaq-1x16x16, vtaq-1x8x8]
device:
  bus_bits: [64, 128, 256]
  LOG_UOP_BUFF_SIZE: [13, 15]
  capabilities: [config, requantize]
  timing.read_latency_cycles: [16, 40]
options:
  strategy: eager
assumptions:
  dram_pj_per_byte: 20
"""


def written(folder: Path, text: str) -> Path:
    path = folder / "space.yaml"
    path.write_text(text, encoding="utf-8")
    return path


def test_points_are_devices(tmp_path: Path) -> None:
    space = read_space(written(tmp_path, SPACE))
    assert space.points == 24
    assert space.assumptions.dram_pj_per_byte == 20
    points = [space.at(number) for number in range(space.points)]
    assert points == sorted(set(points))
    devices = [load_config(space.device(point)) for point in points]
    assert len({device.name for device in devices}) == 24
    for point, device in zip(points, devices, strict=True):
        said = space.settings(point)
        assert device.bus_bits == said["bus_bits"]
        assert device.log_uop_buff == said["LOG_UOP_BUFF_SIZE"]
        assert device.uop_depth == 1 << device.lu  # follows the size
        assert device.timing["read_latency_cycles"].value == said["timing.read_latency_cycles"]
        assert device.block == (16 if said["base"] == "vtaq-1x16x16" else 8)
        assert space.options(point) == {"strategy": "eager"}
    wanted = Capability.CONFIG | Capability.REQUANTIZE
    assert {device.capabilities for device in devices} == {wanted}


def test_capabilities_are_lists_of_lists_where_they_vary(tmp_path: Path) -> None:
    text = "base: vtaq-1x16x16\ndevice:\n  capabilities: [[config], [config, requantize]]\n"
    space = read_space(written(tmp_path, text))
    assert space.points == 2


def test_each_capability_is_a_choice_of_its_own(tmp_path: Path) -> None:
    """With the cycles that were measured of it; what the base has otherwise stays."""
    text = "base: [vtaq-1x16x16, vtaq2-1x16x16]\ndevice:\n" + "".join(
        f"  capability.{name}: [false, true]\n" for name in ("depthwise", "store_requantize")
    )
    space = read_space(written(tmp_path, text + "  timing.loads_in_flight: [1, 4]\n"))
    assert space.points == 16
    first = load_config("vtaq-1x16x16")
    for point in (space.at(number) for number in range(space.points)):
        device, said = load_config(space.device(point)), space.settings(point)
        for capability in (Capability.DEPTHWISE, Capability.STORE_REQUANTIZE):
            assert device.has(capability) == said[f"capability.{capability.name.lower()}"]
        assert device.capabilities & first.capabilities == first.capabilities
        cycles = {name: constant.value for name, constant in device.timing.items()}
        assert (cycles["store_rq_cycles"], cycles["depthwise_overhead_cycles"]) == (14, 8)
        assert cycles["loads_in_flight"] == said["timing.loads_in_flight"]
        assert cycles["rq_overhead_cycles"] == first.timing["rq_overhead_cycles"].value


@pytest.mark.parametrize("name", ["store_inp", "weight_code", "weights4", "store_acc"])
def test_what_moves_data_is_a_choice(tmp_path: Path, name: str) -> None:
    """With it a device is larger, be it of the first generation or of the second."""
    text = f"base: [vtaq-1x16x16, vtaq2-1x16x16]\ndevice:\n  capability.{name}: [false, true]\n"
    space, capability = read_space(written(tmp_path, text)), Capability[name.upper()]
    devices = [load_config(space.device(space.at(number))) for number in range(space.points)]
    assert [device.has(capability) for device in devices] == [False, True] * 2
    areas = [sum(area_mm2(device, space.assumptions).values()) for device in devices]
    assert areas[0] < areas[1]
    assert areas[2] < areas[3]


def test_a_base_is_a_file_beside_the_space(tmp_path: Path) -> None:
    config = load_config("vtaq-tiny")
    (tmp_path / "mine.json").write_text(json.dumps({**config.to_json(), "name": "mine"}))
    space = read_space(written(tmp_path, "base: mine.json\n"))
    assert str(space.device((0,))["name"]).startswith("mine-")


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("[1]", "holds a list"),
        ("base: vtaq-tiny\ndevice: {capability.depthwise: [1, 0]}", "is true or false"),
        ("base: vtaq-tiny\ndevice: {capability.windows: true}", "no key 'capability.windows'"),
        ("a: [", "not YAML"),
        ("2020-99-99: 1", "not YAML: month must be in 1..12"),
        ("base: !!bool perhaps", "not YAML"),
        ("base: !!timestamp x", "not YAML"),
        (f"base: {'9' * 5000}", "not YAML"),
        ("device: {}", "key base is missing"),
        ("base: vtaq-tiny\nextra: 1", "unknown key 'extra'"),
        ("base: nothing", "neither built in"),
        ("base: vtaq-tiny\ndevice: [1]", "device is a list"),
        ("base: vtaq-tiny\ndevice: {blocks: [1]}", "device has no key 'blocks'; known are"),
        ("base: vtaq-tiny\ndevice: {timing.x: [1]}", "device has no key 'timing.x'"),
        ("base: vtaq-tiny\ndevice: {bus_bits: [64, 64]}", "bus_bits has no values, or one"),
        ("base: vtaq-tiny\ndevice: {bus_bits: []}", "bus_bits has no values"),
        ("base: vtaq-tiny\noptions: {speed: [1]}", "option 'speed' is not one of strategy"),
        ("base: vtaq-tiny\noptions: {strategy: fast}", "'fast' is not one of eager, cost"),
        ("base: vtaq-tiny\nassumptions: {watts: 1}", "assumption 'watts' is not one of"),
        ("base: vtaq-tiny\nassumptions: {sram_scale: -1}", "no number from 0 on"),
    ],
)
def test_mistakes_are_one_line(tmp_path: Path, text: str, message: str) -> None:
    with pytest.raises(ConfigError, match=message) as caught:
        read_space(written(tmp_path, text))
    assert "\n" not in str(caught.value)
