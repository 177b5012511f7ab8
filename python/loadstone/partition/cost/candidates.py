# SPDX-License-Identifier: Apache-2.0
"""Every way to run each part of a network, with its cost: the problem that partition/cost/search.py
solves.

In:   the matches of all back ends and the host in a module (partition/eager.py); the cost of each
      operator alone in each place.
Out:  a Problem, and the match behind each of its candidates.
Next: partition/cost/search.py finds the cheapest cover, choice.py makes a partition of it.

Atoms are the bindings of `main`. A match covers some of them; an atom that no pattern of the host
covers can run as Relax alone. A match that leaves an atom which no other can cover (a `dequantize`
separated from its convolution) is dropped, and atoms that all remaining matches cover together are
one node.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from loadstone.graph import Operator
from loadstone.partition.cost.search import ROWS, Candidate, Problem, Read
from loadstone.partition.eager import HOST, Match
from loadstone.partition.relax_parts import host_operator, variables
from loadstone.relax.compat import bindings, name_of, relax, result

if TYPE_CHECKING:
    from loadstone.relax.types import Expr, IRModule, Var

__all__ = ["AloneCost", "Candidates", "candidates"]


@dataclass(frozen=True)
class AloneCost:
    """An operator alone in one place. memory: where it reads and writes. ns: inputs and outputs as
    that memory has them.

    packs: input -> (its layout, ns) where another memory made it. unpack_ns: output -> ns to rows.
        extra_ns: what it takes more
    (less than 0: less) when its first input was packed.
    """

    memory: str
    ns: int
    packs: Mapping[str, tuple[str, int]] = field(default_factory=dict)
    unpack_ns: Mapping[str, int] = field(default_factory=dict)
    extra_ns: int = 0


@dataclass(frozen=True, eq=False)
class Candidates:
    """matches: of each candidate of the problem; None where an atom stays Relax."""

    problem: Problem
    matches: tuple[Match | None, ...]


#: (operator, HOST or a back end's name) -> its cost; None where it cannot be lowered after all.
Alone = Callable[[Operator, str], AloneCost | None]


def candidates(module: IRModule, matches: Sequence[Match], alone: Alone) -> Candidates:
    """matches: preferred ones first."""
    atoms = _Atoms(module)
    possible = _coverable(_whole(matches), len(atoms.names), atoms)
    described = {
        atoms.number[name] for match in possible if match.backend == HOST for name in match.covers
    }
    contested = {atoms.number[name] for match in possible for name in match.covers}
    found: list[tuple[frozenset[int], Match | None, AloneCost]] = []
    for match in possible:
        cost = alone(match.operator, match.backend)
        if cost is not None:
            found.append((atoms.covered(match), match, cost))
    for atom in set(range(len(atoms.names))) - described:
        cost = _relax_cost(module, atoms, atom, alone) if atom in contested else AloneCost(ROWS, 0)
        found.append((frozenset((atom,)), None, cost))
    nodes = _nodes([covers for covers, _, _ in found], len(atoms.names))
    made = tuple(_candidate(atoms, covers, match, cost, nodes) for covers, match, cost in found)
    unpack_ns = {
        (tensor, cost.memory): ns for _, _, cost in found for tensor, ns in cost.unpack_ns.items()
    }
    problem = Problem(max(nodes, default=-1) + 1, made, frozenset(atoms.outputs), unpack_ns)
    return Candidates(problem, tuple(match for _, match, _ in found))


class _Atoms:
    """The bindings of main, by number: what each computes and reads, and its readers."""

    def __init__(self, module: IRModule) -> None:
        function = module["main"]
        self.bound: list[tuple[Var, Expr]] = []
        names: dict[Var, str] = {variable: variable.name for variable in function.params}
        for variable, value in bindings(function):
            if isinstance(value, relax.Var):  # another name
                names[variable] = names[value]
            else:
                names[variable] = name_of(value) or variable.name
                self.bound.append((variable, value))
        self.names = [names[variable] for variable, _ in self.bound]
        self.number = {name: number for number, name in enumerate(self.names)}
        self.reads = [sorted({names[read] for read in variables(value)}) for _, value in self.bound]
        self.outputs = {names[variable] for variable in result(function)}
        self.readers: dict[str, set[int]] = {}
        for number, read in enumerate(self.reads):
            for name in read:
                self.readers.setdefault(name, set()).add(number)

    def covered(self, match: Match) -> frozenset[int]:
        return frozenset(self.number[name] for name in match.covers)

    def written(self, covers: frozenset[int]) -> list[str]:
        """What others read of a group of atoms."""
        names = (self.names[number] for number in sorted(covers))
        return [
            name for name in names if name in self.outputs or self.readers.get(name, set()) - covers
        ]


def _whole(matches: Sequence[Match]) -> list[Match]:
    """Without what the host takes in pieces though it has a pattern for the whole: the integers of
    pieces may be others."""
    wholes = [match.covers for match in matches if match.backend == HOST]
    return [
        match
        for match in matches
        if match.backend != HOST or not any(match.covers < whole for whole in wholes)
    ]


def _coverable(matches: list[Match], count: int, atoms: _Atoms) -> list[Match]:
    """Without those beside which some atom could not be covered: none of the atom's own candidates
    is disjoint from them."""
    covers = {match: atoms.covered(match) for match in matches}
    while True:
        covering: list[list[frozenset[int]]] = [[] for _ in range(count)]
        described = {atom for match in matches if match.backend == HOST for atom in covers[match]}
        for match in matches:
            for atom in covers[match]:
                covering[atom].append(covers[match])
        for atom in set(range(count)) - described:
            covering[atom].append(frozenset((atom,)))

        def leaves_all(match: Match, covering: list[list[frozenset[int]]] = covering) -> bool:
            near = {
                atom for own in covers[match] for cover in covering[own] for atom in cover
            } - covers[match]
            return all(any(not cover & covers[match] for cover in covering[atom]) for atom in near)

        kept = [match for match in matches if leaves_all(match)]
        if len(kept) == len(matches):
            return kept
        matches = kept


def _nodes(covers: Sequence[frozenset[int]], count: int) -> list[int]:
    """The node of each atom, in the order in which nodes are complete."""
    taken_by: list[list[int]] = [[] for _ in range(count)]
    for number, cover in enumerate(covers):
        for atom in cover:
            taken_by[atom].append(number)
    last = {tuple(group): atom for atom, group in enumerate(taken_by)}
    order = {group: node for node, group in enumerate(sorted(last, key=lambda group: last[group]))}
    return [order[tuple(group)] for group in taken_by]


def _candidate(
    atoms: _Atoms,
    covers: frozenset[int],
    match: Match | None,
    cost: AloneCost,
    nodes: Sequence[int],
) -> Candidate:
    """In terms of nodes and tensors."""
    inside = {atoms.names[number] for number in covers}
    sources = sorted({name for number in covers for name in atoms.reads[number]} - inside)
    first = next(iter(cost.packs), None)
    reads = tuple(
        Read(name, *cost.packs.get(name, (name, 0)), cost.extra_ns if name == first else 0)
        if cost.memory != ROWS
        else Read(name)
        for name in sources
    )
    label = (
        f"{match.backend}.{match.pattern} {match.operator.name}"
        if match is not None
        else f"{HOST}.relax {min(inside)}"
    )
    written = tuple(atoms.written(covers))
    return Candidate(
        label, cost.memory, frozenset(nodes[number] for number in covers), reads, written, cost.ns
    )


def _relax_cost(module: IRModule, atoms: _Atoms, number: int, alone: Alone) -> AloneCost:
    """One binding as a function of TVM."""
    variable, value = atoms.bound[number]
    if not isinstance(value, relax.Call):
        return AloneCost(ROWS, 0)
    return alone(host_operator(module, variable, value), HOST) or AloneCost(ROWS, 0)
