# SPDX-License-Identifier: Apache-2.0
"""Resizes between the four nearest elements.

In:   operators of the kind resize_bilinear.
Out:  the symbols of their outputs.
Next: definition.py.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from loadstone.prove.fingerprints import Integers
from loadstone.prove.network import ModelOperator
from loadstone.prove.operators.elements import Elements, attribute
from loadstone.prove.operators.weighted import Sums, rule_of
from loadstone.prove.requantize import Average, Requantizer
from loadstone.prove.verdict import Unsupported

__all__ = ["resize_bilinear"]

_ONE = 1 << 10  # a weight of one, of LiteRT's int8
_NEARLY = 2.0**-12


def resize_bilinear(elements: Elements, operator: ModelOperator) -> None:
    """resize_bilinear of int8: sums with weights of 20 bits. Of uint8, whose weights are float32,
    where all that count at a place are one element."""
    x = elements.symbols(operator.inputs[0])
    (top, bottom, down), (left, right, across) = (
        attribute(operator, name, tuple) for name in ("rows", "columns")
    )
    is_real = attribute(operator, "arithmetic", str) != "litert_int8"
    one = np.float32(1) if is_real else _ONE
    rows = np.stack([one - down, down], -1)[:, None]
    columns = np.stack([one - across, across], -1)[None]
    shape = len(down), len(across), 2
    shares = np.concatenate([np.broadcast_to(w, shape) for w in (rows, columns)], -1)
    kinds, which = np.unique(shares.reshape(-1, 4), axis=0, return_inverse=True)
    made = np.zeros((len(x), *shape[:2], x.shape[3]), np.int64)
    for k, kind in enumerate(kinds):
        at = np.nonzero(which.reshape(shape[:2]) == k)
        corners = np.stack([x[:, y[at[0]], z[at[1]]] for y in (top, bottom) for z in (left, right)])
        flat = corners.reshape(4, -1).T
        weights = np.outer(kind[:2], kind[2:]).reshape(-1)
        if is_real:
            symbols = _of_one(operator, flat, weights)
        else:
            symbols = _of_sums(elements, operator, flat, weights)
        made[:, at[0], at[1]] = symbols.reshape(corners.shape[1:])
    elements.put(operator.outputs[0], made)


def _of_sums(
    elements: Elements, operator: ModelOperator, corners: Integers, weights: Integers
) -> Integers:
    """Symbols (n,) of corners (n, 4), whose weights are brought to the lowest terms: a device that
    adds two elements and halves them has no multiple of that sum."""
    rule = attribute(operator, "requantization", Requantizer)
    assert isinstance(rule.scaling, Average)
    common = int(np.gcd.reduce(np.append(weights, rule.scaling.count)))
    rule = replace(rule, scaling=Average(rule.scaling.count // common))
    sums = Sums(elements, corners, (weights // common).astype(np.float64)[:, None])
    sums.constant += elements.taken(operator.inputs[0]) * int(weights.sum() // common)
    number = rule_of(elements, operator, rule)
    return sums.required(elements, operator, number, np.zeros(1, np.int64)).reshape(-1)


def _of_one(operator: ModelOperator, corners: Integers, weights: NDArray[np.float32]) -> Integers:
    """Symbols (n,) of corners (n, 4) that are one element as far as they have a weight: float32
    weights that are not negative and add up to 1, nearly, leave its level, which is rounded."""
    counts = corners[:, weights != 0]
    whole = (weights >= 0).all() and abs(float(weights.sum()) - 1) < _NEARLY
    if (counts != counts[:, :1]).any() or not whole:
        raise Unsupported(f"{operator.where}: a resize of uint8, which LiteRT computes in float32")
    return counts[:, 0]
