# SPDX-License-Identifier: Apache-2.0
"""Passes of back ends on the partitioned network: Phase.GRAPH.

In:   a Partition, the target's back ends.
Out:  a Partition of the resulting network: operators that were changed or added are placed anew,
      all others keep their places.
Next: graph/batching.py; then back ends lower their segments.

A pass sees every operator of the network, those of other back ends and of the host included. It
gives a Graph with the same inputs and outputs. An operator object that was there before keeps its
place; a new one goes to the first back end that takes it.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from loadstone.backend.interface import Backend, Phase, Refusal, Taken
from loadstone.backend.scope import answer, apply_passes, patterns_of
from loadstone.errors import LoweringError
from loadstone.graph import Graph, Host, Operator
from loadstone.partition.eager import HOST, Assignment, Partition, divide

__all__ = ["answer_of", "apply_graph_passes"]


def apply_graph_passes(divided: Partition, backends: Sequence[Backend]) -> Partition:
    """The partition of what the passes make of its network. Raises LoweringError where they change
    its inputs or outputs."""
    log = divided.log.continued()
    graph = log.run(
        "graph_passes",
        lambda network: apply_passes(backends, Phase.GRAPH, network),
        divided.graph,
        show=Graph.describe,
    )
    if graph is divided.graph:
        return replace(divided, log=log)
    for what in ("inputs", "outputs"):
        before, after = (
            [(t.name, t.shape, t.dtype) for t in getattr(side, what)]
            for side in (divided.graph, graph)
        )
        if before != after:
            raise LoweringError(
                f"graph passes: the network's {what} were {before}, and are {after}: they must stay"
            )
    known: dict[object, Assignment] = {
        assignment.operator: assignment for assignment in divided.assignments
    }
    known.update(
        {("host", p.operator.name): p for p in divided.assignments if isinstance(p.operator, Host)}
    )

    def assignment_of(operator: Operator) -> Assignment:
        if isinstance(operator, Host) and ("host", operator.name) in known:  # it has no other place
            return replace(known["host", operator.name], operator=operator)
        return known.get(operator) or _placed(operator, backends)

    assignments = {operator: assignment_of(operator) for operator in graph.operators}
    backend_of = {operator.name: assignment.backend for operator, assignment in assignments.items()}
    graph, segments = divide(graph, backend_of, [backend.name for backend in backends])
    return replace(
        divided,
        graph=graph,
        assignments=tuple(assignments[operator] for operator in graph.operators),
        segments=segments,
        log=log,
    )


def _placed(operator: Operator, backends: Sequence[Backend]) -> Assignment:
    refusals: list[tuple[str, Refusal]] = []
    for backend in backends:
        said = answer_of(backend, operator)
        if isinstance(said, Taken):
            return Assignment(operator, backend.name, tuple(refusals), said)
        refusals.append((backend.name, said))
    return Assignment(operator, HOST, tuple(refusals))


def answer_of(backend: Backend, operator: Operator) -> Taken | Refusal:
    """What the back end's table says of an operator, by the names of its patterns."""
    first: Refusal | None = None
    for pattern in patterns_of(backend):
        if pattern.kind in operator.patterns:
            said = answer(backend, pattern, operator)
            if isinstance(said, Taken):
                return said
            first = first or said
    return first or Refusal(f"no pattern for {operator.kind}", "a pattern")
