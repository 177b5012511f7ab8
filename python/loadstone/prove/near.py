# SPDX-License-Identifier: Apache-2.0
"""Bytes that are one level off the network's, as `--rounding near` makes them.

In:   functions that a device stored, and those that the network wants of the same sources.
Out:  NearNames: elements whose names such bytes take.
Next: values.py asks it for what equals no element.

A name then stands for what the artifact has, and the next operator's function is demanded of that:
each operator is within the tolerance on what the artifact gives it, so that deviations of several
operators may add up at the outputs. As a name stands for one value, an element has one function
in an artifact: a second one does not take the name, even where it is exact.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from loadstone.prove.equality import Equality, Mask
from loadstone.prove.fingerprints import Integers
from loadstone.prove.functions import Functions

__all__ = ["NearNames"]

_NO_SYMBOL = -1


class NearNames:
    """Of one proof. tolerance: in levels; 0 for none of this."""

    def __init__(self, functions: Functions, tolerance: int) -> None:
        self.tolerance = tolerance
        self._equality = Equality(functions, tolerance)
        self._function_of: dict[int, int] = {}

    def begin(self) -> None:
        """Another artifact follows."""
        self._function_of.clear()

    @property
    def count(self) -> int:
        """How many functions were found to be within the tolerance, and not equal."""
        near = self._equality
        return near.at_steps + near.by_pieces + near.value_by_value

    def limits(self, low: Integers, high: Integers) -> tuple[Integers, Integers]:
        """The ranges of elements as the artifact has them; low, high (n,): as the network does."""
        if not self.tolerance:
            return low, high
        return np.maximum(low - self.tolerance, -128), np.minimum(high + self.tolerance, 127)

    def name(
        self,
        symbols: Integers,
        where: Integers,
        stored: tuple[Integers, Integers],
        wanted: Callable[[int], list[tuple[int, int]]],
        equal: Callable[..., Mask],
    ) -> None:
        """Gives symbols (n,) at places `where` the names of elements that are within the tolerance,
        and takes away those that stand for another function. stored: sources and functions (n,);
        wanted: functions and elements of a source; equal: of Values."""
        sources, functions = stored
        for k in where.tolist():
            source, function = sources[k : k + 1], functions[k : k + 1]
            exact = int(symbols[k])
            symbols[k] = _NO_SYMBOL
            for other, element in wanted(int(source[0])):
                fits = element == exact or (
                    exact == _NO_SYMBOL
                    and bool(equal(source, function, np.array([other]), self._equality)[0])
                )
                first = self._function_of.get(element, int(function[0]))
                if fits and equal(source, function, np.array([first]))[0]:
                    self._function_of[element] = first
                    symbols[k] = element
                    break
