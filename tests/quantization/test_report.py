# SPDX-License-Identifier: Apache-2.0
"""The report: one row for each int8 tensor, as JSON and as a page."""

from __future__ import annotations

import json
from html.parser import HTMLParser
from typing import Any

import numpy as np
import pytest

from loadstone.quantization.options import Options
from loadstone.quantization.pipeline import quantize_prepared
from loadstone.quantization.report import as_html, as_json
from tests.float_models import images, runner


@pytest.fixture(scope="module")
def contents() -> dict[str, Any]:
    options = Options(sensitivity=True, host_cycles=100)
    return quantize_prepared(
        runner(), images(8), options, labels=np.arange(8) % 5, outputs=["scores"]
    ).report


def test_json_holds_every_tensor(contents: dict[str, Any]) -> None:
    again = json.loads(as_json(contents))
    assert again == json.loads(json.dumps(contents))
    assert again["samples"] == 8
    assert 0 <= again["top1"] <= 1
    assert again["float_top1"] is not None
    assert again["output_sqnr_db"][0] > 20
    found = runner().network
    assert [entry["name"] for entry in again["layers"]] == [
        layer.name for layer in found.layers if layer.output in found.quantized
    ]
    for entry in again["layers"]:
        low, high = entry["range"]
        assert high - low == pytest.approx(255 * entry["scale"])
        assert 0 <= entry["saturation"] < 0.5
        assert (
            entry["sqnr_db"] is None or entry["sqnr_db"] > 20
        )  # against the equalized network: the other's tensors have other ranges
        assert sum(entry["histogram"]["counts"]) > 0
    # One of them is the concatenation: its inputs have ranges of 14.6 and 5.1.
    assert sum("alone_sqnr_db" in entry for entry in again["layers"]) == 8
    assert again["host"] == [entry["name"] for entry in again["layers"] if entry["on_host"]]
    spent = sum(entry["host_cycles"] for entry in again["layers"] if entry["on_host"])
    assert 0 < spent <= 100


def test_the_page_is_well_formed_and_escapes_names(contents: dict[str, Any]) -> None:
    spoiled = {
        **contents,
        "layers": [
            {**contents["layers"][0], "name": "<script>alert(1)</script>&"},
            *contents["layers"][1:],
        ],
    }
    page = as_html(spoiled, "a <title>")

    class Counter(HTMLParser):
        def __init__(self) -> None:
            super().__init__()
            self.counts: dict[str, int] = {}

        def handle_starttag(self, tag: str, attrs: Any) -> None:
            self.counts[tag] = self.counts.get(tag, 0) + 1

    counter = Counter()
    counter.feed(page)
    assert "script" not in counter.counts
    assert counter.counts["tr"] == 1 + len(contents["layers"])
    assert counter.counts["svg"] == len(contents["layers"])
    assert "http" not in page


def test_weak_and_saturated_tensors_are_marked(contents: dict[str, Any]) -> None:
    fine = as_html(contents, "x").count("class=bad")
    layers = [{**contents["layers"][0], "sqnr_db": 3.0, "saturation": 0.2}, *contents["layers"][1:]]
    assert as_html({**contents, "layers": layers}, "x").count("class=bad") >= fine + 1
