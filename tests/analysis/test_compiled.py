# SPDX-License-Identifier: Apache-2.0
"""analysis/compiled.py: what is asked of a compiled model (its layers: test_expected.py)."""

from __future__ import annotations

from functools import cache

import numpy as np

from loadstone.analysis.compiled import Compiled
from loadstone.compiler import compile
from tests.float_models import images, module


@cache
def sample() -> Compiled:
    return compile(module(), "vtaq-1x16x16", samples=images(8))


def test_it_says_what_goes_in_and_comes_out() -> None:
    (entry,), (result,) = sample().inputs, sample().outputs
    assert (entry.name, entry.shape, entry.dtype, entry.scale) == ("in0", (1, 3, 12, 12), "f4", 0)
    assert (result.name, result.shape) == ("n12", (1, 5))
    (by_name,) = sample().run({"in0": images(3)})
    (in_order,) = sample().run(images(3))
    np.testing.assert_array_equal(by_name, in_order)
    assert by_name.shape == (3, 1, 5)


def test_what_quantizing_cost_stands_in_report_and_profile() -> None:
    quantized = sample().quantized
    assert quantized is not None
    assert sample().report()["quantization"]["samples"] == 8
    lost = {entry["name"]: entry["sqnr_db"] for entry in quantized.report["layers"]}
    rows = {row.name: row.sqnr_db for row in sample().profile().rows}
    assert rows["n1"] == lost["n1"]
    assert rows["n12/int8"] == lost["n12"]
    assert compile(quantized, "vtaq-1x16x16").quantized is None


def test_a_max_pool_multiplies_nothing() -> None:
    rows = {row.kind: row for row in sample().profile().rows}
    assert rows["max_pool2d"].macs == 0
    assert rows["conv2d"].macs > 0
