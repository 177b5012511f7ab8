# SPDX-License-Identifier: Apache-2.0
"""TFLite's operators that keep something from one run to the next: SVDF, LSTM, and variables.

In:   an operator of a TFLite file; the Converter of tflite.py.
Out:  what it gives, and the next value of its state, as integers or as real numbers; STATEFUL, by
      operator.
Next: tflite.py makes an input and an output of each state, artifact/states.py memory.

SVDF on integers is LiteRT's kernel step by step, in operations of Relax on integers: features are
scaled to int16 with gemmlowp's two roundings, and so are the sums over time.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING

import numpy as np
import tflite

from loadstone.errors import UnsupportedError
from loadstone.frontend.tflite_file import TensorRecord, TfliteTable
from loadstone.frontend.tflite_integers import Integers, Stateful, single_scale
from loadstone.frontend.tflite_lstm import unidirectional_lstm
from loadstone.numerics import Array
from loadstone.relax.compat import constant, constant_int64, relax

if TYPE_CHECKING:
    from loadstone.relax.types import Expr

__all__ = ["STATEFUL"]

_ACTIVATIONS = {
    tflite.ActivationFunctionType.NONE: (-np.inf, np.inf),
    tflite.ActivationFunctionType.RELU: (0.0, np.inf),
    tflite.ActivationFunctionType.RELU6: (0.0, 6.0),
    tflite.ActivationFunctionType.RELU_N1_TO_1: (-1.0, 1.0),
}


def _wide(converter: Stateful, expr: Expr) -> Expr:
    return converter.bb.emit(relax.op.astype(expr, "int64"))


def _constant(record: TensorRecord) -> Array:
    if record.data is None:
        raise UnsupportedError(
            f'its argument "{record.name}" is computed: only a constant is known'
        )
    return record.data


# --- SVDF -----------------------------------------------------------------------------------------
def _svdf(converter: Stateful, op: TfliteTable) -> None:
    """Inputs: x (N, I), feature weights (F, I), time weights (F, M), bias (U,), state (N, F * M).

    Each of U units is the sum of `rank` filters: features of this run join the state of the last
    M - 1, and are weighed over time.
    """
    options = converter.record.options
    file, inputs = converter.file, (*converter.record.inputs, -1)[:5]
    x, features, times, _, state = (file.tensors[index] for index in inputs)
    filters, memory = times.shape
    rank = options["rank"]
    if rank < 1 or filters % rank or not state.is_variable or x.shape[1:] != features.shape[1:]:
        raise UnsupportedError("its shapes, its rank and its state do not fit together")
    kinds = (x.dtype, features.dtype, times.dtype, state.dtype)
    if kinds not in (("int8", "int8", "int16", "int16"), ("float32",) * 4):
        raise UnsupportedError(
            f"its input, weights and state are {', '.join(kinds)}: int8, int8, int16, int16 and "
            "float32 throughout are known"
        )
    batch = x.shape[0]
    old = converter.bb.emit(relax.op.reshape(converter.stored(inputs[4]), (batch, filters, memory)))
    found = (_svdf_features if x.is_quantized else _real_features)(converter, inputs)
    latest = converter.bb.emit(relax.op.reshape(found, (batch, filters, 1)))
    rest = converter.bb.emit(relax.op.strided_slice(old, [2], [1], [memory]))
    new = converter.bb.emit(relax.op.concat([rest, latest], axis=2)) if memory > 1 else latest
    converter.keep(inputs[4], relax.op.reshape(new, (batch, filters * memory)))
    weights = _constant(times).reshape(1, filters, memory)
    sides = (
        (_wide(converter, new), constant_int64(weights))
        if x.is_quantized
        else (new, constant(weights))
    )
    product = converter.bb.emit(relax.op.multiply(*sides))
    split = converter.bb.emit(relax.op.reshape(product, (batch, filters // rank, rank * memory)))
    sums = converter.bb.emit(relax.op.sum(split, axis=[2]))
    finish = _svdf_units if x.is_quantized else _real_units
    finish(converter, inputs, sums, options["fused_activation_function"])


def _svdf_features(converter: Stateful, inputs: tuple[int, ...]) -> Expr:
    """int16 (N, F)."""
    x, weights, _, _, state = (converter.file.tensors[index] for index in inputs)
    assert x.zero_points is not None
    bb, integers = converter.bb, Integers(converter.bb)
    centred = bb.emit(
        relax.op.subtract(
            bb.emit(relax.op.astype(converter.stored(inputs[0]), "int32")),
            constant(np.array(x.zero_points[0], np.int32)),
        )
    )
    turned = np.ascontiguousarray(_constant(weights).T.astype(np.int32))
    sums = _wide(converter, bb.emit(relax.op.matmul(centred, constant(turned))))
    scale = np.float32(single_scale(x) * single_scale(weights)) / single_scale(state)
    return bb.emit(integers.limited(integers.scaled(sums, float(scale)), "int16"))


def _svdf_units(converter: Stateful, inputs: tuple[int, ...], sums: Expr, activation: int) -> None:
    """int8 (N, U). LiteRT's kernel clamps to int8 alone, whatever the activation."""
    _, _, times, bias, state = (converter.file.tensors[index] for index in inputs)
    target = converter.file.tensors[converter.record.outputs[0]]
    assert target.zero_points is not None
    if activation not in (tflite.ActivationFunctionType.NONE, tflite.ActivationFunctionType.RELU):
        raise UnsupportedError(f"its activation has the number {activation}: LiteRT has RELU alone")
    bb, integers = converter.bb, Integers(converter.bb)
    if inputs[3] >= 0:
        sums = bb.emit(relax.op.add(sums, constant_int64(_constant(bias))))
    scale = np.float32(single_scale(state) * single_scale(times)) / single_scale(target)
    levels = bb.emit(
        relax.op.add(
            integers.scaled(sums, float(scale)), integers.number(int(target.zero_points[0]))
        )
    )
    converter.give(converter.record.outputs[0], integers.limited(levels, "int8"))


def _real_features(converter: Stateful, inputs: tuple[int, ...]) -> Expr:
    """float32 (N, F)."""
    turned = np.ascontiguousarray(_constant(converter.file.tensors[inputs[1]]).T)
    return converter.bb.emit(relax.op.matmul(converter.stored(inputs[0]), constant(turned)))


def _real_units(converter: Stateful, inputs: tuple[int, ...], sums: Expr, activation: int) -> None:
    """float32 (N, U)."""
    if activation not in _ACTIVATIONS:
        raise UnsupportedError(f"its activation has the number {activation}, which is no clamp")
    low, high = _ACTIVATIONS[activation]
    bb = converter.bb
    if inputs[3] >= 0:
        bias = _constant(converter.file.tensors[inputs[3]])
        sums = bb.emit(relax.op.add(sums, constant(bias)))
    for limit, bound in ((low, relax.op.maximum), (high, relax.op.minimum)):
        if np.isfinite(limit):
            sums = bb.emit(bound(sums, constant(np.float32(limit))))
    converter.give(converter.record.outputs[0], sums)


# --- variables ------------------------------------------------------------------------------------
def _nothing(converter: Stateful, op: TfliteTable) -> None:
    """VAR_HANDLE names a variable, and CALL_ONCE gives it its first value: tflite_file.py has read
    both."""


def _read(converter: Stateful, op: TfliteTable) -> None:
    """READ_VARIABLE: what it holds now."""
    (handle,), (target,) = converter.record.inputs, converter.record.outputs
    converter.give(target, converter.stored(handle))


def _assign(converter: Stateful, op: TfliteTable) -> None:
    """ASSIGN_VARIABLE: what it holds from here on."""
    handle, source = converter.record.inputs
    converter.keep(handle, converter.stored(source))


STATEFUL: Mapping[str, Callable[[Stateful, TfliteTable], None]] = {
    "SVDF": _svdf,
    "UNIDIRECTIONAL_SEQUENCE_LSTM": unidirectional_lstm,
    "VAR_HANDLE": _nothing,
    "CALL_ONCE": _nothing,
    "READ_VARIABLE": _read,
    "ASSIGN_VARIABLE": _assign,
}
