# SPDX-License-Identifier: Apache-2.0
"""Random functions, and random patterns to look for in them.

In:   Hypothesis.
Out:  strategies: a module, a pattern of `dpl`; what FuseOpsByPattern leaves to the check of a row.
Next: test_matching.py and test_composites.py compare us with TVM on them.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from hypothesis import strategies as st

pytest.importorskip("tvm", reason="TVM is not installed (the extra `compiler`)")

from loadstone.relax.compat import DeadCodeElimination, dpl, named, relax

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
                call = call_of(kind, one, other)
                made = builder.emit(named(builder.normalize(call), f"{kind}{number}"))
                if kind == "split":
                    made = builder.emit(relax.TupleGetItem(made, draw(st.integers(0, 1))))
                    made = builder.emit(named(call_of("concat", made, made), f"again{number}"))
                if kind == "concat":
                    whole = builder.normalize(relax.op.split(made, 2, axis=0))
                    parts = builder.emit(named(whole, f"parts{number}"))
                    made = builder.emit(relax.TupleGetItem(parts, 1))
                values.append(made)
            if draw(st.booleans()):
                values.append(builder.emit(values[-1]))  # by another name
            output = builder.emit_output(relax.Tuple([values[-1], draw(st.sampled_from(values))]))
        builder.emit_func_output(output)
    return DeadCodeElimination(["main"])(builder.get())


def call_of(kind: str, one: Any, other: Any) -> Any:
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
            made.append(pattern_of(kind, one, other))
    top = draw(st.sampled_from([*UNARY, *BINARY, "concat", "or"]))
    if top == "or":
        return pattern_of("add", made[-1], made[-1]) | pattern_of("nn.relu", made[-1], None)
    if draw(st.booleans()):  # an operator, and what may follow it
        first = pattern_of(top, made[-1], draw(st.sampled_from(made)))
        return first | pattern_of(draw(st.sampled_from(UNARY)), first, None)
    return pattern_of(top, made[-1], draw(st.sampled_from(made)))


def pattern_of(kind: str, one: Any, other: Any) -> Any:
    if kind == "concat":
        return dpl.is_op("relax.concat")(dpl.is_tuple([one, other]))
    return dpl.is_op("relax." + kind)(*([one, other] if kind in BINARY else [one]))


def is_read_outside(context: Any) -> bool:
    """What TVM leaves to the check of a row: nobody else reads what is computed on the way."""
    matched = context.matched_bindings
    return any(
        user not in matched
        for variable, expr in matched.items()
        if not expr.same_as(context.matched_expr)
        for user in context.var_usages.get(variable, ())
    )


def returning(pattern: Any) -> Callable[[], Any]:
    return lambda: pattern
