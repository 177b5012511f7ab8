# SPDX-License-Identifier: Apache-2.0
"""Does a back end give the framework's integers? Generated operators and small networks through it,
against graph_reference.

In:   a Target whose first back end is the one in question; how many cases of each kind; a seed.
Out:  Verdict per case: taken and equal, refused with the reason, or wrong (elements that differ, or
      what was raised).
Next: commands/conform.py prints the table.

A case goes the way of a compiled network from the partitioned graph on: predicate, segments,
`lower`, artifact, C runtime, device or external function. Only the recognition of Relax patterns is
left out: patterns are taken by the names of their forms.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass, replace

import numpy as np

from loadstone import graph as g
from loadstone.backend.interface import Refusal
from loadstone.backend.scope import patterns_of
from loadstone.backend.target import Target
from loadstone.conformance.cases import OPERATORS
from loadstone.conformance.networks import NETWORKS
from loadstone.graph import reference as graph_reference
from loadstone.numerics import Array
from loadstone.partition.eager import HOST, Assignment, Partition, divide
from loadstone.partition.lowering import lower_partition
from loadstone.partition.network_pass import answer_of
from loadstone.partition.patterns import entries_of
from loadstone.runtime.device import OpenedDevice

__all__ = ["CASES", "Verdict", "conform"]

#: Kind -> what makes a case of it: single operators, then small networks.
CASES = {**OPERATORS, **NETWORKS}


@dataclass(frozen=True)
class Verdict:
    """case: the operators in words. outcome: taken, refused, wrong. why: of a refusal (of a part,
    too), or of what is wrong."""

    kind: str
    case: str
    outcome: str
    why: str = ""


def conform(target: Target, cases: int = 8, seed: int = 0) -> Iterator[Verdict]:
    """`cases` of every kind, a quarter of them with powers of two for scales; all for a back end
    that only shifts. Deterministic. Raises LoweringError where the back end offers what is no
    pattern."""
    for backend in target.backends:
        for pattern in patterns_of(backend):
            entries_of(backend.name, pattern)
    for kind, make in CASES.items():
        for number in range(cases):
            graph = make(np.random.default_rng([seed, number, *kind.encode()]))
            shifts = target.backends[0].scheme == "pow2" or number % 4 == 3
            yield _judge(kind, powers_of_two(graph) if shifts else graph, target)


def powers_of_two(graph: g.Graph) -> g.Graph:
    """The same network with the nearest power of two for every scale: all that a device can do that
    only shifts."""

    def rounded(tensor: g.Tensor) -> g.Tensor:
        if tensor.quantization is None:
            return tensor
        return replace(
            tensor,
            quantization=g.Quantization(2.0 ** round(math.log2(tensor.scale)), tensor.zero_point),
        )

    def with_rounded(operator: g.Operator) -> g.Operator:
        tensors: g.Fields = {
            side: tuple(map(rounded, getattr(operator, side))) for side in ("inputs", "outputs")
        }
        if isinstance(operator, g.Conv2D | g.Dense):
            tensors["weight_scales"] = np.exp2(np.rint(np.log2(operator.weight_scales))).astype(
                np.float32
            )
        return replace(operator, **tensors)

    inputs, outputs = (tuple(map(rounded, side)) for side in (graph.inputs, graph.outputs))
    return replace(
        graph, inputs=inputs, outputs=outputs, operators=tuple(map(with_rounded, graph.operators))
    )


def _judge(kind: str, graph: g.Graph, target: Target) -> Verdict:
    backend = target.backends[0]
    case = "; ".join(graph.describe().splitlines())
    try:
        said = {operator: answer_of(backend, operator) for operator in graph.operators}
        refusals = [answer.why for answer in said.values() if isinstance(answer, Refusal)]
        if len(refusals) == len(said):
            return Verdict(kind, case, "refused", refusals[0])
        assignments = tuple(
            Assignment(operator, HOST, ())
            if isinstance(answer, Refusal)
            else Assignment(operator, backend.name, (), answer)
            for operator, answer in said.items()
        )
        different, elements = _compare(graph, assignments, target)
    except Exception as error:  # a back end is foreign code, and this is its test
        return Verdict(
            kind, case, "wrong", f"{type(error).__name__}: {' '.join(str(error).split())}"
        )
    if different:
        return Verdict(kind, case, "wrong", f"{different} of {elements} elements differ")
    return Verdict(kind, case, "taken", f"in part: {refusals[0]}" if refusals else "")


def _compare(
    graph: g.Graph, assignments: tuple[Assignment, ...], target: Target
) -> tuple[int, int]:
    """Elements that differ, and all: of random samples, and of the least and the largest level
    everywhere."""
    backend_of = {entry.operator.name: entry.backend for entry in assignments}
    graph, segments = divide(graph, backend_of, [target.backends[0].name])
    divided = Partition(None, graph, assignments, segments)
    artifact = lower_partition(divided, target).deployment.artifact
    inputs = [_levels(tensor) for tensor in graph.inputs]
    with (
        OpenedDevice("sim", "", target.device, timing=False) as opened,
        opened.load(artifact, trust=True) as session,
    ):
        outputs = session.run(inputs)
    different = elements = 0
    for sample in range(len(inputs[0])):
        wanted = graph_reference.run(graph, [array[sample] for array in inputs])
        for got, want in zip(outputs, wanted, strict=True):
            different += int(np.count_nonzero(got[sample] != want))
            elements += want.size
    return different, elements


def _levels(tensor: g.Tensor) -> Array:
    rng = np.random.default_rng(len(tensor.name) + tensor.size)
    random = rng.integers(-128, 128, (2, *tensor.shape))
    edges = [np.full((1, *tensor.shape), level) for level in (-128, 127)]
    levels = np.concatenate([random, *edges])
    return (levels / 64 if tensor.dtype == "float32" else levels).astype(tensor.dtype)
