# SPDX-License-Identifier: Apache-2.0
"""relax/sorting.py: what C sorts is in NumPy's stable order, of equal numbers the first first."""

from __future__ import annotations

import numpy as np

from loadstone.artifact.c_operator import c_operator
from loadstone.numerics import Array
from loadstone.relax.compat import relax
from tests.relax.c_steps import call
from tests.relax.test_c_printer import module

SHAPE = (3, 7, 4)


def order(x: Array, axis: int, largest: bool) -> Array:
    """Of any shape: places along the axis, best first."""
    return np.argsort(-x.astype(np.float64) if largest else x, axis=axis, kind="stable")


def test_every_axis_and_both_ends() -> None:
    """Few values, so that many are equal; all operators in one C file."""
    x = np.random.default_rng(5).integers(-3, 4, SHAPE).astype(np.float32)
    orders = [(0, True), (1, False), (2, True)]

    def together(a: relax.Var) -> relax.Tuple:
        made = [
            relax.op.topk(a, 3, axis, ret_type="indices", largest=largest, dtype="int64")
            for axis, largest in orders
        ]
        made += [relax.op.argsort(a, axis, descending, "int32") for axis, descending in orders]
        made += [relax.op.sort(a, axis, descending) for axis, descending in orders]
        made.append(relax.op.topk(a, 2, -1, ret_type="values"))
        return relax.Tuple(made)

    places = [order(x, axis, largest) for axis, largest in orders]
    wanted = [
        np.take(p, range(3), axis).astype(np.int64)
        for p, (axis, _) in zip(places, orders, strict=True)
    ]
    wanted += [p.astype(np.int32) for p in places]
    wanted += [np.take_along_axis(x, p, axis) for p, (axis, _) in zip(places, orders, strict=True)]
    wanted.append(-np.sort(-x, axis=-1)[..., :2])
    got = call(c_operator(module(together, (SHAPE, "float32"))), [x], wanted)
    for k, (want, have) in enumerate(zip(wanted, got, strict=True)):
        np.testing.assert_array_equal(have, want, err_msg=str(k))


def test_integers_and_one_dimension() -> None:
    x = np.array([5, -128, 127, 5, 0], np.int8)

    def both(a: relax.Var) -> relax.Tuple:
        found = relax.op.topk(a, 4)
        return relax.Tuple([relax.TupleGetItem(found, 0), relax.TupleGetItem(found, 1)])

    made = c_operator(module(both, ((5,), "int8")))
    wanted = [np.array([127, 5, 5, 0], np.int8), np.array([2, 0, 3, 4], np.int32)]
    for want, have in zip(wanted, call(made, [x], wanted), strict=True):
        np.testing.assert_array_equal(have, want)
