# SPDX-License-Identifier: Apache-2.0
"""A network as a device computes it that rounds in a way of its own.

In:   a Graph, its inputs, the stated rounding of some of its operators.
Out:  every tensor; and for each of those operators what the framework makes of the same inputs.
Next: conformance/check.py and analysis/stated.py compare a device with it: its integers must be
      these, and these differ from the framework's by no more than is stated.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from loadstone import graph as g
from loadstone.backend.rounding import StatedRounding
from loadstone.backend.rounding_bound import stated_integers
from loadstone.graph.accumulators import sums_of
from loadstone.graph.reference import run_operator
from loadstone.numerics import Array

__all__ = ["Departure", "RoundedNetwork", "rounded_network"]


@dataclass(frozen=True)
class Departure:
    """How an operator's integers differ from the framework's, of the same inputs. largest: in
    levels. stated: by so many they may differ."""

    elements: int
    different: int
    largest: int
    stated: int

    def __str__(self) -> str:
        if not self.different:
            return (
                f"rounded near: equal to the framework's integers (stated: at most {self.stated})"
            )
        return (
            f"rounded near: {self.different} of {self.elements} elements differ from the "
            f"framework's, by {self.largest} at most (stated: at most {self.stated})"
        )


@dataclass(frozen=True)
class RoundedNetwork:
    """values: every tensor by name. departures: by the name of each operator with a rounding of its
    own."""

    values: Mapping[str, Array]
    departures: Mapping[str, Departure]


def rounded_network(
    graph: g.Graph, inputs: Sequence[Array], roundings: Mapping[str, StatedRounding]
) -> RoundedNetwork:
    """roundings: by the operators' names. inputs: as graph/reference.py's run takes them. Raises
    LoweringError for a rounding whose results are none of the operator's."""
    values: dict[str, Array] = dict(graph.constants)
    values.update((t.name, array) for t, array in zip(graph.inputs, inputs, strict=True))
    departures: dict[str, Departure] = {}
    for operator in graph.operators:
        arrays = [values[tensor.name] for tensor in operator.inputs]
        made = run_operator(operator, arrays)
        stated = roundings.get(operator.name)
        if stated is not None:
            own = _own(operator, stated, arrays)
            apart = np.abs(own.astype(np.int64) - made[0])
            departures[operator.name] = Departure(
                own.size, int((apart > 0).sum()), int(apart.max(initial=0)), stated.bound
            )
            made = [own]
        values.update((t.name, array) for t, array in zip(operator.outputs, made, strict=True))
    return RoundedNetwork(values, departures)


def _own(operator: g.Operator, stated: StatedRounding, arrays: Sequence[Array]) -> Array:
    given = [sums_of(operator, arrays[0])] if isinstance(operator, g.Weighted) else arrays
    got = stated_integers(operator, stated, *given)
    return got.astype(operator.output.dtype)
