# SPDX-License-Identifier: Apache-2.0
"""Softmax, of which a proof knows that it is a function of its row, and no more.

In:   rows of symbols, and what the arithmetic takes of scales.
Out:  symbols that are the same for the same rows and constants.
Next: operators of the network and steps of the host, which must agree in both.
"""

from __future__ import annotations

import math

from loadstone.prove.network import ModelOperator
from loadstone.prove.operators.elements import Elements, attribute
from loadstone.prove.requantize import quantize_multiplier
from loadstone.prove.rows import RowFunctions
from loadstone.prove.verdict import Unsupported

__all__ = ["softmax"]

_INTEGER_BITS, _BETA_BITS = 5, 26


def softmax(elements: Elements, operator: ModelOperator, rows: RowFunctions) -> None:
    """softmax over the last axis, with the constants that LiteRT's Prepare computes. That of uint8
    is that of int8 on levels less 128."""
    x = elements.symbols(operator.inputs[0])
    if operator.attributes.get("arithmetic", "litert") != "litert":
        raise Unsupported(f"{operator.where}: a softmax of real numbers")
    if attribute(operator, "axis", int) not in (-1, x.ndim - 1):
        raise Unsupported(f"{operator.where}: a softmax over another axis than the last")
    scale = elements.tensor(operator.inputs[0]).scale
    beta = operator.attributes["beta"]
    assert isinstance(beta, float)
    real = min(beta * scale * (1 << (31 - _INTEGER_BITS)), (1 << 31) - 1.0)
    multiplier, shift = quantize_multiplier(real)
    most = ((1 << _INTEGER_BITS) - 1) * (1 << (31 - _INTEGER_BITS)) / (1 << shift)
    parameters = (multiplier, shift, -math.floor(most))
    made = rows.of(("softmax", *parameters), x.reshape(-1, x.shape[-1]))
    elements.put(operator.outputs[0], made)
