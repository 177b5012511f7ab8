# SPDX-License-Identifier: Apache-2.0
"""The statements of one operator under construction.

In:   an operator; lines of C from the files beside this one.
Out:  COperator.
Next: __init__.py hands it out.

Operands are declared in front of the lines: x0, x1 ... the inputs, the operator's arrays by their
names, y the output, each a pointer to its elements. Tables c0 ... stand in front of the function.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import fields
from math import prod

import numpy as np

from loadstone import graph as g
from loadstone.artifact.c_text import COperator, translation_unit
from loadstone.numerics import Array

__all__ = ["Body", "c_real", "grid", "operator_arrays", "row_major"]

_TYPES = {"float32": "float", "float64": "double"}

#: Helpers of integers; each names what it needs of relax/c_math.py.
_ROUNDING = {
    "lds_clamp": """\
static inline int32_t lds_clamp(int64_t value, int32_t low, int32_t high) {
  return value < low ? low : value > high ? high : (int32_t)value;
}""",
    # numerics.high_multiply.
    "lds_high_multiply": """\
static inline int32_t lds_high_multiply(int32_t a, int32_t b) {
  const int64_t product = (int64_t)a * b;
  const int64_t nudged = product + (product >= 0 ? 1 << 30 : 1 - (1 << 30));
  const int64_t quotient = nudged / ((int64_t)1 << 31);
  return quotient > INT32_MAX ? INT32_MAX : (int32_t)quotient;
}""",
    # numerics.rounding_shift_right.
    "lds_shift_right": """\
static inline int32_t lds_shift_right(int32_t x, int32_t bits) {
  const int64_t mask = ((int64_t)1 << bits) - 1, threshold = (mask >> 1) + (x < 0);
  return (int32_t)(((int64_t)x >> bits) + (((int64_t)x & mask) > threshold));
}""",
    # numerics.requantize_double: gemmlowp's fixed point, rounded twice.
    "lds_double": """\
static inline int32_t lds_double(int64_t acc, int32_t multiplier, int32_t shift) {
  const int32_t left = shift > 0 ? shift : 0, right = shift < 0 ? -shift : 0;
  const int32_t x = (int32_t)(uint32_t)((uint64_t)acc << left);
  return lds_shift_right(lds_high_multiply(x, multiplier), right);
}""",
    # numerics.requantize_single: rounded once, ties upward.
    "lds_single": """\
static inline int64_t lds_single(int32_t acc, int32_t multiplier, int32_t shift) {
  return ((int64_t)acc * multiplier + ((int64_t)1 << (30 - shift))) >> (31 - shift);
}""",
    # Half away from zero, saturated to int32: numerics.requantize_float64 and its kin.
    "lds_away": """\
static inline int32_t lds_away(double value) {
  const double size = value < 0.0 ? -value : value, whole = lds_floor(size);
  const double rounded = size - whole >= 0.5 ? whole + 1.0 : whole;
  if (!(rounded < 0x1p31)) return value < 0.0 ? INT32_MIN : INT32_MAX;
  return (int32_t)(value < 0.0 ? -rounded : rounded);
}""",
    # Half to even, saturated to int32; not a number gives 0.
    "lds_even": """\
static inline int32_t lds_even(float value) {
  const double rounded = lds_rint((double)value);
  if (rounded != rounded) return 0;
  return rounded >= 0x1p31 ? INT32_MAX : rounded <= -0x1p31 ? INT32_MIN : (int32_t)rounded;
}""",
    # graph/kernels/fixed_point.inverse_square_root: 1 / sqrt(x) = result * 2^(*shift - 31).
    "lds_inverse_root": """\
static inline int32_t lds_inverse_root(int64_t x, int32_t *shift) {
  int32_t bits = 11, k, half, root = 1 << 28;
  *shift = 0;
  if (x <= 1) return INT32_MAX;
  for (; x >= 1 << 29; ++bits) x /= 4;
  for (; x < 1 << 27; --bits) x *= 4;
  half = lds_shift_right((int32_t)(x >> 1), 1);
  for (k = 0; k < 5; ++k) {
    int64_t cube = lds_high_multiply(lds_high_multiply(root, root), root), step;
    cube *= 64;
    cube = cube > INT32_MAX ? INT32_MAX : cube < INT32_MIN ? INT32_MIN : cube;
    step = lds_high_multiply((1 << 28) + (1 << 27), root);
    step = (step - lds_high_multiply(half, (int32_t)cube)) * 8;
    root = (int32_t)(step > INT32_MAX ? INT32_MAX : step < INT32_MIN ? INT32_MIN : step);
  }
  root = lds_high_multiply(root, 1518500250);
  if (bits < 0) return (int32_t)(uint32_t)((uint64_t)(int64_t)root << -bits);
  *shift = -bits;
  return root;
}""",
    # A quotient of DIV by a power of two; graph/kernels/tflite/elementwise.py says what becomes of
    # it above 31 bits.
    "lds_quotient": """\
static inline int64_t lds_quotient(int32_t a, int32_t inverse, int32_t multiplier, int32_t bits) {
  const int64_t x = lds_high_multiply(lds_high_multiply(a, inverse), multiplier);
  const int64_t mask = bits > 31 ? -1 : ((int64_t)1 << bits) - 1;
  return (x >> (bits & 31)) + ((x & mask) > (mask >> 1) + (x < 0));
}""",
}
#: Of a helper here: the ones that it calls, here or in relax/c_math.py.
_NEEDS = {
    "lds_double": ("lds_high_multiply", "lds_shift_right"),
    "lds_away": ("lds_floor",),
    "lds_even": ("lds_rint",),
    "lds_inverse_root": ("lds_high_multiply", "lds_shift_right"),
    "lds_quotient": ("lds_high_multiply",),
}


class Body:
    """lines: statements behind the declarations."""

    def __init__(self, operator: g.Operator) -> None:
        self.operator = operator
        self.lines: list[str] = []
        self.tables: list[Array] = []
        self.helpers: set[str] = set()

    def constant(self, value: Array) -> str:
        """The name of a table in C. value: of any shape, in row-major order there."""
        self.tables.append(np.ascontiguousarray(value))
        return f"c{len(self.tables) - 1}"

    def helper(self, name: str) -> str:
        """Makes a helper known, with what it calls; its name."""
        self.helpers |= {name, *_NEEDS.get(name, ())}
        return name

    def add(self, text: str) -> None:
        """Lines of C."""
        self.lines += text.strip("\n").splitlines()

    def clamped(self, value: str, low: int, high: int) -> str:
        """An int64 in the output's type, within the limits."""
        clamp = self.helper("lds_clamp")
        return f"({_c_type(self.operator.output.dtype)}){clamp}({value}, {low}, {high})"

    def finished(self) -> COperator:
        """The whole file."""
        inputs, (output,) = self.operator.inputs, self.operator.outputs
        arrays = {name: getattr(self.operator, name) for name in operator_arrays(self.operator)}
        kinds = [(f"x{k}", t.dtype) for k, t in enumerate(inputs)]
        kinds += [(name, str(array.dtype)) for name, array in arrays.items()]
        text = "\n".join(self.lines)
        read = [
            _pointer(name, dtype, index)
            for index, (name, dtype) in enumerate(kinds)
            if re.search(rf"\b{name}\b", text)
        ]
        read.append(_pointer("y", output.dtype, len(kinds), const=""))
        functions = [*map(_table, range(len(self.tables)), self.tables)]
        functions += [text for name, text in _ROUNDING.items() if name in self.helpers]
        needed = {name for name in self.helpers if name not in _ROUNDING}
        symbol, source = translation_unit(needed, functions, [*read, *self.lines])
        return COperator(symbol, source, (), 0)


def operator_arrays(operator: g.Operator) -> list[str]:
    """The fields of an operator that are arrays."""
    names = [entry.name for entry in fields(operator)]
    return [name for name in names if isinstance(getattr(operator, name), np.ndarray)]


def _table(index: int, values: Array) -> str:
    """A constant array; real numbers in hexadecimal."""
    kind, flat = str(values.dtype), values.reshape(-1)
    if kind == "float32":
        numbers = [c_real(value) for value in flat]
    else:
        numbers = [value.hex() if kind == "float64" else str(value) for value in flat.tolist()]
    rows = [", ".join(numbers[k : k + 12]) for k in range(0, len(numbers), 12)]
    joined = ",\n    ".join(rows)
    return f"static const {_c_type(kind)} c{index}[] = {{\n    {joined}}};"


def _c_type(dtype: str) -> str:
    return _TYPES.get(dtype, "uint8_t" if dtype == "bool" else f"{dtype}_t")


def _pointer(name: str, dtype: str, index: int, const: str = "const ") -> str:
    return f"{const}{_c_type(dtype)} *{name} = operands[{index}];"


def grid(tensor: g.Tensor) -> g.Quantization:
    """The quantization of a quantized tensor."""
    assert tensor.quantization is not None, tensor.name
    return tensor.quantization


def c_real(value: float) -> str:
    """A float32 number in C."""
    text = float(np.float32(value)).hex() + "f"
    return f"({text})" if text.startswith("-") else text


def row_major(shape: Sequence[int]) -> list[int]:
    """Strides in elements."""
    return [prod(shape[axis + 1 :]) for axis in range(len(shape))]
