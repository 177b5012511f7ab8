# SPDX-License-Identifier: Apache-2.0
"""analysis/tables.py: every figure of a row is in the CSV, and the table is for people."""

from __future__ import annotations

import csv
import io
import re

from loadstone.analysis.report import profile_report
from loadstone.analysis.tables import CSV_COLUMNS, csv_text, text_table
from loadstone.vta.device.hw_config import load_config
from loadstone.vta.simulator.layers import BOUNDS
from tests.conftest import ROOT
from tests.sample_model import dense_model

CONFIG = load_config("vtaq-1x16x16")
REPORT = profile_report(dense_model(CONFIG).artifact, CONFIG)


def test_the_csv_has_every_field_of_a_row() -> None:
    lines = list(csv.DictReader(io.StringIO(csv_text(REPORT))))
    assert len(lines) == len(REPORT.rows)
    for line, row in zip(lines, REPORT.rows, strict=True):
        assert line["name"] == row.name
        assert line["cycles"] == ("" if row.cycles is None else str(row.cycles))
    places = {place.partition(".")[0] for place in CSV_COLUMNS.values()}
    assert places == set(vars(REPORT.rows[0])) - {"best_us"}
    spent = {p.partition(".")[2] for p in CSV_COLUMNS.values() if p.startswith("spent_cycles.")}
    assert spent == set(BOUNDS)


def test_the_table_ends_with_the_sums() -> None:
    lines = text_table(REPORT).splitlines()
    assert lines[0].split()[:3] == ["layer", "where", "kind"]
    assert lines[-1] == f"together: {REPORT.us:,.1f} us a run of 1 sample(s)"
    assert any(f"{REPORT.cycles:,} cycles (simulated)" in line for line in lines)


#: Columns of Vela's per-layer CSV (ethos-u-vela 5.2, as it writes them of ResNet8) -> ours.
VELA = {
    "Original Operator": "kind",
    "NNG Operator": "kind",
    "Target": "where",
    "Staging Usage": "arena_bytes",
    "Peak% (Staging)": "arena_share_percent",
    "Op Cycles": "cycles",
    "Network% (cycles)": "share_percent",
    "NPU": "compute_busy_cycles",
    "SRAM AC": "inp_bus_cycles",
    "DRAM AC": "out_bus_cycles",
    "OnFlash AC": "wgt_bus_cycles",
    "OffFlash AC": "wgt_bus_cycles",
    "MAC Count": "macs",
    "Network% (MAC)": "macs_share_percent",
    "Util% (MAC)": "utilisation_percent",
    "Name": "name",
}


def test_what_vela_tells_is_here() -> None:
    assert set(VELA.values()) <= CSV_COLUMNS.keys()


def test_the_guide_has_vela_s_columns_beside_ours() -> None:
    text = (ROOT / "docs/tune.md").read_text(encoding="utf-8")
    lines = text[text.index("| Vela | here |") :].split("\n\n")[0].splitlines()[2:]
    table = [line.strip("| ").split(" | ") for line in lines]
    assert [name for theirs, _ in table for name in theirs.split(", ")] == list(VELA)
    ours = {column for _, text in table for column in re.findall("`([^`]+)`", text)}
    assert set(VELA.values()) <= ours <= CSV_COLUMNS.keys()
