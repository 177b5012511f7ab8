# SPDX-License-Identifier: Apache-2.0
"""Where a network turns real numbers into levels, and levels into real numbers.

In:   an operator, and symbols of its input.
Out:  symbols of its output.
Next: definition.py states the operators with them, host_steps.py the steps of the host.

An element of real numbers has one symbol, and each of its four bytes one of its own, so that only
all four in their order are the number. A proof knows of both operators that they are functions of
one element, and of these constants; what the function is, is the host's affair, as that of softmax.
A level of uint8 is a byte that is 128 less, and so is its zero point.
"""

from __future__ import annotations

import struct

import numpy as np

from loadstone.prove.fingerprints import Integers
from loadstone.prove.network import ModelOperator
from loadstone.prove.operators.elements import Elements, attribute
from loadstone.prove.rows import RowFunctions
from loadstone.prove.verdict import Unsupported

__all__ = ["bits", "dequantize", "dequantized", "quantize", "quantized", "real_bytes"]

_REAL_BYTES = 4


def real_bytes(rows: RowFunctions, wide: Integers, size_bytes: int = _REAL_BYTES) -> Integers:
    """Symbols (size_bytes * n,) of the bytes of real numbers, or of wide integers, (n,)."""
    return rows.of(("bytes",), np.repeat(wide.reshape(-1, 1), size_bytes, 1)).reshape(-1)


def quantized(
    rows: RowFunctions, real: Integers, scale: float, zero_point: int, half_to_even: bool
) -> Integers:
    """Symbols (n,) of signed bytes from the bytes (4 * n,) of real numbers. zero_point: of the
    signed byte."""
    name = "quantize", bits(scale), zero_point, half_to_even
    return rows.of(name, real.reshape(-1, _REAL_BYTES), 1)[:, 0]


def dequantized(rows: RowFunctions, levels: Integers, scale: float, zero_point: int) -> Integers:
    """Symbols (n,) of real numbers from signed bytes (n,). zero_point: of the signed byte."""
    name = "dequantize", bits(scale), zero_point
    return rows.of(name, levels.reshape(-1, 1)).reshape(-1)


def quantize(elements: Elements, operator: ModelOperator, rows: RowFunctions) -> None:
    """ONNX Runtime rounds halves to even, LiteRT away from zero."""
    made = elements.tensor(operator.outputs[0])
    _only(elements, operator, operator.inputs[0])
    to_even = attribute(operator, "arithmetic", str) == "onnx"
    zero_point = made.zero_points[0] - elements.taken(operator.outputs[0])
    real = real_bytes(rows, elements.symbols(operator.inputs[0]))
    elements.put(operator.outputs[0], quantized(rows, real, made.scale, int(zero_point), to_even))


def dequantize(elements: Elements, operator: ModelOperator, rows: RowFunctions) -> None:
    """(level - zero point) times scale, which both frameworks round to float32 once."""
    read = elements.tensor(operator.inputs[0])
    _only(elements, operator, operator.outputs[0])
    zero_point = read.zero_points[0] - elements.taken(operator.inputs[0])
    levels = elements.symbols(operator.inputs[0]).reshape(-1)
    elements.put(operator.outputs[0], dequantized(rows, levels, read.scale, int(zero_point)))


def _only(elements: Elements, operator: ModelOperator, number: int) -> None:
    tensor = elements.tensor(number)
    if tensor.dtype != "float32" or tensor.data is not None:
        raise Unsupported(f"{operator.where}: {tensor.name} of {tensor.dtype}, float32 is covered")


def bits(scale: float) -> int:
    """The bits of a float32, as both sides hold it."""
    return int(np.frombuffer(struct.pack("<f", scale), np.uint32)[0])
