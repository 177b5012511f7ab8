# SPDX-License-Identifier: Apache-2.0
"""Scales that PyTorch finds when the network runs, and products of the integers that they give.

In:   the arguments of choose_qparams, and of quantize and dequantize with a computed scale; of a
      linear layer between them; of _int_mm, which torchao writes.
Out:  real arithmetic for scale and zero point, each operation rounded once as PyTorch rounds it,
      and one product of int8 by int8 whose sums are int32, which a device can do.
Next: quantized.py and weighted.py call these; torch.py emits them.

    linear((q - z) * s, w * c)  =  float32(sum q * w  -  z * sum w) * s * c

PyTorch itself multiplies the real numbers on the left; XNNPACK, for which its quantizer writes
them, computes the right. The sums are exact here; PyTorch's own round each addition.

What is no number makes the scale none, as in PyTorch; its integers, which C leaves open there, are
those of the nearest end.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from loadstone.errors import UnsupportedError
from loadstone.frontend.aten.build import Build, extents, importer
from loadstone.numerics import wrap_int32
from loadstone.relax.compat import (
    constant,
    dtype,
    exact_constant,
    is_call,
    is_constant,
    relax,
    scalar,
    value,
)

if TYPE_CHECKING:
    from loadstone.relax.types import Expr

__all__ = ["GIVES_SCALES", "WAYS", "integer_linear", "integers_by", "reals_of"]

#: Operators whose scale PyTorch calls float64, though it is a float32 by its making, and whose zero
#: point it calls int64; here they are float32 and int32.
GIVES_SCALES = tuple(
    f"quantized_decomposed.choose_qparams{kind}.tensor" for kind in ("", "_symmetric")
)
#: The remedy for other forms.
WAYS = (
    "quantize dynamically with XNNPACKQuantizer (is_dynamic=True) or torchao's "
    "Int8DynamicActivationInt8WeightConfig, or statically"
)


@importer(GIVES_SCALES[0])
def _choose(
    build: Build, x: Expr, quant_min: int, quant_max: int, eps: float, dtype: object
) -> list[Expr]:
    """(max - min) / (quant_max - quant_min) of a range that holds 0, eps at least; the zero point
    is what min becomes quant_min by."""
    _check_signed(dtype)
    low, high = _range(build, x)
    span = build.emit(relax.op.subtract(high, low))
    scale = _step(build, span, float(quant_max - quant_min), eps)
    begin = build.emit(relax.op.round(build.emit(relax.op.divide(low, scale))))
    point = build.emit(relax.op.subtract(_number(float(quant_min)), begin))
    inside = _between(build, point, quant_min, quant_max)
    return [scale, relax.op.astype(inside, "int32")]


@importer(GIVES_SCALES[1])
def _choose_symmetric(
    build: Build, x: Expr, quant_min: int, quant_max: int, eps: float, dtype: object
) -> list[Expr]:
    """max |x| / half of the steps, eps at least; the zero point is 0."""
    _check_signed(dtype)
    low, high = _range(build, x)
    reach = build.emit(relax.op.maximum(high, build.emit(relax.op.negative(low))))
    scale = _step(build, reach, float(quant_max - quant_min) / 2, eps)
    return [scale, exact_constant(np.zeros(1, np.int32))]


def _range(build: Build, x: Expr) -> tuple[Expr, Expr]:
    """The least and the largest number, and 0 between them. Zero comes first: of two of which one
    is no number the second is taken."""
    zero = _number(0.0)
    low, high = (build.emit(find(x)) for find in (relax.op.min, relax.op.max))
    low, high = (build.emit(relax.op.reshape(end, (1,))) for end in (low, high))
    return build.emit(relax.op.minimum(zero, low)), build.emit(relax.op.maximum(zero, high))


def _step(build: Build, span: Expr, steps: float, eps: float) -> Expr:
    step = build.emit(relax.op.divide(span, _number(steps)))
    return build.emit(relax.op.maximum(_number(eps), step))


def _check_signed(kind: object) -> None:
    if str(kind) != "torch.int8":
        raise UnsupportedError(
            f"it finds a scale for {kind} when the network runs, which is done for torch.int8: "
            "quantize activations to int8 (XNNPACKQuantizer does)"
        )


def integers_by(build: Build, x: Expr, scale: Expr, point: Expr, ends: tuple[int, int]) -> Expr:
    """int8: round_half_to_even(x * float32(1 / scale)) + point, clamped to the ends."""
    inverse = build.emit(relax.op.divide(_number(1.0), scale))
    rounded = build.emit(relax.op.round(build.emit(relax.op.multiply(x, inverse))))
    moved = build.emit(relax.op.add(rounded, build.emit(relax.op.astype(point, "float32"))))
    return relax.op.astype(_between(build, moved, *ends), "int8")


def reals_of(build: Build, integers: Expr, scale: Expr, point: Expr) -> Expr:
    """float32((integers - point) * scale)"""
    wide = build.emit(relax.op.astype(integers, "int32"))
    centred = build.emit(relax.op.subtract(wide, point))
    return relax.op.multiply(build.emit(relax.op.astype(centred, "float32")), scale)


def integer_linear(build: Build, x: Expr, weight: Expr) -> Expr | None:
    """x (..., I) times weight (O, I) by their integers; None where x is not what reals_of gives, or
    the weights are not symmetric int8 with one scale or one a row."""
    rows, factors = _rows(build, x), _weights(build, weight)
    if rows is None or factors is None or len(extents(x)) < 2:
        return None
    integers, point, scale = rows
    levels, channels = factors
    product = relax.op.matmul(integers, exact_constant(levels), out_dtype="int32")
    sums = build.emit(product)
    if not (is_constant(point) and scalar(point) == 0):
        columns = exact_constant(wrap_int32(levels.astype(np.int64).sum(axis=0)))
        lost = build.emit(relax.op.multiply(point, columns))
        sums = build.emit(relax.op.subtract(sums, lost))
    real = build.emit(relax.op.astype(sums, "float32"))
    scaled = build.emit(relax.op.multiply(real, scale))
    return relax.op.multiply(scaled, constant(channels))


def _rows(build: Build, x: Expr) -> tuple[Expr, Expr, Expr] | None:
    """Integers, zero point and scale of what reals_of gave."""
    real = build.producer(x)
    if not is_call(real, "multiply"):
        return None
    centred = build.producer(real.args[0])
    if not is_call(centred, "astype") or extents(real.args[1]) != (1,):
        return None
    apart = build.producer(centred.args[0])
    if not is_call(apart, "subtract") or dtype(apart) != "int32":
        return None
    wide, point = build.producer(apart.args[0]), apart.args[1]
    if not is_call(wide, "astype") or dtype(wide.args[0]) != "int8" or extents(point) != (1,):
        return None
    return wide.args[0], point, real.args[1]


def _weights(build: Build, weight: Expr) -> tuple[NDArray[np.int8], NDArray[np.float32]] | None:
    """(I, O) int8 and the scales of O, or of all in an array of one."""
    made = build.producer(weight)
    if not is_call(made, "dequantize") or not all(map(is_constant, made.args)):
        return None
    levels, scales, zeros = map(value, made.args)
    by_row = scales.size == 1 or made.attrs.axis % 2 == 0
    if levels.ndim != 2 or levels.dtype != np.int8 or zeros.any() or not by_row:
        return None
    return np.ascontiguousarray(levels.T), scales.astype(np.float32).reshape(-1)


@importer("aten._int_mm.default")
def _product(build: Build, x: Expr, mat2: Expr) -> Expr:
    """int8 by int8 with sums of int32."""
    return relax.op.matmul(x, mat2, out_dtype="int32")


def _between(build: Build, x: Expr, low: float, high: float) -> Expr:
    """Of what is no number the upper end, so that C may convert it."""
    below = build.emit(relax.op.minimum(x, _number(float(high))))
    return build.emit(relax.op.maximum(below, _number(float(low))))


def _number(number: float) -> Expr:
    return exact_constant(np.array(number, np.float32))
