# SPDX-License-Identifier: Apache-2.0
"""Operators that a device would take, but whose transfers would cost more than they save.

In:   a Graph, and the back end of every operator.
Out:  the operators that should stay on the host.
Next: eager.py moves them back to the host.

An operator that moves elements hardly computes: in a device step of its own it is not worth two
transfers. A pool, a concatenation or a resize, which compute little, is not worth them between two
operators of the host, but is where the network begins or ends, because its data are packed there in
any case.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import groupby

from loadstone.graph import (
    Graph,
    Operator,
)
from loadstone.partition.segments import HOST, ordered

__all__ = ["islands"]


def islands(
    graph: Graph, backend_of: Mapping[str, str], ranks: Mapping[str, int]
) -> list[Operator]:
    """The operators of steps that hold nothing heavier. backend_of: by operator's name; ranks:
    of back ends and the host."""
    found: list[Operator] = []
    for _, entries in groupby(ordered(graph, backend_of, ranks), key=lambda entry: entry[0]):
        operators = [operator for _, operator in entries]
        if backend_of[operators[0].name] == HOST:
            continue
        if all(operator.is_move for operator in operators) or (
            all(operator.is_move or operator.is_light for operator in operators)
            and _is_between_host(graph, operators, backend_of)
        ):
            found += operators
    return found


def _is_between_host(
    graph: Graph, operators: Sequence[Operator], backend_of: Mapping[str, str]
) -> bool:
    """Whether operators of the host make all that these read from elsewhere, and read all that
    these make for others."""
    own = {operator.name for operator in operators}
    made = {tensor.name for operator in operators for tensor in operator.outputs}
    if not made.isdisjoint(tensor.name for tensor in graph.outputs):
        return False
    makers = [
        graph.producer(tensor)
        for operator in operators
        for tensor in operator.inputs
        if tensor.name not in graph.constants
    ]
    readers = [o for o in graph.operators if any(tensor.name in made for tensor in o.inputs)]
    return all(
        neighbour is not None and (neighbour.name in own or backend_of[neighbour.name] == HOST)
        for neighbour in (*makers, *readers)
    )
