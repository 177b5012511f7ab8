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

__all__ = ["check_resize", "resize_bilinear"]

_ONE = 1 << 10  # a weight of one
#: float32 weights that are whole parts of so many make LiteRT's products and sums of uint8 exact:
#: a level has 8 bits, each of two weights 6 and one before the point, and four products are added.
_EXACT_PARTS = 64


def check_resize(operator: ModelOperator) -> None:
    """Raises Unsupported for a resize of real numbers that float32 may round: a proof covers exact
    weights, and places of one element, whose weights are not negative and add up to 1, nearly, so
    that rounding gives its level."""
    if not _is_whole(operator) and not _is_exact(operator):
        raise Unsupported(
            f"{operator.where}: a resize between levels of uint8, which LiteRT computes in float32 "
            f"and not exactly where weights are no multiples of 1/{_EXACT_PARTS}"
        )


def _axes(operator: ModelOperator) -> list[tuple[Integers, Integers, NDArray[np.float64]]]:
    """Of rows and of columns: the lower and the upper element, and the weight of the upper one."""
    one = _ONE if _is_of_integers(operator) else 1
    lists = [attribute(operator, name, tuple) for name in ("rows", "columns")]
    return [(lower, upper, weights / np.float64(one)) for lower, upper, weights in lists]


def _is_of_integers(operator: ModelOperator) -> bool:
    return attribute(operator, "arithmetic", str) == "litert_int8"


def _is_exact(operator: ModelOperator) -> bool:
    """Whether sums are exact: those of int8 are integers."""
    every = np.concatenate([weights for *_, weights in _axes(operator)])
    exact = (every * _EXACT_PARTS % 1 == 0).all() and (np.abs(every) <= 1).all()
    return _is_of_integers(operator) or bool(exact)


def _is_whole(operator: ModelOperator) -> bool:
    """Whether each place has one element."""
    return not any(
        ((weights != 0) & (lower != upper)).any() or (weights < 0).any() or (weights > 1).any()
        for lower, upper, weights in _axes(operator)
    )


def resize_bilinear(elements: Elements, operator: ModelOperator) -> None:
    """resize_bilinear: the element of each place where it has one, else sums with weights of 20
    bits. Exact float32 weights are such ones, too, and no sum of levels of uint8 is negative, so
    that half up, as LiteRT rounds them, is half away from zero."""
    check_resize(operator)
    x = elements.symbols(operator.inputs[0])
    (top, bottom, down), (left, right, across) = _axes(operator)
    if _is_whole(operator):
        elements.put(operator.outputs[0], x[:, top][:, :, left])
        return
    rows = np.stack([1 - down, down], -1)[:, None]
    columns = np.stack([1 - across, across], -1)[None]
    shape = len(down), len(across), 2
    shares = np.concatenate([np.broadcast_to(w, shape) for w in (rows, columns)], -1)
    shares = (shares * _ONE).astype(np.int64)
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
