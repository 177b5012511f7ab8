# SPDX-License-Identifier: Apache-2.0
"""Expressions of TensorIR as affine functions of loops.

In:   an index or a condition, and the loops that are open around it.
Out:  an Index; of a condition the Indexes that are all not negative where it holds.
Next: from_tir.py reads accesses by them.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, TypeAlias

from loadstone.errors import LoweringError
from loadstone.ir_pass.affine import Index, Variable, lowest
from loadstone.relax.compat import is_tir_call, sym, tirx

if TYPE_CHECKING:
    from loadstone.relax.types import Expr

__all__ = ["OpenLoops", "bounds_of", "implied", "index_of"]

#: By the address of TVM's variable: to compare two of them makes an expression.
OpenLoops: TypeAlias = Mapping[int, Variable]

_ANALYZER = sym.Analyzer()
_NEVER = Index(-1, {})


def index_of(expr: Expr, loops: OpenLoops) -> Index:
    """Raises LoweringError for what is no sum of multiples of loops."""
    found = _sum(expr, loops)
    if found is None:
        found = _sum(_ANALYZER.simplify(expr), loops)
    if found is None:
        raise LoweringError(
            f"TensorIR: {expr} is no sum of multiples of loops: split a loop, so that each part of "
            "the index has its own"
        )
    return found


def _sum(expr: Expr, loops: OpenLoops) -> Index | None:
    """None for what is none."""
    if isinstance(expr, int | tirx.IntImm):
        return Index(expr if isinstance(expr, int) else int(expr.value), {})
    if isinstance(expr, tirx.Var):
        loop = loops.get(expr.__chandle__())
        return None if loop is None else Index(0, {loop: 1})
    if isinstance(expr, tirx.Cast):
        return _sum(expr.value, loops)
    if not isinstance(expr, tirx.Add | tirx.Sub | tirx.Mul):
        return None
    a, b = _sum(expr.a, loops), _sum(expr.b, loops)
    if a is None or b is None:
        return None
    if isinstance(expr, tirx.Mul):
        return _product(a, b)
    return a + b if isinstance(expr, tirx.Add) else a - b


def _product(a: Index, b: Index) -> Index | None:
    if a.terms and b.terms:
        return None
    return a * b.constant if a.terms else b * a.constant


def bounds_of(condition: Expr, loops: OpenLoops) -> list[Index]:
    """Raises LoweringError for what is no conjunction of comparisons."""
    if isinstance(condition, tirx.And):
        return [*bounds_of(condition.a, loops), *bounds_of(condition.b, loops)]
    if is_tir_call(condition, "likely"):
        return bounds_of(condition.args[0], loops)
    if isinstance(condition, tirx.IntImm):
        return [] if int(condition.value) else [_NEVER]
    if isinstance(condition, tirx.LT | tirx.LE | tirx.GT | tirx.GE | tirx.EQ):
        a, b = index_of(condition.a, loops), index_of(condition.b, loops)
        if isinstance(condition, tirx.LT):
            return [b - a - 1]
        if isinstance(condition, tirx.LE):
            return [b - a]
        if isinstance(condition, tirx.GT):
            return [a - b - 1]
        if isinstance(condition, tirx.GE):
            return [a - b]
        return [a - b, b - a]  # what TVM's simplifier makes of 2 <= v < 3
    raise LoweringError(f"TensorIR: the condition {condition} is no conjunction of comparisons")


def implied(bound: Index, by: Iterable[Index]) -> bool:
    """Whether an Index is never negative, or not where one of the others is not."""
    return lowest(bound) >= 0 or any(lowest(bound - other) >= 0 for other in by)
