# SPDX-License-Identifier: Apache-2.0
"""partition/cost/prices.py: what determines a cost, the file that keeps it, and what is no such
file."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from loadstone import graph as g
from loadstone.artifact.deploy import deploy
from loadstone.artifact.format import Artifact
from loadstone.errors import ConfigError
from loadstone.numerics import Rounding
from loadstone.partition.cost.prices import CostTable, _two_digits
from loadstone.runtime.device import OpenedDevice
from loadstone.vta.device.hw_config import load_config

CONFIG = load_config("vtaq-1x16x16")
GRID = g.Quantization(0.5, 0)


def artifact(name: str, size: int = 64, levels: int = 5) -> Artifact:
    """A table on the host, and an addition by its definition."""
    x, y, z = (g.Tensor(f"{name}.{part}", (1, size), "int8", GRID) for part in "xyz")
    lookup = g.Requantize(
        name=y.name, inputs=(x,), outputs=(y,), rounding=Rounding.DOUBLE, low=-levels, high=levels
    )
    total = g.Add(
        name=z.name, inputs=(x, y), outputs=(z,), rounding=Rounding.DOUBLE, low=-128, high=127
    )
    graph = g.Graph(name=name, inputs=(x,), outputs=(z,), operators=(lookup, total))
    return deploy(graph, graph.operators, CONFIG).artifact


def test_costs_do_not_depend_on_names() -> None:
    table = CostTable(CONFIG)
    first = table.steps_ns(artifact("first"))
    assert min(first) > 0
    assert len(table.host_ns) == 2
    assert table.steps_ns(artifact("second")) == first
    assert len(table.host_ns) == 2


def test_costs_depend_on_shapes_and_attributes() -> None:
    table = CostTable(CONFIG)
    table.steps_ns(artifact("a"))
    table.steps_ns(artifact("a", size=128))
    assert len(table.host_ns) == 4


def test_a_longer_step_costs_more() -> None:
    short, long = (CostTable(CONFIG).steps_ns(artifact("a", size))[0] for size in (64, 1 << 20))
    assert long > 10 * short


def test_a_program_is_simulated_at_the_devices_clock(shared: Path) -> None:
    pytest.importorskip("tvm", reason="TVM is not installed (the extra `compiler`)")
    from tests.compiled import network

    compiled = network(shared, "mlpt_strww_int8.tflite", CONFIG.name)
    table, faster = CostTable(CONFIG), CostTable(replace(CONFIG, clock_mhz=2 * CONFIG.clock_mhz))
    programs = replace(compiled.artifact, steps=compiled.artifact.programs)
    (ns,) = table.steps_ns(programs)
    assert faster.steps_ns(programs) == [ns // 2]
    (cycles,) = table.device_cycles.values()
    assert ns == cycles * 1000 // CONFIG.clock_mhz
    with OpenedDevice("sim", "", CONFIG) as device, device.load(compiled.artifact) as session:
        session.run([np.zeros((1, *t.shape), t.dtype) for t in compiled.graph.inputs])
        assert session.counters.cycles == cycles


def test_a_file_keeps_costs_and_is_written_in_order(tmp_path: Path) -> None:
    path = tmp_path / "costs.json"
    table = CostTable(CONFIG, path)
    known = table.steps_ns(artifact("a"))
    table.save()
    again = CostTable(CONFIG, path)
    assert again.steps_ns(artifact("b")) == known
    again.save()
    data = json.loads(path.read_text())
    assert data["format"] == 1
    assert list(data["host_ns"]) == sorted(data["host_ns"])
    assert data["host_ns"] == table.host_ns


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("{", "Expecting property name"),
        ("[]", "no file of costs"),
        ('{"format": 2}', "no file of costs"),
        (
            '{"format": 1, "host_ns": {"copy": -1}}',
            "host_ns: 'copy' is no whole number from 0",
        ),
        (
            '{"format": 1, "host_ns": {"copy": 1.5}}',
            "host_ns: 'copy' is no whole number from 0",
        ),
        ('{"format": 1, "device_cycles": []}', "device_cycles: it is no object"),
    ],
)
def test_what_is_no_file_of_costs_is_one_line(tmp_path: Path, text: str, said: str) -> None:
    path = tmp_path / "costs.json"
    path.write_text(text)
    with pytest.raises(ConfigError, match=said) as caught:
        CostTable(CONFIG, path)
    assert str(caught.value).startswith(f"costs {path}")
    assert "\n" not in str(caught.value)


def test_a_file_that_cannot_be_written_is_named(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="No such file"):
        CostTable(CONFIG, tmp_path / "absent" / "costs.json").save()


@pytest.mark.parametrize(
    ("ns", "rounded"),
    [(0, 1), (7, 7), (99, 99), (123, 120), (126, 130), (123456, 120000), (9990, 10000)],
)
def test_times_have_two_digits(ns: int, rounded: int) -> None:
    assert _two_digits(ns) == rounded
