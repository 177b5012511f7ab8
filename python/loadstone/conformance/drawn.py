# SPDX-License-Identifier: Apache-2.0
"""Conformance cases whose every choice is Hypothesis's, so that it can make them smaller.

In:   a kind of conformance/check.py, Hypothesis's `draw`.
Out:  a Graph of that kind, or of consecutive operators of one.
Next: smallest.py looks for the least one that is wrong.

The cases ask a NumPy generator for sizes, levels and arrays. `DrawnRng` stands in its place. An
array of weights has thousands of numbers, which Hypothesis would try one by one: it is drawn as one
number everywhere, one number at one place, or noise, the simplest first.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, TypeAlias, cast

import numpy as np
from numpy.typing import ArrayLike, NDArray

from loadstone import graph as g
from loadstone.conformance.draw import Rng
from loadstone.numerics import Array

if TYPE_CHECKING:
    from hypothesis.strategies import DrawFn, SearchStrategy

__all__ = ["DrawnRng", "consecutive", "networks"]

Makers: TypeAlias = Mapping[str, Callable[[Rng], g.Graph]]

#: Arrays of more numbers are not drawn number by number.
_FEW = 4


class DrawnRng:
    """What the cases use of numpy.random.Generator, drawn."""

    def __init__(self, draw: DrawFn) -> None:
        self.draw = draw

    def integers(
        self, low: int, high: ArrayLike | None = None, size: int | Sequence[int] | None = None
    ) -> Array | int:
        """From low up to high, which is left out; only `low`: from 0. Arrays of int64 of the shape
        `size`, or that of `high`, which may be an array."""
        ends: ArrayLike = low if high is None else high
        first = 0 if high is None else low
        if size is None and np.ndim(ends) == 0:
            return self._integer(first, int(np.asarray(ends)) - 1)
        shape = np.shape(ends) if size is None else tuple(np.atleast_1d(size).tolist())
        last = np.broadcast_to(np.asarray(ends) - 1, shape)
        if last.size <= _FEW:
            drawn = [self._integer(first, int(end)) for end in last.ravel()]
            return np.array(drawn, np.int64).reshape(shape)
        return self._filled(
            shape,
            lambda: self._integer(first, int(last.min())),
            lambda rng: rng.integers(first, last + 1),
            max(0, first),
        )

    def uniform(
        self, low: float, high: float, size: int | Sequence[int] | None = None
    ) -> Array | float:
        """Real numbers from low to high, of the shape `size`."""
        if size is None:
            return self._real(low, high)
        shape = tuple(np.atleast_1d(size).tolist())
        return self._filled(
            shape, lambda: self._real(low, high), lambda rng: rng.uniform(low, high, shape), low
        )

    def normal(self, mean: float, deviation: float, size: int) -> NDArray[np.float64]:
        """Around a mean, of the shape (size,)."""
        shape = (size,)
        return self._filled(
            shape, lambda: mean, lambda rng: rng.normal(mean, deviation, shape), mean
        )

    def _filled(
        self,
        shape: tuple[int, ...],
        one: Callable[[], float],
        noise: Callable[[Rng], Array],
        rest: float,
    ) -> Array:
        """One value everywhere; one at one place and `rest` at the others; or noise."""
        how = self._integer(0, 2)
        if how == 2:
            return noise(np.random.default_rng(self._integer(0, 255)))
        if how == 0:
            return np.full(shape, one())
        array = np.full(shape, rest, np.result_type(type(rest), type(value := one())))
        array.ravel()[self._integer(0, array.size - 1)] = value
        return array

    def _integer(self, low: int, high: int) -> int:
        from hypothesis import strategies as st

        return int(self.draw(st.integers(low, high)))

    def _real(self, low: float, high: float) -> float:
        from hypothesis import strategies as st

        return float(self.draw(st.floats(low, high)))


def networks(makers: Makers, kind: str) -> SearchStrategy[tuple[g.Graph, int]]:
    """(network of a kind, number of its case), the least first: few operators, small images."""
    from hypothesis import strategies as st

    @st.composite
    def drawn(draw: DrawFn) -> tuple[g.Graph, int]:
        number = draw(st.integers(0, 9))
        rng = DrawnRng(draw)
        graph = makers[kind](cast(Rng, rng))
        count = len(graph.operators)
        kept = draw(st.integers(1, count))
        return consecutive(graph, draw(st.integers(0, count - kept)), kept), number

    return drawn()


def consecutive(graph: g.Graph, first: int, count: int) -> g.Graph:
    """The network of so many operators in a row: what they read of others is an input, what others
    read of them an output."""
    if count == len(graph.operators):
        return graph
    operators = graph.operators[first : first + count]
    others = (*graph.operators[:first], *graph.operators[first + count :])
    written, read = _tensors(operators, "outputs"), _tensors(operators, "inputs")
    wanted = _tensors(others, "inputs").keys() | {tensor.name for tensor in graph.outputs}
    constants = {name: graph.constants[name] for name in read.keys() & graph.constants.keys()}
    given = written.keys() | constants.keys()
    return replace(
        graph,
        inputs=tuple(tensor for name, tensor in read.items() if name not in given),
        outputs=tuple(tensor for name, tensor in written.items() if name in wanted),
        operators=operators,
        constants=constants,
    )


def _tensors(operators: Sequence[g.Operator], side: str) -> dict[str, g.Tensor]:
    """By name, in order. side: a field of theirs."""
    return {tensor.name: tensor for one in operators for tensor in getattr(one, side)}
