# SPDX-License-Identifier: Apache-2.0
"""The page of `loadstone profile --html` in Chromium: what is drawn is what the report says."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from loadstone.analysis.page_data import profile_page
from loadstone.analysis.report import ProfileReport, profile_report
from loadstone.backend.plugins import load_plugins
from loadstone.compiler import Compiled, compile
from loadstone.runtime.device import OpenedDevice
from loadstone.vta.device.hw_config import load_config
from tests.browser import body_data, cells, opened
from tests.compiled import network
from tests.conftest import ROOT
from tests.float_models import images, module
from tests.repeat import more
from tests.sample_model import dense_model


def check_cycles(compiled: Compiled, report: ProfileReport, dom: str) -> None:
    """The page's figures are the report's, `--json` prints them, and their sum is the cycles that a
    run's own counters give."""
    shown = [row[5].replace(",", "") for row in cells(dom)]
    assert shown == ["" if row.cycles is None else str(row.cycles) for row in report.rows]
    assert [entry["cycles"] for entry in report.to_json()["layers"]] == [
        row.cycles for row in report.rows
    ]
    tensors = [compiled.artifact.tensors[k] for k in compiled.artifact.inputs]
    zeros = [np.zeros((1, *t.memory_shape), t.dtype.numpy) for t in tensors]
    with (
        OpenedDevice("sim", "", compiled.device) as opened,
        opened.load(compiled.artifact, trust=True) as session,
    ):
        session.run(zeros)
        counted = session.totals.counters.cycles
    assert sum(int(cycles or 0) for cycles in shown) == report.cycles == counted


def data_of(text: str) -> dict[str, object]:
    found = re.search(r'id="data">(.*?)</script>', text, re.DOTALL)
    assert found is not None
    read = json.loads(found.group(1))
    assert isinstance(read, dict)
    return read


def test_the_page_holds_every_event() -> None:
    config = load_config("vtaq-1x16x16")
    artifact = dense_model(config).artifact
    report = profile_report(artifact, config)
    data = data_of(profile_page(report, artifact))
    (program,) = data["programs"]  # type: ignore[misc]
    assert len(program["events"]["insn"]) == len(artifact.programs[0])
    assert data["cycles"] == report.cycles
    assert data["layers"] == json.loads(json.dumps(report.to_json()))["layers"]


@pytest.mark.full
def test_what_chromium_draws_are_the_figures(shared: Path, tmp_path: Path) -> None:
    compiled = network(shared, "mlpt_resnet8_int8.tflite", "vtaq-1x16x16")
    report = compiled.profile()
    path = tmp_path / "page.html"
    path.write_text(profile_page(report, compiled.artifact), encoding="utf-8")
    dom = opened(path)
    rows = cells(dom)
    assert len(rows) == len(report.rows)
    assert [row[0] for row in rows] == [row.short for row in report.rows]
    assert [row[5] for row in rows] == [
        "" if row.cycles is None else f"{row.cycles:,}" for row in report.rows
    ]
    check_cycles(compiled, report, dom)
    drawn = body_data(dom)
    hosts = sum(row.cycles is None for row in report.rows)
    assert hosts < int(drawn["drawntimeline"]) <= len(compiled.artifact.programs[0]) + hosts
    assert int(drawn["drawnarena"]) == len(report.arena[0])
    assert all(int(drawn[f"drawnpad{memory}"]) for memory in ("inp", "wgt", "acc", "uop"))
    chosen = cells(opened(path, "layer=conv2d_4"), visible=True)
    assert [row[0] for row in chosen] == ["conv2d_4/Conv2D"]


@pytest.mark.full
def test_dots_have_names_columns_fit_and_noise_stands_beside_cycles(tmp_path: Path) -> None:
    compiled = compile(module(), "vtaq-1x16x16", samples=images(8))
    report = compiled.profile()
    path = tmp_path / "page.html"
    path.write_text(profile_page(report, compiled.artifact), encoding="utf-8")
    dom = opened(path, width=1280)
    drawn = body_data(dom)
    multiply = sum(row.macs > 0 and bool(row.cycles) for row in report.rows)
    assert int(drawn["drawnroofline"]) == int(drawn["namedroofline"]) == multiply
    assert int(drawn["tablewidth"]) <= int(drawn["tableroom"]) < 1280
    shown = {row[0]: row for row in cells(dom)}
    assert shown["n2/real1"][2:5] == ["max_pool2d", "1×6×6×8", ""]
    lost = {row.short: row.sqnr_db for row in report.rows}
    assert lost["n1"] is not None
    assert shown["n1"][12] == f"{lost['n1']:.1f}"
    assert "best: cycles that the longest of three would take alone" in dom


@more
def test_a_large_network_opens(shared: Path, tmp_path: Path, figure: Callable[[str], None]) -> None:
    """MobileNetV2 224: ten thousand instructions."""
    compiled = network(shared, "coral_tf2_mnv2_1.0_224_ptq.tflite", "vtaq-1x16x16")
    report = compiled.profile()
    path = tmp_path / "mobilenet.html"
    path.write_text(profile_page(report, compiled.artifact), encoding="utf-8")
    dom = opened(path, "theme=dark")
    drawn = body_data(dom)
    figure(f"MobileNetV2: {path.stat().st_size} bytes, drawn in {drawn['openedms']} ms")
    check_cycles(compiled, report, dom)
    # of rectangles narrower than a pixel one for each pixel
    assert 1000 < int(drawn["drawntimeline"]) < len(compiled.artifact.programs[0])


@more
def test_three_devices_in_one_page(shared: Path, tmp_path: Path) -> None:
    folders = [ROOT / "docs/examples" / name for name in ("c_library", "systolic")]
    compiled = compile(
        shared / "models/mlpt_resnet8_int8.tflite",
        ["my-accel -max_kernel=1", "systolic", "vtaq-1x16x16"],
        plugins=load_plugins(folders),
    )
    report = compiled.profile()
    path = tmp_path / "composite.html"
    path.write_text(profile_page(report, compiled.artifact), encoding="utf-8")
    dom = opened(path)
    check_cycles(compiled, report, dom)
    rows = cells(dom)
    assert {row[1] for row in rows} == {"host", "my-accel", "systolic", "vtaq-1x16x16"}
    shown = [float(row[8].replace(",", "")) for row in rows]
    assert shown == pytest.approx([row.us for row in report.rows], abs=0.0051)
