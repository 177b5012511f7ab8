# SPDX-License-Identifier: Apache-2.0
"""relax/rewriter.py: as it stands it copies; what `visit` gives takes the place of a binding."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

pytest.importorskip("tvm", reason="TVM is not installed (the extra `compiler`)")

from loadstone.errors import ModelError, UnsupportedError
from loadstone.relax.compat import bindings, is_call, relax, tvm
from loadstone.relax.rewriter import Rewriter, fresh_name
from loadstone.relax.saved import run_module


def function() -> Any:
    """(relu(x) + x, x)."""
    x = relax.Var("x", relax.TensorType((4,), "float32"))
    builder = relax.BlockBuilder()
    with builder.function("main", [x]):
        with builder.dataflow():
            positive = builder.emit(relax.op.nn.relu(x), name_hint="positive")
            total = builder.emit(relax.op.add(positive, x), name_hint="total")
            out = builder.emit_output(relax.Tuple([total, x]))
        builder.emit_func_output(out)
    return builder.get()["main"].with_attr("kept", "yes")


class Negated(Rewriter):
    """relu(x) becomes relu(-x)."""

    def visit(self, variable: Any, value: Any) -> Any:
        if not is_call(value, "nn.relu"):
            return super().visit(variable, value)
        negative = self.emit(relax.op.negative(self.mapped(value.args[0])), self.unique("negative"))
        made = self.emit(relax.op.nn.relu(negative))
        assert self.producer(made) == "nn.relu"
        return made


X = np.array([-2, -1, 1, 2], np.float32)


def computed(made: Any) -> list[Any]:
    return run_module(tvm.IRModule({"main": made.with_attr("global_symbol", "main")}), [X])


def test_a_copy_means_the_same_and_keeps_names_and_attributes() -> None:
    made = Rewriter(function()).run()
    names = [variable.name for variable, _ in bindings(made)]
    assert names[:2] == ["positive", "total"]
    assert made.attrs["kept"] == "yes"
    for got, want in zip(computed(made), computed(function()), strict=True):
        np.testing.assert_array_equal(got, want)


def test_a_binding_is_replaced() -> None:
    total, same = computed(Negated(function()).run())
    np.testing.assert_array_equal(total, np.maximum(-X, 0) + X)
    np.testing.assert_array_equal(same, X)


def test_names_are_not_taken_twice() -> None:
    taken = {"x"}
    assert [fresh_name("x", taken) for _ in range(3)] == ["x#2", "x#3", "x#4"]
    assert fresh_name("y", taken) == "y"
    assert taken == {"x", "x#2", "x#3", "x#4", "y"}


class Clumsy(Rewriter):
    """Does not know relu."""

    error: Exception

    def visit(self, variable: Any, value: Any) -> Any:
        if is_call(value, "nn.relu"):
            raise self.error
        return super().visit(variable, value)


def test_what_a_pass_does_not_know_is_refused_by_name() -> None:
    """And not by what Python says of it."""
    pass_ = Clumsy(function())
    pass_.error = KeyError("axis")
    with pytest.raises(UnsupportedError) as caught:
        pass_.run()
    assert caught.value.refusal is not None
    assert (caught.value.refusal.operator, caught.value.refusal.node) == ("nn.relu", "positive")
    assert "axis" not in str(caught.value)
    assert isinstance(caught.value.__cause__, KeyError)
    pass_ = Clumsy(function())
    pass_.error = ModelError("its axis is 5")
    with pytest.raises(ModelError, match="^its axis is 5$"):
        pass_.run()
