# SPDX-License-Identifier: Apache-2.0
"""vta/rescale/ends.py: which ends are kept, and when the others need not be looked at."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from loadstone.vta.rescale import ends
from loadstone.vta.rescale.runs import Runs
from loadstone.vta.rescale.search import Trial
from tests.vta.rescale.made import made_runs

_SHIFT = 36


def _runs(rule: str, least: int = -60_000) -> Runs:
    scale = np.random.default_rng(5).uniform(0.001, 0.02, 40)
    return made_runs(scale, (least, 20_000), rule, -3)


def _trial(runs: Runs, distance: int, far: float = 1.0) -> Trial:
    """A line of the real scale or near it. far: 1 says the truth about how far it lies away."""
    slope = np.round(runs.scale * 2.0**_SHIFT).astype(np.int64) + distance
    off = np.abs(slope - runs.scale * 2.0**_SHIFT) * np.abs(np.stack(runs.changing)).max(axis=0)
    channels = np.arange(len(slope))
    shift = 0 * slope + _SHIFT
    return Trial(channels, lambda rows, acc: acc * slope[rows, None], shift, far * off)


def test_the_tightest_are_kept() -> None:
    runs = _runs("double")
    room = runs.scale[:, None] * runs.first - runs.value
    room = np.where(runs.value > runs.low, room, np.inf)
    for sign, own in enumerate((runs.last < 0, runs.last >= 0)):
        least = np.where(own, room, np.inf).min(axis=1)
        kept = runs.tight.first
        there = runs.scale[:, None] * kept.acc[:, sign] - kept.level[:, sign]
        there = np.where(kept.there[:, sign], there, np.inf)
        np.testing.assert_allclose(there.min(axis=1), least)
        assert kept.there[:, sign].sum(axis=1).max() == 12


@pytest.mark.parametrize(
    ("rule", "signed", "least"),
    [
        ("double", False, 50),  # of both signs no line is right
        ("double", True, -60_000),
        ("float32", False, -60_000),
        ("float32", True, -60_000),
    ],
)
def test_windows_are_exact(
    rule: str, signed: bool, least: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What the kept ends decide is what all ends say, where it is open."""
    runs, distances = _runs(rule, least), (0, 1, -7, 40, -300, 2000, -9000, 40_000)
    found = [_trial(runs, far).window(runs, signed=signed) for far in distances]
    monkeypatch.setattr(ends, "_POINTS", 1000)
    whole = replace(runs)  # a copy that knows no ends yet
    for far, window in zip(distances, found, strict=True):
        every = _trial(whole, far).window(whole, signed=signed)
        np.testing.assert_array_equal(window.open, every.open)
        for side in ("below", "above"):
            own, other = getattr(window, side), getattr(every, side)
            np.testing.assert_array_equal(own[window.open], other[window.open])
    assert any(window.open.any() for window in found)


def test_what_lies_far_away_is_not_decided_by_few() -> None:
    runs = _runs("double")
    near, far = np.zeros(40), np.full(40, 1.0)
    for signed in (False, True):
        assert runs.tight.decide(near, signed=signed).any()
        assert not runs.tight.decide(far, signed=signed).any()


def test_what_is_refused_has_no_line() -> None:
    """Double rounding on both signs; and a rule that some line gives is not refused."""
    runs, far = _runs("double"), np.full(40, 1e-6)
    refused = runs.tight.refuse(far)
    assert refused.any()
    for distance in (0, 1, -1, 16, -16):
        assert not _trial(runs, distance).window(runs, signed=False).open[refused].any()
    right = _runs("double", 50)
    window = _trial(right, 0).window(right, signed=False).open
    assert window.any()
    assert not right.tight.refuse(0 * far)[window].any()


def test_few_ends_are_all_kept() -> None:
    runs = made_runs(np.array([0.001]), (-2_000, 1_000), "double", 0)
    assert np.isinf(runs.tight.apart).all()
    assert runs.tight.decide(np.array([1e9]), signed=True).all()
