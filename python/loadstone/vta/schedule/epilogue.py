# SPDX-License-Identifier: Apache-2.0
"""What happens to accumulators after the sum: requantization, clamp, or plain ALU operations.

In:   a tuple of steps.
Out:  the steps as one TensorIR expression of nested pure externs.
Next: every schedule applies one; ir_pass/compute.py makes a call of each step.

The steps are externs, never arithmetic, because TVM's simplifier rewrites arithmetic: `((a - 4) *
1024 + 64) >> 7` would become `(a * 1024 - 4032) >> 7`, whose immediate no longer fits 16 bits.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, TypeAlias

from loadstone.ir_pass.intrinsics import PREFIX
from loadstone.numerics import Rounding
from loadstone.relax.compat import te, tirx

if TYPE_CHECKING:
    from loadstone.relax.types import Expr, SBlockRV, Schedule, TeTensor

__all__ = [
    "ConstantProduct",
    "Immediate",
    "RowOperand",
    "Rq",
    "Step",
    "TieCorrection",
    "apply",
    "cache_operands",
    "extern",
    "finish",
    "operand_rows",
    "product_rows",
    "tensor_steps",
]


@dataclass(frozen=True)
class Rq:
    """clamp(requantize(x + bias, multiplier, shift) + zero_point, low, high); operand tiles come
    from DRAM."""

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
class RowOperand:
    """x op tile, for a value per channel: row `row` of the operand tiles. op: add, shr."""

    op: str
    row: int


@dataclass(frozen=True)
class ConstantProduct:
    """x + a value per channel, by one GEMM step: a constant input tile times weight tile `row` of
    the channel block (constants.product_tiles). A step costs half of what RowOperand does.

    Only as the first of the steps after a sum, or of those on a copy.
    """

    row: int


@dataclass(frozen=True)
class TieCorrection:
    """What `kept` makes of x, plus what `steps` make of a copy of x: to decide ties otherwise than
    a shift does."""

    steps: tuple[Immediate | RowOperand | ConstantProduct, ...]
    kept: tuple[Immediate | RowOperand, ...] = ()


Step: TypeAlias = Rq | Immediate | RowOperand | ConstantProduct | TieCorrection


def operand_rows(steps: Sequence[Step]) -> int:
    """Operand tiles that the steps read per channel block (of one Rq at most)."""
    return max((_rows(step) for step in steps), default=0)


def _rows(step: Step) -> int:
    match step:
        case Rq():
            return 3
        case RowOperand():
            return step.row + 1
        case TieCorrection():
            return operand_rows((*step.steps, *step.kept))
    return 0


def product_rows(steps: Sequence[Step]) -> int:
    """Weight tiles of constants that the steps read per channel block."""
    rows = [
        product_rows(step.steps)
        if isinstance(step, TieCorrection)
        else (step.row + 1 if isinstance(step, ConstantProduct) else 0)
        for step in steps
    ]
    return max(rows, default=0)


def tensor_steps(steps: Sequence[Step]) -> tuple[bool, ...]:
    """For every ALU instruction of the steps, whether its operand is a tile; a GEMM of constants
    counts as one with an immediate, which takes as long."""
    result: list[bool] = []
    for step in steps:
        if isinstance(step, TieCorrection):
            result += [
                False,
                True,
                *tensor_steps((*step.steps, *step.kept)),
                True,
            ]  # clear a tile, copy, the steps, add
        else:
            result.append(isinstance(step, RowOperand))
    return tuple(result)


def extern(name: str, *arguments: Expr) -> Expr:
    """One ALU operation as an opaque expression."""
    return tirx.call_pure_extern("int32", PREFIX + name, *arguments)


def apply(steps: Sequence[Step], value: Expr, operands: Sequence[Expr]) -> Expr:
    """`value` after the steps. operands: this lane of the operand tiles; bias, multiplier and shift
    for Rq."""
    for step in steps:
        match step:
            case Rq():
                value = extern(
                    "rq", value, *operands, step.zero_point, step.low, step.high, int(step.rounding)
                )
            case Immediate():
                value = extern(step.op, value, step.value)
            case RowOperand():
                value = extern(step.op, value, operands[step.row])
            case ConstantProduct() | TieCorrection():
                raise AssertionError(f"{step} needs a buffer of its own: use finish()")
    return value


def finish(
    acc: TeTensor,
    steps: Sequence[Step],
    operands: Callable[[tuple[Expr, ...]], Sequence[Expr]],
) -> tuple[TeTensor, list[str]]:
    """The steps as a stage after the stage `acc`, element by element: it, and its name.

    operands: for the indices of an element, its lane of the operand tiles.
    """
    if not steps:
        return acc, []
    return te.compute(acc.shape, lambda *at: apply(steps, acc[at], operands(at)), name="tail"), [
        "tail"
    ]


def cache_operands(s: Schedule, stages: Sequence[str]) -> SBlockRV | None:
    """Reads the operand tiles `p` through ACC, once for all stages; the block that does it, or None
    where nobody reads them."""
    for name in stages:
        block = s.get_sblock(name)
        for position, region in enumerate(s.get(block).reads):
            if str(region.source.name) == "p":
                return s.cache_read(block, position, "local.acc")
    return None
