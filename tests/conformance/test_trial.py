# SPDX-License-Identifier: Apache-2.0
"""conformance/trial.py: an instruction on copies changes nothing of what it was given; places in
words; ranges of DRAM that overlap or meet."""

from __future__ import annotations

import numpy as np
import pytest

from loadstone.conformance.trial import Trial, differing
from loadstone.isa.form import Reach
from loadstone.isa.state import Dram, DramWindow, MachineFault, MachineState

BASE = 0x100


def state() -> MachineState:
    data = np.arange(64, dtype=np.uint8)
    memory = {"pad": np.arange(32, dtype=np.int16).reshape(8, 4)}
    return MachineState(Dram([DramWindow(BASE, data)]), memory)


def swap(state: MachineState, _: object) -> None:
    """Four bytes of DRAM and the first lanes of two rows change places."""
    held = state.dram.read(BASE + 4, 4)
    state.dram.write(BASE + 8, state.memory["pad"][2:4, :2].astype(np.uint8).ravel())
    state.memory["pad"][3] = held[0]


READ = Reach("dram", "address"), BASE + 4, BASE + 8
WRITTEN = Reach("dram", "address", writes=True), BASE + 8, BASE + 12
ROWS = Reach("pad", "row"), 2, 4
ROW = Reach("pad", "row", writes=True), 3, 4


def test_the_state_stays_as_it_was() -> None:
    given = state()
    dram, pad = given.dram.windows[0].data.copy(), given.memory["pad"].copy()
    trial = Trial(swap, {}, given, [READ, WRITTEN, ROWS, ROW])
    for others in (0, 1):
        for contents in range(3):
            trial.run(others, contents=contents)
    assert np.array_equal(given.dram.windows[0].data, dram)
    assert np.array_equal(given.memory["pad"], pad)


def test_what_is_named_decides_all_that_is_written() -> None:
    trial = Trial(swap, {}, state(), [READ, WRITTEN, ROWS, ROW])
    one, other = trial.run(), trial.run(others=1)
    assert not differing(one, other)
    assert other.changed("pad").tolist() == [3]
    assert {trial.place("dram", row) for row in other.changed("dram")} <= {
        hex(BASE + k) for k in (8, 9, 10, 11)
    }


def test_a_row_that_no_reach_reads_is_found() -> None:
    trial = Trial(swap, {}, state(), [READ, WRITTEN, ROW])
    plain = trial.run()
    assert differing(plain, trial.run(others=1))
    assert trial.unnamed_source(plain, 0) == ("pad", 2)


def test_bytes_that_no_reach_names_are_no_memory() -> None:
    trial = Trial(swap, {}, state(), [(READ[0], BASE + 4, BASE + 7), WRITTEN, ROWS, ROW])
    with pytest.raises(MachineFault, match="cannot be read"):
        trial.run()
    trial = Trial(swap, {}, state(), [READ, (READ[0], BASE + 8, BASE + 12), ROWS, ROW])
    with pytest.raises(MachineFault, match="cannot be written"):
        trial.run()


def test_first_and_last_places_are_touched_or_not() -> None:
    wider = [(READ[0], BASE + 3, BASE + 8), WRITTEN, (ROWS[0], 1, 5), ROW]
    trial = Trial(swap, {}, state(), wider)
    assert [trial.touches(READ[0], BASE + k) for k in (3, 4, 7)] == [False, True, True]
    assert [trial.touches(ROWS[0], row) for row in (1, 2, 3, 4)] == [False, True, True, False]
    assert trial.touches(WRITTEN[0], BASE + 8)
    assert trial.touches(ROW[0], 3)


def test_places_in_words() -> None:
    trial = Trial(swap, {}, state(), [READ, WRITTEN, ROWS])
    assert trial.said("dram") == "named: 0x104 to 0x107 read, 0x108 to 0x10b written"
    assert trial.said("pad") == "named: 2 to 3 read"
    assert Trial(swap, {}, state(), []).said("pad") == "named: none"
