# SPDX-License-Identifier: Apache-2.0
"""isa/touch_clock.py: units wait for registers (memories: test_machine.py)."""

from __future__ import annotations

from loadstone.isa.machine import TableMachine
from loadstone.isa.state import Dram
from tests.isa import registered
from tests.isa.registered import ADD, BEGIN, run


def test_a_register_orders_units() -> None:
    """FACTOR works in another unit than ADD, which waits for it, and the next FACTOR for ADD."""
    machine = TableMachine(registered.device(), Dram([]), trace=True)
    events = run([*BEGIN, ADD, BEGIN[2], ADD], machine).events
    begin = {k: event.start for k, event in enumerate(events)}
    end = {k: event.end for k, event in enumerate(events)}
    assert begin[3] >= end[2]
    assert begin[4] >= end[3]
    assert begin[5] >= end[4]
