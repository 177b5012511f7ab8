# SPDX-License-Identifier: Apache-2.0
"""What a layer of an instruction table costs, and what its cycles are spent on."""

from __future__ import annotations

import csv
import io
import json
from pathlib import Path
from typing import Any

import pytest

from loadstone.cli import main
from loadstone.errors import ConfigError
from loadstone.isa.accelerator import Port
from loadstone.simulator.interface import LayerFigures
from loadstone.simulator.table_layers import table_facts
from loadstone.simulator.table_profile import TableSimulator
from tests.artifact.test_program_step import program_model
from tests.conftest import ROOT
from tests.isa.tables import npu
from tests.search.small_network import small_network

SYSTOLIC = str(ROOT / "docs/examples/systolic")


def layer_of(**more: Any) -> LayerFigures:
    """Of a copy of four rows, a store of four, and an end."""
    (run,) = TableSimulator({1: npu(**more)}).runs(program_model(), trace=True)
    (layer,) = run.layers()
    return layer


def test_a_device_without_a_port() -> None:
    layer = layer_of()
    assert layer.spent_cycles == {"dma": 10, "all": 1, "dram": 0, "waiting": 0}
    assert (layer.first_cycle, layer.last_cycle, layer.best_cycles) == (0, 10, 10)
    assert layer.bytes == {"pad": 64, "out": 64}
    assert (layer.macs, table_facts(npu()).macs_per_cycle) == (0, 0)


def test_transfers_are_what_bounds_it() -> None:
    """Four rows that follow each other are one run of 64 bytes: 20 + 8 + 1 cycles each way."""
    layer = layer_of(port=Port(), queue=4)
    assert layer.spent_cycles["dram"] == 2 * 29
    assert sum(layer.spent_cycles.values()) == layer.cycles
    assert layer.bound == "dram"
    assert layer.best_cycles == 58


def test_multiplications_are_those_that_the_accelerator_states() -> None:
    layer = layer_of(macs={"copy": "rows*16"}, macs_per_cycle=8)
    assert (layer.macs, layer.kind) == (64, "multiply")
    with pytest.raises(ConfigError, match="macs: there is no instruction gemm"):
        npu(macs={"gemm": "rows"})
    with pytest.raises(ConfigError, match="macs of copy: .lines.: it has no field lines"):
        npu(macs={"copy": "lines"})


@pytest.mark.parametrize("tokens", ["0", "1"])
def test_a_plug_in_is_profiled_like_vta(
    tokens: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Bound, utilisation, lower bound, a page, columns for its units; of units that tokens order,
    too, whose instructions do not start in the order of the program."""
    (tmp_path / "c.onnx").write_bytes(small_network())
    names = {kind: str(tmp_path / f"p.{kind}") for kind in ("html", "csv", "perfetto")}
    words = ["profile", str(tmp_path / "c.onnx"), "--uma-backends", SYSTOLIC, "--json"]
    words += ["--target", f"systolic -tokens={tokens}"]
    assert main([*words, *(word for kind in names for word in (f"--{kind}", names[kind]))]) == 0
    rows = json.loads(capsys.readouterr().out)["layers"]
    own = [row for row in rows if row["where"] == "systolic"]
    table = list(csv.DictReader(io.StringIO(Path(names["csv"]).read_text(encoding="utf-8"))))
    assert len(own) == 2
    for row in own:
        assert row["bound"] in ("load", "array", "store", "dram")
        assert sum(row["spent_cycles"].values()) == row["cycles"] >= row["best_cycles"] * 0.9
        assert row["utilisation"] == row["executed_macs"] / row["cycles"] / 256
        assert row["executed_macs"] >= row["macs"] > 0
        (line,) = [line for line in table if line["name"] == row["name"]]
        assert line["array_busy_cycles"] == str(row["busy_cycles"]["array"])
    assert '"units":["load","array","store"]' in Path(names["html"]).read_text("utf-8")
