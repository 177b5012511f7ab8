# SPDX-License-Identifier: Apache-2.0
"""The expected values of an artifact of `--rounding near`, by what its back ends state.

In:   a model's file, the target that it was compiled for; or a partition. One run's inputs.
Out:  an Expected: the integers of the stated roundings; how far these are from the framework's.
Next: commands/compare.py prints both; compiled.py compares in memory.

A layer that is one level off changes the inputs of all layers behind it. So the device is compared
with the stated roundings, which it must equal in every element, and each layer's departure from the
framework is counted on the inputs that it then has.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from loadstone import graph as g
from loadstone.analysis.compare import Expected, from_tensors
from loadstone.analysis.expected import check_inputs
from loadstone.artifact.format import Artifact, HostStep
from loadstone.backend.interface import Backend
from loadstone.backend.request import CompileRequest
from loadstone.backend.rounded_network import Departure, rounded_network
from loadstone.backend.rounding import StatedRounding
from loadstone.backend.scope import rounding_of
from loadstone.backend.target import Target
from loadstone.numerics import Array
from loadstone.partition.eager import HOST, Partition
from loadstone.runtime.external_steps import place_of

__all__ = ["StatedValues", "stated_roundings", "stated_values"]


@dataclass(frozen=True)
class StatedValues:
    """expected: of every tensor. departures: from the framework, by operator."""

    expected: Expected
    departures: Mapping[str, Departure]

    @classmethod
    def of(
        cls, graph: g.Graph, inputs: Sequence[Array], roundings: Mapping[str, StatedRounding]
    ) -> StatedValues:
        """roundings: by operator. inputs: each of the shape of its tensor."""
        network = rounded_network(graph, inputs, roundings)
        return cls(from_tensors(network.values), network.departures)


def stated_roundings(
    divided: Partition, graph: g.Graph, backends: Sequence[Backend], on_host: frozenset[str]
) -> dict[str, StatedRounding]:
    """By name, the roundings of the operators that a back end takes and rounds in a way of its own.
    graph: the partition's network, as the artifact computes it. on_host: names of operators that
    are left out."""
    by_name = {backend.name: backend for backend in backends}
    place = {entry.operator.name: entry.backend for entry in divided.assignments}
    found = {}
    for operator in graph.operators:
        where = place.get(operator.name, HOST)
        if where == HOST or operator.name in on_host:
            continue
        stated = rounding_of(by_name[where], operator)
        if stated is not None:
            found[operator.name] = stated
    return found


def stated_values(
    against: str, artifact: Artifact, inputs: Sequence[Array], target: Target
) -> StatedValues:
    """Of a model's file. inputs: each of the shape of the artifact's input. target: for which it
    was compiled with `--rounding near`. Raises ModelError for a model that does not belong to
    this artifact."""
    from loadstone.frontend import load
    from loadstone.graph.batching import batched
    from loadstone.partition.eager import partition
    from loadstone.partition.network_pass import apply_graph_passes
    from loadstone.partition.prepare import relax_passed

    backends = target.asked(CompileRequest("near")).backends
    module = relax_passed(load(against), backends)
    divided = apply_graph_passes(partition(module, backends, Path(against).stem), backends)
    network, _ = batched(divided.graph, artifact.samples)
    check_inputs(against, artifact, [tensor.shape for tensor in network.inputs], 1)
    hosts = (s for s in artifact.steps if isinstance(s, HostStep) and place_of(s) == HOST)
    on_host = frozenset(step.name for step in hosts)
    return StatedValues.of(network, inputs, stated_roundings(divided, network, backends, on_host))
