# SPDX-License-Identifier: Apache-2.0
"""A slice of tests/proof_campaign.py on a small network: no mutant is proved that the simulator
shows different; and a proof that believed everything would be found out."""

from __future__ import annotations

import numpy as np
import pytest

pytest.importorskip("tvm", reason="TVM is not installed")

from loadstone.prove.verdict import Status
from tests.proof_campaign import Campaign, report
from tests.repeat import more, times
from tests.tflite_builder import Graph, Padding


def small_network() -> bytes:
    """A convolution, an addition and a dense layer."""
    graph, rng = Graph(), np.random.default_rng(5)
    x = graph.input((1, 6, 6, 4), np.int8, 0.05, 3)
    w = graph.constant(rng.integers(-90, 90, (4, 3, 3, 4)).astype(np.int8), 0.01)
    b = graph.constant(rng.integers(-900, 900, 4).astype(np.int32), 0.0005)
    y = graph.tensor((1, 6, 6, 4), np.int8, 0.06, -4)
    graph.operator(
        "CONV_2D",
        [x, w, b],
        [y],
        padding=Padding.SAME,
        stride_h=1,
        stride_w=1,
        dilation_h_factor=1,
        dilation_w_factor=1,
    )
    z = graph.tensor((1, 6, 6, 4), np.int8, 0.075, 1)
    graph.operator("ADD", [x, y], [z])
    v = graph.constant(rng.integers(-90, 90, (5, 144)).astype(np.int8), 0.01)
    c = graph.constant(rng.integers(-900, 900, 5).astype(np.int32), 0.0008)
    out = graph.tensor((1, 5), np.int8, 0.3, 2)
    graph.operator("FULLY_CONNECTED", [z, v, c], [out])
    return graph.save([out])


@pytest.mark.parametrize(
    ("device", "mutants"),
    [
        pytest.param("vtaq-1x16x16", 25, id="few"),
        pytest.param("vtaq-1x16x16", times(200, 3000), id="many"),
        pytest.param("vta-pynq", 500, id="vta-pynq", marks=more),
    ],
)
def test_no_mutant_is_proved_that_is_different(device: str, mutants: int) -> None:
    campaign = Campaign(small_network(), "small.tflite", device, inputs=64, seed=1)
    campaign.go(mutants)
    print(report(campaign.ends, inputs=64))
    assert campaign.wrong == []
    found = {(said, showed) for _, said, showed in campaign.ends}
    assert ("not proved", "different") in found
    assert ("proved", "equal") in found


def test_a_proof_that_believes_everything_is_found_out(monkeypatch: pytest.MonkeyPatch) -> None:
    campaign = Campaign(small_network(), "small.tflite", "vtaq-1x16x16", inputs=16, seed=2)
    monkeypatch.setattr(Campaign, "_said", lambda *_: Status.PROVED.name.lower())
    campaign.go(40)
    assert campaign.wrong
    told = report(campaign.ends, inputs=16).splitlines()[-1]
    assert told.startswith(f"40 mutants, {len(campaign.wrong)} proved and different; 0 not proved")
