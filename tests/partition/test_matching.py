# SPDX-License-Identifier: Apache-2.0
"""partition/matching.py: what TVM's own FuseOpsByPattern matches, on random functions and
patterns."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

pytest.importorskip("tvm", reason="TVM is not installed (the extra `compiler`)")

from loadstone.partition.composites import with_composites
from loadstone.partition.dataflow import Dataflow
from loadstone.partition.matching import Occurrence, Row, occurrences
from loadstone.relax.compat import FuseOpsByPattern, bindings, dpl, name_of, named, relax, result

SHAPE = (2, 4)
UNARY = ("nn.relu", "exp", "negative")
BINARY = ("add", "multiply", "subtract", "divide")


@st.composite
def modules(draw: st.DrawFn) -> Any:
    """Calls of what was computed before, of constants, of tuples and of their items."""
    builder = relax.BlockBuilder()
    x = relax.Var("x", relax.TensorType(SHAPE, "float32"))
    values, count = [x], draw(st.integers(1, 9))
    with builder.function("main", [x]):
        with builder.dataflow():
            for number in range(count):
                one, other = (draw(st.sampled_from(values[-4:])) for _ in range(2))
                if draw(st.integers(0, 5)) == 0:
                    other = relax.const(np.full(SHAPE, number, np.float32))
                kind = draw(st.sampled_from([*UNARY, *BINARY, "concat", "split"]))
                call = _call(kind, one, other)
                made = builder.emit(named(builder.normalize(call), f"{kind}{number}"))
                if kind == "split":
                    made = builder.emit(relax.TupleGetItem(made, draw(st.integers(0, 1))))
                    made = builder.emit(named(_call("concat", made, made), f"again{number}"))
                if kind == "concat":
                    whole = builder.normalize(relax.op.split(made, 2, axis=0))
                    parts = builder.emit(named(whole, f"parts{number}"))
                    made = builder.emit(relax.TupleGetItem(parts, 1))
                values.append(made)
            if draw(st.booleans()):
                values.append(builder.emit(values[-1]))  # by another name
            output = builder.emit_output(relax.Tuple([values[-1], draw(st.sampled_from(values))]))
        builder.emit_func_output(output)
    return builder.get()


def _call(kind: str, one: Any, other: Any) -> Any:
    if kind == "concat":
        return relax.op.concat([one, other], axis=0)
    if kind == "split":
        return relax.op.split(one, 2, axis=0)
    operator = getattr(relax.op, kind.removeprefix("nn."), None) or relax.op.nn.relu
    return operator(one) if kind in UNARY else operator(one, other)


@st.composite
def patterns(draw: st.DrawFn) -> Any:
    """A call on top; below it what is named twice may be one pattern."""
    made = [dpl.wildcard(), dpl.is_const()]
    for _ in range(draw(st.integers(1, 5))):
        one, other = (draw(st.sampled_from(made[-3:])) for _ in range(2))
        kind = draw(st.sampled_from([*UNARY, *BINARY, "concat", "split", "item", "or", "typed"]))
        if kind == "or":
            made.append(one | other)
        elif kind == "item":
            item = draw(st.sampled_from([None, 0, 1]))
            made.append(dpl.is_tuple_get_item(dpl.is_op("relax.split")(one), item))
        elif kind == "typed":  # of a kind that is TVM's to match
            made.append(one.has_dtype(draw(st.sampled_from(["float32", "int8"]))))
        else:
            made.append(_pattern(kind, one, other))
    top = draw(st.sampled_from([*UNARY, *BINARY, "concat", "or"]))
    if top == "or":
        return _pattern("add", made[-1], made[-1]) | _pattern("nn.relu", made[-1], None)
    return _pattern(top, made[-1], draw(st.sampled_from(made)))


def _pattern(kind: str, one: Any, other: Any) -> Any:
    if kind == "concat":
        return dpl.is_op("relax.concat")(dpl.is_tuple([one, other]))
    return dpl.is_op("relax." + kind)(*([one, other] if kind in BINARY else [one]))


def _read_outside(context: Any) -> bool:
    """What TVM leaves to the check of a row: nobody else reads what is computed on the way."""
    matched = context.matched_bindings
    return any(
        user not in matched
        for variable, expr in matched.items()
        if not expr.same_as(context.matched_expr)
        for user in context.var_usages.get(variable, ())
    )


@settings(max_examples=100, deadline=None)
@given(modules(), patterns())
def test_it_finds_what_tvm_finds(module: Any, pattern: Any) -> None:
    wanted, found = [], []

    def of_tvm(context: Any) -> bool:
        if not _read_outside(context):
            covered = {variable.name for variable in context.matched_bindings}
            wanted.append((name_of(context.matched_expr), covered))
        return False

    def ours(occurrence: Occurrence) -> bool:
        covered = {node.bound_to.name for node in occurrence.covers}
        found.append((name_of(occurrence.root.expr), covered))
        return False

    FuseOpsByPattern([("row", pattern, {}, of_tvm)], bind_constants=True)(module)
    assert occurrences(Dataflow(module["main"]), [Row("row", lambda: pattern, ours)]) == []
    assert found == wanted


def _names(function: Any) -> list[str]:
    return [name for _, value in bindings(function) if (name := name_of(value))]


@settings(max_examples=60, deadline=None)
@given(modules(), st.lists(patterns(), min_size=1, max_size=3))
def test_composites_are_those_of_tvm(module: Any, tables: list[Any]) -> None:
    rows = [(f"row{number}", pattern, {}, lambda c: not _read_outside(c))
            for number, pattern in enumerate(tables)]  # fmt: skip
    wanted = FuseOpsByPattern(rows, bind_constants=True)(module)
    flow = Dataflow(module["main"])
    ours = [Row(name, _returning(pattern), lambda _: True) for name, pattern, _, _ in rows]
    made = with_composites(module, flow, occurrences(flow, ours))
    relax.analysis.well_formed(made)  # raises where it is not
    assert _inside(made) == _inside(wanted)
    assert [v.name for v in result(made["main"])] == [v.name for v in result(module["main"])]


def _returning(pattern: Any) -> Callable[[], Any]:
    return lambda: pattern


def _inside(module: Any) -> tuple[list[str], set[tuple[str, ...]]]:
    """The calls that stay in main; row and kinds of calls of each composite: TVM has one function
    for all that are alike."""
    composites = {
        (
            str(function.attrs["Composite"]),
            *(name.rstrip("0123456789") for name in _names(function)),
        )
        for variable, function in module.functions.items()
        if variable.name_hint != "main"
    }
    return _names(module["main"]), composites


def test_an_item_of_a_tuple_goes_into_the_composite() -> None:
    builder = relax.BlockBuilder()
    x = relax.Var("x", relax.TensorType(SHAPE, "float32"))
    with builder.function("main", [x]):
        with builder.dataflow():
            parts = builder.emit(named(builder.normalize(_call("split", x, x)), "parts"))
            item = builder.emit(relax.TupleGetItem(parts, 1))
            call = builder.normalize(relax.op.nn.relu(item))
            output = builder.emit_output(named(call, "positive"))
        builder.emit_func_output(output)
    module = builder.get()
    whole = dpl.is_op("relax.split")(dpl.wildcard())
    pattern = dpl.is_op("relax.nn.relu")(dpl.is_tuple_get_item(whole, 1))
    flow = Dataflow(module["main"])
    found = occurrences(flow, [Row("last", lambda: pattern, lambda _: True)])
    made = with_composites(module, flow, found)
    relax.analysis.well_formed(made)
    assert _inside(made) == ([], {("last", "parts", "positive")})
