# SPDX-License-Identifier: Apache-2.0
"""Max pools.

In:   operators of the kind max_pool.
Out:  the symbols of their outputs.
Next: definition.py.
"""

from __future__ import annotations

import numpy as np

from loadstone.prove.functions import FunctionKind
from loadstone.prove.maxima import largest
from loadstone.prove.network import ModelOperator
from loadstone.prove.operators.elements import Elements, attribute
from loadstone.prove.operators.weighted import put_image, windows_of
from loadstone.prove.values import NO_SOURCE

__all__ = ["max_pool"]

_LEAST = 128  # the symbol of the byte -128, which padding is to a maximum


def max_pool(elements: Elements, operator: ModelOperator) -> None:
    """max_pool: the largest of the taps inside, clamped."""
    kernel = attribute(operator, "kernel", tuple)
    taps, inside = windows_of(elements, operator, (kernel[0], kernel[1]))
    taps = np.where(inside[None, ..., None], taps, _LEAST)
    n, oh, ow, count, channels = taps.shape
    windows = taps.transpose(0, 1, 2, 4, 3).reshape(-1, count)
    sources, functions = largest(elements.values, windows)
    taken = elements.taken(operator.outputs[0])
    for kind, name, idle in ((FunctionKind.MAX, "low", -128), (FunctionKind.MIN, "high", 127)):
        limit = attribute(operator, name, int) - taken
        if limit == idle:
            continue
        varies = sources != NO_SOURCE
        limits = np.full((int(varies.sum()), 1), limit)
        made = elements.values.functions.make(kind, limits, functions[varies][:, None])
        clamped = np.maximum if kind == FunctionKind.MAX else np.minimum
        functions = np.where(varies, functions, clamped(functions, limit))
        functions[varies] = made
    put_image(elements, operator, elements.define(sources, functions).reshape(n, oh, ow, channels))
