# SPDX-License-Identifier: Apache-2.0
"""artifact/c_kernels/body.py: declarations, limits, numbers."""

from __future__ import annotations

import numpy as np

from loadstone import graph as g
from loadstone.artifact.c_kernels.body import Body, c_real, row_major
from tests.artifact.c_kernels.operators import one, tensor


def test_a_float_keeps_every_digit() -> None:
    assert float.fromhex(c_real(0.1).removesuffix("f")) == float(np.float32(0.1))
    assert c_real(-0.5) == "(-0x1.0000000000000p-1f)"


def test_strides_of_rows() -> None:
    assert row_major((2, 3, 4)) == [12, 4, 1]


def test_equal_operators_are_one_function() -> None:
    def made(name: str) -> str:
        body = Body(one(g.Reshape, (tensor(f"{name}.x", 4),), tensor(name, 4)))
        body.add("y[0] = x0[0];")
        return body.finished().symbol

    assert made("a") == made("b")
