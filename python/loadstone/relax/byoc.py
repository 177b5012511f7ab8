# SPDX-License-Identifier: Apache-2.0
"""TVM's own table of patterns (BYOC), with rows that take what was marked before.

In:   rows of a name and a pattern (`register`); a function and the marks of its calls (`marked`).
Out:  TVM's table under these names; a function whose calls carry marks through TVM's passes.
Next: loadstone/tvm.py marks what Loadstone's partition takes; FuseOpsByPattern then finds that.

A check of TVM's sees a match, and neither the function's attributes nor the target. Who runs an
operator is therefore decided before, by Loadstone's partition, and stands in the spans of the
calls, which every pass keeps.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, TypeAlias

from loadstone.errors import UnsupportedError
from loadstone.relax.compat import bindings, name_of, relax, retyped, tvm
from loadstone.relax.rewriter import Rewriter

if TYPE_CHECKING:
    from loadstone.relax.types import (
        Call,
        DFPattern,
        Expr,
        IRModule,
        PatternCheckContext,
        RelaxFunction,
        Span,
        Var,
    )

__all__ = ["NUMERICS", "marked", "numerics_of", "register"]

#: A row as TVM takes it: name, pattern, parts with names, check.
_Row: TypeAlias = (
    "tuple[str, DFPattern, dict[str, DFPattern], Callable[[PatternCheckContext], bool]]"
)

#: The attribute of `main` with the rules by which its integers are rounded.
NUMERICS = "loadstone.numerics"
#: Its values, in the order of their numbers in a mark. What says nothing is Relax's own meaning.
_RULES = ("onnx", "torch", "tflite", "tflite_micro", "tflite_uint8")
#: In a span's line: a call that no row takes; a row's number is added to it.
_SEEN = 1
#: The rows of TVM's table that are ours, and what makes their patterns: name -> number from 1.
_ROWS: dict[str, int] = {}
_PATTERNS: set[tuple[str, Callable[[], DFPattern]]] = set()


def register(rows: Sequence[tuple[str, Callable[[], DFPattern]]]) -> None:
    """Adds rows (name, what makes the pattern) to TVM's table, preferred ones first; a name may
    have several. What stands there already is left out, so that a second call changes nothing."""
    new = [row for row in rows if row not in _PATTERNS]
    _PATTERNS.update(new)
    for name, _ in new:
        _ROWS.setdefault(name, len(_ROWS) + 1)
    table: list[_Row] = [(name, pattern(), {}, _check(_ROWS[name])) for name, pattern in new]
    relax.backend.pattern_registry.register_patterns(table[::-1])  # later ones come first there


def _check(row: int) -> Callable[[PatternCheckContext], bool]:
    """Whether the partition takes a match by that row. Raises UnsupportedError, through TVM, for a
    module that was not marked: nothing of it would be found."""

    def check(context: PatternCheckContext) -> bool:
        span = getattr(context.matched_expr, "span", None)
        if span is None or span.line < _SEEN:
            raise UnsupportedError(
                "patterns loadstone.*: the module has no marks: call loadstone.tvm.prepare(module, "
                "target) first, which says what the target runs"
            )
        return bool(span.line == _SEEN + row)

    return check


def marked(module: IRModule, rows: Mapping[str, str]) -> IRModule:
    """The module with every call of `main` marked. rows: name of a call -> the row whose match ends
    in it. The rules of `main` stand in every mark: a function that TVM makes of some calls has no
    attributes. Raises UnsupportedError for rules that nobody knows."""
    others = {v: f for v, f in module.functions.items() if v.name_hint != "main"}
    return tvm.IRModule({**others, "main": _Marked(module["main"], rows).run()})


class _Marked(Rewriter):
    def __init__(self, function: RelaxFunction, rows: Mapping[str, str]) -> None:
        super().__init__(function)
        self.rows = rows
        said = str(function.attrs[NUMERICS]) if NUMERICS in function.attrs else _RULES[0]
        if said not in _RULES:
            raise UnsupportedError(f"{NUMERICS} {said!r} is not one of {', '.join(_RULES)}")
        self.rules = _RULES.index(said)

    def visit(self, variable: Var, value: Expr) -> Expr:
        new = self.mapped(value)
        if not isinstance(value, relax.Call):
            return self.emit(new)
        name = name_of(value) or ""
        row = _ROWS[self.rows[name]] if name in self.rows else 0
        span = tvm.ir.Span(tvm.ir.SourceName(name), _SEEN + row, 0, self.rules, 0)
        call = relax.Call(new.op, new.args, new.attrs, new.ty_args, span=span)
        return self.emit(retyped(call, value.ty))


def numerics_of(module: IRModule) -> str:
    """The rules in the marks of a module's calls; "" where there are none. Raises UnsupportedError
    for marks of two networks."""
    found = {
        _RULES[span.column]
        for function in module.functions.values()
        for span in map(_span, _calls(function))
        if span is not None and span.line >= _SEEN
    }
    if len(found) > 1:
        raise UnsupportedError(f"a function of networks with the rules {', '.join(sorted(found))}")
    return next(iter(found), "")


def _span(call: Call) -> Span | None:
    return getattr(call, "span", None)


def _calls(function: RelaxFunction) -> list[Call]:
    return [value for _, value in bindings(function) if isinstance(value, relax.Call)]
