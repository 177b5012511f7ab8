# SPDX-License-Identifier: Apache-2.0
"""Do instructions fit their fields, stay in their scratchpads, and find the micro-ops they name?

In:   a VtaProgram with instructions.
Out:  nothing, or a LoweringError that names the instruction.
Next: the verifier of encode.py; tests run it behind the pass.

What an instruction touches follows from the table of the device's instructions: the micro-op
scratchpad is filled as the LOADs of UOP say, and GEMM and ALU go through what stands in it. That is
held against the scratchpads, and against what the instruction claims to touch, which is what
synchronize/synchronize.py orders it by.
"""

from __future__ import annotations

from loadstone.errors import EncodingError, LoweringError
from loadstone.isa.codec import TableInsn, check_fields
from loadstone.isa.follow import Follower, InDram, Placed, ProgramRefusal, Touched
from loadstone.isa.form import InstructionForm
from loadstone.isa.hazards import Touch
from loadstone.isa.table import InstructionTable
from loadstone.vta.device.instruction_table import instruction_table
from loadstone.vta.isa.instruction_columns import PendingInstruction
from loadstone.vta.isa.spec import MAX_REGIONS
from loadstone.vta.passes.program import UOP_TENSOR, VtaProgram

__all__ = ["verify_encoding"]


def verify_encoding(program: VtaProgram) -> None:
    """Raises LoweringError at the first instruction that is wrong."""
    table = instruction_table(program.config)
    follower = Follower(table, _Constants(program), [(k, 0) for k in range(MAX_REGIONS)])
    for number, pending in enumerate(program.instructions):
        insn = TableInsn(pending.insn.SPEC.name, pending.insn.values())
        try:
            form = check_fields(table, insn)
            touched = _touched(table, form, pending, follower)
        except (EncodingError, ProgramRefusal) as error:
            raise _wrong(number, pending, str(error)) from None
        if {each.touch for each in touched} != set(_claimed(pending)):
            raise _wrong(number, pending, "touches other places than it claims")


class _Constants:
    """The micro-ops where they stand; what else a program reads is of no interest."""

    def __init__(self, program: VtaProgram) -> None:
        self._place = program.places.get(UOP_TENSOR)
        self._data = program.uop_words().tobytes()

    def __call__(self, place: Placed, size: int) -> bytes | None:
        if self._place is None or place[0] != int(self._place.region):
            return None
        at = place[1] - self._place.offset_bytes
        return self._data[at : at + size] if 0 <= at <= len(self._data) - size else None


def _touched(
    table: InstructionTable,
    form: InstructionForm,
    pending: PendingInstruction,
    follower: Follower,
) -> list[Touched]:
    """What an instruction touches of scratchpads and DRAM, all of which is there."""
    fields = pending.insn.values()
    found = follower.touched(form, fields, {})
    for each in found:
        if isinstance(each.touch.space, str):
            depth = table.by_memory[each.touch.space].rows
            if each.end > depth:
                raise ProgramRefusal("SRAM", f"leaves {each.touch.space.upper()} of {depth} tiles")
    follower.done(form, fields, {}, found)
    return [each for each in found if isinstance(each.touch.space, str | InDram)]


def _claimed(pending: PendingInstruction) -> list[Touch]:
    """The same as the instruction claims."""
    found = [
        Touch.of(
            one.memory.name.lower(),
            one.first,
            [(one.rows, one.stride)],
            one.end - one.first,
            one.written,
        )
        for one in pending.scratch
    ]
    if pending.dram is not None:
        region, start, rows, row_bytes, stride, written = pending.dram
        found.append(Touch.of(InDram(region), start, [(rows, stride)], row_bytes, written))
    return found


def _wrong(number: int, pending: PendingInstruction, why: str) -> LoweringError:
    return LoweringError(f"encode: instruction {number} ({pending.name}) {why}")
