# SPDX-License-Identifier: Apache-2.0
"""Products of two matrices of elements.

In:   operators of the kind batch_matmul.
Out:  the symbols of their outputs.
Next: definition.py.
"""

from __future__ import annotations

import numpy as np

from loadstone.prove.network import ModelOperator
from loadstone.prove.operators.elements import Elements, attribute
from loadstone.prove.operators.weighted import Sums, rule_of, zero_point
from loadstone.prove.products import products
from loadstone.prove.requantize import Requantizer

__all__ = ["batch_matmul"]


def batch_matmul(elements: Elements, operator: ModelOperator) -> None:
    """batch_matmul: (a - zero point) times (b - zero point), which is a b less multiples of the
    sums of a and of b."""
    a, b = (elements.symbols(k) for k in operator.inputs[:2])
    a = a.swapaxes(-1, -2) if attribute(operator, "transpose_a", bool) else a
    b = b if attribute(operator, "transpose_b", bool) else b.swapaxes(-1, -2)
    first, second = (zero_point(elements, k) for k in operator.inputs[:2])
    batch = np.broadcast_shapes(a.shape[:-2], b.shape[:-2])
    rows, width = a.shape[-2:]
    a = np.broadcast_to(a, (*batch, rows, width)).reshape(-1, rows, width)
    b = np.broadcast_to(b, (*batch, *b.shape[-2:])).reshape(-1, *b.shape[-2:])
    rule = rule_of(elements, operator, attribute(operator, "requantization", Requantizer))
    ones, moduli = np.ones((width, 1)), elements.values.points.moduli[..., None]
    made = []
    for left, right in zip(a, b, strict=True):
        total, other = Sums(elements, left, ones), Sums(elements, right, ones)
        sums, constant, low, high = products(elements.values, left, right, (first, second))
        linear = second * total.sums + first * other.sums.swapaxes(1, 2)
        total.sums = (sums - linear) % moduli
        # Where one side is constant, of the other's symbols: its first.
        total.terms = np.maximum(total.terms, other.terms.T)
        taken = second * total.constant + first * other.constant.T
        total.constant = constant - taken + width * first * second
        total.low, total.high = low - total.constant, high - total.constant
        made.append(total.required(elements, operator, rule, np.zeros(1, np.int64)))
    elements.put(operator.outputs[0], np.stack(made))
