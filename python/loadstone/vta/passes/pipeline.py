# SPDX-License-Identifier: Apache-2.0
"""The way from operations on virtual tiles to a device program: a list of passes.

In:   a VtaProgram of a region's operations, and of where each DRAM tensor stands.
Out:  a VtaProgram whose instructions are complete; in a PassLog the text behind each pass.
Next: region/offload.py puts its bytes into an artifact; the simulator or the board runs it.

    SkipPads          products with tiles of zeros are left out
    StoreRequantize   what is only stored behind an RQ is requantized by its store
    Weave             layers of a chain take turns
    StoreInp          what the next layer reads from INP is stored there, where it has room
    Prefetch          loads of weights move forward to where the load stage would wait
    Allocate          every virtual tile gets a scratchpad address; loads of what is still there go
    Encode            operations become instructions and micro-ops
    Synchronize       tokens order the stages

Each pass takes a program and returns another one. With --verify, and in the tests, the verifier of
each runs behind it.
"""

from __future__ import annotations

from loadstone.passes.log import PassLog
from loadstone.vta.passes.allocate.allocate import Allocate
from loadstone.vta.passes.encode.encode import Encode
from loadstone.vta.passes.prefetch import Prefetch
from loadstone.vta.passes.program import ProgramPass, VtaProgram
from loadstone.vta.passes.skip_pads.skip_pads import SkipPads
from loadstone.vta.passes.store_inp.store_inp import StoreInp
from loadstone.vta.passes.store_requantize.store_requantize import StoreRequantize
from loadstone.vta.passes.synchronize.synchronize import Synchronize
from loadstone.vta.passes.weave import Weave

__all__ = ["PASSES", "build_program"]

PASSES: tuple[type[ProgramPass], ...] = (
    SkipPads,
    StoreRequantize,
    Weave,
    StoreInp,
    Prefetch,
    Allocate,
    Encode,
    Synchronize,
)


def build_program(program: VtaProgram, log: PassLog | None = None) -> VtaProgram:
    """The program behind all passes. log: of them. Raises LoweringError when one meets what it
    cannot do, and VerificationError where its verifier finds what does not hold."""
    log = log or PassLog()
    for made in PASSES:
        step = made()
        program = log.run(step.name, step.run, program, verify=step.verify, show=VtaProgram.text)
    return program
