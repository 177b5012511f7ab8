# SPDX-License-Identifier: Apache-2.0
"""What an epilogue does to an accumulator, as steps of a nest.

In:   steps of epilogue.py that one instruction of the ALU does; the accumulator, and where the
      operand tiles stand.
Out:  `alu_step`: the NestStep.
Next: conv_computation.py, elementwise.py put them into nests.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeAlias

from loadstone.ir_pass.nests import NestAccess, NestStep
from loadstone.vta.schedule.epilogue import Immediate, RowOperand, Rq

__all__ = ["AluStep", "alu_step"]

#: A step that the ALU does in place. The others need products, or a second accumulator.
AluStep: TypeAlias = Rq | Immediate | RowOperand


def alu_step(step: AluStep, value: NestAccess, operand: Callable[[int], NestAccess]) -> NestStep:
    """value: the accumulator. operand: the operand tile of a row; an RQ reads bias, multiplier and
    shift from three, of which row 0 is the first."""
    match step:
        case Rq():
            immediates = (step.zero_point, step.low, step.high, int(step.rounding))
            return NestStep("rq", (value, operand(0)), immediates)
        case Immediate():
            return NestStep(step.op, (value,), (step.value,))
        case RowOperand():
            return NestStep(step.op, (value, operand(step.row)))
