# SPDX-License-Identifier: Apache-2.0
"""One unit: what is counted, and what goes wrong in it."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

pytest.importorskip("tvm", reason="TVM is not installed (the extra `compiler`)")

from loadstone.compiler import compile
from loadstone.search.evaluate import SweptNetwork, Unit, code_digest, evaluate
from loadstone.vta.hw_config import load_config
from tests.search.small_network import small_network

NETWORK = SweptNetwork("small", ".onnx", small_network())


def test_right_answers_are_counted(tmp_path: Path) -> None:
    """Labels that are the network's own answers, but for one of four."""
    rng = np.random.default_rng(0)
    samples = rng.integers(-128, 128, (4, 1, 16, 20, 20)).astype(np.int8)
    (tmp_path / "small.onnx").write_bytes(NETWORK.content)
    scores = compile(tmp_path / "small.onnx", "vtaq-1x8x8").run(samples)[0]
    labels = scores.reshape(4, -1).argmax(axis=1)
    labels[2] += 1
    unit = Unit(load_config("vtaq-1x8x8").to_json(), 0, {})
    asked = replace(NETWORK, samples=(samples,), labels=labels)
    assert evaluate(unit, [asked])["accuracy"] == 0.75
    assert asked.digest != NETWORK.digest


def test_a_mistake_of_ours_is_a_row(monkeypatch: pytest.MonkeyPatch) -> None:
    def broken(*_: object) -> None:
        raise ZeroDivisionError("of ours")

    monkeypatch.setattr("loadstone.search.evaluate.profile", broken)
    row = evaluate(Unit(load_config("vtaq-1x8x8").to_json(), 0, {}), [NETWORK])
    assert not row["feasible"]
    assert row["why"].startswith("a mistake of the compiler: ZeroDivisionError: of ours")


def test_a_file_that_is_no_network_is_a_row() -> None:
    row = evaluate(
        Unit(load_config("vtaq-tiny").to_json(), 0, {}), [SweptNetwork("bad", ".onnx", b"no")]
    )
    assert not row["feasible"]
    assert row["why"].startswith("bad.onnx")
    assert len(code_digest()) == 64
