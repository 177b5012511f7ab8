# SPDX-License-Identifier: Apache-2.0
"""Affine functions of loop variables, which are the indices and bounds of a nest.

In:   names and extents of loops.
Out:  `Index`, which can be added, subtracted and multiplied like a number; `Variable`, one loop;
      the least and the greatest value of an index.
Next: nests.py.
"""

from __future__ import annotations

from collections.abc import Container, Mapping
from typing import TypeAlias

__all__ = ["Index", "Place", "Variable", "highest", "index", "lowest", "substituted"]


class Variable:
    """One loop of `extent` turns, from 0 on; equal to itself alone."""

    __slots__ = ("extent", "name")

    def __init__(self, name: str, extent: int) -> None:
        self.name, self.extent = name, extent


class Index:
    """constant + the sum of multiples of variables; nothing changes one."""

    __slots__ = ("constant", "terms")

    def __init__(self, constant: int, terms: Mapping[Variable, int]) -> None:
        self.constant, self.terms = constant, terms

    def __add__(self, other: Place) -> Index:
        if isinstance(other, int):
            return Index(self.constant + other, self.terms)
        terms = dict(self.terms)
        for variable, factor in other.terms.items():
            terms[variable] = terms.get(variable, 0) + factor
        return Index(self.constant + other.constant, terms)

    __radd__ = __add__

    def __mul__(self, factor: int) -> Index:
        if factor == 1:
            return self
        return Index(self.constant * factor, {v: n * factor for v, n in self.terms.items()})

    __rmul__ = __mul__

    def __sub__(self, other: Place) -> Index:
        """Without the terms that are the same in both."""
        if isinstance(other, int):
            return Index(self.constant - other, self.terms)
        terms = dict(self.terms)
        for variable, factor in other.terms.items():
            terms[variable] = terms.get(variable, 0) - factor
            if not terms[variable]:
                del terms[variable]
        return Index(self.constant - other.constant, terms)

    def __rsub__(self, other: int) -> Index:
        return self * -1 + other

    def at(self, values: Mapping[Variable, int]) -> int:
        """Its number where every variable has a value."""
        number = self.constant
        for variable, factor in self.terms.items():
            number += values[variable] * factor
        return number


#: An index that may be a number.
Place: TypeAlias = Index | int


def index(place: Place) -> Index:
    """As an Index, whatever it is."""
    return Index(place, {}) if isinstance(place, int) else place


def lowest(place: Index, moving: Container[Variable] | None = None) -> int:
    """The least value of an index over all turns of its loops. moving: those that move; the others
    stand at 0."""
    return place.constant + sum(
        min(0, factor * (variable.extent - 1))
        for variable, factor in place.terms.items()
        if moving is None or variable in moving
    )


def highest(place: Index, moving: Container[Variable] | None = None) -> int:
    """The greatest one."""
    return place.constant + sum(
        max(0, factor * (variable.extent - 1))
        for variable, factor in place.terms.items()
        if moving is None or variable in moving
    )


def substituted(place: Index, by: Mapping[Variable, Place]) -> Index:
    """With an index in place of each of some variables."""
    result = Index(place.constant, {v: n for v, n in place.terms.items() if v not in by})
    for variable, factor in place.terms.items():
        if variable in by:
            result = result + index(by[variable]) * factor
    return result
