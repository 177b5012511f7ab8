# SPDX-License-Identifier: Apache-2.0
"""TFLite's functions of real numbers, integers and truth values, where TVM's importer lacks them
or supports them only in part.

In:   an operator's table; the Converter of tflite.py, which returns tensors of the file as real
      numbers.
Out:  a Relax expression; FUNCTIONS, by operator.
Next: tflite.py quantizes the result.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING

import numpy as np

from loadstone.errors import UnsupportedError
from loadstone.frontend.message import short
from loadstone.frontend.tflite_converters import Converter, target_of
from loadstone.frontend.tflite_file import TensorRecord, TfliteTable
from loadstone.frontend.tflite_integers import Integers
from loadstone.relax.compat import constant, dtype, relax

if TYPE_CHECKING:
    from loadstone.relax.types import Expr

__all__ = ["FUNCTIONS"]

#: Steps of 1 that LiteRT compares real numbers in.
_COMPARED_STEPS = 256


def _cast(converter: Converter, op: TfliteTable) -> Expr:
    """CAST to the type that the tensor has: LiteRT does not read the one of its options."""
    source, target = converter.real(0), target_of(converter).dtype
    if target == "bool":
        return relax.op.not_equal(source, constant(np.zeros((), dtype(source))))
    return relax.op.astype(source, target)


def _gelu(converter: Converter, op: TfliteTable) -> Expr:
    """GELU: x times the normal distribution, or its approximation by a hyperbolic tangent."""
    emit, source = converter.bb.emit, converter.real(0)
    half, one = constant(np.float32(0.5)), constant(np.float32(1))
    if converter.record.options["approximate"]:
        cube = emit(relax.op.multiply(emit(relax.op.multiply(source, source)), source))
        bent = emit(relax.op.multiply(cube, constant(np.float32(0.044715))))
        inner = emit(relax.op.add(source, bent))
        scaled = emit(relax.op.multiply(inner, constant(np.float32(np.sqrt(2 / np.pi)))))
        share = emit(relax.op.tanh(scaled))
    else:
        share = emit(
            relax.op.erf(emit(relax.op.multiply(source, constant(np.float32(np.sqrt(0.5))))))
        )
    weight = emit(relax.op.multiply(emit(relax.op.add(share, one)), half))
    return relax.op.multiply(source, weight)


def _compared(name: str) -> Callable[[Converter, TfliteTable], Expr | None]:
    """EQUAL, LESS ... of numbers, of truth values, and of integers with scales."""
    compare = getattr(relax.op, name)

    def convert(converter: Converter, op: TfliteTable) -> Expr | None:
        tensors = [converter.file.tensors[index] for index in converter.record.inputs]
        if all(tensor.is_quantized for tensor in tensors):
            sides = [_rescaled(converter, tensor) for tensor in tensors]
            converter.give(converter.record.outputs[0], compare(*sides))
            return None
        sides = [converter.real(0), converter.real(1)]
        if dtype(sides[0]) == "bool":
            sides = [converter.bb.emit(relax.op.astype(side, "int8")) for side in sides]
        return compare(*sides)

    return convert


def _rescaled(converter: Converter, tensor: TensorRecord) -> Expr:
    """What LiteRT compares: steps of 1/256, rounded. Under scales below that, integers that are not
    equal compare as equal."""
    assert tensor.scales is not None
    assert tensor.zero_points is not None
    integers, scale = Integers(converter.bb), float(tensor.scales[0])
    if not scale < 1:
        raise UnsupportedError(
            f'"{short(tensor.name)}" has the scale {scale:.6g}: LiteRT compares under scales below '
            "1 alone"
        )
    wide = integers.wide(converter.stored(tensor.index))
    offset = integers.number(int(tensor.zero_points[0]))
    centred = converter.bb.emit(relax.op.subtract(wide, offset))
    steps = converter.bb.emit(relax.op.multiply(centred, integers.number(_COMPARED_STEPS)))
    return integers.scaled(steps, scale)


def _squared_difference(converter: Converter, op: TfliteTable) -> Expr:
    """SQUARED_DIFFERENCE: of integers a product, as there is no power of them."""
    apart = converter.bb.emit(relax.op.subtract(converter.real(0), converter.real(1)))
    if dtype(apart) == "float32":
        return relax.op.power(apart, constant(np.float32(2)))
    return relax.op.multiply(apart, apart)


def _between_0_and_1(converter: Converter, op: TfliteTable) -> Expr:
    """RELU_0_TO_1."""
    return relax.op.clip(converter.real(0), 0.0, 1.0)


#: Operator -> its conversion.
FUNCTIONS: Mapping[str, Callable[[Converter, TfliteTable], Expr | None]] = {
    "CAST": _cast,
    "GELU": _gelu,
    "EQUAL": _compared("equal"),
    "NOT_EQUAL": _compared("not_equal"),
    "LESS": _compared("less"),
    "LESS_EQUAL": _compared("less_equal"),
    "GREATER": _compared("greater"),
    "GREATER_EQUAL": _compared("greater_equal"),
    "SQUARED_DIFFERENCE": _squared_difference,
    "RELU_0_TO_1": _between_0_and_1,
}
