# SPDX-License-Identifier: Apache-2.0
"""partition/composites.py: the functions that TVM's own FuseOpsByPattern makes."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

pytest.importorskip("tvm", reason="TVM is not installed (the extra `compiler`)")

from loadstone.partition.composites import with_composites
from loadstone.partition.dataflow import Dataflow
from loadstone.partition.matching import FusionRow, occurrences
from loadstone.relax.compat import FuseOpsByPattern, bindings, dpl, name_of, named, relax, result
from tests.partition.divided import texts_behind
from tests.partition.fusing import SHAPE, call_of, is_read_outside, modules, patterns, returning
from tests.passes.networks import TARGETS
from tests.relax_text import compare_text


def _names(function: Any) -> list[str]:
    return [name for _, value in bindings(function) if (name := name_of(value))]


@settings(max_examples=60, deadline=None)
@given(modules(), st.lists(patterns(), min_size=1, max_size=3))
def test_composites_are_those_of_tvm(module: Any, tables: list[Any]) -> None:
    rows = [(f"row{number}", pattern, {}, lambda c: not is_read_outside(c))
            for number, pattern in enumerate(tables)]  # fmt: skip
    wanted = FuseOpsByPattern(rows, bind_constants=True)(module)
    flow = Dataflow(module["main"])
    ours = [FusionRow(name, returning(pattern), lambda _: True) for name, pattern, _, _ in rows]
    made = with_composites(module, flow, occurrences(flow, ours))
    relax.analysis.well_formed(made)  # raises where it is not
    assert _inside(made) == _inside(wanted)
    assert [v.name for v in result(made["main"])] == [v.name for v in result(module["main"])]


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
            parts = builder.emit(named(builder.normalize(call_of("split", x, x)), "parts"))
            item = builder.emit(relax.TupleGetItem(parts, 1))
            call = builder.normalize(relax.op.nn.relu(item))
            output = builder.emit_output(named(call, "positive"))
        builder.emit_func_output(output)
    module = builder.get()
    whole = dpl.is_op("relax.split")(dpl.wildcard())
    pattern = dpl.is_op("relax.nn.relu")(dpl.is_tuple_get_item(whole, 1))
    flow = Dataflow(module["main"])
    found = occurrences(flow, [FusionRow("last", lambda: pattern, lambda _: True)])
    made = with_composites(module, flow, found)
    relax.analysis.well_formed(made)
    assert _inside(made) == ([], {("last", "parts", "positive")})


def test_a_function_that_is_there_keeps_its_name() -> None:
    builder = relax.BlockBuilder()
    x = relax.Var("x", relax.TensorType(SHAPE, "float32"))
    with builder.function("main", [x]):
        with builder.dataflow():
            output = builder.emit_output(named(builder.normalize(relax.op.exp(x)), "exp"))
        builder.emit_func_output(output)
    module = builder.get()
    other = relax.utils.copy_with_new_vars(module["main"])
    module["fused_0"] = other.with_attr("global_symbol", "fused_0")
    flow, pattern = Dataflow(module["main"]), dpl.is_op("relax.exp")(dpl.wildcard())
    found = occurrences(flow, [FusionRow("row", lambda: pattern, lambda _: True)])
    made = with_composites(module, flow, found)
    assert [v.name_hint for v in made.get_global_vars()].count("fused_0") == 1
    assert len(made.functions) == 3
    relax.analysis.well_formed(made)


@pytest.mark.parametrize("target", TARGETS)
def test_text_in_text_out(target: str, update_golden: bool) -> None:
    compare_text(f"composites.{target}", texts_behind(target)["composites"], update_golden)
