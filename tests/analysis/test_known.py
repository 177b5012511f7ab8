# SPDX-License-Identifier: Apache-2.0
"""analysis/known.py: kinds and models of the segments of a composite."""

from __future__ import annotations

from pathlib import Path

from tests.compiled import network


def test_kinds_and_multiplications(shared: Path) -> None:
    compiled = network(shared, "mlpt_ad_int8.tflite", "vtaq-1x16x16")
    known = compiled.known()
    names = [operator.name for operator in compiled.graph.operators]
    assert set(names) <= known.kinds.keys()
    assert {known.kinds[name] for name in names} >= {"dense"}
    assert sum(known.macs[name] for name in names) == 264192
    assert set(known.places.values()) == {"vtaq-1x16x16"}
