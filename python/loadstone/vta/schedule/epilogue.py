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
class TieCorrection:
    """x + what the steps make of a copy of x: 0 or -1, to decide ties otherwise than a shift
    does."""

    steps: tuple[Immediate | RowOperand, ...]


Step: TypeAlias = Rq | Immediate | RowOperand | TieCorrection


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
            return operand_rows(step.steps)
    return 0


def tensor_steps(steps: Sequence[Step]) -> tuple[bool, ...]:
    """For every ALU instruction of the steps, whether its operand is a tile."""
    result: list[bool] = []
    for step in steps:
        if isinstance(step, TieCorrection):
            result += [
                False,
                True,
                *tensor_steps(step.steps),
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
            case TieCorrection():
                raise AssertionError("ties need a buffer of their own: use finish()")
    return value


def finish(
    acc: TeTensor, steps: Sequence[Step], operands: Callable[[tuple[Expr, ...]], Sequence[Expr]]
) -> tuple[TeTensor, list[str]]:
    """The steps as stages after the stage `acc`, element by element: the last one, and all their
    names, consumers first.

    operands: for the indices of an element, its lane of the operand tiles.
    """
    value, added = acc, None
    names: list[str] = []
    pending: list[Step] = []

    def stage(
        name: str, start: TeTensor, correction: TeTensor | None, group: Sequence[Step]
    ) -> TeTensor:
        def element(*at: Expr) -> Expr:
            head = start[at] if correction is None else extern("add", start[at], correction[at])
            return apply(group, head, operands(at))

        names.insert(0, name)
        return te.compute(acc.shape, element, name=name)

    for step in steps:
        if not isinstance(step, TieCorrection):
            pending.append(step)
            continue
        assert added is None, "one correction of ties at most"
        value = stage("sum", value, None, pending) if pending else value
        zero = te.compute(acc.shape, lambda *_: tirx.IntImm("int32", 0), name="zero")
        names.insert(0, "zero")
        added, pending = stage("ties", zero, value, step.steps), []
    if pending or added is not None:
        value = stage("tail", value, added, pending)
    return value, names


def cache_operands(s: Schedule, stages: Sequence[str]) -> SBlockRV | None:
    """Reads the operand tiles `p` through ACC, once for all stages; the block that does it, or None
    where nobody reads them."""
    for name in stages:
        block = s.get_sblock(name)
        for position, region in enumerate(s.get(block).reads):
            if str(region.source.name) == "p":
                return s.cache_read(block, position, "local.acc")
    return None
