# SPDX-License-Identifier: Apache-2.0
"""The cheapest way to cover a network with candidates: dynamic programming over what has been
executed.

In:   a Problem: candidates, each with the nodes that it covers, its own cost, its memory, and the
      tensors that it reads and writes.
Out:  a Plan: candidates that cover every node once and can be executed in that order, and their
      total cost.
Next: choice.py makes a problem of a network, and a partition of the plan.

A tensor is in the memory that its producer writes: row-major (ROWS), or in the layout of a device.
Every other layout is computed once, when it is first read, by way of rows:

    producer's memory --unpack--> rows --pack--> layout of a reader in another memory

The remaining cost therefore depends on two things only: the nodes that are done, and the layouts of
the tensors that will still be read. Plans that agree in both are one state, of which only the
cheapest is kept. Nodes are processed in topological order, except where a fused candidate waits for
a node after its first one. A chain thus has a handful of states, and a network as many as there are
combinations at its widest cut. Where there are more than `width`, only the cheapest are kept after
each step (a beam search), and Plan.exact is false. Ten nodes in three memories have at most 3 ** 9
combinations of layouts for the tensors that one node may still read, less than the default width.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TypeAlias

__all__ = ["ROWS", "Candidate", "PartitionPlan", "Problem", "Read", "search"]

#: The memory of the host and of every back end that takes row-major tensors.
ROWS = "rows"


@dataclass(frozen=True)
class Read:
    """A tensor that a candidate reads. layout: the layout into which it is packed if another memory
    contains it, at a cost of pack_ns, once for all readers of this layout; the candidate then takes
    extra_ns more (less than 0: the layout suits it better than the device's own)."""

    tensor: str
    layout: str = ROWS
    pack_ns: int = 0
    extra_ns: int = 0


@dataclass(frozen=True)
class Candidate:
    """One way to compute the nodes `covers`. memory: the one that it reads and writes. cost_ns:
    without changes of layout."""

    label: str
    memory: str
    covers: frozenset[int]
    reads: tuple[Read, ...]
    writes: tuple[str, ...]
    cost_ns: int


@dataclass(frozen=True)
class Problem:
    """nodes: 0 ... nodes - 1 in topological order. candidates: of equal ones an earlier is
    preferred.

    outputs: tensors that must stand in rows at the end. unpack_ns: (tensor, memory of its maker) ->
        cost of its rows.
    Tensors that no candidate writes are inputs, and stand in rows. What a candidate computes and
    does not write is read by none.
    """

    nodes: int
    candidates: Sequence[Candidate]
    outputs: frozenset[str]
    unpack_ns: Mapping[tuple[str, str], int]


@dataclass(frozen=True)
class PartitionPlan:
    """candidates: indices, in an order in which they can be executed. exact: there is no cheaper
    plan."""

    candidates: tuple[int, ...]
    cost_ns: int
    exact: bool


#: Tensors that will still be read: (tensor, memory of its producer, existing layouts).
_Live: TypeAlias = frozenset[tuple[str, str, frozenset[str]]]


@dataclass(frozen=True)
class _Reached:
    """The cheapest way to a state. rank: the sum of the candidates' indices, which breaks ties of
    cost."""

    cost_ns: int
    rank: int
    candidate: int
    before: _Reached | None


def search(problem: Problem, width: int = 1 << 16) -> PartitionPlan | None:
    """The cheapest plan; None where no set of candidates covers every node once without a cycle."""
    searcher = _Searcher(problem)
    layers: list[dict[tuple[int, _Live], _Reached]] = [{} for _ in range(problem.nodes + 1)]
    layers[0][0, frozenset()] = _Reached(0, 0, -1, None)
    exact = True
    for count, layer in enumerate(layers[:-1]):
        states = sorted(layer.items(), key=lambda entry: (entry[1].cost_ns, entry[1].rank))
        exact = exact and len(states) <= width
        for (done, live), step in states[:width]:
            for index in searcher.next(done):
                cost_ns, state = searcher.execute(index, done, live)
                reached = _Reached(step.cost_ns + cost_ns, step.rank + index, index, step)
                target = layers[count + len(problem.candidates[index].covers)]
                known = target.get(state)
                if known is None or (reached.cost_ns, reached.rank) < (known.cost_ns, known.rank):
                    target[state] = reached
        layer.clear()
    if not layers[-1]:
        return None
    best = min(layers[-1].values(), key=lambda step: (step.cost_ns, step.rank))
    return PartitionPlan(tuple(_path(best)), best.cost_ns, exact)


def _path(step: _Reached) -> list[int]:
    indices: list[int] = []
    while step.before is not None:
        indices.append(step.candidate)
        step = step.before
    return indices[::-1]


class _Searcher:
    """The candidates that can be executed next, and the state after each."""

    def __init__(self, problem: Problem) -> None:
        self.problem = problem
        self.masks = [
            sum(1 << node for node in candidate.covers) for candidate in problem.candidates
        ]
        self.covering: list[list[int]] = [[] for _ in range(problem.nodes)]  # node -> candidates
        self.makers: dict[str, int] = {}  # tensor -> mask of the nodes that may write it
        self.readers: dict[str, int] = {}  # tensor -> mask of the nodes that may read it
        for index, candidate in enumerate(problem.candidates):
            for node in candidate.covers:
                self.covering[node].append(index)
            for tensor in candidate.writes:
                self.makers[tensor] = self.makers.get(tensor, 0) | self.masks[index]
            for read in candidate.reads:
                self.readers[read.tensor] = self.readers.get(read.tensor, 0) | self.masks[index]
        self.written_by = {tensor: self._node_of(tensor) for tensor in self.makers}

    def _node_of(self, tensor: str) -> int:
        """The node that computes a tensor: every candidate that writes it covers that node."""
        covers = [
            candidate.covers for candidate in self.problem.candidates if tensor in candidate.writes
        ]
        return max(frozenset.intersection(*covers))

    def next(self, done: int) -> Iterator[int]:
        """Candidates whose inputs are available: those of the first node that is not done; if one
        of them waits, those of the nodes that it waits for."""
        first = (~done & (done + 1)).bit_length() - 1
        todo, seen = [first], {first}
        offered: set[int] = set()
        while todo:
            for index in self.covering[todo.pop()]:
                if self.masks[index] & done or index in offered:
                    continue
                offered.add(index)
                missing = self._missing(index, done)
                if not missing:
                    yield index
                todo += [node for node in missing if node not in seen]
                seen.update(missing)

    def _missing(self, index: int, done: int) -> list[int]:
        """The nodes that a candidate waits for."""
        made = (self.written_by.get(read.tensor) for read in self.problem.candidates[index].reads)
        return [node for node in made if node is not None and not done >> node & 1]

    def execute(self, index: int, done: int, live: _Live) -> tuple[int, tuple[int, _Live]]:
        """The cost of a candidate in a state, and the next state."""
        candidate = self.problem.candidates[index]
        done |= self.masks[index]
        cost_ns = candidate.cost_ns
        standing = {tensor: (maker, layouts) for tensor, maker, layouts in live}
        for read in candidate.reads:
            maker, layouts = standing.get(read.tensor, (ROWS, frozenset((ROWS,))))
            if maker != candidate.memory:
                if ROWS not in layouts:
                    cost_ns += self.problem.unpack_ns[read.tensor, maker]
                if candidate.memory != ROWS:
                    cost_ns += read.extra_ns + (read.pack_ns if read.layout not in layouts else 0)
                standing[read.tensor] = (maker, layouts | {ROWS, read.layout})
        for tensor in candidate.writes:
            layouts = frozenset((candidate.memory,))
            if tensor in self.problem.outputs and candidate.memory != ROWS:
                cost_ns += self.problem.unpack_ns[tensor, candidate.memory]
                layouts |= {ROWS}
            standing[tensor] = (candidate.memory, layouts)
        still = frozenset(
            (t, maker, layouts)
            for t, (maker, layouts) in standing.items()
            if self.readers.get(t, 0) & ~done
        )
        return cost_ns, (done, still)
