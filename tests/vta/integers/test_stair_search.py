# SPDX-License-Identifier: Apache-2.0
"""vta/integers/stair_search.py: what it finds, and when it stops."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import pytest

from loadstone.vta.integers.runs import Runs
from loadstone.vta.integers.stair_search import LOST, Division, StairSearch, divisions
from tests.repeat import times
from tests.vta.integers.made import TIED_LANES, tied_layer

BLOCK = [np.arange(TIED_LANES)]


def test_divisions_begin_with_the_cheapest_and_end_at_small_outputs() -> None:
    one_sided = [d for d in divisions(tied_layer(0)) if not d.fine]
    assert [(d.edges, d.sign) for d in one_sided] == [
        ((), None),
        ((), 0),
        ((-64,), 0),
        ((-96, -64), 0),
        ((-112, -96, -64), 0),
    ]
    edges = [d for d in divisions(tied_layer(0, 0)) if d.sign is not None]
    assert edges[0].sign == 64
    assert edges[0].edges == (-64,)


@pytest.mark.parametrize("zero_point", [-128, 5])
@pytest.mark.parametrize("seed", range(times(1, 20)))
def test_constants_are_right_at_every_change(seed: int, zero_point: int) -> None:
    """As the stairs' floors are made of them: y + constant reaches each output where the rule does,
    and not before."""
    runs, changes = tied_layer(seed, zero_point), 0
    for division in divisions(runs):
        search = StairSearch(runs, BLOCK, division)
        search.run(patient=True)
        for lane in np.flatnonzero(search.ok):
            for before, behind, value in _changes(runs, lane):
                (stair,) = (
                    number
                    for number, step in enumerate(search.steps)
                    if step.low < value <= step.high and value % 2 == step.parity
                )
                assert _reached(search, lane, stair, behind) >= value
                assert _reached(search, lane, stair, before) < value
                changes += 1
    assert changes


def _changes(runs: Runs, lane: int) -> Iterator[tuple[int, int, int]]:
    """The accumulators beside each change of the output, and what it becomes."""
    rows = (runs.last[lane, :-1], runs.first[lane, 1:], runs.value[lane, :-1], runs.value[lane, 1:])
    for before, behind, old, new in zip(*(row.tolist() for row in rows), strict=True):
        if new > old:
            yield before, behind, new


def _reached(search: StairSearch, lane: int, stair: int, acc: int) -> int:
    """The output that a sum with a stair's constant reaches."""
    x = (acc + int(search.offset[lane])) << int(search.left[lane])
    low, middle = (x + 128) % 256 - 128, ((x + 128 >> 8) + 128) % 256 - 128
    top = min(max((x + 128 >> 8) + 128 >> 8, -128), 127)
    sign = -1 if top < 0 else 0
    y = int(search.multipliers[:, lane] @ np.array([low, middle, top]))
    y += 0 if search.division.sign is None else sign
    constant = int(search.constants[stair, lane]) + sign * int(search.sign[stair, lane])
    return (y >> LOST) + constant >> int(search.unit[lane])


def test_a_block_that_lacks_many_channels_is_given_up() -> None:
    """Unless there is patience."""
    hasty, patient = (StairSearch(tied_layer(0, 5), BLOCK, Division((), None)) for _ in range(2))
    hasty.run(patient=False)
    patient.run(patient=True)
    assert (~hasty.ok).sum() > 2
    assert not hasty.open.any()
    assert patient.open.all()
