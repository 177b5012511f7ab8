# SPDX-License-Identifier: Apache-2.0
"""Functions of Relax that are calls of steps on rows.

In:   sizes.
Out:  a module for each call of relax/row_calls.py, and random inputs for it.
Next: test_row_calls.py runs them by TVM, artifact/test_row_steps.py by the C runtime.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from loadstone.relax import row_calls as calls
from loadstone.relax.compat import constant, exact_constant

__all__ = ["CALLS", "Array", "inputs_of"]

Array = NDArray[Any]
F = np.float32
WEIGHTS = np.linspace(0.5, 2, 64, dtype=F)
ANGLES = np.random.default_rng(0).uniform(-1, 1, (8, 16)).astype(F)
COLUMNS = np.arange(-20, 20, dtype=np.int8).reshape(5, 8)
X, PLACE = ((1, 3, 64), "float32"), ((2,), "int32")
ROWS = ((1, 3, 4, 16), "float32")
CACHES = [((2, 8, 16), "int8"), ((2, 8, 1), "float32")] * 2

#: Name -> what it makes of variables; their shapes and types.
CALLS: dict[str, tuple[Callable[..., Any], Sequence[Any]]] = {
    "rms_norm": (lambda x: calls.rms_norm(x, constant(WEIGHTS), 1e-5), [X]),
    "rms_norm of heads": (lambda x: calls.rms_norm(x, constant(WEIGHTS[:16]), 1e-6), [ROWS]),
    "rotate_places": (
        lambda x, p: calls.rotate_places(x, p, constant(ANGLES), neighbours=True),
        [ROWS, PLACE],
    ),
    "rotate_places halves": (
        lambda x, p: calls.rotate_places(x, p, constant(ANGLES[:, :8]), neighbours=False),
        [ROWS, PLACE],
    ),
    "row_scales": (lambda x: calls.row_scales(x, rotate=True), [X]),
    "quantize_rows": (
        lambda x, s: calls.quantize_rows(x, s, rotate=True),
        [X, ((1, 3, 1), "float32")],
    ),
    "rescale_rows": (
        lambda x, s: calls.rescale_rows(x, s, constant(WEIGHTS)),
        [((1, 3, 64), "int32"), ((1, 3, 1), "float32")],
    ),
    "rescale_rows of planes": (
        lambda x, s: calls.rescale_rows(x, s, constant(WEIGHTS[:5]), 4),
        [((1, 3, 64), "int8"), ((1, 3, 1), "float32")],
    ),
    "keep_rows": (calls.keep_rows, [CACHES[0], ((1, 3, 2, 16), "int8"), PLACE]),
    "attention": (
        lambda q, p, *caches: calls.attention(q, p, caches, window=3, factor=0.25),
        [ROWS, PLACE, *CACHES],
    ),
    "gate": (lambda a, x: calls.gate(a, x, function=1), [X, X]),
    "gather of columns": (
        lambda at: calls.take_columns(exact_constant(COLUMNS), at),
        [((3,), "int32")],
    ),
    "row_scales of a constant": (
        lambda x: calls.quantize_rows(x, exact_constant(np.ones((1, 3, 1), F)), rotate=False),
        [X],
    ),
}


def inputs_of(name: str, rng: np.random.Generator) -> list[Array]:
    """Places 3 to 5 of 8."""
    made: list[Array] = []
    for extents, kind in CALLS[name][1]:
        if (extents, kind) == PLACE:
            made.append(np.array([3, 3], np.int32))
        elif kind == "float32":
            made.append((rng.standard_normal(extents) * 2 + 0.1).astype(F))
        else:
            made.append(rng.integers(-127, 128, extents).astype(kind))
    return made
