# SPDX-License-Identifier: Apache-2.0
"""Do instructions fit their fields, stay in their scratchpads, and find the micro-ops they name?

In:   a VtaProgram with instructions.
Out:  nothing, or a LoweringError that names the instruction.
Next: the verifier of encode.py; tests run it behind the pass.

The micro-op scratchpad is filled as the LOADs of UOP say; what GEMM and ALU then reach is worked
out from the micro-ops that stand in it and held against what the instruction claims to touch, which
is what synchronize/synchronize.py orders it by.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from loadstone.errors import EncodingError, LoweringError
from loadstone.vta.isa.codec import encode_stream
from loadstone.vta.isa.insn import Alu, Gemm, Load
from loadstone.vta.isa.instruction_columns import PendingInstruction, ScratchRange
from loadstone.vta.isa.spec import UOP_BYTES, AluOp, Memory
from loadstone.vta.passes.program import UOP_TENSOR, VtaProgram

__all__ = ["verify_encoding"]

#: A micro-op that nobody loaded.
_UNKNOWN = -1


def verify_encoding(program: VtaProgram) -> None:
    """Raises LoweringError at the first instruction that is wrong."""
    try:
        encode_stream([pending.insn for pending in program.instructions], program.config)
    except EncodingError as error:
        raise LoweringError(f"encode: {error}") from None
    resident = np.full((program.config.depth(Memory.UOP), 3), _UNKNOWN, np.int64)
    for number, pending in enumerate(program.instructions):
        for touched in pending.scratch:
            depth = program.config.depth(touched.memory)
            if not 0 <= touched.first < touched.end <= depth:
                raise _wrong(number, pending, f"leaves {touched.memory.name} of {depth} tiles")
        insn = pending.insn
        if isinstance(insn, Load) and insn.memory_id == Memory.UOP:
            first = insn.dram_base - program.places[UOP_TENSOR].offset_bytes // UOP_BYTES
            rows = program.uops[first : first + insn.x_size]
            resident[insn.sram_base : insn.sram_base + insn.x_size] = rows
        elif isinstance(insn, Gemm | Alu):
            used = resident[insn.uop_bgn : insn.uop_end]
            if not len(used) or (used == _UNKNOWN).any():
                raise _wrong(number, pending, "uses micro-ops that were not loaded")
            if set(_reach(insn, used)) != set(pending.scratch):
                raise _wrong(number, pending, "touches other tiles than it claims")


def _wrong(number: int, pending: PendingInstruction, why: str) -> LoweringError:
    return LoweringError(f"encode: instruction {number} ({pending.name}) {why}")


def _reach(insn: Gemm | Alu, uops: NDArray[np.int64]) -> list[ScratchRange]:
    """Its micro-ops, and the tiles that these and the loops reach, as a range for each operand."""
    operands = [("dst", Memory.ACC, 0)]
    if isinstance(insn, Gemm) and not insn.reset:
        operands += [("src", Memory.INP, 0), ("wgt", Memory.WGT, 0)]
    elif isinstance(insn, Alu):
        operands.append(("src", Memory.ACC, 2 if insn.alu_op == AluOp.RQ else 0))
    ranges = [ScratchRange(Memory.UOP, insn.uop_bgn, insn.uop_end, False)]
    for column, (name, memory, more) in enumerate(operands):
        moved = (insn.iter_out - 1) * int(getattr(insn, f"{name}_out"))
        moved += (insn.iter_in - 1) * int(getattr(insn, f"{name}_in"))
        first, last = int(uops[:, column].min()), int(uops[:, column].max())
        ranges.append(ScratchRange(memory, first, last + moved + 1 + more, column == 0))
    return ranges
