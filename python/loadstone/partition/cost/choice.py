# SPDX-License-Identifier: Apache-2.0
"""The assignment of operators by cost: the cheapest partition found, and never one that costs more
than the eager partition.

In:   a module in canonical form, back ends, the lowered eager partition, and a CostTable.
Out:  a Choice: the cheaper partition, lowered; the cost of every operator elsewhere; the totals of
      all on the host, of the eager partition and of the chosen one.
Next: compiler.py continues with it; commands/compile.py prints it (`--partition cost --explain`).

1. Every match of every back end and of the host is lowered alone, as an artifact of one operator.
   Its cost is that of its steps: device programs by the simulator, host steps by the clock, and the
   steps that pack and unpack as the cost of transfers. A back end may report its own costs
   (Backend.cost_cycles).
2. Operators of a segment overlap, so that they take less together. Costs on a device are therefore
   scaled by the ratio between the segments of the last plan, at first the eager partition, and
   their operators alone.
3. partition/cost/search.py finds the cheapest cover.
4. This plan is lowered as a whole and priced by all of its steps. It is chosen if it is cheaper
   than the best so far, by more than the error of the host's times. Steps 2 to 4 are repeated
   until a plan occurs again, a few times at most.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from fractions import Fraction
from pathlib import Path
from typing import Any

from loadstone.backend.target import Target
from loadstone.partition.cost.alone import Alone
from loadstone.partition.cost.candidates import Candidates, candidates
from loadstone.partition.cost.hosts import StatedHost
from loadstone.partition.cost.prices import CostTable
from loadstone.partition.cost.pricing import Pricing, segment_of
from loadstone.partition.cost.search import ROWS, Candidate, search
from loadstone.partition.eager import HOST, Partition, matches
from loadstone.partition.lowering import Clock, LoweredPartition, lower_partition
from loadstone.partition.partitioner import Alternative, Choice, EagerPartitioner, Total
from loadstone.passes.log import PassLog

__all__ = ["CostPartitioner"]

#: Plans that are lowered as a whole, besides the eager one.
_ROUNDS = 3


class CostPartitioner:
    """Every operator goes to where the network takes least. costs: a JSON file, read if it is
    there, written with what was new. host: whose costs the host's steps have; None: this machine's.
    log: of the passes before. choice: after `run`. Raises ConfigError for the file, TargetError for
    several equal devices."""

    def __init__(
        self,
        module: Any,
        name: str,
        target: Target,
        costs: str | Path | None = None,
        log: PassLog | None = None,
        host: StatedHost | None = None,
    ) -> None:
        target.refuse_several("strategy 'cost' prices operators")
        self.eager = EagerPartitioner(module, name, target, log)
        self.table = CostTable(target.device, costs, host)
        self.pricing = Pricing(target.backends, self.table)
        self.choice: Choice | None = None

    def run(self, clock: Clock) -> LoweredPartition:
        """Divides and lowers: eagerly first, then what costs less."""
        eager = self.eager.run(clock)
        with clock("choice"):
            self.choice = self._chosen(eager)
            self.table.save()
        return self.choice.lowered

    def _chosen(self, eager: LoweredPartition) -> Choice:
        found, constants = matches(self.eager.module, self.eager.target.backends)
        alone = Alone(self.eager, found, constants, self.pricing)
        made = candidates(self.eager.module, found, alone.cost)
        best = latest = eager
        best_ns = self.pricing.plan_ns(eager)
        seen = [_places(eager.partition)]
        exact = False
        for _ in range(_ROUNDS):
            together = _together(latest, alone, self.pricing)
            plan = search(replace(made.problem, candidates=_scaled(made, together)))
            if plan is None:
                break
            exact = plan.exact
            chosen = [made.matches[index] for index in plan.candidates]
            divided = self.eager.split([match for match in chosen if match is not None])
            if _places(divided) in seen:
                break
            seen.append(_places(divided))
            latest = lower_partition(divided, self.eager.target)
            latest_ns = self.pricing.plan_ns(latest)
            if best_ns - latest_ns > self.pricing.doubt_ns(best, latest):
                best, best_ns = latest, latest_ns
        name = "eager" if best is eager else "cost"
        host_matches = [match for match in found if match.backend == HOST]
        on_host = lower_partition(self.eager.split(host_matches), self.eager.target)
        totals = {
            plan: Total(self.pricing.plan_ns(lowered), self.pricing.transfers_ns(lowered))
            for plan, lowered in (("host", on_host), ("eager", eager), ("chosen", best))
        }
        host = str(self.table.host or "this machine")
        return Choice(name, best, totals, host, exact, _alternatives(made, alone))


def _places(divided: Partition) -> dict[tuple[str, str], str]:
    return {
        (assignment.operator.name, assignment.operator.kind): assignment.backend
        for assignment in divided.assignments
    }


def _together(lowered: LoweredPartition, alone: Alone, pricing: Pricing) -> dict[str, Fraction]:
    """By back end with a memory of its own: its segments / their operators alone."""
    steps = zip(lowered.deployment.artifact.steps, pricing.steps_ns(lowered), strict=True)
    segment_ns: dict[str, int] = {}
    for step, ns in steps:
        segment_ns[segment_of(step)] = segment_ns.get(segment_of(step), 0) + ns
    sums: dict[str, tuple[int, int]] = {}
    for segment in lowered.partition.segments:
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


def _alternatives(made: Candidates, alone: Alone) -> dict[str, tuple[Alternative, ...]]:
    """By operator's name, preferred places first."""
    found: dict[str, tuple[Alternative, ...]] = {}
    for match in made.matches:
        cost = alone.cost(match.operator, match.backend) if match is not None else None
        if match is not None and cost is not None:
            transfer_ns = sum(ns for _, ns in cost.packs.values()) + sum(cost.unpack_ns.values())
            here = Alternative(match.backend, match.pattern, cost.ns, transfer_ns)
            found[match.operator.name] = (*found.get(match.operator.name, ()), here)
    return found
