# SPDX-License-Identifier: Apache-2.0
"""relax/functions.py: what an operator makes of each element, as TVM computes it."""

from __future__ import annotations

from typing import Any

import numpy as np

from loadstone.numerics import Array
from loadstone.relax import functions
from loadstone.relax.compat import bindings, constant, is_call, relax
from loadstone.relax.saved import run_module
from tests.relax.test_c_printer import module

op = relax.op
X = np.linspace(-6, 6, 49, dtype=np.float32)
ONE = {name: getattr(op, name, None) or getattr(op.nn, name[3:]) for name in functions._ONE}
ATTRIBUTES = {
    "clip": lambda x: op.clip(x, -1.5, 2.5),
    "nn.leakyrelu": lambda x: op.nn.leakyrelu(x, 0.3),
    "nn.prelu": lambda x: op.nn.prelu(x, constant(np.full(49, 0.2, np.float32)), axis=0),
    "nn.softplus": lambda x: op.nn.softplus(x, beta=2.0, threshold=5.0),
}
POSITIVE = ("log", "sqrt", "rsqrt")


def call_of(made: Any, name: str) -> Any:
    return next(call for _, call in bindings(made["main"]) if is_call(call, name))


def close(got: Array, want: Array, name: str) -> None:
    assert got.dtype == want.dtype, name
    np.testing.assert_allclose(got, want, rtol=3e-6, atol=1e-6, err_msg=name)


def test_functions_of_one_operand() -> None:
    makers = ONE | ATTRIBUTES
    made = module(lambda x: relax.Tuple([make(x) for make in makers.values()]), ((49,), "float32"))
    x = np.abs(X) + np.float32(0.5)
    for values in (X, x):
        for name, want in zip(makers, run_module(made, [values]), strict=True):
            call = call_of(made, name)
            assert functions.is_function(call), name
            if values is x or name not in POSITIVE:
                close(functions.evaluated(call, [values]), want, name)


def test_functions_of_several() -> None:
    names = list(functions._TWO)
    made = module(
        lambda x, y: relax.Tuple(
            [*(getattr(op, name)(x, y) for name in names), op.where(op.greater(x, y), x, y)]
        ),
        ((49,), "float32"),
        ((49,), "float32"),
    )
    x, y = np.abs(X) + np.float32(0.1), X[::-1].copy()
    *two, chosen = run_module(made, [x, y])
    for name, want in zip(names, two, strict=True):
        close(functions.evaluated(call_of(made, name), [x, y]), want, name)
    close(functions.evaluated(call_of(made, "where"), [x > y, x, y]), chosen, "where")


def test_slopes_that_differ_are_no_function_of_one_number() -> None:
    slopes = constant(np.linspace(0, 1, 49, dtype=np.float32))
    made = module(lambda x: op.nn.prelu(x, slopes, axis=0), ((49,), "float32"))
    assert not functions.is_function(call_of(made, "nn.prelu"))
