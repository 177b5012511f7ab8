# SPDX-License-Identifier: Apache-2.0
"""partition/matching.py: what TVM's own FuseOpsByPattern matches, on random functions and
patterns."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings

pytest.importorskip("tvm", reason="TVM is not installed (the extra `compiler`)")

from loadstone.partition.dataflow import Dataflow
from loadstone.partition.matching import FusionRow, Occurrence, occurrences
from loadstone.relax.compat import FuseOpsByPattern, dpl, name_of, relax
from tests.partition.fusing import is_read_outside, modules, patterns


def check_found(module: Any, pattern: Any) -> None:
    """The same occurrences as TVM's, in the same order."""
    wanted, found = [], []

    def of_tvm(context: Any) -> bool:
        if not is_read_outside(context):
            covered = {variable.name for variable in context.matched_bindings}
            wanted.append((name_of(context.matched_expr), covered))
        return False

    def ours(occurrence: Occurrence) -> bool:
        covered = {node.bound_to.name for node in occurrence.covers}
        found.append((name_of(occurrence.root.expr), covered))
        return False

    FuseOpsByPattern([("row", pattern, {}, of_tvm)], bind_constants=True)(module)
    assert occurrences(Dataflow(module["main"]), [FusionRow("row", lambda: pattern, ours)]) == []
    assert found == wanted


@settings(max_examples=100, deadline=None)
@given(modules(), patterns())
def test_it_finds_what_tvm_finds(module: Any, pattern: Any) -> None:
    check_found(module, pattern)


def test_arguments_that_are_turned_meet_the_patterns_in_their_order() -> None:
    """`add(* | constant, the same *)`: the wildcard takes whichever argument comes first, and then
    wants it twice."""
    builder = relax.BlockBuilder()
    x = relax.Var("x", relax.TensorType((2, 4), "float32"))
    with builder.function("main", [x]):
        with builder.dataflow():
            one = relax.const(np.ones((2, 4), np.float32))
            output = builder.emit_output(builder.emit(relax.op.add(x, one)))
        builder.emit_func_output(output)
    anything = dpl.wildcard()
    pattern = dpl.is_op("relax.add")(anything | dpl.is_const(), anything)
    check_found(builder.get(), pattern)
