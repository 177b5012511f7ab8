# SPDX-License-Identifier: Apache-2.0
"""TFLite's functions of real numbers, integers and truth values, where TVM's importer does not do
them, or does them only in part.

In:   an operator's table; the Converter of tflite.py, which answers for tensors of the file as real
      numbers.
Out:  a Relax expression; FUNCTIONS, by operator.
Next: tflite.py quantizes what comes out.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING

import numpy as np

from loadstone.frontend.tflite_converters import Converter, target_of
from loadstone.frontend.tflite_file import TfliteTable
from loadstone.relax.compat import constant, dtype, relax

if TYPE_CHECKING:
    from loadstone.relax.types import Expr

__all__ = ["FUNCTIONS"]


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


def _compared(name: str) -> Callable[[Converter, TfliteTable], Expr]:
    """EQUAL and NOT_EQUAL, of truth values as well."""

    def convert(converter: Converter, op: TfliteTable) -> Expr:
        sides = [converter.real(0), converter.real(1)]
        if dtype(sides[0]) == "bool":
            sides = [converter.bb.emit(relax.op.astype(side, "int8")) for side in sides]
        return getattr(relax.op, name)(*sides)

    return convert


def _squared_difference(converter: Converter, op: TfliteTable) -> Expr:
    """SQUARED_DIFFERENCE: a product, as a power of integers there is none."""
    apart = converter.bb.emit(relax.op.subtract(converter.real(0), converter.real(1)))
    return relax.op.multiply(apart, apart)


def _between_0_and_1(converter: Converter, op: TfliteTable) -> Expr:
    """RELU_0_TO_1."""
    return relax.op.clip(converter.real(0), 0.0, 1.0)


#: Operator -> its conversion.
FUNCTIONS: Mapping[str, Callable[[Converter, TfliteTable], Expr]] = {
    "CAST": _cast,
    "GELU": _gelu,
    "EQUAL": _compared("equal"),
    "NOT_EQUAL": _compared("not_equal"),
    "SQUARED_DIFFERENCE": _squared_difference,
    "RELU_0_TO_1": _between_0_and_1,
}
