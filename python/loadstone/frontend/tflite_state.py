# SPDX-License-Identifier: Apache-2.0
"""TFLite's operators that keep something from one run to the next: SVDF, and variables.

In:   an operator of a TFLite file; the Converter of tflite.py.
Out:  what it gives, and the next value of its state, as integers or as real numbers; STATEFUL, by
      operator.
Next: tflite.py makes an input and an output of each state, artifact/states.py memory.

SVDF on integers is LiteRT's kernel step by step, in operations of Relax on integers: features are
scaled to int16 with gemmlowp's two roundings, and so are the sums over time.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Protocol

import numpy as np
import tflite

from loadstone.errors import UnsupportedError
from loadstone.frontend.tflite_file import OperatorRecord, TensorRecord, TfliteFile, TfliteTable
from loadstone.numerics import Array, quantize_multiplier
from loadstone.relax.compat import constant, constant_int64, relax

if TYPE_CHECKING:
    from loadstone.relax.types import BlockBuilder, Expr

__all__ = ["STATEFUL", "Stateful"]

_ACTIVATIONS = {
    tflite.ActivationFunctionType.NONE: (-np.inf, np.inf),
    tflite.ActivationFunctionType.RELU: (0.0, np.inf),
    tflite.ActivationFunctionType.RELU6: (0.0, 6.0),
    tflite.ActivationFunctionType.RELU_N1_TO_1: (-1.0, 1.0),
}


class Stateful(Protocol):
    """What these functions ask of tflite.py."""

    file: TfliteFile
    record: OperatorRecord
    bb: BlockBuilder

    def stored(self, index: int) -> Expr:
        """A tensor as the file has it."""
        ...

    def keep(self, index: int, expr: Expr) -> None:
        """The next value of a state, which is read from here on."""
        ...

    def give(self, index: int, expr: Expr) -> None:
        """A tensor as the file has it, computed."""
        ...


# --- integers -------------------------------------------------------------------------------------
class _Integers:
    """Arithmetic on int64 in Relax, as gemmlowp defines it."""

    def __init__(self, builder: BlockBuilder) -> None:
        self.emit = builder.emit

    def number(self, value: int) -> Expr:
        return constant_int64(value)

    def scaled(self, x: Expr, scale: float) -> Expr:
        """numerics.requantize_double: times a multiplier, shifted right, each rounded."""
        multiplier, shift = quantize_multiplier(np.float64(scale))
        left, right = max(int(shift), 0), max(-int(shift), 0)
        if left:
            x = self.emit(relax.op.multiply(x, self.number(1 << left)))
        product = self.emit(relax.op.multiply(x, self.number(int(multiplier))))
        zero = self.number(0)
        positive = self.emit(relax.op.greater_equal(product, zero))
        nudge = self.emit(
            relax.op.where(positive, self.number(1 << 30), self.number(1 - (1 << 30)))
        )
        nudged = self.emit(relax.op.add(product, nudge))
        size = self.emit(relax.op.right_shift(self.emit(relax.op.abs(nudged)), self.number(31)))
        upward = self.emit(relax.op.greater_equal(nudged, zero))
        high = self.emit(relax.op.where(upward, size, self.emit(relax.op.negative(size))))
        if not right:
            return high
        mask = (1 << right) - 1
        rest = self.emit(relax.op.bitwise_and(high, self.number(mask)))
        negative = self.emit(relax.op.less(high, zero))
        half = self.emit(
            relax.op.where(negative, self.number((mask >> 1) + 1), self.number(mask >> 1))
        )
        up = self.emit(relax.op.astype(self.emit(relax.op.greater(rest, half)), "int64"))
        return self.emit(
            relax.op.add(self.emit(relax.op.right_shift(high, self.number(right))), up)
        )

    def limited(self, x: Expr, kind: str) -> Expr:
        """Saturated to an integer type; not bound yet."""
        limits = np.iinfo(kind)
        low = self.emit(relax.op.maximum(x, self.number(limits.min)))
        high = self.emit(relax.op.minimum(low, self.number(limits.max)))
        return relax.op.astype(high, kind)


def _wide(converter: Stateful, expr: Expr) -> Expr:
    return converter.bb.emit(relax.op.astype(expr, "int64"))


def _constant(record: TensorRecord) -> Array:
    if record.data is None:
        raise UnsupportedError(
            f'its argument "{record.name}" is computed: only a constant is known'
        )
    return record.data


def _scale(record: TensorRecord) -> np.float32:
    if record.scales is None or record.scales.size != 1:
        raise UnsupportedError(f'"{record.name}" has no single scale')
    return np.float32(record.scales[0])


# --- SVDF -----------------------------------------------------------------------------------------
def _svdf(converter: Stateful, op: TfliteTable) -> None:
    """Inputs: x (N, I), feature weights (F, I), time weights (F, M), bias (U,), state (N, F * M).

    Each of U units is the sum of `rank` filters: features of this run join the state of the last
    M - 1, and are weighed over time.
    """
    options = tflite.SVDFOptions()
    options.Init(op.BuiltinOptions().Bytes, op.BuiltinOptions().Pos)
    file, inputs = converter.file, (*converter.record.inputs, -1)[:5]
    x, features, times, _, state = (file.tensors[index] for index in inputs)
    filters, memory = times.shape
    rank = options.Rank()
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
    finish(converter, inputs, sums, options.FusedActivationFunction())


def _svdf_features(converter: Stateful, inputs: tuple[int, ...]) -> Expr:
    """int16 (N, F)."""
    x, weights, _, _, state = (converter.file.tensors[index] for index in inputs)
    assert x.zero_points is not None
    bb, integers = converter.bb, _Integers(converter.bb)
    centred = bb.emit(
        relax.op.subtract(
            bb.emit(relax.op.astype(converter.stored(inputs[0]), "int32")),
            constant(np.array(x.zero_points[0], np.int32)),
        )
    )
    turned = np.ascontiguousarray(_constant(weights).T.astype(np.int32))
    sums = _wide(converter, bb.emit(relax.op.matmul(centred, constant(turned))))
    scale = np.float32(_scale(x) * _scale(weights)) / _scale(state)
    return bb.emit(integers.limited(integers.scaled(sums, float(scale)), "int16"))


def _svdf_units(converter: Stateful, inputs: tuple[int, ...], sums: Expr, activation: int) -> None:
    """int8 (N, U). LiteRT's kernel clamps to int8 alone, whatever the activation."""
    _, _, times, bias, state = (converter.file.tensors[index] for index in inputs)
    target = converter.file.tensors[converter.record.outputs[0]]
    assert target.zero_points is not None
    if activation not in (tflite.ActivationFunctionType.NONE, tflite.ActivationFunctionType.RELU):
        raise UnsupportedError(f"its activation has the number {activation}: LiteRT has RELU alone")
    bb, integers = converter.bb, _Integers(converter.bb)
    if inputs[3] >= 0:
        sums = bb.emit(relax.op.add(sums, constant_int64(_constant(bias))))
    scale = np.float32(_scale(state) * _scale(times)) / _scale(target)
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
    "VAR_HANDLE": _nothing,
    "CALL_ONCE": _nothing,
    "READ_VARIABLE": _read,
    "ASSIGN_VARIABLE": _assign,
}
