# SPDX-License-Identifier: Apache-2.0
"""Sums of products of two elements each: polynomials of the second degree.

In:   symbols of both sides.
Out:  products: their values at the random points, the constant part, the range of the rest.
Next: operators/products.py states BATCH_MATMUL with it, machine.py a GEMM of two activations.

The points are those of sums of elements (fingerprints.py); what is added to such a polynomial, a
multiple of one side say, is added at the points. Two polynomials of the second degree agree at a
point by chance twice as often as sums: `Values.degree` tells the bound of errors so.
"""

from __future__ import annotations

import numpy as np

from loadstone.prove.fingerprints import POINTS, Integers
from loadstone.prove.values import CONSTANT, Values

__all__ = ["products"]

_CHUNK = 1 << 20


def products(
    values: Values, left: Integers, right: Integers, zeros: tuple[int, int] = (0, 0)
) -> tuple[Integers, Integers, Integers, Integers]:
    """Sums over k of left (n, k) times right (m, k), both symbols of elements or constants: values
    at the points (POINTS, n, m) without the constant part, and that (n, m). With the zero points
    taken off each element: the least and the greatest value (n, m) of the whole sum."""
    values.degree = 2
    n, m, k = len(left), len(right), left.shape[1]
    sums = np.zeros((POINTS, n, m), np.int64)
    constant, low, high = np.zeros((3, n, m), np.int64)
    moduli = values.points.moduli[:, 0].tolist()
    step = max(_CHUNK // max(m * k, 1), 1)
    for begin in range(0, n, step):
        part = slice(begin, begin + step)
        a, b = (values.columns(x)[: CONSTANT + 1].astype(np.int64) for x in (left[part], right))
        constant[part] = a[CONSTANT] @ b[CONSTANT].T
        for point, modulus in enumerate(moduli):
            x, y = (s[point] + s[CONSTANT] for s in (a, b))
            terms = x[:, None] * y[None] % modulus
            sums[point, part] = (terms.sum(2) - constant[part]) % modulus
        sides = zip((left[part], right), zeros, strict=True)
        ends = [
            [end.astype(np.int64) - zero for end in values.limits(held)] for held, zero in sides
        ]
        corners = [x[:, None] * y[None] for x in ends[0] for y in ends[1]]
        low[part] = np.minimum.reduce(corners).sum(2)
        high[part] = np.maximum.reduce(corners).sum(2)
    return sums, constant, low, high
