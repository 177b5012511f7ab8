# SPDX-License-Identifier: Apache-2.0
"""Profiles of a sweep's front: one page for each device, option and network of it."""

from __future__ import annotations

from pathlib import Path

import pytest

pytest.importorskip("tvm", reason="TVM is not installed (the extra `compiler`)")

from loadstone.search.evaluate import SweptNetwork
from loadstone.search.space import Space, SpaceAxis
from loadstone.search.store import ResultStore
from loadstone.search.sweep import SweepPlan, run_sweep
from loadstone.search.sweep_page import sweep_page
from loadstone.search.sweep_profiles import write_profiles
from loadstone.search.workers import open_pool
from tests.search.small_network import small_network

SPACE = Space(
    (
        SpaceAxis("base", "base", ("vtaq-1x8x8",)),
        SpaceAxis("device", "bus_bits", (64, 96)),
        SpaceAxis("options", "strategy", ("eager",)),
    )
)


def test_the_front_has_profiles_that_the_page_links(tmp_path: Path) -> None:
    networks = [SweptNetwork("small", ".onnx", small_network())]
    with open_pool(1) as pool, ResultStore(None) as store:
        sweep = run_sweep(SPACE, networks, SweepPlan(), pool, store)
        files = write_profiles(sweep, networks, pool, tmp_path)
    (one,) = sweep.front()
    assert files == {(one.point, "small"): f"{one.name}-eager-small.html"}
    text = (tmp_path / f"{one.name}-eager-small.html").read_text()
    assert f'"cycles":{one.rows[0]["cycles"]}' in text.replace(" ", "")
    page = sweep_page(sweep, files).replace(" ", "")
    assert f'"profiles":["{one.name}-eager-small.html"]' in page
    assert '"profiles":[""]' in page
