"""Who runs what, by cost: the cheapest partition that can be found, never a dearer one than the
eager partition.

In:   a module in canonical form, back ends, the eager partition as it was lowered, and a CostTable.
Out:  a Choice: the partition that costs less, lowered; what every operator would have cost
      elsewhere; both totals.
Next: compiler.py goes on with it; commands/compile.py prints it (`--partition cost --explain`).

1. Every match of every back end and of the host is lowered alone, as an artifact of one operator.
Its steps are what it costs: a
   device program by the simulator, a step of the host by the clock, the steps that pack and unpack
   as the price of a transfer.
   A back end that knows better says so (Backend.cost_cycles).
2. Operators of a segment overlap, so together they take less: costs on a device are scaled by what
the segments of the last plan,
   at first the eager partition, take relative to their operators alone.
3. partition/cost/search.py finds the cheapest cover.
4. That is lowered as a whole and priced by all of its steps. It is the choice when it takes less
than the best so far, by more than
   the error of the host's times. Then again from 2, until a plan comes back, a few times at most.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from functools import cache
from typing import TYPE_CHECKING

from loadstone.artifact.deploy import Deployment
from loadstone.artifact.format import DeviceProgram, HostStep
from loadstone.artifact.host_step import HostOpcode
from loadstone.backend.interface import Backend, Segment
from loadstone.backend.region import ExternalRegion, LoweredRegion
from loadstone.backend.scope import within
from loadstone.errors import LoweringError, UnsupportedError
from loadstone.files import JsonObject
from loadstone.graph import Graph, Operator
from loadstone.numerics import Array
from loadstone.partition.cost.candidates import AloneCost, Candidates, candidates
from loadstone.partition.cost.prices import CostTable
from loadstone.partition.cost.search import ROWS, Candidate, search
from loadstone.partition.eager import HOST, Match, Partition, matches
from loadstone.partition.segments import divide

if TYPE_CHECKING:
    from loadstone.relax.types import IRModule

__all__ = ["Alternative", "Choice", "LoweredPartition", "choose", "plan_ns"]

#: MHz of a back end that has a model of its cycles and no attribute clock_mhz.
DEFAULT_CLOCK_MHZ = 100
#: What lowering says of an operator that it cannot do alone.
_NOT_ALONE = (LoweringError, UnsupportedError)
#: Plans that are lowered as a whole, besides the eager one.
_ROUNDS = 3


@dataclass(frozen=True, eq=False)
class LoweredPartition:
    """A partition, lowered. network: for the device's batch. segments: of that network. regions: in
    order, operators of the host too."""

    partition: Partition
    network: Graph
    segments: tuple[Segment, ...]
    regions: Sequence[LoweredRegion | ExternalRegion | Operator]
    deployment: Deployment


@dataclass(frozen=True)
class Alternative:
    """One place for an operator: what it takes there alone, and what bringing its inputs and taking
    its outputs away would add."""

    place: str
    pattern: str
    ns: int
    transfer_ns: int

    def to_json(self) -> JsonObject:
        """In microseconds."""
        return {
            "place": self.place,
            "pattern": self.pattern,
            "us": self.ns / 1000,
            "transfer_us": self.transfer_ns / 1000,
        }


@dataclass(frozen=True, eq=False)
class Choice:
    """chosen: "cost", or "eager" when nothing cheaper was found. exact: no cover costs less, as far
    as costs add up."""

    chosen: str
    realised: LoweredPartition
    eager_ns: int
    cost_ns: int
    exact: bool
    alternatives: Mapping[str, tuple[Alternative, ...]]

    def to_json(self) -> JsonObject:
        """Without the alternatives, in microseconds."""
        return {
            "chosen": self.chosen,
            "eager_us": self.eager_ns / 1000,
            "cost_us": self.cost_ns / 1000,
            "exact": self.exact,
        }


Split = Callable[[Sequence[Match]], Partition]
Own = Callable[[str, str], Partition]
Realise = Callable[[Partition], LoweredPartition]


def choose(
    module: IRModule,
    backends: Sequence[Backend],
    eager: LoweredPartition,
    split: Split,
    realise: Realise,
    table: CostTable,
) -> Choice:
    """split: a partition by these matches. realise: lowers one. Costs that were not in the table
    are there afterwards."""
    found, constants = matches(module, backends)
    own = cache(
        lambda place, kind: split(
            [match for match in found if (match.backend, match.operator.kind) == (place, kind)]
        )
    )
    alone = _Alone(backends, constants, own, realise, table)
    made = candidates(module, found, alone.cost)
    best = latest = eager
    best_ns = eager_ns = plan_ns(eager, backends, table)
    seen = [_places(eager.partition)]
    exact = False
    for _ in range(_ROUNDS):
        plan = search(
            replace(
                made.problem, candidates=_scaled(made, _together(latest, alone, backends, table))
            )
        )
        if plan is None:
            break
        exact = plan.exact
        divided = split(
            [
                match
                for match in (made.matches[index] for index in plan.candidates)
                if match is not None
            ]
        )
        if _places(divided) in seen:
            break
        seen.append(_places(divided))
        latest = realise(divided)
        latest_ns = plan_ns(latest, backends, table)
        if best_ns - latest_ns > _doubt_ns(best, latest, backends, table):
            best, best_ns = latest, latest_ns
    return Choice(
        "eager" if best is eager else "cost",
        best,
        eager_ns,
        best_ns,
        exact,
        _alternatives(made, alone),
    )


def plan_ns(realised: LoweredPartition, backends: Sequence[Backend], table: CostTable) -> int:
    """The whole network: all steps of its artifact, segments of back ends with a model of their own
    by that."""
    return sum(_steps_ns(realised, backends, table))


def _steps_ns(
    realised: LoweredPartition, backends: Sequence[Backend], table: CostTable
) -> list[int]:
    """Nanoseconds of each step."""
    by_name = {backend.name: backend for backend in backends}
    models = {
        segment.name: _model_ns(by_name[segment.backend], segment) for segment in realised.segments
    }
    artifact = realised.deployment.artifact
    measured = [step for step in artifact.steps if models.get(_segment_of(step)) is None]
    known = iter(table.steps_ns(replace(artifact, steps=tuple(measured))))
    return [
        next(known) if ns is None else ns
        for ns in (models.get(_segment_of(step)) for step in artifact.steps)
    ]


def _doubt_ns(
    a: LoweredPartition, b: LoweredPartition, backends: Sequence[Backend], table: CostTable
) -> int:
    """How wrong the difference of two plans may be: 5 % of the host's steps in which they differ,
    which are known to two digits."""
    once, twice = (
        Counter(
            ns
            for step, ns in zip(
                plan.deployment.artifact.steps, _steps_ns(plan, backends, table), strict=True
            )
            if isinstance(step, HostStep)
        )
        for plan in (a, b)
    )
    return sum(((once - twice) + (twice - once)).elements()) // 20


def _model_ns(backend: Backend, segment: Segment) -> int | None:
    with within(backend, f"cost of {', '.join(operator.name for operator in segment.operators)}"):
        cycles = backend.cost_cycles(segment)
        if cycles is not None and (not hasattr(cycles, "__index__") or cycles < 0):
            raise TypeError(
                f"cost_cycles gave {cycles!r}, not a whole number of at least 0 or None"
            )
    return (
        None
        if cycles is None
        else int(cycles) * 1000 // int(backend.attributes.get("clock_mhz", DEFAULT_CLOCK_MHZ))
    )


def _segment_of(step: DeviceProgram | HostStep) -> str:
    """The name of the segment that a step executes; "" for what the host does itself."""
    return (
        step.name if isinstance(step, DeviceProgram) or step.opcode == HostOpcode.EXTERNAL else ""
    )


def _places(divided: Partition) -> dict[tuple[str, str], str]:
    return {
        (assignment.operator.name, assignment.operator.kind): assignment.backend
        for assignment in divided.assignments
    }


class _Alone:
    """Costs of single operators, each found once. own: the partition in which a back end has its
    operators of a kind, and no others."""

    def __init__(
        self,
        backends: Sequence[Backend],
        constants: Mapping[str, Array],
        own: Own,
        realise: Realise,
        table: CostTable,
    ) -> None:
        self.backends, self.constants, self.own, self.realise, self.table = (
            backends,
            constants,
            own,
            realise,
            table,
        )
        self.known: dict[
            tuple[str, str, str], AloneCost | None
        ] = {}  # (operator's name, kind, place)

    def cost(self, operator: Operator, place: str) -> AloneCost | None:
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
            own = self.own(place, divided.graph.operators[0].kind)
            return self._cost(replace(divided, module=own.module, variables=own.variables), place)
        except _NOT_ALONE:
            return None

    def _cost(self, divided: Partition, place: str) -> AloneCost:
        fed = self.realise(divided)
        artifact = fed.deployment.artifact
        packs: dict[str, tuple[str, int]] = {}
        unpacks: dict[str, int] = {}
        fed_ns = constant_ns = 0
        for step, ns in zip(artifact.steps, _steps_ns(fed, self.backends, self.table), strict=True):
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
        ns = self._inside_ns(
            divided, fed, fed_ns, any(source != layout for source, (layout, _) in packs.items())
        )
        return AloneCost(place, ns + constant_ns, packs, unpacks, fed_ns - ns)

    def _inside_ns(
        self, divided: Partition, fed: LoweredPartition, fed_ns: int, folded: bool
    ) -> int:
        """What it takes where its inputs are on the device already. folded: the host packs for it
        in a layout of its own."""
        backend = next(
            backend for backend in self.backends if backend.name == fed.segments[0].backend
        )
        model_ns = _model_ns(backend, replace(fed.segments[0], from_host=()))
        if model_ns is not None or not folded:
            return fed_ns if model_ns is None else model_ns
        inside = self.realise(
            replace(divided, segments=(replace(divided.segments[0], from_host=()),))
        )
        return sum(
            self.table.steps_ns(
                replace(inside.deployment.artifact, steps=inside.deployment.artifact.programs)
            )
        )

    def _divided(self, operator: Operator, place: str) -> Partition:
        """A network of one operator."""
        inputs = tuple(
            {t.name: t for t in operator.inputs if t.name not in self.constants}.values()
        )
        constants = {
            t.name: self.constants[t.name] for t in operator.inputs if t.name in self.constants
        }
        graph = Graph(
            name="alone",
            inputs=inputs,
            outputs=operator.outputs,
            operators=(operator,),
            constants=constants,
        )
        graph, segments = divide(
            graph, {operator.name: place}, [backend.name for backend in self.backends]
        )
        return Partition(None, graph, (), segments)


def _together(
    realised: LoweredPartition, alone: _Alone, backends: Sequence[Backend], table: CostTable
) -> dict[str, Fraction]:
    """By back end with a memory of its own: its segments / their operators alone."""
    steps = zip(
        realised.deployment.artifact.steps, _steps_ns(realised, backends, table), strict=True
    )
    segment_ns: dict[str, int] = {}
    for step, ns in steps:
        segment_ns[_segment_of(step)] = segment_ns.get(_segment_of(step), 0) + ns
    sums: dict[str, tuple[int, int]] = {}
    for segment in realised.partition.segments:
        costs = [
            (operator, alone.cost(operator, segment.backend)) for operator in segment.operators
        ]
        known = [
            (operator, cost) for operator, cost in costs if cost is not None and cost.memory != ROWS
        ]
        if len(known) == len(costs):
            apart = sum(
                cost.ns + (cost.extra_ns if operator.input in segment.from_host else 0)
                for operator, cost in known
            )
            whole, parts = sums.get(segment.backend, (0, 0))
            sums[segment.backend] = (whole + segment_ns[segment.name], parts + apart)
    return {backend: Fraction(whole, parts) for backend, (whole, parts) in sums.items() if parts}


def _scaled(made: Candidates, together: Mapping[str, Fraction]) -> list[Candidate]:
    """The candidates with what they take among others."""
    return [
        replace(c, cost_ns=int(c.cost_ns * together.get(c.memory, Fraction(1))))
        for c in made.problem.candidates
    ]


def _alternatives(made: Candidates, alone: _Alone) -> dict[str, tuple[Alternative, ...]]:
    """By operator's name, preferred places first."""
    found: dict[str, tuple[Alternative, ...]] = {}
    for match in made.matches:
        cost = alone.cost(match.operator, match.backend) if match is not None else None
        if match is not None and cost is not None:
            transfer_ns = sum(ns for _, ns in cost.packs.values()) + sum(cost.unpack_ns.values())
            here = Alternative(match.backend, match.pattern, cost.ns, transfer_ns)
            found[match.operator.name] = (*found.get(match.operator.name, ()), here)
    return found
