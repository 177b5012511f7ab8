# SPDX-License-Identifier: Apache-2.0
"""One unit: what is counted, and what goes wrong in it."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

pytest.importorskip("tvm", reason="TVM is not installed (the extra `compiler`)")

from loadstone.compiler import compile, quantize
from loadstone.search.evaluate import SweptNetwork, Unit, code_digest, evaluate
from loadstone.vta.device.hw_config import load_config
from tests.float_models import images, small_onnx
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


def test_a_float_network_is_quantized_where_the_device_computes_on_integers(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """The same network, samples and labels on devices of both number formats; quantized once for
    all that compute on integers."""
    called = []

    def counted(*arguments: Any, **options: Any) -> Any:
        called.append(options)
        return quantize(*arguments, **options)

    monkeypatch.setattr("loadstone.compiler.quantize", counted)
    network = SweptNetwork("float", ".onnx", small_onnx(), (images(16),), np.arange(16) % 5)
    devices = [load_config(name).to_json() for name in ("vtab-1x8x8", "vtaq-1x8x8", "vtaq-1x16x16")]
    rows = [evaluate(Unit(device, 0, {}), [network]) for device in devices]
    assert [row["why"] for row in rows] == [""] * 3
    assert called == [{"scheme": "affine", "per_channel": True}]
    assert rows[0]["constants_bytes"] > rows[1]["constants_bytes"]
    assert all(0 <= row["accuracy"] <= 1 for row in rows)
    alone = evaluate(Unit(devices[1], 0, {}), [replace(network, samples=())])
    assert "float is a float network, and the device computes on integers" in alone["why"]


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
