# SPDX-License-Identifier: Apache-2.0
"""Perfect loop nests: recognising one, and reading its accesses and bounds as affine functions of
its loops.

In:   a statement of a lowered PrimFunc.
Out:  `PerfectNest`: loops, conditions and the one store inside; operands and axes of its accesses.
Next: dma_copy.py and compute.py make one intrinsic call of it.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, NamedTuple

from loadstone.errors import LoweringError
from loadstone.ir_pass.intrinsics import Axis, BufferOperand, extents
from loadstone.relax.compat import TensorLoad, is_tir_call, sym, tirx

if TYPE_CHECKING:
    from loadstone.relax.types import BufferStore, Expr, Stmt, Var

__all__ = ["Bound", "PerfectNest", "access", "axes", "bounds", "map_nests", "perfect_nest"]


_ZERO = tirx.IntImm("int32", 0)
_ANALYZER = sym.Analyzer()


@dataclass(frozen=True)
class PerfectNest:
    """Loops (variable, extent) from the outermost, the conditions on the way, and the store in the
    middle."""

    loops: tuple[tuple[Var, int], ...]
    conditions: tuple[Expr, ...]
    store: BufferStore

    @cached_property
    def positions(self) -> dict[int, int]:
        """Of each loop's variable, by its address: to compare two variables makes an
        expression."""
        return {
            variable.__chandle__(): position for position, (variable, _) in enumerate(self.loops)
        }


@dataclass(frozen=True)
class Bound:
    """coefficient * loop + base >= 0. loop: its position in the nest, or None where the condition
    has no loop of the nest."""

    loop: int | None
    coefficient: int
    base: Expr


def perfect_nest(stmt: Stmt) -> PerfectNest | None:
    """The nest that begins at `stmt`, or None where loops or conditions hold more than one
    store."""
    loops: list[tuple[Var, int]] = []
    conditions: list[Expr] = []
    while True:
        if isinstance(stmt, tirx.For):
            if not (
                isinstance(stmt.extent, tirx.IntImm)
                and isinstance(stmt.min, tirx.IntImm)
                and int(stmt.min.value) == 0
            ):
                return None
            loops.append((stmt.loop_var, int(stmt.extent.value)))
            stmt = stmt.body
        elif isinstance(stmt, tirx.IfThenElse) and stmt.else_case is None:
            conditions.append(stmt.condition)
            stmt = stmt.then_case
        elif isinstance(stmt, tirx.BufferStore):
            return PerfectNest(tuple(loops), tuple(conditions), stmt)
        else:
            return None


def map_nests(stmt: Stmt, replace: Callable[[PerfectNest], Stmt | None]) -> Stmt:
    """The statement with every perfect nest for which `replace` gives a statement replaced by
    it."""
    nest = perfect_nest(stmt)
    if nest is not None:
        replacement = replace(nest)
        return stmt if replacement is None else replacement
    if isinstance(stmt, tirx.SeqStmt):
        return tirx.stmt_seq(*[map_nests(part, replace) for part in stmt.seq[:]])
    if isinstance(stmt, tirx.For):
        body = map_nests(stmt.body, replace)
        return tirx.For(
            stmt.loop_var,
            stmt.min,
            stmt.extent,
            stmt.kind,
            body,
            stmt.thread_binding,
            stmt.annotations,
        )
    if isinstance(stmt, tirx.IfThenElse):
        otherwise = None if stmt.else_case is None else map_nests(stmt.else_case, replace)
        return tirx.IfThenElse(stmt.condition, map_nests(stmt.then_case, replace), otherwise)
    return stmt


def access(
    node: TensorLoad | BufferStore, nest: PerfectNest
) -> tuple[BufferOperand, tuple[int, ...]]:
    """A load or store as the operand at the loops' origin, and its stride per loop in elements of
    the buffer."""
    buffer = node.source if isinstance(node, TensorLoad) else node.buffer
    origin: list[Expr] = []
    strides = [0] * len(nest.loops)
    step = 1  # elements from one index of a dimension to the next
    # A slice is a list at once; what iterates over TVM's arrays asks for each element's bounds.
    for index, size in zip(node.indices[::-1], extents(buffer)[::-1], strict=True):
        base: Expr = index
        if isinstance(index, tirx.Var):  # most are a loop's variable, or no loop's
            position = nest.positions.get(index.__chandle__())
            if position is not None:
                strides[position] += step
                base = _ZERO
        elif not isinstance(index, tirx.IntImm):
            coefficients, base = _affine(index, nest)
            for position, coefficient in enumerate(coefficients):
                strides[position] += coefficient * step
        origin.append(base)
        step *= size
    return BufferOperand(buffer, tuple(origin[::-1])), tuple(strides)


def axes(
    nest: PerfectNest, strides: Sequence[tuple[int, ...]], inside: Sequence[Expr] = ()
) -> tuple[Axis, ...]:
    """The nest's loops with the strides of its operands, clipped by its conditions; `inside`:
    conditions outside which a pad is read.

    A condition without a loop of the nest becomes an axis of extent 1 that is executed (or inside)
    only where it holds.
    """
    if not nest.conditions and not inside:
        return tuple(
            Axis(extent, own, 0, extent)
            for (_, extent), own in zip(nest.loops, zip(*strides, strict=True), strict=True)
        )
    guards, pads = bounds(nest.conditions, nest), bounds(inside, nest)
    result = []
    for position, (_, extent) in enumerate(nest.loops):
        first, last = _interval(extent, [bound for bound in guards if bound.loop == position])
        own = [bound for bound in pads if bound.loop == position]
        limits = _interval(extent, own) if own else (None, None)
        result.append(
            Axis(extent, tuple(stride[position] for stride in strides), first, last, *limits)
        )
    still = (0,) * len(strides)
    outer = [Axis(1, still, 0, _holds(bound)) for bound in guards if bound.loop is None]
    outer += [Axis(1, still, 0, 1, 0, _holds(bound)) for bound in pads if bound.loop is None]
    return (*outer, *result)


def bounds(conditions: Sequence[Expr], nest: PerfectNest) -> list[Bound]:
    """Conditions (and their conjuncts) as bounds of single loops. Raises LoweringError on any
    other."""
    return [
        bound
        for condition in conditions
        for part in _conjuncts(condition)
        for bound in _bound(part, nest)
    ]


def _conjuncts(condition: Expr) -> list[Expr]:
    if isinstance(condition, tirx.And):
        return _conjuncts(condition.a) + _conjuncts(condition.b)
    return _conjuncts(condition.args[0]) if is_tir_call(condition, "likely") else [condition]


def _bound(condition: Expr, nest: PerfectNest) -> list[Bound]:
    if isinstance(condition, tirx.EQ):  # what the simplifier makes of 2 <= v < 3
        return [
            *_bound(condition.a <= condition.b, nest),
            *_bound(condition.a >= condition.b, nest),
        ]
    differences = {
        tirx.LT: lambda c: c.b - c.a - 1,
        tirx.LE: lambda c: c.b - c.a,
        tirx.GT: lambda c: c.a - c.b - 1,
        tirx.GE: lambda c: c.a - c.b,
    }
    if type(condition) not in differences:
        raise LoweringError(f"ir_pass: condition {condition} is not a comparison")
    coefficients, base = _affine(differences[type(condition)](condition), nest)
    loops = [position for position, coefficient in enumerate(coefficients) if coefficient]
    if len(loops) > 1:
        raise LoweringError(f"ir_pass: condition {condition} bounds more than one loop")
    return [Bound(loops[0], coefficients[loops[0]], base) if loops else Bound(None, 0, base)]


def _interval(extent: int, limits: Sequence[Bound]) -> tuple[Expr, Expr]:
    """[first, last) of a loop under its bounds."""
    if not limits:
        return 0, extent
    first: Expr = tirx.IntImm("int32", 0)
    last: Expr = tirx.IntImm("int32", extent)
    for bound in limits:
        if bound.coefficient > 0:  # loop >= ceil(-base / coefficient)
            first = tirx.max(first, 0 - tirx.floordiv(bound.base, bound.coefficient))
        else:
            last = tirx.min(last, tirx.floordiv(bound.base, -bound.coefficient) + 1)
    return _simplify(first), _simplify(last)


def _holds(bound: Bound) -> Expr:
    """1 where base >= 0, at most 0 where not: the end of an axis of extent 1."""
    return _simplify(tirx.min(tirx.IntImm("int32", 1), bound.base + 1))


def _affine(expr: Expr, nest: PerfectNest) -> tuple[list[int], Expr]:
    coefficients = [0] * len(nest.loops)
    if isinstance(expr, tirx.IntImm) or not coefficients:
        return coefficients, expr
    terms = _terms(expr)
    if terms is not None:
        others = []
        for address, (variable, coefficient) in terms.variables.items():
            position = nest.positions.get(address)
            if position is not None:
                coefficients[position] = coefficient
            elif coefficient:
                others.append((variable, coefficient))
        if len(others) < 2:
            return coefficients, _sum_of(others, terms.constant)
    return _solved(expr, nest)


def _solved(expr: Expr, nest: PerfectNest) -> tuple[list[int], Expr]:
    """By TVM, what is more than a sum of multiples."""
    variables = [variable for variable, _ in nest.loops]
    result = sym.detect_linear_equation(_simplify(expr), variables)
    coefficients = result[:-1] if result else []
    if not result or not all(isinstance(coefficient, tirx.IntImm) for coefficient in coefficients):
        raise LoweringError(
            f"ir_pass: {expr} is not affine in the loops "
            f"{[variable.name for variable in variables]}"
        )
    return [int(coefficient.value) for coefficient in coefficients], _simplify(result[-1])


class _Terms(NamedTuple):
    """constant + the sum of multiples of variables: (variable, coefficient) by its address."""

    variables: dict[int, tuple[Var, int]]
    constant: int


def _terms(expr: Expr) -> _Terms | None:
    """Of a sum of multiples, as most indices are; None for anything else."""
    if isinstance(expr, tirx.Var):
        return _Terms({expr.__chandle__(): (expr, 1)}, 0)
    if isinstance(expr, tirx.IntImm):
        return _Terms({}, int(expr.value))
    if isinstance(expr, tirx.Mul) and isinstance(expr.b, tirx.IntImm):
        return _added(_Terms({}, 0), _terms(expr.a), int(expr.b.value))
    if isinstance(expr, (tirx.Add, tirx.Sub)):
        return _added(_terms(expr.a), _terms(expr.b), 1 if isinstance(expr, tirx.Add) else -1)
    return None


def _added(a: _Terms | None, b: _Terms | None, factor: int) -> _Terms | None:
    """a + factor * b."""
    if a is None or b is None:
        return None
    for address, (variable, coefficient) in b.variables.items():
        _, before = a.variables.get(address, (variable, 0))
        a.variables[address] = (variable, before + factor * coefficient)
    return _Terms(a.variables, a.constant + factor * b.constant)


def _sum_of(terms: Sequence[tuple[Var, int]], constant: int) -> Expr:
    """At most one multiple, and a constant: in the form that TVM's simplifier gives it."""
    if not terms:
        return tirx.IntImm("int32", constant)
    ((variable, coefficient),) = terms
    if coefficient < 0:
        return constant - variable * -coefficient
    multiple = variable * coefficient
    return multiple + constant if constant >= 0 else multiple - -constant


def _simplify(expr: Expr) -> Expr:
    return expr if isinstance(expr, (int, tirx.IntImm)) else _ANALYZER.simplify(expr)
