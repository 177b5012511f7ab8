"""TFLite's arithmetic on elements: ADD, SUB, MUL, LEAKY_RELU.

In:   int8 activations of any shape, with their `Quantization`.
Out:  int8 activations in the output's quantization.
Next: __init__.py gives them to callers; vta/operators/elementwise.py takes its constants from here.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from loadstone.graph import Quantization
from loadstone.graph.kernels.tflite.levels import Int8Array, centred, finish
from loadstone.graph.kernels.windows import INT8_LIMITS
from loadstone.numerics import quantize_multiplier, requantize_double

__all__ = [
    "ADD_PRE_SHIFT",
    "AddConstants",
    "add",
    "add_constants",
    "leaky_relu",
    "mul",
    "mul_scale",
    "sub",
]

#: ADD and SUB shift their inputs left by so many bits before they requantize them.
ADD_PRE_SHIFT = 20


class AddConstants(NamedTuple):
    """The three requantizations of ADD and SUB: (multiplier, shift) of each input and of the
    sum."""

    first: tuple[int, int]
    second: tuple[int, int]
    output: tuple[int, int]


def add_constants(q_a: Quantization, q_b: Quantization, q_out: Quantization) -> AddConstants:
    """Both inputs come to twice the larger scale, 20 bits up, so that their sum fits 32 bits.

    Domain: 2 * the larger input scale < 2^20 * the output scale (LiteRT aborts beyond).
    """
    common = 2.0 * max(q_a.scale, q_b.scale)
    reals = (q_a.scale / common, q_b.scale / common, common / (2.0**ADD_PRE_SHIFT * q_out.scale))
    return AddConstants(*((int(m), int(s)) for m, s in map(quantize_multiplier, reals)))


def add(
    a: Int8Array,
    b: Int8Array,
    q_a: Quantization,
    q_b: Quantization,
    q_out: Quantization,
    *,
    limits: tuple[int, int] = INT8_LIMITS,
) -> Int8Array:
    """ADD: shapes broadcast."""
    return _add((a, q_a), (b, q_b), 1, q_out, limits)


def sub(
    a: Int8Array,
    b: Int8Array,
    q_a: Quantization,
    q_b: Quantization,
    q_out: Quantization,
    *,
    limits: tuple[int, int] = INT8_LIMITS,
) -> Int8Array:
    """SUB: as ADD, with the second input's requantized value taken away.

    a, b: shapes broadcast.
    """
    return _add((a, q_a), (b, q_b), -1, q_out, limits)


def _add(
    first_of: tuple[Int8Array, Quantization],
    second_of: tuple[Int8Array, Quantization],
    sign: int,
    q_out: Quantization,
    limits: tuple[int, int],
) -> Int8Array:
    constants = add_constants(first_of[1], second_of[1], q_out)
    first = requantize_double(centred(*first_of) << ADD_PRE_SHIFT, *constants.first)
    second = requantize_double(centred(*second_of) << ADD_PRE_SHIFT, *constants.second)
    total = first.astype(np.int64) + sign * second.astype(np.int64)
    return finish(requantize_double(total, *constants.output), q_out.zero_point, limits)


def mul_scale(q_a: Quantization, q_b: Quantization, q_out: Quantization) -> float:
    """MUL's scale: q_a.scale * q_b.scale / q_out.scale, the operations in float32."""
    return float(np.float32(q_a.scale) * np.float32(q_b.scale) / np.float32(q_out.scale))


def mul(
    a: Int8Array,
    b: Int8Array,
    q_a: Quantization,
    q_b: Quantization,
    q_out: Quantization,
    *,
    limits: tuple[int, int] = INT8_LIMITS,
) -> Int8Array:
    """MUL: shapes broadcast."""
    product = centred(a, q_a) * centred(b, q_b)
    return finish(
        requantize_double(product, *quantize_multiplier(mul_scale(q_a, q_b, q_out))),
        q_out.zero_point,
        limits,
    )


def leaky_relu(x: Int8Array, q_in: Quantization, q_out: Quantization, alpha: float) -> Int8Array:
    """LEAKY_RELU: negative values times alpha.

    Elementwise: the result has the shape of x. Rounding DOUBLE on both sides of zero.
    """
    distance = centred(x, q_in)
    ratio = np.float32(q_in.scale) / np.float32(q_out.scale)
    slope = np.float32(q_in.scale) * np.float32(alpha) / np.float32(q_out.scale)
    positive = requantize_double(distance, *quantize_multiplier(ratio))
    negative = requantize_double(distance, *quantize_multiplier(slope))
    return finish(np.where(distance >= 0, positive, negative), q_out.zero_point)
