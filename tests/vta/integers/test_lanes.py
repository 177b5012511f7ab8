# SPDX-License-Identifier: Apache-2.0
"""vta/integers/lanes.py: what is said of lanes side by side, block by block."""

from __future__ import annotations

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from loadstone.vta.integers.lanes import Lanes
from tests.repeat import times

quick = settings(max_examples=times(30, 300), deadline=None, derandomize=True)


@given(st.data(), st.integers(1, 8), st.integers(1, 60))
@quick
def test_each_block_has_its_own_lanes(data: st.DataObject, block: int, count: int) -> None:
    every = range(-(-count // block))
    numbers = sorted(data.draw(st.sets(st.sampled_from(every), min_size=1)))
    lanes = Lanes.of(numbers, block, count)
    places = sorted(data.draw(st.sets(st.sampled_from(range(len(numbers))), min_size=1)))
    some, own = lanes.some(places)
    channels = {number: list(range(count))[number * block :][:block] for number in numbers}
    wanted = [channels[numbers[place]] for place in places]
    assert list(some.numbers) == [numbers[place] for place in places]
    assert some.channels.tolist() == lanes.channels[own].tolist()
    assert some.channels.tolist() == [channel for its in wanted for channel in its]
    values = np.random.default_rng(count).integers(-5, 5, count)
    cut = [values[its] for its in wanted]
    side_by_side = values[some.channels]
    assert some.least(side_by_side).tolist() == [its.min() for its in cut]
    assert some.most(side_by_side).tolist() == [its.max() for its in cut]
    assert some.any(side_by_side > 3).tolist() == [bool((its > 3).any()) for its in cut]
    each = some.each(some.most(side_by_side))
    assert each.tolist() == [its.max() for its in cut for _ in its]
