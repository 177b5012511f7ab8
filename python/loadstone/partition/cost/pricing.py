# SPDX-License-Identifier: Apache-2.0
"""The cost of a lowered partition: all steps of its artifact, by the cost table or its back ends.

In:   a LoweredPartition, the target's back ends, a CostTable.
Out:  nanoseconds of every step, of the whole, and the possible error of a difference of two.
Next: choice.py compares plans by them, alone.py prices single operators.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, replace

from loadstone.artifact.format import HostStep, ProgramStep
from loadstone.artifact.host_step import HostOpcode
from loadstone.backend.interface import Backend, Segment, whole_cycles
from loadstone.backend.scope import within
from loadstone.partition.cost.prices import CostTable
from loadstone.partition.lowering import LoweredPartition

__all__ = ["Pricing", "segment_of"]

#: MHz of a back end that has a model of its cycles and no attribute clock_mhz.
DEFAULT_CLOCK_MHZ = 100


def segment_of(step: ProgramStep | HostStep) -> str:
    """The name of the segment that a step executes; "" for what the host does itself."""
    return step.name if not isinstance(step, HostStep) or step.opcode == HostOpcode.EXTERNAL else ""


@dataclass(frozen=True)
class Pricing:
    """Who says what a step takes: the back ends first, for segments that they have a model of."""

    backends: Sequence[Backend]
    table: CostTable

    def plan_ns(self, lowered: LoweredPartition) -> int:
        """The whole network: all steps of its artifact."""
        return sum(self.steps_ns(lowered))

    def steps_ns(self, lowered: LoweredPartition) -> list[int]:
        """Nanoseconds of each step."""
        by_name = {backend.name: backend for backend in self.backends}
        models = {
            segment.name: self.model_ns(by_name[segment.backend], segment)
            for segment in lowered.segments
        }
        artifact = lowered.deployment.artifact
        measured = [step for step in artifact.steps if models.get(segment_of(step)) is None]
        known = iter(self.table.steps_ns(replace(artifact, steps=tuple(measured))))
        return [
            next(known) if ns is None else ns
            for ns in (models.get(segment_of(step)) for step in artifact.steps)
        ]

    def transfers_ns(self, lowered: LoweredPartition) -> int:
        """Of these, the steps that pack and unpack what goes from one memory to another."""
        steps = zip(lowered.deployment.artifact.steps, self.steps_ns(lowered), strict=True)
        moves = (HostOpcode.PACK, HostOpcode.UNPACK)
        return sum(ns for s, ns in steps if isinstance(s, HostStep) and s.opcode in moves)

    def doubt_ns(self, a: LoweredPartition, b: LoweredPartition) -> int:
        """How wrong the difference of two plans may be: 5 % of the host's steps in which they
        differ, which are known to two digits."""
        once, twice = (
            Counter(
                ns
                for step, ns in zip(
                    plan.deployment.artifact.steps, self.steps_ns(plan), strict=True
                )
                if isinstance(step, HostStep)
            )
            for plan in (a, b)
        )
        return sum(((once - twice) + (twice - once)).elements()) // 20

    def model_ns(self, backend: Backend, segment: Segment) -> int | None:
        """What the back end says of a segment, of one operator already when it took that; None
        where it has no model."""
        names = ", ".join(operator.name for operator in segment.operators)
        said = segment.taken.get(segment.operators[0]) if len(segment.operators) == 1 else None
        cycles = None if said is None else said.cycles
        if cycles is None:
            with within(backend, f"cost of {names}"):
                cycles = whole_cycles(backend.cost_cycles(segment), "cost_cycles gave")
        if cycles is None:
            return None
        return cycles * 1000 // int(backend.attributes.get("clock_mhz", DEFAULT_CLOCK_MHZ))
