# SPDX-License-Identifier: Apache-2.0
"""Steps on rows of a decoder as calls in Relax.

In:   expressions of float32 rows, int8 caches, places; sizes as numbers.
Out:  calls of packed functions, which TVM's own virtual machine runs by row_numerics.py; what such
      a call says.
Next: artifact/row_steps.py makes them steps of the runtime.

Each is named `loadstone.` and the operator's name in runtime/FORMAT.md. Its numbers stand behind
its tensors.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

import numpy as np

from loadstone.numerics import Array
from loadstone.relax import row_numerics as rows
from loadstone.relax.compat import dtype, relax, scalar, shape, tvm

if TYPE_CHECKING:
    from loadstone.relax.types import Call, Expr, TvmTensor

__all__ = [
    "attention",
    "gate",
    "keep_rows",
    "quantize_rows",
    "rescale_rows",
    "rms_norm",
    "rotate_places",
    "row_call",
    "row_scales",
    "take_columns",
]

_PREFIX = "loadstone."


def _made(name: str, tensors: Sequence[Expr], numbers: Sequence[float], out: Expr) -> Call:
    """out: the type of the result."""
    items = [*tensors, *(_number(number) for number in numbers)]
    return relax.op.call_dps_packed(_PREFIX + name, relax.Tuple(items), out)


def _number(number: float) -> Expr:
    return relax.prim_value(float(number) if isinstance(number, float) else int(number))


def _like(x: Expr, kind: str = "float32", last: int | None = None) -> Expr:
    """The type of a tensor of x's shape, or with another last axis."""
    extents = shape(x) or ()
    return relax.TensorType(extents if last is None else (*extents[:-1], last), kind)


def row_call(call: Expr) -> tuple[str, list[Expr], list[float]] | None:
    """(name, tensors, numbers) of such a call; None for any other."""
    if not isinstance(call, relax.Call) or not isinstance(call.args[0], relax.ExternFunc):
        return None
    name = str(call.args[0].global_symbol)
    if name.removeprefix(_PREFIX) not in _FUNCTIONS or not name.startswith(_PREFIX):
        return None
    fields = list(call.args[1].fields)
    tensors = [field for field in fields if shape(field) is not None]
    return name.removeprefix(_PREFIX), tensors, [scalar(f) for f in fields[len(tensors) :]]


def rms_norm(x: Expr, weights: Expr, epsilon: float) -> Call:
    """Along the last axes, as many elements as there are weights."""
    return _made("rms_norm", [x, weights], [float(epsilon)], _like(x))


def rotate_places(x: Expr, place: Expr, angles: Expr, *, neighbours: bool) -> Call:
    """x: (..., rows, heads, size)."""
    return _made("rotate_places", [x, place, angles], [neighbours], _like(x))


def row_scales(x: Expr, *, rotate: bool) -> Call:
    """(..., 1)"""
    return _made("row_scales", [x], [rotate], _like(x, last=1))


def quantize_rows(x: Expr, scales: Expr, *, rotate: bool) -> Call:
    """int8, of x's shape."""
    return _made("quantize_rows", [x, scales], [rotate], _like(x, "int8"))


def rescale_rows(x: Expr, scales: Expr, channels: Expr, planes: int = 0) -> Call:
    """x: int32 sums, int8, or planes of bytes; channels: a scale each."""
    count = int(np.prod(shape(channels) or ()))
    return _made("rescale_rows", [x, scales, channels], [planes], _like(x, last=count))


def keep_rows(cache: Expr, x: Expr, place: Expr) -> Call:
    """The cache (groups, places, size) with rows of x (..., rows, groups, size) in it."""
    return _made("keep_rows", [cache, x, place], [], _like(cache, dtype(cache)))


def attention(
    queries: Expr, place: Expr, caches: Sequence[Expr], *, window: int, factor: float
) -> Call:
    """caches: keys, their scales, values, their scales."""
    tensors = [queries, place, *caches]
    return _made("attention", tensors, [window, float(factor)], _like(queries))


def gate(a: Expr, x: Expr, *, function: int) -> Call:
    """function: 0 SiLU, 1 GELU by tanh."""
    return _made("gate", [a, x], [function], _like(x))


def take_columns(table: Expr, numbers: Expr) -> Call:
    """table: int8 (depth, columns), such as the weights of a head. (numbers, depth)."""
    (depth, _), (count,) = shape(table) or (0, 0), shape(numbers) or (0,)
    return _made("take_columns", [table, numbers], [], relax.TensorType((count, depth), "int8"))


# --- what TVM's virtual machine runs --------------------------------------------------------------
def _inner(x: Array, axes: int) -> Array:
    """The last axes; those in front of them are one."""
    return x.reshape(-1, *x.shape[x.ndim - axes + 1 :])


def _turned(x: Array, place: Array, angles: Array, neighbours: int) -> Array:
    return rows.rotate_places(_inner(x, 3), place, angles, bool(neighbours))


def _attended(queries: Array, place: Array, *rest: Array) -> Array:
    keys, key_scales, values, value_scales, window, factor = rest
    flat = [scales.reshape(scales.shape[:2]) for scales in (key_scales, value_scales)]
    caches = keys, flat[0], values, flat[1]
    given = _inner(queries, 3), place, caches
    return rows.attention(*given, window=int(window), factor=float(factor))


_FUNCTIONS: dict[str, Callable[..., Array]] = {
    "rms_norm": rows.rms_norm,
    "rotate_places": _turned,
    "row_scales": lambda x, rotate: rows.row_scales(x, bool(rotate)),
    "quantize_rows": lambda x, s, rotate: rows.quantize_rows(x, s, bool(rotate)),
    "rescale_rows": rows.rescale_rows,
    "keep_rows": lambda cache, x, place: rows.keep_rows(cache, _inner(x, 3), place),
    "attention": _attended,
    "gate": rows.gate,
    "take_columns": rows.take_columns,
}


def _packed(function: Callable[..., Array]) -> Callable[..., None]:
    def run(*given: TvmTensor) -> None:
        inputs = [x.numpy() if hasattr(x, "numpy") else x for x in given[:-1]]
        with np.errstate(all="ignore"):
            made = function(*inputs)
        out = given[-1]
        out.copyfrom(np.ascontiguousarray(made.reshape(out.shape)))

    return run


for _name, _function in _FUNCTIONS.items():
    tvm.register_global_func(_PREFIX + _name, _packed(_function), override=True)
