# SPDX-License-Identifier: Apache-2.0
"""analysis/report.py: one time axis for devices, other accelerators and the host."""

from __future__ import annotations

from pathlib import Path

import pytest

from loadstone.analysis.report import Known, profile_report
from loadstone.backend.plugins import load_plugins
from loadstone.compiler import compile
from loadstone.runtime import device
from loadstone.simulator.programs import program_runs
from loadstone.vta.device.hw_config import load_config
from tests.compiled import golden, network
from tests.conftest import ROOT
from tests.further import FIRST, branches
from tests.sample_model import dense_model


def test_rows_sum_to_what_a_run_counts(shared: Path) -> None:
    """The sums, by place and of all; the cycles of the C runtime's own counters."""
    compiled = network(shared, "mlpt_resnet8_int8.tflite", "vtaq-1x16x16")
    report = profile_report(compiled.artifact, compiled.device)
    (x,), _ = golden(shared, "mlpt_resnet8_int8.tflite", 2)
    with device.open("sim") as opened, opened.load(compiled.artifact) as session:
        session.run([x])
        assert session.totals.runs == 2
        assert session.totals.counters.cycles == 2 * report.cycles
    assert sum(row.share for row in report.rows) == pytest.approx(1)
    totals = report.totals
    assert totals["vtaq-1x16x16"]["cycles"] == report.cycles
    assert sum(entry["us"] for entry in totals.values()) == pytest.approx(report.us)
    assert totals["host"]["how"] == ["measured"]
    assert [row.end_us for row in report.rows][-1] == pytest.approx(report.us)


def test_the_compiler_tells_more_than_the_artifact(shared: Path) -> None:
    compiled = network(shared, "mlpt_resnet8_int8.tflite", "vtaq-1x16x16")
    alone = profile_report(compiled.artifact, compiled.device)
    report = compiled.profile()
    assert {row.kind for row in report.rows} >= {"conv2d", "add", "average_pool2d", "softmax"}
    first = next(r for r in report.rows if r.kind == "conv2d")
    assert (first.macs, first.executed_macs) == (442368, 786432)  # three channels of sixteen
    assert [row.cycles for row in alone.rows] == [row.cycles for row in report.rows]


@pytest.mark.full
def test_three_devices_on_one_axis(shared: Path) -> None:
    folders = [ROOT / "docs/examples" / name for name in ("c_library", "systolic")]
    compiled = compile(
        shared / "models/mlpt_resnet8_int8.tflite",
        ["my-accel -max_kernel=1", "systolic", "vtaq-1x16x16"],
        plugins=load_plugins(folders),
    )
    report = compiled.profile()
    assert set(report.totals) == {"my-accel", "systolic", "vtaq-1x16x16", "host"}
    assert report.totals["systolic"]["how"] == ["simulated"]
    ends = [row.end_us for row in report.rows if row.cycles is None]
    assert ends == sorted(ends)
    assert report.us == pytest.approx(sum(row.us for row in report.rows))


def test_kinds_come_from_the_compiler_or_from_the_instructions() -> None:
    config = load_config("vtaq-1x16x16")
    artifact = dense_model(config).artifact
    names = [row.name for row in profile_report(artifact, config).rows if row.cycles is not None]
    report = profile_report(artifact, config, Known(kinds={names[0]: "dense"}, macs={names[0]: 7}))
    row = next(row for row in report.rows if row.name == names[0])
    assert (row.kind, row.macs) == ("dense", 7)


def test_programs_side_by_side_take_as_long_as_the_longest() -> None:
    _, both = branches()
    found = profile_report(both, FIRST)
    shorter = min(run.cycles / run.clock_mhz for run in program_runs(both, FIRST).values())
    assert found.us == pytest.approx(sum(row.us for row in found.rows) - shorter)
