# SPDX-License-Identifier: Apache-2.0
"""The epilogue of a sum: requantization, clamp, or plain ALU operations on accumulators.

In:   the integers of an operator's constants.
Out:  a tuple of steps, and the operands that they read.
Next: alu_steps.py writes them as steps of nests; tile.py estimates their cycles.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TypeAlias

from loadstone.numerics import Rounding

__all__ = [
    "ConstantProduct",
    "Immediate",
    "RowOperand",
    "Rq",
    "Step",
    "TieCorrection",
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
    """The number of constant weight tiles per channel block that the steps read."""
    rows = [
        product_rows(step.steps)
        if isinstance(step, TieCorrection)
        else (step.row + 1 if isinstance(step, ConstantProduct) else 0)
        for step in steps
    ]
    return max(rows, default=0)


def tensor_steps(steps: Sequence[Step]) -> tuple[bool, ...]:
    """For every ALU instruction of the steps, whether its operand is a tile. A GEMM step with a
    constant counts as one with an immediate, because it takes as many cycles."""
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
