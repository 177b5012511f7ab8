# SPDX-License-Identifier: Apache-2.0
"""The way from operations on virtual tiles to a device program: a list of passes.

In:   a VtaProgram of a region's operations, and of where each DRAM tensor stands.
Out:  a VtaProgram whose instructions are complete; the text behind each pass, for dumps.
Next: region/offload.py puts its bytes into an artifact; the simulator or the board runs it.

    SkipPads      products with tiles of zeros are left out
    Prefetch      loads of weights move forward to where the load stage would wait
    Allocate      every virtual tile gets a scratchpad address; loads of what is still there go
    Encode        operations become instructions and micro-ops
    Synchronize   tokens order the stages

Each pass takes a program and returns another one. With LOADSTONE_VERIFY=1 in the environment, as in
the tests, the verifier of each runs behind it.
"""

from __future__ import annotations

from collections.abc import Iterator

from loadstone.vta.passes.allocate.allocate import Allocate
from loadstone.vta.passes.encode.encode import Encode
from loadstone.vta.passes.prefetch import Prefetch
from loadstone.vta.passes.program import ProgramPass, VtaProgram
from loadstone.vta.passes.skip_pads.skip_pads import SkipPads
from loadstone.vta.passes.synchronize.synchronize import Synchronize
from loadstone.vta.passes.verified import verified

__all__ = ["PASSES", "build_program", "each_pass"]

PASSES: tuple[type[ProgramPass], ...] = (SkipPads, Prefetch, Allocate, Encode, Synchronize)


def build_program(program: VtaProgram) -> VtaProgram:
    """The program behind all passes. Raises LoweringError when one meets what it cannot do."""
    *_, (_, program) = each_pass(program)
    return program


def each_pass(program: VtaProgram) -> Iterator[tuple[str, VtaProgram]]:
    """(name of the pass, the program behind it), in order."""
    for made in PASSES:
        step = made()
        after = step.run(program)
        if verified():
            step.verify(program, after)
        yield step.name, after
        program = after
