# SPDX-License-Identifier: Apache-2.0
"""Softmax and arg max, of which a proof knows that they are functions of a row, and no more.

In:   rows of symbols, and what the arithmetic takes of scales.
Out:  symbols that are the same for the same rows and constants.
Next: operators of the network and steps of the host, which must agree in both.
"""

from __future__ import annotations

import math

from loadstone.prove.fingerprints import Integers
from loadstone.prove.network import ModelOperator
from loadstone.prove.operators.elements import Elements, attribute
from loadstone.prove.operators.ends import bits
from loadstone.prove.requantize import quantize_multiplier
from loadstone.prove.rows import RowFunctions
from loadstone.prove.verdict import Unsupported

__all__ = ["arg_max", "positions", "softmax", "softmax_litert", "softmax_onnx"]

_INTEGER_BITS = 5


def softmax(elements: Elements, operator: ModelOperator, rows: RowFunctions) -> None:
    """softmax over the last axis."""
    x = elements.symbols(operator.inputs[0])
    if attribute(operator, "axis", int) not in (-1, x.ndim - 1):
        raise Unsupported(f"{operator.where}: a softmax over another axis than the last")
    read, made = (elements.tensor(k) for k in (operator.inputs[0], operator.outputs[0]))
    beta = operator.attributes["beta"]
    assert isinstance(beta, float)
    flat = x.reshape(-1, x.shape[-1])
    if operator.attributes.get("arithmetic", "litert") == "litert":
        elements.put(operator.outputs[0], softmax_litert(rows, flat, beta * read.scale))
        return
    taken = elements.taken(operator.outputs[0])
    if [operator.attributes[end] for end in ("low", "high")] != [taken - 128, taken - 128 + 255]:
        raise Unsupported(f"{operator.where}: a softmax that is clamped")
    grids = [
        (tensor.scale, tensor.zero_point - elements.taken(number))
        for tensor, number in ((read, operator.inputs[0]), (made, operator.outputs[0]))
    ]
    elements.put(operator.outputs[0], softmax_onnx(rows, flat, *grids))


def softmax_litert(rows: RowFunctions, x: Integers, real: float) -> Integers:
    """Symbols of rows (n, depth) of signed bytes, with the constants that LiteRT's Prepare computes
    of beta times the scale. That of uint8 is that of int8 on levels less 128."""
    scaled = min(real * (1 << (31 - _INTEGER_BITS)), (1 << 31) - 1.0)
    multiplier, shift = quantize_multiplier(scaled)
    most = ((1 << _INTEGER_BITS) - 1) * (1 << (31 - _INTEGER_BITS)) / (1 << shift)
    return rows.of(("softmax", multiplier, shift, -math.floor(most)), x)


def softmax_onnx(
    rows: RowFunctions, x: Integers, read: tuple[float, int], made: tuple[float, int]
) -> Integers:
    """Symbols of rows (n, depth) of signed bytes: a softmax of real numbers between quantizers.
    read, made: scale and zero point, of signed bytes, of input and output."""
    constants = [(bits(scale), zero_point) for scale, zero_point in (read, made)]
    return rows.of(("softmax of real numbers", *constants), x)


def arg_max(elements: Elements, operator: ModelOperator, rows: RowFunctions) -> None:
    """arg_max over the last axis. An element has one symbol, as a real number has."""
    x = elements.symbols(operator.inputs[0])
    if attribute(operator, "axis", int) != x.ndim - 1:
        raise Unsupported(f"{operator.where}: the largest along another axis than the last")
    elements.put(operator.outputs[0], positions(rows, x.reshape(-1, x.shape[-1])))


def positions(rows: RowFunctions, x: Integers) -> Integers:
    """Symbols (n,) of the positions of the first largest of rows (n, depth) of signed bytes."""
    return rows.of(("position of the largest",), x, 1)[:, 0]
