# SPDX-License-Identifier: Apache-2.0
"""The Parquet file: its columns, also where nothing can be run."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

pytest.importorskip("tvm", reason="TVM is not installed (the extra `compiler`)")
pytest.importorskip("pyarrow", reason="pyarrow is not installed (the extra `search`)")

import pyarrow.parquet as pq

from loadstone.search.evaluate import SweptNetwork
from loadstone.search.space import Space, SpaceAxis
from loadstone.search.store import ResultStore
from loadstone.search.sweep import SweepPlan, run_sweep
from loadstone.search.table import FIGURES, parquet_bytes, table_rows
from loadstone.search.workers import open_pool

SPACE = Space(
    (
        SpaceAxis("base", "base", ("vtaq-tiny", "vtaq-1x8x8")),
        SpaceAxis("device", "bus_bits", (64, 96)),
        SpaceAxis("device", "capabilities", (["config"], ["config", "requantize"])),
    )
)


def test_the_table_has_its_columns(tmp_path: Path) -> None:
    networks = [SweptNetwork(name, ".onnx", b"none") for name in "ab"]
    with open_pool(1) as pool, ResultStore(None) as store:
        sweep = run_sweep(SPACE, networks, SweepPlan(), pool, store)
    (tmp_path / "r.parquet").write_bytes(parquet_bytes(sweep))
    table = pq.read_table(tmp_path / "r.parquet")
    axes = ["base", "bus_bits", "capabilities"]
    assert table.column_names == ["device", *axes, *FIGURES]
    rows = table.to_pylist()
    assert [row["model"] for row in rows] == ["a", "b"] * 8
    assert not any(row["feasible"] for row in rows)
    assert {row["cycles"] for row in rows} == {None}
    for row, made in zip(rows, table_rows(sweep), strict=True):
        assert json.loads(row["capabilities"]) == made["capabilities"]
        assert json.loads(row["device_json"])["bus_bits"] == row["bus_bits"]
