# SPDX-License-Identifier: Apache-2.0
"""Whether a back end computes the framework's integers: generated operators and small networks are
compiled for it, run, and compared with the network's definition.

In:   a Target whose first back end is the one to test; the number of cases of each kind; a seed.
Out:  a Verdict for each case: accepted and equal, refused with the reason, or wrong (elements that
      differ, or the exception); further ones, all wrong, for each pattern that is hardly ever
      accepted, and for each instruction that touches other places than its table names.
Next: commands/conform.py prints the table.

A case passes through the same steps as a compiled network from the partitioned graph on: predicate,
segments, `lower`, artifact, C runtime, device or external function. Only the recognition of Relax
patterns is left out: patterns are found by the names of their forms.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import TypeAlias

import numpy as np

from loadstone import graph as g
from loadstone.artifact.format import Artifact
from loadstone.backend.interface import Backend, Refusal, Taken
from loadstone.backend.request import CompileRequest
from loadstone.backend.rounded_network import Departure, rounded_network
from loadstone.backend.scope import patterns_of, rounding_of
from loadstone.backend.target import Target
from loadstone.conformance.cases import OPERATORS
from loadstone.conformance.networks import NETWORKS
from loadstone.conformance.reaches import ReachWatch
from loadstone.conformance.schemes import in_scheme
from loadstone.numerics import Array
from loadstone.partition.eager import HOST, Assignment, Partition, divide
from loadstone.partition.lowering import lower_partition
from loadstone.partition.network_pass import answer_of
from loadstone.partition.patterns import entries_of
from loadstone.runtime.device import OpenedDevice
from loadstone.simulator.table_profile import TableSimulator

__all__ = ["CASES", "Verdict", "conform", "judged", "requested", "samples_of"]

Answers: TypeAlias = Mapping[g.Operator, Taken | Refusal]

#: Kind -> what makes a case of it: single operators, then small networks.
CASES = {**OPERATORS, **NETWORKS}
#: Of a pattern that is hardly taken, so many times as many cases are drawn in all.
_MORE = 9


@dataclass(frozen=True)
class Verdict:
    """case: the operators in words. outcome: taken, refused, wrong; untried, of an instruction that
    no case executed; smallest, of the least network that is wrong (smallest.py). why: of a refusal
    (of a part, too), or of what is wrong. departures: of operators that the device rounds in a way
    of its own, one for each sample. saved: the file of the smallest, where one was written."""

    kind: str
    case: str
    outcome: str
    why: str = ""
    departures: tuple[Departure, ...] = ()
    saved: str = ""


def conform(target: Target, cases: int = 8, seed: int = 0) -> Iterator[Verdict]:
    """`cases` of every kind, quantized as the back end's scheme says (in_scheme), and more of those
    whose pattern was hardly taken; then what its instructions touch (ReachWatch), and the patterns
    that were taken too seldom still. Deterministic. A back end that states a rounding of its own is
    asked for `--rounding near`: then the device must give the integers of that rounding, and these
    the framework's within the stated bound. Raises LoweringError where the back end offers what is
    no pattern."""
    for backend in target.backends:
        for pattern in patterns_of(backend):
            entries_of(backend.name, pattern)
    target = requested(target)
    watches = {
        backend.accelerator.name: ReachWatch(backend.accelerator)
        for backend in target.backends
        if backend.accelerator is not None
    }
    campaign = _Campaign(target, watches, seed)
    for kind in CASES:
        for number in range(cases):
            yield campaign.judge(kind, number)
    wanted = (cases + 1) // 2
    yield from campaign.more(wanted, cases)
    yield from campaign.seldom(wanted)
    for watch in watches.values():
        for finding in watch.findings():
            case = f"instruction {finding.instruction} of {watch.accelerator.name}"
            yield Verdict("reaches", case, "wrong", finding.why)
        for name in watch.untried():
            case = f"instruction {name} of {watch.accelerator.name}"
            why = "no case executed it: nothing is said of what it reaches"
            yield Verdict("reaches", case, "untried", why)


@dataclass
class _Offer:
    """What came of one pattern that the back end offers. kinds: of the cases that have it. never:
    every refusal said that no operator of it is ever taken."""

    kinds: set[str] = field(default_factory=set)
    drawn: int = 0
    taken: int = 0
    refusals: Counter[str] = field(default_factory=Counter)
    never: bool = True

    def count(self, kind: str, answer: Taken | Refusal) -> None:
        """One case more."""
        self.kinds.add(kind)
        self.drawn += 1
        self.never = self.never and isinstance(answer, Refusal) and answer.always
        if isinstance(answer, Refusal):
            self.refusals[answer.why] += 1
        else:
            self.taken += 1


class _Campaign:
    """Cases of one back end, and what came of each pattern that it offers."""

    def __init__(self, target: Target, watches: Mapping[str, ReachWatch], seed: int) -> None:
        self.target, self.watches, self.seed = target, watches, seed
        self.backend = target.backends[0]
        self.offers = {pattern.kind: _Offer() for pattern in patterns_of(self.backend)}

    def judge(self, kind: str, number: int) -> Verdict:
        """Case `number` of a kind."""
        rng = np.random.default_rng([self.seed, number, *kind.encode()])
        graph = in_scheme(CASES[kind](rng), self.backend, number)

        def note(said: Answers) -> None:
            if kind in OPERATORS:
                for operator, answer in said.items():
                    for pattern in self.offers.keys() & set(operator.patterns):
                        self.offers[pattern].count(kind, answer)

        return judged(graph, kind, self.target, self.watches, note)

    def more(self, wanted: int, first: int) -> Iterator[Verdict]:
        """Further cases, from number `first` on, of the patterns that were not taken `wanted`
        times, of which those are reported that are taken or wrong."""
        for offer in self.offers.values():
            further = ((n, k) for n in range(first, _MORE * first) for k in sorted(offer.kinds))
            for number, kind in further:
                if offer.never or offer.taken >= wanted:
                    break
                verdict = self.judge(kind, number)
                if verdict.outcome != "refused":
                    yield verdict

    def seldom(self, wanted: int) -> Iterator[Verdict]:
        """The patterns that were not taken `wanted` times, though cases have them."""
        for pattern, offer in self.offers.items():
            if offer.drawn and not offer.never and offer.taken < wanted:
                why, count = offer.refusals.most_common(1)[0]
                yield Verdict(
                    pattern,
                    f"pattern {pattern}",
                    "wrong",
                    f"the back end offers it, and took {offer.taken} of {offer.drawn} cases, fewer "
                    f"than {wanted}; {count} it refused with: {why}",
                )


def requested(target: Target) -> Target:
    """The target, asked for what its first back end states: `--rounding near` where that rounds in
    a way of its own."""
    states = type(target.backends[0]).rounding is not Backend.rounding
    return target.asked(CompileRequest("near")) if states else target


def judged(
    graph: g.Graph,
    kind: str,
    target: Target,
    watches: Mapping[str, ReachWatch],
    note: Callable[[Answers], None] = lambda _: None,
) -> Verdict:
    """The verdict of one network. note: is told what the back end said of each operator."""
    case, backend = "; ".join(graph.describe().splitlines()), target.backends[0]
    try:
        said = {operator: answer_of(backend, operator) for operator in graph.operators}
        note(said)
        refusals = [answer.why for answer in said.values() if isinstance(answer, Refusal)]
        if len(refusals) == len(said):
            return Verdict(kind, case, "refused", refusals[0])
        assignments = tuple(
            Assignment(operator, HOST, ())
            if isinstance(answer, Refusal)
            else Assignment(operator, backend.name, (), answer)
            for operator, answer in said.items()
        )
        found = _compare(graph, assignments, target, watches)
    except Exception as error:  # a back end is foreign code, and this is its test
        why = f"{type(error).__name__}: {' '.join(str(error).split())}"
        return Verdict(kind, case, "wrong", why)
    if found.wrong:
        return Verdict(kind, case, "wrong", found.wrong)
    part = [f"in part: {refusals[0]}"] if refusals else []
    return Verdict(kind, case, "taken", "; ".join(part), found.departures)


@dataclass(frozen=True)
class _Found:
    """wrong: what is; empty where nothing is. departures: from the framework's integers, by
    operator and sample."""

    wrong: str
    departures: tuple[Departure, ...] = ()


def _compare(
    graph: g.Graph,
    assignments: tuple[Assignment, ...],
    target: Target,
    watches: Mapping[str, ReachWatch],
) -> _Found:
    """Of random samples, and of the least and the largest level everywhere."""
    backend_of = {entry.operator.name: entry.backend for entry in assignments}
    stated = {
        entry.operator.name: rounding
        for entry in assignments
        if entry.backend != HOST
        and (rounding := rounding_of(target.backends[0], entry.operator)) is not None
    }
    graph, segments = divide(graph, backend_of, [target.backends[0].name])
    divided = Partition(None, graph, assignments, segments)
    artifact = lower_partition(divided, target).deployment.artifact
    inputs = samples_of(graph)
    outputs = _outputs(artifact, inputs, target, watches)
    different = elements = 0
    departures: list[Departure] = []
    for sample in range(len(inputs[0])):
        network = rounded_network(graph, [array[sample] for array in inputs], stated)
        departures += network.departures.values()
        for got, tensor in zip(outputs, graph.outputs, strict=True):
            want = network.values[tensor.name]
            different += int(np.count_nonzero(got[sample] != want))
            elements += want.size
    if different:
        whose = " from what its stated rounding gives" if stated else ""
        return _Found(f"{different} of {elements} elements differ{whose}")
    beyond = [departure for departure in departures if departure.largest > departure.stated]
    return _Found(str(beyond[0]) if beyond else "", tuple(departures))


def _outputs(
    artifact: Artifact,
    inputs: list[Array],
    target: Target,
    watches: Mapping[str, ReachWatch],
) -> list[Array]:
    """Of the C runtime; what the instructions touch is watched besides."""
    with (
        OpenedDevice("sim", "", target.device, timing=False) as opened,
        opened.load(artifact, trust=True) as session,
    ):
        outputs = session.run(inputs)
    if watches:
        named = enumerate(device.name for device in artifact.devices)
        simulator = TableSimulator({n: watches[d].accelerator for n, d in named if d in watches})
        for _ in simulator.runs(artifact, watches=watches):
            pass
    return outputs


def samples_of(graph: g.Graph) -> list[Array]:
    """The samples that a network is compared on, (4, *shape) for each input."""
    return [_levels(tensor) for tensor in graph.inputs]


def _levels(tensor: g.Tensor) -> Array:
    rng = np.random.default_rng(len(tensor.name) + tensor.size)
    random = rng.integers(-128, 128, (2, *tensor.shape))
    edges = [np.full((1, *tensor.shape), level) for level in (-128, 127)]
    levels = np.concatenate([random, *edges])
    return (levels / 64 if tensor.dtype == "float32" else levels).astype(tensor.dtype)
