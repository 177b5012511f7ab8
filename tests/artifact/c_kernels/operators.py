# SPDX-License-Identifier: Apache-2.0
"""Operators as C, all in one file: one call of the C compiler.

In:   operators of the graph by name.
Out:  `check`: compiled strictly, they give the integers of graph/reference.py.
Next: the tests beside this file.
"""

from __future__ import annotations

import ctypes
import tempfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np

from loadstone import graph as g
from loadstone.artifact.c_kernels import c_kernel, operator_arrays
from loadstone.graph.reference import run_operator
from tests.relax.c_steps import compiled

__all__ = ["GRID", "OTHER", "RNG", "check", "one", "tensor"]

GRID, OTHER = g.Quantization(0.0625, -7), g.Quantization(0.09375, 11)
RNG = np.random.default_rng(3)


def tensor(
    name: str, *shape: int, dtype: str = "int8", grid: g.Quantization | None = GRID
) -> g.Tensor:
    return g.Tensor(name, shape, dtype, grid)


def one(
    kind: type[g.Operator], inputs: tuple[g.Tensor, ...], output: g.Tensor, **fields: Any
) -> g.Operator:
    return kind(name=output.name, inputs=inputs, outputs=(output,), **fields)


def check(operators: Mapping[str, g.Operator], samples: int = 8) -> None:
    made = {name: c_kernel(operator) for name, operator in operators.items()}
    sources = {entry.symbol: entry.source for entry in made.values() if entry is not None}
    with tempfile.TemporaryDirectory() as folder:
        library = ctypes.CDLL(str(compiled(Path(folder), list(sources.values()))))
    for name, operator in operators.items():
        kernel = made[name]
        assert kernel is not None, name
        function = library[kernel.symbol]
        function.restype = None
        arrays = [getattr(operator, field) for field in operator_arrays(operator)]
        for _ in range(samples):
            inputs = [RNG.integers(-128, 128, t.shape).astype(t.dtype) for t in operator.inputs]
            (want,) = run_operator(operator, inputs)
            got = np.empty(want.shape, want.dtype)
            operands = [np.ascontiguousarray(a) for a in (*inputs, *arrays)] + [got]
            function((ctypes.c_void_p * len(operands))(*(a.ctypes.data for a in operands)))
            np.testing.assert_array_equal(got, want, err_msg=name)
