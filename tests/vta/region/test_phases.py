# SPDX-License-Identifier: Apache-2.0
"""phases.py: phases that are wrong are noticed, and those that are right are not."""

from __future__ import annotations

import numpy as np
import pytest

from loadstone.errors import VerificationError
from loadstone.vta.region.phases import Claim, Share, Way, verify_phases

TILES = 8


def claim(**ranges: tuple[int, int]) -> Claim:
    """By tensor, the first tile and the one behind the last; of one more, which is nobody's."""
    masks = {}
    for tensor, (begin, end) in ranges.items():
        masks[tensor] = np.zeros(TILES + 1, np.bool_)
        masks[tensor][begin:end] = True
    return Claim(masks)


def share(reads: Claim, writes: Claim) -> Share:
    return Share((), np.zeros(4, np.int64), reads, writes)


def halves(source: str, target: str, halo: int = 0) -> Way:
    """Of two devices, each with `halo` tiles of the other's half."""
    half = TILES // 2
    return Way(
        "halves",
        {
            0: share(claim(**{source: (0, half + halo)}), claim(**{target: (0, half)})),
            1: share(claim(**{source: (half - halo, TILES)}), claim(**{target: (half, TILES)})),
        },
    )


def whole(source: str, target: str, device: int) -> Way:
    every = (0, TILES)
    return Way("whole", {device: share(claim(**{source: every}), claim(**{target: every}))})


WRITTEN = claim(y=(0, TILES), z=(0, TILES))


@pytest.mark.parametrize(
    "phases",
    [
        [[(0, halves("x", "y")), (1, halves("y", "z"))]],
        [[(0, halves("x", "y", 1))], [(1, halves("y", "z", 1))]],
        [[(0, whole("x", "y", 1)), (1, whole("y", "z", 1))]],
        [[(0, whole("x", "y", 0)), (1, whole("x", "z", 1))]],
        [[(0, whole("x", "y", 0))], [(1, whole("y", "z", 1))]],
    ],
)
def test_what_may_start_together(phases: list[list[tuple[int, Way]]]) -> None:
    verify_phases(phases, 2, WRITTEN)


UPPER = Way("upper", {0: halves("y", "z").shares[0]})
THIRD = Way("a third tensor", {0: share(claim(), claim(z=(0, TILES), t=(0, 1)))})
SHIFTED = Way("as many tiles", {0: share(claim(), claim(z=(1, TILES + 1)))})
BOTH = Way("both", {0: whole("x", "y", 0).shares[0], 2: whole("x", "y", 0).shares[0]})


@pytest.mark.parametrize(
    ("phases", "said"),
    [
        ([[(0, halves("x", "y")), (1, halves("y", "z", 1))]], "devices 0 and 1 meet in phase 0"),
        ([[(0, whole("x", "y", 0)), (1, whole("y", "z", 1))]], "devices 0 and 1 meet in phase 0"),
        ([[(0, halves("x", "y"))], [(1, BOTH)]], "devices 0 and 2 meet in phase 1"),
        ([[(1, halves("y", "z"))], [(0, halves("x", "y"))]], "not in their order"),
        ([[(0, halves("x", "y"))]], "layers are missing"),
        ([[(0, halves("x", "y"))], [(1, UPPER)]], "of z other tiles are written"),
        ([[(0, halves("x", "y"))], [(1, Way("none", {}))]], "other tensors are written"),
        ([[(0, halves("x", "y"))], [(1, THIRD)]], "other tensors are written"),
        ([[(0, halves("x", "y"))], [(1, SHIFTED)]], "of z other tiles are written"),
    ],
)
def test_phases_that_are_wrong(phases: list[list[tuple[int, Way]]], said: str) -> None:
    with pytest.raises(VerificationError, match=said):
        verify_phases(phases, 2, WRITTEN)


def test_what_is_written_by_two_layers_counts_once() -> None:
    """Parts of a concatenation."""
    first = Way("first", {0: share(claim(), claim(y=(0, 3)))})
    second = Way("second", {1: share(claim(), claim(y=(3, 8)))})
    verify_phases([[(0, first), (1, second)]], 2, claim(y=(0, TILES)))
    overlapping = Way("second", {1: share(claim(), claim(y=(2, 8)))})
    with pytest.raises(VerificationError, match="meet"):
        verify_phases([[(0, first), (1, overlapping)]], 2, claim(y=(0, TILES)))
    verify_phases([[(0, first)], [(1, overlapping)]], 2, claim(y=(0, TILES)))


def test_one_tensor_of_several_is_enough() -> None:
    one, other = claim(x=(0, 4), y=(0, 4)), claim(x=(4, 8), y=(3, 8))
    assert one.meets(other)
    assert other.meets(one)
    assert not one.meets(claim(x=(4, 8), y=(4, 8), z=(0, 8)))
