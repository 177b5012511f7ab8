# SPDX-License-Identifier: Apache-2.0
"""Lower a partition: its network for the device's batch, its segments by their back ends, and the
artifact of it all.

In:   a Partition, the target.
Out:  LoweredPartition.
Next: partitioner.py, and partition/cost, which lowers single operators to find out what they cost.
"""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass, replace
from functools import partial

from loadstone.artifact.deploy import Contents, Deployment, deploy
from loadstone.artifact.lifetimes import Step
from loadstone.backend.interface import Backend, Segment
from loadstone.backend.region import ExternalRegion, LoweredRegion
from loadstone.backend.scope import within
from loadstone.backend.target import Target
from loadstone.graph import Graph, Operator
from loadstone.graph.batching import batched
from loadstone.partition.eager import Partition
from loadstone.partition.relax_region import region_as_relax
from loadstone.partition.switching import switchable
from loadstone.passes.log import PassLog, PassRun, keeping

__all__ = ["Clock", "LoweredPartition", "lower_partition", "lower_segments"]


class Clock:
    """Seconds by stage: `with clock("lower"): ...`; a stage that comes again adds to itself."""

    def __init__(self) -> None:
        self.seconds: dict[str, float] = {}

    @contextmanager
    def __call__(self, stage: str) -> Iterator[None]:
        """Counts what is done inside."""
        start = time.perf_counter()
        yield
        self.seconds[stage] = self.seconds.get(stage, 0.0) + time.perf_counter() - start


@dataclass(frozen=True, eq=False)
class LoweredPartition:
    """A partition, lowered. network: for the device's batch. segments: of that network. regions: in
    order, operators of the host too. log: of the passes on the
    network."""

    partition: Partition
    network: Graph
    segments: tuple[Segment, ...]
    regions: Sequence[Step]
    deployment: Deployment
    log: PassLog

    @property
    def runs(self) -> list[PassRun]:
        """Of the passes that made it, those on its regions included, in the order of the list."""
        return _runs(self.log, self.regions)


def _runs(log: PassLog, steps: Sequence[Step]) -> list[PassRun]:
    regions = (region for region in steps if isinstance(region, LoweredRegion))
    every = [*log.runs, *(run for region in regions for run in region.runs)]
    return sorted(every, key=lambda run: run.entry.number)


def lower_partition(
    divided: Partition,
    target: Target,
    clock: Clock | None = None,
    contents: Contents | None = None,
) -> LoweredPartition:
    """clock: counts stages lower and deploy. contents: as deploy has it. Raises LoweringError,
    UnsupportedError."""
    log, regions = divided.log.continued(), list[Step]()
    with keeping(lambda: _runs(log, regions)):
        return _lowered_partition(divided, target, clock or Clock(), log, regions, contents)


def _lowered_partition(
    divided: Partition,
    target: Target,
    clock: Clock,
    log: PassLog,
    regions: list[Step],
    contents: Contents | None,
) -> LoweredPartition:
    """regions: gets the steps, as they are made."""
    network, renewed = log.run(
        "batch",
        lambda graph: batched(graph, target.device.batch),
        divided.graph,
        show=lambda made: made[0].describe(),
    )
    segments = tuple(_renewed(divided, segment, network, renewed) for segment in divided.segments)
    with clock("lower"):
        regions += lower_segments(divided.graph, segments, renewed, target.backends)
    with clock("deploy"):
        scope = partial(_building, segments, target.backends)
        made = partial(deploy, network, regions, target.device, scope)
        most = target.switch_cycles
        if most is None:
            deployment = made(log, contents)
        else:
            apart = log.continued()  # of trials only the last one counts
            deployment = switchable(
                lambda trial: made(_emptied(log, apart), trial),
                regions,
                target.device,
                most,
                contents or Contents(),
            )
    return LoweredPartition(divided, network, segments, regions, deployment, log)


def _emptied(log: PassLog, before: PassLog) -> PassLog:
    """The log, with what was in it before."""
    log.runs[:] = before.runs
    return log


def lower_segments(
    graph: Graph,
    segments: Sequence[Segment],
    renewed: Mapping[Operator, Operator],
    backends: Sequence[Backend],
) -> Iterator[Step]:
    """The network's operators in order, those of one segment replaced by what the back end made of
    them. graph: for one sample; segments: of the network for the device's batch; renewed: operator
    of the one -> of the other."""
    by_name = {backend.name: backend for backend in backends}
    segment_of = {operator: segment for segment in segments for operator in segment.operators}
    lowered: set[str] = set()
    for operator in (renewed[operator] for operator in graph.operators):
        segment = segment_of.get(operator)
        if segment is None:
            yield operator
        elif segment.name not in lowered:
            lowered.add(segment.name)
            yield _lowered(by_name[segment.backend], segment)


def _lowered(backend: Backend, segment: Segment) -> LoweredRegion | ExternalRegion:
    names = [part.name for part in segment.operators]
    more = f" and {len(names) - 3} more" if len(names) > 3 else ""
    with within(backend, f"lowering of {', '.join(names[:3])}{more}"):
        region = backend.lower(segment)
        if not isinstance(region, ExternalRegion | LoweredRegion):
            raise TypeError(
                f"lower returned {region!r}: neither an ExternalRegion nor a LoweredRegion"
            )
    return region


def _building(
    segments: Sequence[Segment], backends: Sequence[Backend], region: LoweredRegion
) -> AbstractContextManager[None]:
    """The scope in which a region makes its program."""
    made = region.operators[0].name
    maker = next(
        segment.backend
        for segment in segments
        if made in (operator.name for operator in segment.operators)
    )
    backend = next(backend for backend in backends if backend.name == maker)
    return within(backend, f"program of {region.name}")


def _renewed(
    divided: Partition, segment: Segment, network: Graph, renewed: Mapping[Operator, Operator]
) -> Segment:
    tensors = {t.name: t for o in renewed.values() for t in (*o.inputs, *o.outputs)}
    taken = {entry.operator: entry.taken for entry in divided.assignments}
    return replace(
        segment,
        graph=network,
        operators=tuple(renewed[o] for o in segment.operators),
        inputs=tuple(tensors[t.name] for t in segment.inputs),
        outputs=tuple(tensors[t.name] for t in segment.outputs),
        taken={renewed[o]: said for o in segment.operators if (said := taken.get(o)) is not None},
        relax=partial(region_as_relax, divided, segment),
    )
