# SPDX-License-Identifier: Apache-2.0
"""relax/byoc.py: marks that TVM's passes keep."""

from __future__ import annotations

from typing import Any

import pytest

from loadstone.errors import UnsupportedError
from loadstone.relax.byoc import NUMERICS, marked, numerics_of, register
from loadstone.relax.compat import FuseOpsByPattern, dpl, name_of, named, relax, tvm
from loadstone.relax.compat import bindings as bindings_of

ROW = "test_byoc.abs"


def absolute() -> Any:
    return dpl.is_op("relax.abs")(dpl.wildcard())


def network(numerics: str | None) -> Any:
    """abs(abs(x)), called "first" and "second"."""
    x = relax.Var("x", relax.TensorType((4,), "float32"))
    builder = relax.BlockBuilder()
    with builder.function("main", [x]):
        with builder.dataflow():
            first = builder.emit(named(relax.op.abs(x), "first"))
            second = builder.emit_output(named(relax.op.abs(first), "second"))
        builder.emit_func_output(second)
    module = builder.get()
    if numerics is not None:
        module["main"] = module["main"].with_attr(NUMERICS, numerics)
    return module


def rows() -> list[Any]:
    return list(relax.backend.pattern_registry.get_patterns_with_prefix(ROW))


def test_a_row_takes_what_is_marked_for_it() -> None:
    register([(ROW, absolute)])
    register([(ROW, absolute)])
    assert len(rows()) == 1
    for taken in ("first", "second"):
        made = FuseOpsByPattern(rows())(marked(network(None), {taken: ROW}))
        (composite,) = [f for v, f in made.functions.items() if v.name_hint != "main"]
        assert [name_of(value) for _, value in bindings_of(composite)] == [taken]
    assert len(FuseOpsByPattern(rows())(marked(network(None), {})).functions) == 1


def test_a_module_without_marks_is_refused() -> None:
    register([(ROW, absolute)])
    with pytest.raises(UnsupportedError, match=r"the module has no marks: call loadstone\.tvm"):
        FuseOpsByPattern(rows())(network(None))


@pytest.mark.parametrize("numerics", ["onnx", "torch", "tflite", "tflite_micro", "tflite_uint8"])
def test_the_rules_pass_through_tvms_functions(numerics: str) -> None:
    register([(ROW, absolute)])
    made = FuseOpsByPattern(rows())(marked(network(numerics), {"second": ROW}))
    for variable, function in made.functions.items():
        assert numerics_of(tvm.IRModule({variable: function})) == numerics


def test_what_says_no_rules_and_what_says_two() -> None:
    assert numerics_of(network("tflite")) == ""  # not marked
    assert numerics_of(marked(network(None), {})) == "onnx"
    two = tvm.IRModule(
        {
            tvm.ir.GlobalVar(name): marked(network(name), {})["main"].with_attr(
                "global_symbol", name
            )
            for name in ("tflite", "torch")
        }
    )
    with pytest.raises(UnsupportedError, match="networks with the rules tflite, torch"):
        numerics_of(two)


def test_rules_that_nobody_knows() -> None:
    with pytest.raises(
        UnsupportedError, match=r"loadstone\.numerics 'mine' is not one of onnx, to"
    ):
        marked(network("mine"), {})
