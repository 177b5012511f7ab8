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

#: Helpers of integers; each names what it needs of c_math.py.
_ROUNDING = {
    "lds_clamp": """\
static inline int32_t lds_clamp(int64_t value, int32_t low, int32_t high) {
  return value < low ? low : value > high ? high : (int32_t)value;
}""",
    # numerics.requantize_double: gemmlowp's fixed point, rounded twice.
    "lds_double": """\
static inline int32_t lds_high_multiply(int32_t a, int32_t b) {
  const int64_t product = (int64_t)a * b;
  const int64_t nudged = product + (product >= 0 ? 1 << 30 : 1 - (1 << 30));
  const int64_t quotient = nudged / ((int64_t)1 << 31);
  return quotient > INT32_MAX ? INT32_MAX : (int32_t)quotient;
}

static inline int32_t lds_shift_right(int32_t x, int32_t bits) {
  const int64_t mask = ((int64_t)1 << bits) - 1, threshold = (mask >> 1) + (x < 0);
  return (int32_t)(((int64_t)x >> bits) + (((int64_t)x & mask) > threshold));
}

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
}
_NEEDS = {"lds_away": "lds_floor", "lds_even": "lds_rint"}


class Body:
    """lines: statements behind the declarations."""

    def __init__(self, operator: g.Operator) -> None:
        self.operator = operator
        self.lines: list[str] = []
        self.tables: list[Array] = []
        self.helpers: set[str] = set()

    def constant(self, value: Array) -> str:
        """The name of a table in C."""
        self.tables.append(np.ascontiguousarray(value))
        return f"c{len(self.tables) - 1}"

    def helper(self, name: str) -> str:
        """Makes a helper known; its name."""
        self.helpers.add(name)
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
        needed = {_NEEDS[name] for name in self.helpers if name in _NEEDS}
        needed |= {name for name in self.helpers if name not in _ROUNDING}
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
