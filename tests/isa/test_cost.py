# SPDX-License-Identifier: Apache-2.0
"""isa/cost.py: cycles of a unit, and of the port."""

from __future__ import annotations

from fractions import Fraction

from loadstone.isa.accelerator import Port
from loadstone.isa.cost import port_cycles, work_cycles
from loadstone.isa.form import Bits, InstructionForm, Reach


def test_what_is_begun_is_a_whole_cycle() -> None:
    per = (("n*m", Fraction(1, 4)), ("n", 2))
    form = InstructionForm("work", 1, (Bits("n", 8), Bits("m", 8)), cycles=3, per=per)
    assert work_cycles(form, {"n": 3, "m": 3}) == 3 + 3 + 6


def test_runs_that_follow_each_other_are_one_transfer() -> None:
    port = Port(bytes_per_cycle=4, burst_bytes=8, burst_cycles=1, latency_cycles=10)
    gaps = Reach("dram", "address", (("n", 32),), 16)
    whole = Reach("dram", "address", (("n", 16),), 16)
    assert port_cycles(port, gaps, {"n": 3}) == 10 + 3 * (4 + 2)
    assert port_cycles(port, whole, {"n": 3}) == 10 + 12 + 6
    assert port_cycles(port, Reach("pad", "row"), {"n": 3}) == 0
