# SPDX-License-Identifier: Apache-2.0
"""partition/cost/alone.py: what one operator takes where it runs alone, its transfers apart."""

from __future__ import annotations

from pathlib import Path

import pytest

pytest.importorskip("tvm", reason="TVM is not installed (the extra `compiler`)")
pytest.importorskip("onnx", reason="onnx is not installed")

from loadstone.backend.plugins import load_plugins
from loadstone.backend.target import resolve
from loadstone.frontend import load
from loadstone.graph import Operator
from loadstone.partition.cost.alone import Alone
from loadstone.partition.cost.prices import CostTable
from loadstone.partition.cost.pricing import Pricing
from loadstone.partition.cost.search import ROWS
from loadstone.partition.eager import HOST, matches
from loadstone.partition.partitioner import EagerPartitioner
from tests.conftest import ROOT
from tests.partition.cost.networks import HOST_NS, TRANSFER_NS, fixed_host_times, module


@pytest.fixture
def priced(monkeypatch: pytest.MonkeyPatch) -> tuple[Alone, dict[str, Operator]]:
    fixed_host_times(monkeypatch)
    made, target = module(), resolve("vtaq-tiny")
    found, constants = matches(made, target.backends)
    pricing = Pricing(target.backends, CostTable(target.device))
    alone = Alone(EagerPartitioner(made, "m", target), found, constants, pricing)
    return alone, {match.operator.kind: match.operator for match in found}


def test_the_host_has_rows_and_no_transfers(priced: tuple[Alone, dict[str, Operator]]) -> None:
    alone, operators = priced
    cost = alone.cost(operators["lookup"], HOST)
    assert cost is not None
    assert (cost.memory, cost.ns) == (ROWS, HOST_NS)
    assert not cost.packs
    assert not cost.unpack_ns


def test_a_device_has_its_transfers_apart(priced: tuple[Alone, dict[str, Operator]]) -> None:
    """Both inputs of the sum are one tensor: it is packed once."""
    alone, operators = priced
    cost = alone.cost(operators["add"], "vta")
    assert cost is not None
    assert cost.memory == "vta"
    assert 0 < cost.ns < HOST_NS
    assert {tensor: ns for tensor, (_, ns) in cost.packs.items()} == {
        operators["add"].inputs[0].name: TRANSFER_NS
    }
    assert cost.unpack_ns == {operators["add"].output.name: TRANSFER_NS}


def test_what_a_back_end_cannot_lower_is_no_candidate(
    priced: tuple[Alone, dict[str, Operator]],
) -> None:
    alone, operators = priced
    assert alone.cost(operators["lookup"], "vta") is None


def test_a_cost_is_found_once(
    priced: tuple[Alone, dict[str, Operator]], monkeypatch: pytest.MonkeyPatch
) -> None:
    alone, operators = priced
    first = alone.cost(operators["mul"], "vta")
    monkeypatch.setattr(alone, "_cost", None)  # would fail if it were asked again
    assert alone.cost(operators["mul"], "vta") is first


def test_a_described_accelerator_costs_what_its_simulator_says(
    shared: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Also where its inputs are on the device already: its program is none of VTA's."""
    fixed_host_times(monkeypatch)
    plugins = load_plugins([ROOT / "docs/examples/systolic"])
    target = resolve(["systolic", "vtaq-tiny"], plugins)
    made = load(shared / "models/mlpt_resnet8_int8.tflite")
    found, constants = matches(made, target.backends)
    pricing = Pricing(target.backends, CostTable(target.device))
    alone = Alone(EagerPartitioner(made, "m", target), found, constants, pricing)
    conv = [match.operator for match in found if match.backend == "systolic"][-1]
    cost = alone.cost(conv, "systolic")
    assert cost is not None
    assert cost.ns > 0
