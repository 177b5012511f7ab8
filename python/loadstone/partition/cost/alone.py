# SPDX-License-Identifier: Apache-2.0
"""The cost of every operator alone: it is lowered as an artifact of one operator, whose steps are
priced.

In:   the partitioner of the network, its operators' constants, prices.
Out:  AloneCost of an operator in one place, computed once; None for an operator that cannot be
      lowered alone.
Next: candidates.py makes candidates of them; choice.py is the only importer.

The simulator determines the cost of device programs, the clock that of host steps; the steps that
pack and unpack are the cost of transfers. A back end may report its own costs.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from numpy.typing import NDArray

from loadstone.artifact.format import HostStep
from loadstone.artifact.host_step import HostOpcode
from loadstone.backend.region import ExternalRegion
from loadstone.errors import LoweringError, UnsupportedError
from loadstone.graph import Graph, Operator
from loadstone.partition.cost.candidates import AloneCost
from loadstone.partition.cost.pricing import Pricing
from loadstone.partition.cost.search import ROWS
from loadstone.partition.eager import HOST, Assignment, Match, Partition
from loadstone.partition.lowering import LoweredPartition, lower_partition
from loadstone.partition.partitioner import EagerPartitioner
from loadstone.partition.segments import divide

__all__ = ["Alone"]

#: What lowering says of an operator that it cannot do alone.
_NOT_ALONE = (LoweringError, UnsupportedError)


class Alone:
    """Costs of single operators, each found once. found: all matches of the network."""

    def __init__(
        self,
        partitioner: EagerPartitioner,
        found: Sequence[Match],
        constants: Mapping[str, NDArray[Any]],
        pricing: Pricing,
    ) -> None:
        self.partitioner = partitioner
        self.found = found
        self.taken = {(match.backend, match.operator): match.taken for match in found}
        self.constants = constants
        self.pricing = pricing
        self.backends = partitioner.target.backends
        self.known: dict[tuple[str, str, str], AloneCost | None] = {}  # (operator, kind, place)
        self.partitions: dict[tuple[str, str], Partition] = {}  # (place, kind)

    def cost(self, operator: Operator, place: str) -> AloneCost | None:
        """place: HOST or a back end's name. None where it cannot be lowered after all."""
        key = (operator.name, operator.kind, place)
        if key not in self.known:
            divided = self._divided(operator, place)
            try:
                self.known[key] = self._cost(divided, place)
            except _NOT_ALONE:
                self.known[key] = self._cost_with_relax(divided, place) if place != HOST else None
        return self.known[key]

    def _cost_with_relax(self, divided: Partition, place: str) -> AloneCost | None:
        """For a back end that reads its segments as Relax; None for what cannot be lowered alone:
        it is no candidate."""
        try:
            own = self._partition_of(place, divided.graph.operators[0].kind)
            return self._cost(replace(divided, module=own.module, variables=own.variables), place)
        except _NOT_ALONE:
            return None

    def _partition_of(self, place: str, kind: str) -> Partition:
        """In which a back end has its operators of a kind, and no others."""
        if (place, kind) not in self.partitions:
            self.partitions[place, kind] = self.partitioner.split(
                [m for m in self.found if (m.backend, m.operator.kind) == (place, kind)]
            )
        return self.partitions[place, kind]

    def _lowered(self, divided: Partition) -> LoweredPartition:
        return lower_partition(divided, self.partitioner.target)

    def _cost(self, divided: Partition, place: str) -> AloneCost:
        fed = self._lowered(divided)
        artifact = fed.deployment.artifact
        packs: dict[str, tuple[str, int]] = {}
        unpacks: dict[str, int] = {}
        fed_ns = constant_ns = 0
        for step, ns in zip(artifact.steps, self.pricing.steps_ns(fed), strict=True):
            if isinstance(step, HostStep) and step.opcode == HostOpcode.PACK:
                source, layout = (
                    artifact.tensors[index].name for index in (*step.inputs, *step.outputs)
                )
                if source in self.constants:  # packed in every run
                    constant_ns += ns
                else:
                    packs[source] = (layout.removesuffix(" on device"), ns)
            elif isinstance(step, HostStep) and step.opcode == HostOpcode.UNPACK:
                unpacks[artifact.tensors[step.outputs[0]].name] = ns
            else:
                fed_ns += ns
        if place == HOST or any(isinstance(region, ExternalRegion) for region in fed.regions):
            return AloneCost(ROWS, fed_ns)
        own_layout = any(source != layout for source, (layout, _) in packs.items())
        ns = self._inside_ns(divided, fed, fed_ns, own_layout)
        return AloneCost(place, ns + constant_ns, packs, unpacks, fed_ns - ns)

    def _inside_ns(
        self, divided: Partition, fed: LoweredPartition, fed_ns: int, own_layout: bool
    ) -> int:
        """What it takes where its inputs are on the device already. own_layout: the host packs for
        it in a layout of its own."""
        (backend,) = (entry for entry in self.backends if entry.name == fed.segments[0].backend)
        model_ns = self.pricing.model_ns(backend, replace(fed.segments[0], from_host=()))
        if model_ns is not None or not own_layout:
            return fed_ns if model_ns is None else model_ns
        segments = (replace(divided.segments[0], from_host=()),)
        artifact = self._lowered(replace(divided, segments=segments)).deployment.artifact
        return sum(self.pricing.table.steps_ns(replace(artifact, steps=artifact.programs)))

    def _divided(self, operator: Operator, place: str) -> Partition:
        """A network of one operator."""
        read = {t.name: t for t in operator.inputs}
        graph = Graph(
            name="alone",
            inputs=tuple(t for name, t in read.items() if name not in self.constants),
            outputs=operator.outputs,
            operators=(operator,),
            constants={name: self.constants[name] for name in read if name in self.constants},
        )
        graph, segments = divide(
            graph, {operator.name: place}, [backend.name for backend in self.backends]
        )
        own = Assignment(operator, place, (), self.taken.get((place, operator)))
        return Partition(None, graph, (own,), segments)
