# SPDX-License-Identifier: Apache-2.0
"""analysis/stated.py and `loadstone compare --target`: a device that rounds near is compared with
what it states, and its departures from the framework are printed."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest

from loadstone.backend.plugins import Registry, load_plugins
from loadstone.backend.template.test_backend import small_model
from loadstone.cli import main
from loadstone.compiler import Compiled, compile
from tests.conftest import ROOT

NEAR = ROOT / "tests/backend/near"


@pytest.fixture(scope="module")
def plugins() -> Registry:
    return load_plugins([NEAR], installed=False)


@pytest.fixture(scope="module")
def network(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return small_model(tmp_path_factory.mktemp("stated") / "small.onnx")


def samples(path: Path) -> Path:
    x = np.random.default_rng(1).integers(-128, 128, (2, 1, 3, 9, 9)).astype(np.int8)
    np.savez(path / "x.npz", in0=x)
    return path / "x.npz"


def made(network: Path, plugins: Registry, target: str, rounding: str) -> Compiled:
    return compile(network, target, plugins=plugins, rounding=rounding)


def test_without_near_it_is_refused_with_the_remedy(network: Path, plugins: Registry) -> None:
    compiled = made(network, plugins, "near-npu", "exact")
    rows = [row for row in compiled.explain() if row["kind"] == "conv2d"]
    assert rows
    for row in rows:
        assert row["where"] == "host"
        assert "its rounding is not the framework's: at most 1 level off (proven" in row["why"]
        assert row["remedy"] == "--rounding near"


def test_with_near_it_is_taken_and_its_bound_is_shown(network: Path, plugins: Registry) -> None:
    compiled = made(network, plugins, "near-npu", "near")
    rows = [row for row in compiled.explain() if row["kind"] == "conv2d"]
    assert {row["where"] for row in rows} == {"near-npu"}
    assert all(
        "rounded near: at most 1 level off (proven for the sums of" in r["how"] for r in rows
    )
    assert all("(stated: at most 1)" in row["how"] for row in rows)


def test_a_rounding_beyond_its_bound_is_refused(network: Path, plugins: Registry) -> None:
    compiled = made(network, plugins, "near-npu -bits=3", "near")
    reasons = [row for row in compiled.explain() if row["kind"] == "conv2d"]
    assert any("and the back end says at most 1" in row["why"] for row in reasons)
    assert any("StatedRounding(..., bound=" in row["remedy"] for row in reasons)


def test_in_memory_it_equals_what_is_stated(
    network: Path, plugins: Registry, tmp_path: Path
) -> None:
    x = np.load(samples(tmp_path))["in0"]
    assert made(network, plugins, "near-npu", "near").compare(x, sample=1).equal
    wrong = made(network, plugins, "near-npu -wrong=true", "near").compare(x)
    assert not wrong.equal


def test_the_command(
    network: Path, plugins: Registry, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    compiled = made(network, plugins, "near-npu -bits=6 -bound=9", "near")
    file = str(tmp_path / "net.lds")
    compiled.save(file)
    words = ["compare", file, "--inputs", str(samples(tmp_path)), "--against", str(network)]
    words += ["--uma-backends", str(NEAR)]
    assert main(words) == 1
    assert "first different in layer" in capsys.readouterr().out
    target = ["--target", "near-npu -bits=6 -bound=9"]
    assert main([*words, *target]) == 0
    text = capsys.readouterr().out
    assert "all equal" in text
    assert "operators are rounded near, 0 of them further" in text
    assert "(stated: at most 9)" in text
    assert main([*words, *target, "--json"]) == 0
    said = json.loads(capsys.readouterr().out)
    assert any(one["different"] for one in said["departures"].values())
    assert all(one["largest"] <= one["stated"] for one in said["departures"].values())
    assert main([*words, "--target", "near-npu -bits=31"]) == 1, "the device is another one"
    assert "first different in layer" in capsys.readouterr().out
    assert main([*words[:-4], "--against", "reference", *words[-2:], *target]) == 2
    assert "--against reference is none" in capsys.readouterr().err
