# SPDX-License-Identifier: Apache-2.0
"""artifact/c_operator.py: a module of several operators as one function; memory between them."""

from __future__ import annotations

import numpy as np
import pytest

from loadstone.artifact.c_operator import c_operator, parameter_bytes
from loadstone.errors import UnsupportedError
from loadstone.relax.compat import constant, parsed_tir, relax
from loadstone.relax.saved import run_module
from tests.relax.c_steps import call
from tests.relax.test_c_printer import module

RNG = np.random.default_rng(0)
op = relax.op
SHAPE = (1, 6, 8)


def chain() -> object:
    """Two results, one of them an input of the other; a constant that is read twice."""
    table = constant(RNG.normal(0, 1, (8, 8)).astype(np.float32))

    def make(x: object) -> object:
        first = op.nn.softmax(op.matmul(x, table))
        return relax.Tuple([op.matmul(op.exp(first), table), first])

    return module(make, (SHAPE, "float32"))


def test_values_between_operators_share_memory() -> None:
    made = c_operator(chain())
    assert len(made.constants) == 1
    assert made.workspace_bytes < 4 * 6 * 8 * 4
    x = RNG.normal(0, 1, SHAPE).astype(np.float32)
    wanted = run_module(chain(), [x])
    assert parameter_bytes(chain()) == [6 * 8 * 4]
    for got, want in zip(call(c_operator(chain()), [x], wanted), wanted, strict=True):
        assert got.shape == want.shape


def test_samples_go_through_one_by_one() -> None:
    made = chain()
    x = RNG.normal(0, 1, (3, *SHAPE[1:])).astype(np.float32)
    wanted = [run_module(made, [row[None]]) for row in x]
    joined = [np.concatenate(rows) for rows in zip(*wanted, strict=True)]
    for got, want in zip(call(c_operator(made, 3), [x], joined), joined, strict=True):
        np.testing.assert_allclose(got, want, rtol=1e-5, atol=1e-6)


def test_a_tuple_that_one_operator_makes_is_all_its_tensors() -> None:
    """And not the first alone."""
    x = RNG.normal(0, 1, SHAPE).astype(np.float32)
    made, wanted = module(lambda x: op.split(x, 3, 1), (SHAPE, "float32")), np.split(x, 3, 1)
    for got, want in zip(call(c_operator(made), [x], wanted), wanted, strict=True):
        np.testing.assert_array_equal(got, want)


def test_results_that_are_constants_are_stored() -> None:
    """TVM folds what reads no input: no call is left that would write it."""
    table = constant(RNG.normal(0, 1, (3, 4)).astype(np.float32))
    both = module(lambda x: relax.Tuple([op.negative(table), op.exp(x), table]), (SHAPE, "float32"))
    x = RNG.normal(0, 1, SHAPE).astype(np.float32)
    wanted = run_module(both, [x])
    for got, want in zip(call(c_operator(both), [x], wanted), wanted, strict=True):
        np.testing.assert_allclose(got, want, rtol=1e-6)
    doubled = [np.concatenate([array] * 2) for array in wanted]
    for got, want in zip(
        call(c_operator(both, 2), [np.stack([x, x])], doubled), doubled, strict=True
    ):
        np.testing.assert_allclose(got, want, rtol=1e-6)


def test_what_stores_nothing_is_refused() -> None:
    """Whoever made such a function: the result would be what lay in memory."""
    idle = parsed_tir(
        "@T.prim_func(private=True, s_tir=True)\n"
        'def idle(a: T.Buffer((4,), "float32"), b: T.Buffer((4,), "float32")):\n'
        '    with T.sblock("nothing"):\n'
        "        T.evaluate(0)\n"
    )
    builder, x = relax.BlockBuilder(), relax.Var("x", relax.TensorType((4,), "float32"))
    with builder.function("main", [x]):
        with builder.dataflow():
            name = builder.add_func(idle, "idle")
            made = relax.call_tir(name, [x], relax.TensorType((4,), "float32"))
            output = builder.emit_output(builder.emit(made))
        builder.emit_func_output(output)
    with pytest.raises(UnsupportedError, match="^idle stores nothing in one of its results$"):
        c_operator(builder.get())


def test_equal_texts_have_one_symbol() -> None:
    assert c_operator(chain()).symbol == c_operator(chain()).symbol
    assert c_operator(chain()).symbol != c_operator(chain(), 2).symbol


def test_what_has_no_form_is_named() -> None:
    with pytest.raises(UnsupportedError, match="Add of float16"):
        c_operator(module(lambda x: op.add(x, x), (SHAPE, "float16")))


def test_a_power_brings_no_warning_of_tvms(capfd: pytest.CaptureFixture[str]) -> None:
    """It came on stderr for a transformer with GELU, from C++."""
    cube = constant(np.float32(3))
    c_operator(module(lambda x: op.tanh(op.add(op.power(op.exp(x), cube), x)), (SHAPE, "float32")))
    assert capfd.readouterr().err == ""
