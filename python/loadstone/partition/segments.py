# SPDX-License-Identifier: Apache-2.0
"""Segments: operators that one back end executes together, and an order of the network in which
they are consecutive.

In:   a Graph, and the back end of every operator.
Out:  the graph in that order, and its Segments.
Next: a back end lowers its segments; artifact/deploy.py puts the steps in this order.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from itertools import groupby

from loadstone.backend.interface import Segment
from loadstone.errors import LoweringError
from loadstone.graph import Graph, Operator, Tensor

__all__ = ["HOST", "divide", "ordered", "segments_text", "verify_segments"]

HOST = "host"


def divide(
    graph: Graph, backend_of: Mapping[str, str], order: Sequence[str]
) -> tuple[Graph, tuple[Segment, ...]]:
    """The graph in an order in which the segments are runs, and these. backend_of: by operator's
    name; order: back ends."""
    steps = ordered(graph, backend_of, {name: rank for rank, name in enumerate([*order, HOST])})
    graph = replace(graph, operators=tuple(operator for _, operator in steps))
    return graph, _segments(graph, steps, backend_of)


def ordered(
    graph: Graph, backend_of: Mapping[str, str], ranks: Mapping[str, int]
) -> list[tuple[int, Operator]]:
    """(step, operator) in an order of execution in which each step belongs to one back end.

    A step is as early as its inputs allow, and steps modulo the number of back ends name the back
    end. On every path the step never falls, and rises where the back end changes: so no path leaves
    a step and comes back.
    """
    step_of: dict[str, int] = {}
    steps = []
    for operator in graph.operators:
        ready = max(
            (step_of[tensor.name] for tensor in operator.inputs if tensor.name in step_of),
            default=0,
        )
        step = ready + (ranks[backend_of[operator.name]] - ready) % len(ranks)
        step_of.update((tensor.name, step) for tensor in operator.outputs)
        steps.append((step, operator))
    return sorted(steps, key=lambda entry: entry[0])


def _segments(
    graph: Graph, steps: list[tuple[int, Operator]], backend_of: Mapping[str, str]
) -> tuple[Segment, ...]:
    """One per step of a back end; the host has none."""
    segments = []
    for step, entries in groupby(steps, key=lambda entry: entry[0]):
        operators = tuple(operator for _, operator in entries)
        if backend_of[operators[0].name] != HOST:
            segments.append(_segment(graph, step, operators, backend_of))
    return tuple(segments)


def _segment(
    graph: Graph, step: int, operators: tuple[Operator, ...], backend_of: Mapping[str, str]
) -> Segment:
    """What goes in and out of a step: inputs are made by other steps, and outputs are used there or
    are the network's."""
    backend = backend_of[operators[0].name]
    inputs = _inputs(graph, operators)
    makers = {tensor.name: graph.producer(tensor) for tensor in inputs}
    on_device = {
        name
        for name, maker in makers.items()
        if maker is not None and backend_of[maker.name] == backend
    }
    wanted = _wanted_elsewhere(graph, operators)
    return Segment(
        name=f"{backend}_{step}",
        backend=backend,
        graph=graph,
        operators=operators,
        inputs=inputs,
        from_host=tuple(tensor for tensor in inputs if tensor.name not in on_device),
        outputs=tuple(
            tensor for operator in operators for tensor in operator.outputs if tensor.name in wanted
        ),
    )


def _inputs(graph: Graph, operators: tuple[Operator, ...]) -> tuple[Tensor, ...]:
    """What the operators read and neither make themselves nor hold as constants."""
    written = {tensor.name for operator in operators for tensor in operator.outputs}
    read = {tensor.name: tensor for operator in operators for tensor in operator.inputs}
    return tuple(
        tensor
        for name, tensor in read.items()
        if name not in written and name not in graph.constants
    )


def _wanted_elsewhere(graph: Graph, operators: tuple[Operator, ...]) -> set[str]:
    """Names of the tensors that all other operators read, and of the network's outputs."""
    wanted = {tensor.name for tensor in graph.outputs}
    wanted.update(
        tensor.name
        for operator in graph.operators
        if operator not in operators
        for tensor in operator.inputs
    )
    return wanted


# --- what must hold -------------------------------------------------------------------------------
def verify_segments(
    backend_of: Mapping[str, str],
    before: Graph,
    after: tuple[Graph, Sequence[Segment]],
) -> None:
    """Raises LoweringError where the network is another than before, an operator of a back end is
    in no segment of it or in several, a segment is no run of the network's operators, or what goes
    into it, or out of it, is another set of tensors than the one that its neighbours imply."""
    graph, segments = after
    if set(before.operators) != set(graph.operators):
        raise LoweringError("the operators are others than before")
    if (before.inputs, before.outputs) != (graph.inputs, graph.outputs):
        raise LoweringError("the network's inputs or outputs are others than before")
    held = [operator.name for segment in segments for operator in segment.operators]
    wanted = [o.name for o in graph.operators if backend_of[o.name] != HOST]
    if sorted(held) != sorted(wanted):
        raise LoweringError("an operator of a back end is in no segment, or in several")
    for segment in segments:
        if segment.graph is not graph:
            raise LoweringError(f"{segment.name}: it is a part of another network")
        if not segment.operators:
            raise LoweringError(f"{segment.name}: it has no operators")
        first = graph.operators.index(segment.operators[0])
        if segment.operators != graph.operators[first : first + len(segment.operators)]:
            raise LoweringError(f"{segment.name}: other operators run between its own")
        strange = [o.name for o in segment.operators if backend_of[o.name] != segment.backend]
        if strange:
            raise LoweringError(f"{segment.name}: {strange[0]} is of another back end")
        _verify_ends(backend_of, graph, segment)


def _verify_ends(backend_of: Mapping[str, str], graph: Graph, segment: Segment) -> None:
    """What goes in and comes out is all that others make or read, and nothing else. The operators
    are walked in the order in which they are executed: a tensor is made when it is met."""
    own = set(segment.operators)
    made, read, made_by = set[str](), set[str](), dict[str, str]()
    wanted = {t.name for t in graph.outputs}
    for operator in graph.operators:
        names = {t.name for t in operator.inputs}
        if operator in own:
            read |= names - made - graph.constants.keys()
            made |= {t.name for t in operator.outputs}
        else:
            wanted |= names
            made_by |= {t.name: backend_of[operator.name] for t in operator.outputs}
    on_device = {name for name in read if made_by.get(name) == segment.backend}
    for tensors, names, way in (
        (segment.inputs, read, "come in"),
        (segment.from_host, read - on_device, "come from the host"),
        (segment.outputs, made & wanted, "come out"),
    ):
        said = [tensor.name for tensor in tensors]
        for name in sorted(names - set(said)):
            raise LoweringError(f"{segment.name}: {name} does not {way}, and should")
        for name in sorted(set(said) - names):
            raise LoweringError(f"{segment.name}: {name} should not {way}")
        for name in (name for name in said if said.count(name) > 1):
            raise LoweringError(f"{segment.name}: {name} should not {way} twice")


def segments_text(divided: tuple[Graph, Sequence[Segment]]) -> str:
    """The network's operators in order, each under the segment that takes it, for dumps."""
    graph, segments = divided
    segment_of = {o.name: segment for segment in segments for o in segment.operators}
    lines, last = list[str](), ""
    for operator in graph.operators:
        segment = segment_of.get(operator.name)
        title = HOST if segment is None else segment.name
        if title != last:
            ends = f" {_names(segment.inputs)} -> {_names(segment.outputs)}" if segment else ""
            lines.append(f"{title}:{ends}")
            last = title
        lines.append(f"    {operator.kind} {operator.name}")
    return "\n".join(lines) + "\n"


def _names(tensors: Sequence[Tensor]) -> str:
    return ", ".join(tensor.name for tensor in tensors)
