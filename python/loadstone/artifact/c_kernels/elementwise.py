# SPDX-License-Identifier: Apache-2.0
"""Sums, products, quotients, softmax, layer normalization and the index of the largest in C.

In:   Add, Sub, Mul, Div, SquaredDifference, Softmax, LayerNorm or ArgMax, a Body.
Out:  its statements.
Next: __init__.py.
"""

from __future__ import annotations

from math import prod

import numpy as np

from loadstone import graph as g
from loadstone.artifact.c_kernels.body import Body, c_real, grid, row_major
from loadstone.errors import UnsupportedError
from loadstone.graph.kernels.fixed_point import reciprocal
from loadstone.graph.kernels.onnx import dequantize
from loadstone.graph.kernels.tflite import (
    ADD_PRE_SHIFT,
    DIFFERENCE_PRE_SHIFT,
    add_constants,
    div_scale,
    leading_sign_bits,
    mul_scale,
)
from loadstone.numerics import Array, Rounding, quantize_multiplier, requantize_double

__all__ = [
    "add",
    "argmax",
    "dequantized",
    "div",
    "layer_norm",
    "mul",
    "quantized",
    "softmax",
    "squared_difference",
    "sub",
]

#: Powers of a row up to this length are kept on the stack (512 bytes of a board's 2 KiB); of a
#: longer one each is computed twice.
_KEPT_POWERS = 64


def add(o: g.Add, body: Body) -> None:
    """Both inputs by a table of 256 numbers, then their sum."""
    _sum(o, body, "+")


def sub(o: g.Sub, body: Body) -> None:
    """As `add`."""
    _sum(o, body, "-")


def mul(o: g.Mul, body: Body) -> None:
    """The product of the integers less their zero points, or of the real numbers."""
    if o.rounding is Rounding.FLOAT32:
        _reals(o, body, "*")
        return
    a, b = o.inputs
    real = mul_scale(grid(a), grid(b), grid(o.output))
    multiplier, shift = quantize_multiplier(real)
    product = f"({{0}} - ({a.zero_point})) * ({{1}} - ({b.zero_point}))"
    value = f"{body.helper('lds_double')}({product}, {int(multiplier)}, {int(shift)})"
    _each(o, body, body.clamped(f"(int64_t){value} + ({o.output.zero_point})", o.low, o.high))


def squared_difference(o: g.SquaredDifference, body: Body) -> None:
    """Both inputs by a table, as a sum's; the square of what they differ by, in 32 bits."""
    scales = [grid(t).scale for t in o.inputs]
    common = 2.0 * max(scales)
    tables = [
        body.constant(
            requantize_double(
                (_values(t).astype(np.int64) - t.zero_point) << DIFFERENCE_PRE_SHIFT,
                *quantize_multiplier(scale / common),
            )
        )
        for t, scale in zip(o.inputs, scales, strict=True)
    ]
    output = common * common / (2.0 ** (2 * DIFFERENCE_PRE_SHIFT) * grid(o.output).scale)
    multiplier, shift = quantize_multiplier(output)
    difference = f"({tables[0]}[(uint8_t){{0}}] - {tables[1]}[(uint8_t){{1}}])"
    square = f"(int32_t)(uint32_t)((int64_t){difference} * {difference})"
    value = f"{body.helper('lds_double')}({square}, {int(multiplier)}, {int(shift)})"
    _each(o, body, body.clamped(f"(int64_t){value} + ({o.output.zero_point})", -128, 127))


def div(o: g.Div, body: Body) -> None:
    """A reciprocal in fixed point, by a table of the divisor's bytes, times the dividend as far
    left as it goes; by zero it is the end of the range on the dividend's side."""
    a, b = (_values(t).astype(np.int64) - t.zero_point for t in o.inputs)
    inverse, over_unit = reciprocal(np.maximum(np.abs(b), 1), 31)
    multiplier, shift = quantize_multiplier(div_scale(*(grid(t) for t in (*o.inputs, o.output))))
    signed = np.stack([a, -a])  # the second for a divisor below zero
    headroom = leading_sign_bits(signed)
    bits = headroom - int(shift)
    if int(bits.min()) < 0:
        raise UnsupportedError(f"div {o.name}: its scale is beyond what TFLite's kernel divides")
    dividend = body.constant((signed << headroom).astype(np.int32))
    names = [body.constant(t.astype(np.int32)) for t in (bits, inverse, over_unit, np.sign(b))]
    divisor = "(uint8_t){1}"
    at = f"(({names[3]}[{divisor}] < 0) << 8 | (uint8_t){{0}})"
    quotient = body.helper("lds_quotient")
    arguments = f"{dividend}[{at}], {names[1]}[{divisor}], {int(multiplier)}"
    value = f"{quotient}({arguments}, {names[0]}[{at}] + {names[2]}[{divisor}])"
    end = f"({dividend}[{at}] < 0 ? INT32_MIN : INT32_MAX)"
    whole = f"({names[3]}[{divisor}] == 0 ? {end} : {value})"
    _each(o, body, body.clamped(f"(int64_t){whole} + ({o.output.zero_point})", o.low, o.high))


def _sum(o: g.Add | g.Sub, body: Body, sign: str) -> None:
    if o.rounding is Rounding.FLOAT32:
        _reals(o, body, sign)
        return
    constants = add_constants(grid(o.inputs[0]), grid(o.inputs[1]), grid(o.output))
    lanes = zip(o.inputs, (constants.first, constants.second), strict=True)
    tables = [
        body.constant(
            requantize_double((_values(t).astype(np.int64) - t.zero_point) << ADD_PRE_SHIFT, *lane)
        )
        for t, lane in lanes
    ]
    total = f"(int64_t){tables[0]}[(uint8_t){{0}}] {sign} {tables[1]}[(uint8_t){{1}}]"
    value = f"{body.helper('lds_double')}({total}, {constants.output[0]}, {constants.output[1]})"
    _each(o, body, body.clamped(f"(int64_t){value} + ({o.output.zero_point})", o.low, o.high))


def _values(t: g.Tensor) -> Array:
    """The 256 values of a type in the order of their bytes."""
    return np.arange(256, dtype=np.uint8).view(np.dtype(t.dtype))


def _reals(o: g.Elementwise, body: Body, sign: str) -> None:
    """ONNX: in float32, both inputs by a table of 256 real numbers."""
    tables = [body.constant(dequantized(t)) for t in o.inputs]
    total = f"{tables[0]}[(uint8_t){{0}}] {sign} {tables[1]}[(uint8_t){{1}}]"
    _each(o, body, quantized(o, body, total, (o.low, o.high)))


def dequantized(t: g.Tensor) -> Array:
    """(256,): the real number of each byte, in float32."""
    return dequantize(_values(t), grid(t))


def quantized(o: g.Operator, body: Body, value: str, limits: tuple[int, int]) -> str:
    """value: float32 in C; as QuantizeLinear makes it an integer of the output."""
    level = f"{body.helper('lds_even')}(({value}) / {c_real(o.output.scale)})"
    return body.clamped(f"(int64_t){level} + ({o.output.zero_point})", *limits)


def _each(o: g.Elementwise, body: Body, value: str) -> None:
    """value: of elements {0} and {1}, which broadcast."""
    shape = o.output.shape or (1,)
    indices = [f"i{axis}" for axis in range(len(shape))]
    body.add(f"int32_t {', '.join(indices)};")
    for axis, extent in enumerate(shape):
        body.add(f"{'  ' * axis}for (i{axis} = 0; i{axis} < {extent}; ++i{axis})")
    places = [_place(shape, t.shape, f"x{k}") for k, t in enumerate(o.inputs)]
    body.add(f"{'  ' * len(shape)}{_place(shape, shape, 'y')} = {value.format(*places)};")


def _place(shape: tuple[int, ...], own: tuple[int, ...], name: str) -> str:
    """An element in the loops over `shape`, of a tensor whose extents of 1 are repeated."""
    first = len(shape) - len(own)
    terms = [
        f"i{first + axis} * {stride}" for axis, stride in enumerate(row_major(own)) if own[axis] > 1
    ]
    return f"{name}[{' + '.join(terms) or '0'}]"


def softmax(o: g.Softmax, body: Body) -> None:
    """Along the last axis; ONNX's in double, as graph/kernels/onnx has it."""
    depth = o.input.shape[-1]
    rows = prod(o.input.shape[:-1])
    if o.rounding is not Rounding.FLOAT32:
        raise UnsupportedError(f"softmax {o.name}: rows of {depth} elements")
    reals = body.constant(dequantized(o.input))
    at = f"(double){reals}[(uint8_t)x0[k * {depth} + i]]"
    power = f"{body.helper('lds_exp')}({at} - most)"
    kept = depth <= _KEPT_POWERS
    value = quantized(o, body, f"(float)({'power[i]' if kept else power} / total)", (-128, 127))
    body.add(f"""
int32_t k, i;{f" double power[{depth}];" if kept else ""}
for (k = 0; k < {rows}; ++k) {{
  double most = {at.replace("+ i]", "+ 0]")}, total = 0.0;
  for (i = 1; i < {depth}; ++i)
    if ({at} > most) most = {at};
  for (i = 0; i < {depth}; ++i) total += {f"power[i] = {power}" if kept else power};
  for (i = 0; i < {depth}; ++i) y[k * {depth} + i] = {value};
}}
""")


def layer_norm(o: g.LayerNorm, body: Body) -> None:
    """Exact sums of integers, then double, as graph/kernels/onnx has it."""
    count, unit = o.gamma.size, float(np.float32(grid(o.input).scale)) / o.gamma.size
    variance = f"(double)({count} * squares - total * total) * {(unit * unit).hex()}"
    root = f"{body.helper('lds_sqrt')}({variance} + {o.epsilon.hex()})"
    normal = f"(double)({count} * (x0[k * {count} + i] - ({o.input.zero_point})) - total) * slope"
    real = f"(float)({normal} * (double)gamma[i] + (double)beta[i])"
    value = quantized(o, body, real, (-128, 127))
    body.add(f"""
int32_t k, i;
for (k = 0; k < {o.input.size // count}; ++k) {{
  int64_t total = 0, squares = 0;
  double slope;
  for (i = 0; i < {count}; ++i) {{
    const int32_t level = x0[k * {count} + i] - ({o.input.zero_point});
    total += level;
    squares += level * level;
  }}
  slope = {unit.hex()} / {root};
  for (i = 0; i < {count}; ++i) y[k * {count} + i] = {value};
}}
""")


def argmax(o: g.ArgMax, body: Body) -> None:
    """The first largest along any axis."""
    shape = o.input.shape
    outer, extent, inner = prod(shape[: o.axis]), shape[o.axis], prod(shape[o.axis + 1 :])
    at = f"x0[(k * {extent} + {{}}) * {inner} + j]"
    body.add(f"""
int32_t k, i, j;
for (k = 0; k < {outer}; ++k)
  for (j = 0; j < {inner}; ++j) {{
    int32_t best = 0;
    for (i = 1; i < {extent}; ++i)
      if ({at.format("i")} > {at.format("best")}) best = i;
    y[k * {inner} + j] = best;
  }}
""")
