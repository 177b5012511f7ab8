# SPDX-License-Identifier: Apache-2.0
"""The way from operations on virtual tiles to a device program: a list of passes.

In:   the operations of a region with their layers' names, and where each DRAM tensor stands.
Out:  a VtaProgram whose instructions are complete; the text behind each pass, for dumps.
Next: offload.py puts its bytes into an artifact; the simulator or the board runs it.

    SkipPads      products with padding of zeros are left out
    Prefetch      loads of weights move forward to where the load stage would wait
    Allocate      every virtual tile gets a scratchpad address; loads of what is still there go
    Encode        operations become instructions and micro-ops
    Synchronize   tokens order the stages

Each pass takes a program and returns another one. With LOADSTONE_VERIFY=1 in the environment, as in
the tests, the verifier of each runs behind it.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping, Sequence

from loadstone.backend.region import Address
from loadstone.vta.allocate import Allocate
from loadstone.vta.choices import NO_REGION_CHOICE, RegionChoice
from loadstone.vta.encode import Encode
from loadstone.vta.hw_config import HwConfig
from loadstone.vta.prefetch import Prefetch
from loadstone.vta.program import LayerOperation, ProgramPass, VtaProgram
from loadstone.vta.skip_pads import SkipPads
from loadstone.vta.synchronize import Synchronize

__all__ = ["PASSES", "build_program", "each_pass"]

PASSES: tuple[type[ProgramPass], ...] = (SkipPads, Prefetch, Allocate, Encode, Synchronize)


def build_program(
    operations: Sequence[LayerOperation],
    places: Mapping[str, Address],
    config: HwConfig,
    choice: RegionChoice = NO_REGION_CHOICE,
) -> VtaProgram:
    """`operations`: (layer, operation) in program order. Raises LoweringError when a pass meets
    what it cannot do."""
    *_, (_, program) = each_pass(VtaProgram(config, places, operations, choice=choice))
    return program


def each_pass(program: VtaProgram) -> Iterator[tuple[str, VtaProgram]]:
    """(name of the pass, the program behind it), in order."""
    verified = os.environ.get("LOADSTONE_VERIFY", "0") not in ("", "0")
    for made in PASSES:
        step = made()
        after = step.run(program)
        if verified:
            step.verify(program, after)
        yield step.name, after
        program = after
