"""What happens to accumulators after the sum: requantization, clamp, or plain ALU operations.

In:   a tuple of steps.
Out:  the steps as one TensorIR expression of nested pure externs.
Next: every schedule applies one; compute.py of ir_pass makes a call of each step.

The steps are externs, never arithmetic, because TVM's simplifier rewrites arithmetic: `((a - 4) * 1024 + 64) >> 7`
would become `(a * 1024 - 4032) >> 7`, whose immediate no longer fits 16 bits.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias

from loadstone._tvm import tirx
from loadstone.ir_pass.intrinsics import PREFIX
from loadstone.numerics import Rounding

__all__ = ["Immediate", "Operand", "Rq", "Step", "apply", "extern", "operand_rows"]


@dataclass(frozen=True)
class Rq:
    """clamp(requantize(x + bias, multiplier, shift) + zero_point, low, high); operand tiles come from DRAM."""

    zero_point: int
    low: int
    high: int
    rounding: Rounding


@dataclass(frozen=True)
class Immediate:
    """x op value. op: add, mul, min, max, shr."""

    op: str
    value: int


@dataclass(frozen=True)
class Operand:
    """x op tile, for a value per channel: row `row` of the operand tiles. op: add, shr."""

    op: str
    row: int


Step: TypeAlias = Rq | Immediate | Operand


def operand_rows(steps: Sequence[Step]) -> int:
    """Operand tiles that the steps read per channel block (of one Rq at most)."""
    return max((3 if isinstance(step, Rq) else step.row + 1 for step in steps if not isinstance(step, Immediate)), default=0)


def extern(name: str, *arguments: Any) -> Any:
    """One ALU operation as an opaque expression."""
    return tirx.call_pure_extern("int32", PREFIX + name, *arguments)


def apply(steps: Sequence[Step], value: Any, operands: Sequence[Any]) -> Any:
    """`value` after the steps. operands: this lane of the operand tiles; bias, multiplier and shift for Rq."""
    for step in steps:
        match step:
            case Rq():
                value = extern("rq", value, *operands, step.zero_point, step.low, step.high, int(step.rounding))
            case Immediate():
                value = extern(step.op, value, step.value)
            case Operand():
                value = extern(step.op, value, operands[step.row])
    return value
