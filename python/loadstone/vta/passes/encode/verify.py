# SPDX-License-Identifier: Apache-2.0
"""Do instructions fit their fields, stay in their scratchpads, find the micro-ops they name, and
touch what they claim?

In:   a VtaProgram with instructions.
Out:  nothing, or a LoweringError that names the instruction.
Next: the verifier of encode.py; tests run it behind the pass.

The micro-op scratchpad is filled as the LOADs of UOP say; what GEMM and ALU then reach is worked
out from the micro-ops that stand in it, and what LOAD and STORE copy from their fields. Both are
held against what the instruction claims to touch, which is what synchronize/synchronize.py orders
it by.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from loadstone.errors import EncodingError, LoweringError
from loadstone.vta.device.hw_config import HwConfig
from loadstone.vta.isa.codec import encode_stream
from loadstone.vta.isa.insn import Alu, Gemm, Insn, Load, Store
from loadstone.vta.isa.instruction_columns import DramRows, PendingInstruction, ScratchRange
from loadstone.vta.isa.spec import SCRATCHPAD_OF, UOP_BYTES, AluOp, Memory
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
        insn, scratch = pending.insn, list[ScratchRange]()
        if isinstance(insn, Load | Store):
            scratch = [_copied(insn)]
        elif isinstance(insn, Gemm | Alu):
            used = resident[insn.uop_bgn : insn.uop_end]
            if not len(used) or (used == _UNKNOWN).any():
                raise _wrong(number, pending, "uses micro-ops that were not loaded")
            scratch = _reach(insn, used)
        if set(scratch) != set(pending.scratch):
            raise _wrong(number, pending, "touches other tiles than it claims")
        if _rows(insn, program.config) != pending.dram:
            raise _wrong(number, pending, "touches other bytes of DRAM than it claims")
        if isinstance(insn, Load) and insn.memory_id == Memory.UOP:
            first = insn.dram_base - program.places[UOP_TENSOR].offset_bytes // UOP_BYTES
            rows = program.uops[first : first + insn.x_size]
            resident[insn.sram_base : insn.sram_base + insn.x_size] = rows


def _wrong(number: int, pending: PendingInstruction, why: str) -> LoweringError:
    return LoweringError(f"encode: instruction {number} ({pending.name}) {why}")


def _copied(insn: Load | Store) -> ScratchRange:
    """The tiles of a copy, which follow each other: rows with their pads."""
    rows, width, is_load = insn.y_size, insn.x_size, isinstance(insn, Load)
    if isinstance(insn, Load):
        rows += insn.y_pad_0 + insn.y_pad_1
        width += insn.x_pad_0 + insn.x_pad_1
    memory = SCRATCHPAD_OF[Memory(insn.memory_id)]
    return ScratchRange(memory, insn.sram_base, insn.sram_base + rows * width, is_load)


def _rows(insn: Insn, config: HwConfig) -> DramRows | None:
    """The bytes of a copy in DRAM."""
    if not isinstance(insn, Load | Store):
        return None
    size = config.tile_bytes(Memory(insn.memory_id))
    row, stride = insn.x_size * size, insn.x_stride * size
    return DramRows(
        insn.region, insn.dram_base * size, insn.y_size, row, stride, isinstance(insn, Store)
    )


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
