# SPDX-License-Identifier: Apache-2.0
"""How long one instruction works, and how long it takes the port.

In:   a form and its fields; a port and a reach.
Out:  cycles.
Next: machine.py and token_clock.py count with them; program_tokens.py chooses by them.
"""

from __future__ import annotations

from collections.abc import Mapping
from math import ceil

from loadstone.isa.accelerator import Port
from loadstone.isa.form import DRAM, InstructionForm, Reach
from loadstone.isa.terms import term_value

__all__ = ["port_cycles", "work_cycles"]


def work_cycles(form: InstructionForm, values: Mapping[str, int]) -> int:
    """Of the unit, its transfers left out."""
    return form.cycles + sum(ceil(each * term_value(term, values)) for term, each in form.per)


def port_cycles(port: Port, reach: Reach, values: Mapping[str, int]) -> int:
    """What a reach of DRAM takes of the port; 0 for another memory."""
    if reach.memory != DRAM:
        return 0

    run, runs = term_value(reach.extent, values), 1
    for count, stride in reversed(reach.loops):
        if runs == 1 and term_value(stride, values) == run:
            run *= term_value(count, values)
        else:
            runs *= term_value(count, values)
    each = -(-run // port.bytes_per_cycle) + -(-run // port.burst_bytes) * port.burst_cycles
    return port.latency_cycles + runs * each
