# SPDX-License-Identifier: Apache-2.0
"""The changes of a module that its tests must notice.

In:   the syntax tree of a module.
Out:  `mutations`: each change, which can be made and taken back: a comparison, a limit by one, an
      operand of `and` or `or` that no longer counts, a sign, a truth value, a statement left out.
Next: mutants.py runs the tests of a judge on each.

Annotations, decorators, `__all__`, and texts (messages, docstrings) stay as they are: what they
say is not what a judge decides.
"""

from __future__ import annotations

import ast
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

__all__ = ["Mutation", "mutations"]

_COMPARISONS: dict[type[ast.cmpop], type[ast.cmpop]] = {
    ast.Lt: ast.LtE,
    ast.LtE: ast.Lt,
    ast.Gt: ast.GtE,
    ast.GtE: ast.Gt,
    ast.Eq: ast.NotEq,
    ast.NotEq: ast.Eq,
    ast.Is: ast.IsNot,
    ast.IsNot: ast.Is,
    ast.In: ast.NotIn,
    ast.NotIn: ast.In,
}
_OPERATORS: dict[type[ast.operator], type[ast.operator]] = {
    ast.Add: ast.Sub,
    ast.Sub: ast.Add,
    ast.Mult: ast.FloorDiv,
    ast.FloorDiv: ast.Mult,
    ast.LShift: ast.RShift,
    ast.RShift: ast.LShift,
    ast.BitAnd: ast.BitOr,
    ast.BitOr: ast.BitAnd,
}
_NAMES = {
    name: other
    for pair in (("min", "max"), ("any", "all"), ("minimum", "maximum"))
    for name, other in (pair, pair[::-1])
}
#: Characters of what a constant stands in.
SHOWN = 80
_LEFT_OUT = (ast.Raise, ast.Assert, ast.AugAssign, ast.Continue)


@dataclass(frozen=True)
class Mutation:
    """One change. line: its number; text: what is there, and what takes its place. make: changes
    the tree, and returns what changes it back."""

    line: int
    text: str
    make: Callable[[], Callable[[], None]]


def mutations(tree: ast.Module) -> list[Mutation]:
    """All changes of the module, in the order of its lines."""
    found = list(_of_children(tree))
    return sorted(found, key=lambda mutation: mutation.line)


def _of_children(node: ast.AST) -> Iterator[Mutation]:
    for name, value in ast.iter_fields(node):
        if name in ("annotation", "returns", "type_params", "decorator_list"):
            continue
        for place, child in enumerate(value) if isinstance(value, list) else [(None, value)]:
            if not isinstance(child, ast.AST) or _is_text(child):
                continue
            if isinstance(child, ast.stmt):
                yield from _of_statement(child, value, place)
            elif isinstance(child, ast.expr):
                yield from _of_expression(child, _shown(child, node))
            yield from _of_children(child)


def _is_text(node: ast.AST) -> bool:
    """Texts, and what is said to readers and type checkers alone."""
    if isinstance(node, ast.Assign | ast.AnnAssign):
        target = node.targets[0] if isinstance(node, ast.Assign) else node.target
        is_alias = isinstance(node, ast.AnnAssign) and "TypeAlias" in ast.unparse(node.annotation)
        return is_alias or (isinstance(target, ast.Name) and target.id == "__all__")
    if isinstance(node, ast.If):
        return isinstance(node.test, ast.Name) and node.test.id == "TYPE_CHECKING"
    return isinstance(node, ast.JoinedStr | ast.Import | ast.ImportFrom)


def _of_statement(node: ast.stmt, body: object, place: int | None) -> Iterator[Mutation]:
    """Left out: a refusal, a check that is called, a step of a sum, the end of a turn."""
    is_call = isinstance(node, ast.Expr) and isinstance(node.value, ast.Call)
    if isinstance(body, list) and place is not None and (is_call or isinstance(node, _LEFT_OUT)):
        text = f"{_short(node)} -> pass"
        yield Mutation(node.lineno, text, lambda: _exchange(body, place, ast.Pass()))
    if isinstance(node, ast.If) and not isinstance(node.test, ast.BoolOp | ast.Compare):
        for constant in (False, True):
            yield _change(node, "test", node.test, ast.Constant(constant))


def _shown(node: ast.expr, parent: ast.AST) -> ast.AST:
    """A constant alone says little: what it stands in, where that is short."""
    if isinstance(node, ast.Constant) and isinstance(parent, ast.expr | ast.keyword):
        return parent if len(_short(parent)) <= SHOWN else node
    return node


def _of_expression(node: ast.expr, shown: ast.AST) -> Iterator[Mutation]:
    match node:
        case ast.Compare(ops=ops):
            for place, op in enumerate(ops):
                yield _element(node, ops, place, _COMPARISONS[type(op)]())
        case ast.BoolOp(op=op, values=values):
            other = ast.Or() if isinstance(op, ast.And) else ast.And()
            yield _change(node, "op", node, other)
            for place in range(len(values)):
                yield _operand(values, place, ast.Constant(isinstance(op, ast.And)))
        case ast.UnaryOp(op=ast.Not(), operand=operand):
            yield _change(node, "operand", node, ast.UnaryOp(ast.Not(), operand))
        case ast.UnaryOp(op=ast.USub()):
            yield _change(node, "op", node, ast.UAdd())
        case ast.UnaryOp(op=ast.Invert(), operand=operand):
            yield _change(node, "operand", node, ast.UnaryOp(ast.Invert(), operand))
        case ast.BinOp(op=op) if type(op) in _OPERATORS:
            yield _change(node, "op", node, _OPERATORS[type(op)]())
        case ast.Constant(value=bool() as value):
            yield _change(node, "value", shown, not value, node.lineno)
        case ast.Constant(value=int() as value):
            for other_value in (value - 1, value + 1):
                yield _change(node, "value", shown, other_value, node.lineno)
        case ast.Call(func=ast.Name(id=name) as function) if name in _NAMES:
            yield _change(function, "id", node, _NAMES[name])
        case ast.Call(func=ast.Attribute(attr=name) as method) if name in _NAMES:
            yield _change(method, "attr", node, _NAMES[name])
        case ast.IfExp(test=test) if not isinstance(test, ast.BoolOp | ast.Compare):
            for constant in (False, True):
                yield _change(node, "test", test, ast.Constant(constant))


# --- a change, made and taken back ----------------------------------------------------------------
def _change(
    holder: ast.expr | ast.stmt, field: str, shown: ast.AST, new: object, line: int | None = None
) -> Mutation:
    """Of a field of `holder`; what is shown of it is `shown`, before and after."""

    def make() -> Callable[[], None]:
        old = getattr(holder, field)
        setattr(holder, field, new)
        return lambda: setattr(holder, field, old)

    before = _short(shown)
    back = make()
    after = repr(new.value) if isinstance(new, ast.Constant) else _short(shown)
    back()
    return Mutation(line or holder.lineno, f"{before} -> {after}", make)


def _element(shown: ast.expr, elements: list[Any], place: int, new: ast.AST) -> Mutation:
    before = _short(shown)
    back = _exchange(elements, place, new)
    after = _short(shown)
    back()
    text = f"{before} -> {after}"
    return Mutation(shown.lineno, text, lambda: _exchange(elements, place, new))


def _operand(values: list[ast.expr], place: int, new: ast.Constant) -> Mutation:
    """One that no longer counts."""
    text = f"{_short(values[place])} -> {new.value!r}"
    return Mutation(values[place].lineno, text, lambda: _exchange(values, place, new))


def _exchange(elements: list[Any], place: int, new: ast.AST) -> Callable[[], None]:
    old = elements[place]
    elements[place] = new
    return lambda: elements.__setitem__(place, old)


def _short(node: ast.AST) -> str:
    """As source, in one line."""
    return " ".join(ast.unparse(node).split())
