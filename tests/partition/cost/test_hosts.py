# SPDX-License-Identifier: Apache-2.0
"""partition/cost/hosts.py: stated hosts, by name and clock."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import pytest

from loadstone import graph as g
from loadstone.artifact.deploy import deploy
from loadstone.artifact.format import (
    Artifact,
    BufferView,
    DataType,
    HostStep,
    MemoryRegion,
    RegionKind,
)
from loadstone.artifact.host_step import argmax, gather, sum_float32
from loadstone.backend.device import ProgramDevice
from loadstone.cli import main
from loadstone.errors import ConfigError
from loadstone.numerics import Rounding
from loadstone.partition.cost.hosts import HOSTS, SOURCES, stated_host
from loadstone.partition.cost.prices import CostTable
from loadstone.vta.device.hw_config import load_config
from tests.artifact.test_row_rules import STEPS, model
from tests.search.small_network import small_network

CONFIG = load_config("vtaq-tiny")


def addition(size: int = 4096) -> Artifact:
    grid = g.Quantization(0.5, 0)
    x, y, z = (g.Tensor(name, (1, size), "int8", grid) for name in "xyz")
    total = g.Add(
        name="z", inputs=(x, y), outputs=(z,), rounding=Rounding.DOUBLE, low=-128, high=127
    )
    graph = g.Graph(name="sum", inputs=(x, y), outputs=(z,), operators=(total,))
    return deploy(graph, graph.operators, CONFIG).artifact


def test_every_figure_of_every_host_has_a_source() -> None:
    for name, cycles in HOSTS.items():
        assert cycles.keys() == SOURCES.keys(), name
        assert min(cycles.values()) > 0


def test_an_addition_costs_so_many_cycles_an_element() -> None:
    artifact = addition()
    (step,) = artifact.steps
    assert isinstance(step, HostStep)
    assert stated_host("cortex-m4@100").step_ns(step, artifact) == round(27.9 * 4096 * 10)
    assert stated_host("cortex-m4@200").step_ns(step, artifact) == round(27.9 * 4096 * 5)


#: Steps of tests/artifact/test_row_rules.py: 3 rows of 2 heads of 4, caches of 8 places.
_M = HOSTS["cortex-m4"]
_ROWS = {
    "attention": (STEPS["attention"], 2 * 24 * 8 * _M["mac"] + 3 * 2 * 8 * _M["exp"]),
    "attention of a window": (
        replace(STEPS["attention"], parameters={**STEPS["attention"].parameters, "window": 3}),
        2 * 24 * 3 * _M["mac"] + 3 * 2 * 3 * _M["exp"],
    ),
    "what is kept of a cache": (STEPS["keep_rows"], 24 * 4 * _M["move"]),
    "a rotation": (STEPS["rotate_places"], 24 * _M["element"]),
    "a sum of 32 to 8": (sum_float32("o", 3, 9, 4, 1), 32 * _M["element"]),
    "the largest of 24": (argmax("o", 1, 0, 12), 24 * _M["element"]),
}


@pytest.mark.parametrize("what", _ROWS)
def test_what_reads_more_than_it_writes_costs_what_it_reads(what: str) -> None:
    step, cycles = _ROWS[what]
    assert stated_host("cortex-m4@100").step_ns(step, model(step)) == round(cycles * 10)


def test_of_a_table_costs_what_is_taken() -> None:
    """A row of 16 bytes of 1,000."""
    said = (
        (RegionKind.HOST, (1000, 16), "int8"),
        (RegionKind.INPUT, (1, 1), "int32"),
        (RegionKind.OUTPUT, (1, 16), "int8"),
    )
    tensors = tuple(
        BufferView(kind.name, shape, DataType.of(dtype), region, 0)
        for region, (kind, shape, dtype) in enumerate(said)
    )
    regions = tuple(
        MemoryRegion(kind.name, kind, view.size_bytes, 4)
        for (kind, _, _), view in zip(said, tensors, strict=True)
    )
    step = gather("o", (0, 1, 2), 1000, 16)
    own = (ProgramDevice.of(CONFIG),)
    made = Artifact("m", own, 1, regions, tensors, (1,), (2,), (step,))
    assert stated_host("cortex-m4@100").step_ns(step, made) == 16 * 4 * 10


def test_a_product_of_two_tensors_costs_its_multiply_accumulates() -> None:
    grid = g.Quantization(0.5, 0)
    a, b = g.Tensor("a", (1, 8, 32), "int8", grid), g.Tensor("b", (1, 32, 4), "int8", grid)
    y = g.Tensor("y", (1, 8, 4), "int8", grid)
    graph = g.Graph(
        name="product",
        inputs=(a, b),
        outputs=(y,),
        operators=(g.BatchMatMul(name="y", inputs=(a, b), outputs=(y,)),),
    )
    artifact = deploy(graph, graph.operators, CONFIG).artifact
    (step,) = artifact.steps
    assert isinstance(step, HostStep)
    assert stated_host("cortex-m4@100").step_ns(step, artifact) == round(8 * 4 * 32 * 7.5 * 10)


def test_prices_of_hosts_do_not_mix(tmp_path: Path) -> None:
    """One file has those of two hosts and of this machine."""
    path, artifact = tmp_path / "costs.json", addition()
    found = []
    for text in ("cortex-m4@100", "cortex-m55@160", None):
        host = None if text is None else stated_host(text)
        table = CostTable(CONFIG, path, host)
        found += table.steps_ns(artifact)
        table.save()
    assert len(set(found)) == 3
    keys = list(json.loads(path.read_text(encoding="utf-8"))["host_ns"])
    assert [key.split(" ")[0] for key in keys] == [
        "cortex-m4@100",
        "cortex-m55@160",
        "loadstone.operator",
    ]


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("cortex-m55", "is not NAME@MHZ, such as cortex-m55@160; known: cortex-m4, cortex-m55"),
        ("cortex-m99@10", "cortex-m99: it is not one of cortex-m4, cortex-m55"),
        ("cortex-m4@0", r"0 MHz is not in \[1, 10000\]"),
    ],
)
def test_what_is_no_host_is_one_line(text: str, said: str) -> None:
    with pytest.raises(ConfigError, match=said) as caught:
        stated_host(text)
    assert "\n" not in str(caught.value)


def test_a_step_that_nobody_knows_is_named() -> None:
    artifact = addition()
    (step,) = artifact.steps
    assert isinstance(step, HostStep)
    other = HostStep("f", step.opcode, step.inputs, step.outputs, {}, "npu.run", "{}")
    table = CostTable(CONFIG, host=stated_host("cortex-m4@80"))
    assert stated_host("cortex-m4@80").step_ns(other, artifact) is None
    with pytest.raises(ConfigError, match=r"nothing is known of step 'f' \(npu.run\)"):
        table._found_ns(other, artifact)


def test_the_command_prints_what_each_plan_takes(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Twice the clock, half the time: nothing is measured."""
    (tmp_path / "s.onnx").write_bytes(small_network())
    words = ["compile", str(tmp_path / "s.onnx"), "-t", "vtaq-tiny", "-o", str(tmp_path / "s.lds")]
    cost = [*words, "--partition", "cost", "--host"]
    found = []
    for mhz in ("80", "160"):
        assert main([*cost, f"cortex-m4@{mhz}", "--json"]) == 0
        found.append(json.loads(capsys.readouterr().out)["by_cost"]["plans"])
    assert found[0].keys() == {"host", "eager", "chosen"}
    assert found[0]["host"]["us"] == pytest.approx(2 * found[1]["host"]["us"], rel=0.02)
    assert found[0]["host"]["transfers_us"] == 0 < found[0]["eager"]["transfers_us"]
    assert found[0]["chosen"]["us"] <= found[0]["eager"]["us"]
    assert main([*cost, "cortex-m4@80"]) == 0
    text = capsys.readouterr().out
    assert "all on devices" in text
    assert "transfers are included" in text
    assert "host steps: costs of cortex-m4@80" in text
    assert main([*words, "--host", "cortex-m4@80"]) == 2
    assert "--host is for --partition cost, --keep-float and --keep-16" in capsys.readouterr().err
