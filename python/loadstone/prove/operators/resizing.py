# SPDX-License-Identifier: Apache-2.0
"""Resizes between the four nearest elements.

In:   operators of the kind resize_bilinear.
Out:  the symbols of their outputs.
Next: definition.py.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from loadstone.prove.fingerprints import Integers
from loadstone.prove.network import ModelOperator
from loadstone.prove.operators.elements import Elements, attribute
from loadstone.prove.operators.weighted import Sums, rule_of
from loadstone.prove.requantize import Average, Requantizer
from loadstone.prove.verdict import Unsupported

__all__ = ["check_resize", "resize_bilinear"]

_ONE = 1 << 10  # a weight of one, of LiteRT's int8


def check_resize(operator: ModelOperator) -> None:
    """Raises Unsupported for a resize of real numbers, which a proof covers where each place has
    one element: its float32 weights are not negative and add up to 1, nearly, so that rounding
    gives its level."""
    if attribute(operator, "arithmetic", str) == "litert_int8":
        return
    for name in ("rows", "columns"):
        lower, upper, weights = attribute(operator, name, tuple)
        if ((weights != 0) & (lower != upper)).any() or (weights < 0).any() or (weights > 1).any():
            raise Unsupported(
                f"{operator.where}: a resize between levels of uint8, which LiteRT computes in "
                "float32"
            )


def resize_bilinear(elements: Elements, operator: ModelOperator) -> None:
    """resize_bilinear of int8: sums with weights of 20 bits; of uint8: the element of each place
    (check_resize)."""
    check_resize(operator)
    x = elements.symbols(operator.inputs[0])
    (top, bottom, down), (left, right, across) = (
        attribute(operator, name, tuple) for name in ("rows", "columns")
    )
    if attribute(operator, "arithmetic", str) != "litert_int8":
        elements.put(operator.outputs[0], x[:, top][:, :, left])
        return
    rows = np.stack([_ONE - down, down], -1)[:, None]
    columns = np.stack([_ONE - across, across], -1)[None]
    shape = len(down), len(across), 2
    shares = np.concatenate([np.broadcast_to(w, shape) for w in (rows, columns)], -1)
    kinds, which = np.unique(shares.reshape(-1, 4), axis=0, return_inverse=True)
    made = np.zeros((len(x), *shape[:2], x.shape[3]), np.int64)
    for k, kind in enumerate(kinds):
        at = np.nonzero(which.reshape(shape[:2]) == k)
        corners = np.stack([x[:, y[at[0]], z[at[1]]] for y in (top, bottom) for z in (left, right)])
        flat = corners.reshape(4, -1).T
        weights = np.outer(kind[:2], kind[2:]).reshape(-1)
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
