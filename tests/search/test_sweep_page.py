# SPDX-License-Identifier: Apache-2.0
"""The page of a sweep in Chromium; the device that is chosen there runs ResNet8 exactly."""

from __future__ import annotations

import json
import re
from html import unescape
from pathlib import Path

import numpy as np
import pytest

pytest.importorskip("tvm", reason="TVM is not installed (the extra `compiler`)")

from loadstone.compiler import compile
from loadstone.search.evaluate import SweptNetwork
from loadstone.search.space import Space, SpaceAxis
from loadstone.search.store import ResultStore
from loadstone.search.sweep import Sweep, SweepPlan, run_sweep
from loadstone.search.sweep_page import sweep_page
from loadstone.search.workers import open_pool
from tests.browser import body_data, cells, opened
from tests.compiled import golden

FILE = "mlpt_resnet8_int8.tflite"
SPACE = Space(
    (SpaceAxis("base", "base", ("vtaq-1x16x16",)), SpaceAxis("device", "bus_bits", (64, 128, 96)))
)


def swept(shared: Path) -> Sweep:
    path = shared / "models" / FILE
    network = SweptNetwork(path.stem, path.suffix, path.read_bytes())
    with open_pool(1) as pool, ResultStore(None) as store:
        return run_sweep(SPACE, [network], SweepPlan(), pool, store)


def test_a_device_chosen_on_the_page_runs_the_network_exactly(shared: Path, tmp_path: Path) -> None:
    sweep = swept(shared)
    page = tmp_path / "sweep.html"
    page.write_text(sweep_page(sweep), encoding="utf-8")
    wanted = sweep.best("time")
    document = opened(page, f"device={wanted.name}&x=area_mm2")
    said = body_data(document)
    assert said["chosen"] == wanted.name
    assert (said["drawnfront"], said["drawnparallel"]) == ("2", "2")
    rows = cells(document)
    assert [row[0].removeprefix("● ") for row in rows] == [c.name for c in sweep.candidates]
    assert [row[0].startswith("●") for row in rows] == [
        c in sweep.front() for c in sweep.candidates
    ]
    assert "bus_bits=96 is not one of" in rows[2][-1]
    layers = re.findall(r'<div class="tables layers">.*?<tbody>(.*?)</tbody>', document, re.DOTALL)
    assert [text.count("<tr") for text in layers] == [len(wanted.rows[0]["layers"])]

    shown = re.search(r'<pre id="device-json"[^>]*>(.*?)</pre>', document, re.DOTALL)
    assert shown is not None
    file = tmp_path / "chosen.json"
    file.write_text(unescape(shown.group(1)), encoding="utf-8")
    assert json.loads(file.read_text()) == wanted.device
    compiled = compile(shared / "models" / FILE, str(file))
    inputs, outputs = golden(shared, FILE, 4)
    assert np.array_equal(compiled.run(*inputs)[0], outputs[0])
    assert sum(row.cycles or 0 for row in compiled.profile().rows) == wanted.rows[0]["cycles"]


def test_a_page_of_nothing_says_why(tmp_path: Path) -> None:
    space = Space(
        (SpaceAxis("base", "base", ("vtaq-tiny",)), SpaceAxis("device", "bus_bits", (96,)))
    )
    with open_pool(1) as pool, ResultStore(None) as store:
        sweep = run_sweep(space, [SweptNetwork("none", ".onnx", b"")], SweepPlan(), pool, store)
    page = tmp_path / "sweep.html"
    page.write_text(sweep_page(sweep), encoding="utf-8")
    document = opened(page)
    assert "No device runs all networks" in document
    assert body_data(document).get("openedms", "").isdigit()
