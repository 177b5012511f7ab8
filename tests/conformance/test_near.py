# SPDX-License-Identifier: Apache-2.0
"""conformance/check.py with a back end whose requantizer is not the framework's: it passes within
its bound, and a device that is not what it states is found."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from loadstone.backend.plugins import load_plugins
from loadstone.backend.target import resolve
from loadstone.commands.conform import table
from loadstone.conformance import check
from loadstone.conformance.check import Verdict, conform
from tests.conftest import ROOT

NEAR = ROOT / "tests/backend/near"


def judged(target: str, folder: Path = NEAR) -> list[Verdict]:
    plugins = load_plugins([folder], installed=False)
    assert plugins.problems == []
    return list(conform(resolve(target, plugins), 4))


def of(verdicts: list[Verdict], outcome: str) -> list[Verdict]:
    return [verdict for verdict in verdicts if verdict.outcome == outcome]


def test_a_device_within_its_bound_passes_and_its_departures_are_counted() -> None:
    verdicts = judged("near-npu")
    assert of(verdicts, "wrong") == []
    found = [one for verdict in verdicts for one in verdict.departures]
    assert {one.largest for one in found} == {0, 1}
    different, elements = (sum(getattr(o, n) for o in found) for n in ("different", "elements"))
    assert 0 < different < elements / 20
    text = table(verdicts)
    assert f"rounded near: {different} of {elements} elements" in text
    assert "by 1 at most (stated: at most 1)" in text


def test_operators_beyond_the_bound_are_refused() -> None:
    verdicts = judged("near-npu -bits=3")
    assert of(verdicts, "wrong") == [v for v in verdicts if v.case.startswith("pattern ")]
    refused = [v.why for v in of(verdicts, "refused") if "rounding" in v.why]
    assert len(refused) > 4
    assert all("and the back end says at most 1" in why for why in refused)


def test_a_device_that_is_not_what_it_states_is_found() -> None:
    wrong = of(judged("near-npu -wrong=true"), "wrong")
    assert len(wrong) > 10
    assert all("elements differ from what its stated rounding gives" in v.why for v in wrong)
    assert {"conv2d", "dense", "residual"} <= {verdict.kind for verdict in wrong}
    assert "add" not in {verdict.kind for verdict in wrong}


@pytest.mark.parametrize(
    ("before", "after", "message"),
    [
        (
            "    assert isinstance(operator, Conv2D | Dense)\n        return Stated",
            "    return MultiplyShift.of(operator, 8)\n        return Stated",
            "BackendError: .*rounding of 'y': .*it returned MultiplyShift.*: a StatedR",
        ),
        ("added(a, b, factors(operator)), bound", "a + c, bound", "NameError: name 'c'"),
        ("added(a, b, factors(operator)), bound", "a * 1.0, bound", "gives float64"),
    ],
)
def test_a_rounding_that_is_none_is_named(
    tmp_path: Path, before: str, after: str, message: str
) -> None:
    text = (NEAR / "near_npu.py").read_text(encoding="utf-8")
    assert text.count(before) == 1
    (tmp_path / "npu.py").write_text(text.replace(before, after), encoding="utf-8")
    wrong = of(judged("near-npu", tmp_path), "wrong")
    assert wrong
    assert any(re.search(message, verdict.why) for verdict in wrong), wrong[0].why


def test_a_device_with_instructions_of_its_own(monkeypatch: pytest.MonkeyPatch) -> None:
    """Also what its instructions touch; addresses begin at multiples of 64 bytes."""
    kinds = ("dense", "conv2d", "autoencoder")
    monkeypatch.setattr(check, "CASES", {kind: check.CASES[kind] for kind in kinds})
    verdicts = judged("dot-engine", ROOT / "tests/backend/dot_engine")
    assert of(verdicts, "wrong") == []
    assert {verdict.kind for verdict in of(verdicts, "taken")} == set(kinds)
    assert {one.largest for verdict in verdicts for one in verdict.departures} == {0, 1}
