# SPDX-License-Identifier: Apache-2.0
"""The assignment of operators by the back ends' pattern tables, in the target's order, with a
reason for every operator that stays on the host.

In:   an IRModule in canonical form; back ends.
Out:  Partition: the module with composite functions, the Graph, a Placement per operator, Segments
      of each back end.
Next: a back end lowers its segments; artifact/host.py runs the rest; cli.py prints the assignments
      (`--explain`).

The patterns of all back ends, followed by those of the host, are the rows of matching.py. The check
of a row extracts the dataclass of a match and calls the predicate, which therefore never sees
Relax. Relax operators that no pattern matches are collected into Host operators, each a sequence of
consecutive ones.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import TYPE_CHECKING

from loadstone.backend.interface import Backend, Pattern, Phase, Refusal, Segment, Taken
from loadstone.backend.scope import answer, apply_passes, patterns_of
from loadstone.errors import LoadstoneError, UnsupportedError
from loadstone.graph import Graph, Host, Operator, Reshape
from loadstone.numerics import Array
from loadstone.partition.composites import with_composites
from loadstone.partition.dataflow import Dataflow
from loadstone.partition.fused_graph import FusedGraph
from loadstone.partition.islands import islands
from loadstone.partition.matching import FusionRow, Occurrence, occurrences
from loadstone.partition.patterns import (
    OPERATOR_PATTERNS,
    Mismatch,
    OperatorPattern,
    Reader,
    entries_of,
)
from loadstone.partition.segments import HOST, divide, segments_text, verify_segments
from loadstone.passes.log import PassLog, script
from loadstone.relax.compat import codegens, name_of
from loadstone.relax.interface import verify_interface
from loadstone.relax.saved import missing_external

if TYPE_CHECKING:
    from loadstone.relax.types import IRModule, Var

__all__ = [
    "HOST",
    "Assignment",
    "Match",
    "Partition",
    "divide",
    "explain",
    "matches",
    "partition",
]


@dataclass(frozen=True)
class Assignment:
    """The place of one operator. refusals: by name, the reason of each back end that was asked
    before. taken: the answer of the back end that runs it, with its lowering; None on the host."""

    operator: Operator
    backend: str
    refusals: tuple[tuple[str, Refusal], ...]
    taken: Taken | None = None


@dataclass(frozen=True, eq=False)
class Match:
    """One way to run a part of the network. backend: or HOST. covers: the Relax calls that it
    replaces, by name. taken: the back end's answer."""

    backend: str
    pattern: str
    operator: Operator
    covers: frozenset[str]
    taken: Taken

    @property
    def key(self) -> tuple[str, str, str]:
        """What distinguishes it from all others of a module."""
        return self.backend, self.pattern, self.operator.name


@dataclass(frozen=True, eq=False)
class Partition:
    """The network, divided. assignments: in the order of graph.operators. segments: in an order
    that can be executed.

    module: with composite functions. variables: of its `main`, by the names of the graph's tensors.
    log: of the passes that made it.
    """

    module: IRModule
    graph: Graph
    assignments: tuple[Assignment, ...]
    segments: tuple[Segment, ...]
    variables: Mapping[str, Var] = field(default_factory=dict)
    log: PassLog = field(default_factory=PassLog)

    def backend_of(self, operator: Operator) -> str:
        """Who runs it."""
        return next(
            assignment.backend for assignment in self.assignments if assignment.operator is operator
        )


def partition(
    module: IRModule,
    backends: Sequence[Backend],
    name: str = "model",
    chosen: Iterable[Match] | None = None,
    log: PassLog | None = None,
) -> Partition:
    """Divides `main` among the back ends, in order of preference, and the host. Raises
    UnsupportedError for dynamic shapes.

    chosen: only these of `matches`; the rest becomes Relax of the host. log: of the passes before.
    """
    log = PassLog() if log is None else log.continued()
    _require_externals(module, backends, name)
    wanted = None if chosen is None else {match.key for match in chosen}
    chooser = _Chooser(module, backends, lambda match: wanted is None or match.key in wanted)
    fused = log.run("composites", chooser.composed, module, verify=verify_interface, show=script)
    run = partial(apply_passes, backends, Phase.COMPOSITE)
    fused = log.run("composite_passes", run, fused, verify=verify_interface, show=script)
    operators = {root: match.operator for root, match in chooser.taken.items()}
    builder = FusedGraph(fused, chooser.reader, operators, name)
    graph = log.run("graph", lambda _: builder.build(), fused, show=Graph.describe)
    chooser.calls = builder.calls
    ranks = {
        entry: rank for rank, entry in enumerate([*(backend.name for backend in backends), HOST])
    }
    if chosen is None:
        first = {operator.name: chooser.backend_of(operator) for operator in graph.operators}
        chooser.leave_alone(islands(graph, first, ranks))
    backend_of = {operator.name: chooser.backend_of(operator) for operator in graph.operators}
    order = [backend.name for backend in backends]
    divided = log.run(
        "segments",
        lambda network: divide(network, backend_of, order),
        graph,
        verify=partial(verify_segments, backend_of),
        show=segments_text,
    )
    graph, segments = divided
    names = {tensor.name: variable for variable, tensor in builder.tensors.items()}
    return Partition(
        fused,
        graph,
        tuple(chooser.assignment(operator) for operator in graph.operators),
        segments,
        names,
        log,
    )


def _require_externals(module: IRModule, backends: Sequence[Backend], name: str) -> None:
    if missing := missing_external(module, [backend.name for backend in backends]):
        raise UnsupportedError(f"{name}: {missing}")


def matches(
    module: IRModule, backends: Sequence[Backend]
) -> tuple[list[Match], Mapping[str, Array]]:
    """Every match that a back end or the host accepts, preferred ones first, and the arrays that
    their operators read as tensors, each in the shape of its constant, by the tensors' names."""
    found: list[Match] = []

    def note(match: Match) -> bool:
        found.append(match)
        return False

    chooser = _Chooser(module, backends, note)
    occurrences(Dataflow(module["main"]), chooser.rows())
    chooser.complain()
    return found, chooser.reader.constants


class _Chooser:
    """Extracts operators and calls predicates, once each; remembers the answers. takes: whether an
    accepted match is used."""

    def __init__(
        self, module: IRModule, backends: Sequence[Backend], takes: Callable[[Match], bool]
    ) -> None:
        function = module["main"]
        numerics = (
            str(function.attrs["loadstone.numerics"])
            if "loadstone.numerics" in function.attrs
            else "onnx"
        )
        self.reader = Reader(function, numerics)
        self.backends = backends
        self.takes = takes
        self.read: dict[
            tuple[str, int], Operator | Refusal
        ] = {}  # (root's name, pattern) -> operator or why it is not one
        self.mismatches: dict[str, Refusal] = {}  # call that a pattern covers -> the first of these
        self.taken: dict[str, Match] = {}  # root's name -> what is used of it
        self.refused: dict[
            tuple[str, str], list[tuple[str, Refusal]]
        ] = {}  # (root's name, kind) -> back end, refusal
        self.calls: Mapping[str, Sequence[str]] = {}  # in each Host operator
        self.problem: LoadstoneError | None = (
            None  # of a predicate; TVM would make another exception of it
        )

    def rows(self) -> list[FusionRow]:
        """What `occurrences` looks for, in order."""
        rows = []
        for backend in self.backends:
            for pattern in patterns_of(backend):
                rows += [
                    self.row(backend.name, pattern, entry, self.asked(backend, pattern))
                    for entry in entries_of(backend.name, pattern)
                ]
        return rows + [
            self.row(HOST, Pattern(entry.name, entry, lambda _: None), entry, lambda _: Taken())
            for entry in OPERATOR_PATTERNS
        ]

    def asked(self, backend: Backend, pattern: Pattern) -> Callable[[Operator], Taken | Refusal]:
        """The predicate, asked inside the back end's scope; what goes wrong waits for
        `complain`."""

        def predicate(operator: Operator) -> Taken | Refusal:
            try:
                return answer(backend, pattern, operator)
            except LoadstoneError as error:
                self.problem = self.problem or error
                return Refusal(str(error), "a back end without this mistake")

        return predicate

    def composed(self, module: IRModule) -> IRModule:
        """The module with a composite function for each match that is used."""
        flow = Dataflow(module["main"])
        made = with_composites(module, flow, occurrences(flow, self.rows()))
        self.complain()
        return made

    def complain(self) -> None:
        """Raises what a predicate raised."""
        if self.problem is not None:
            raise self.problem

    def row(
        self,
        backend: str,
        pattern: Pattern,
        entry: OperatorPattern,
        predicate: Callable[[Operator], Taken | Refusal],
    ) -> FusionRow:
        def check(occurrence: Occurrence) -> bool:
            operator = self.extract(entry, name_of(occurrence.root.expr) or "")
            if isinstance(operator, Refusal):
                for node in occurrence.covers:
                    self.mismatches.setdefault(name_of(node.expr) or "", operator)
                return False
            said = predicate(operator)
            if isinstance(said, Refusal):
                self.refused.setdefault((operator.name, operator.kind), []).append((backend, said))
                return False
            covers = frozenset(
                name_of(node.expr) or str(node.bound_to.name) for node in occurrence.covers
            )
            match = Match(backend, pattern.name, operator, covers, said)
            if not self.takes(match):
                refusals = self.refused.setdefault((operator.name, operator.kind), [])
                if backend not in (HOST, *dict(refusals)):
                    refusals.append(
                        (
                            backend,
                            Refusal(
                                "it would take it, but the network then costs more", "other costs"
                            ),
                        )
                    )
                return False
            self.taken[operator.name] = match
            return True

        return FusionRow(f"{backend}.{pattern.name}", entry.pattern, check)

    def extract(self, entry: OperatorPattern, name: str) -> Operator | Refusal:
        """The operator that the pattern makes of the call of that name, or why it is none."""
        key = (name, id(entry))
        if key not in self.read:
            try:
                self.read[key] = entry.extract(self.reader, self.reader.roots[name])
            except Mismatch as mismatch:
                self.read[key] = mismatch.refusal
        return self.read[key]

    def leave_alone(self, operators: Iterable[Operator]) -> None:
        """Takes operators back to the host: they move elements between two host operators."""
        for operator in operators:
            backend = self.taken.pop(operator.name).backend
            refusal = Refusal(
                "it would cost two transfers between operators of the host",
                "neighbours that run on the device, or --partition cost",
            )
            self.refused.setdefault((operator.name, operator.kind), []).append((backend, refusal))

    def backend_of(self, operator: Operator) -> str:
        match = self.taken.get(operator.name)
        return HOST if match is None else match.backend

    def assignment(self, operator: Operator) -> Assignment:
        backend = self.backend_of(operator)
        refusals = [
            entry
            for entry in self.refused.get((operator.name, operator.kind), [])
            if entry[0] != backend
        ]
        silent = [
            entry.name
            for entry in self.backends
            if entry.name != backend and entry.name not in dict(refusals)
        ]
        before = [entry.name for entry in self.backends]
        before = before[: before.index(backend)] if backend in before else before
        refusals += [(name, self.unmatched(operator)) for name in silent if name in before]
        taken = None if backend == HOST else self.taken[operator.name].taken
        return Assignment(operator, backend, tuple(refusals), taken)

    def unmatched(self, operator: Operator) -> Refusal:
        """No pattern of a back end matched."""
        mismatches = [
            why
            for (name, _), why in self.read.items()
            if name == operator.name and isinstance(why, Refusal)
        ]
        calls = self.calls.get(operator.name, ())
        mismatches += [self.mismatches[name] for name in calls if name in self.mismatches]
        if mismatches:
            return mismatches[0]
        if isinstance(operator, Host):
            floats = [tensor.name for tensor in operator.inputs if tensor.dtype.startswith("float")]
            if floats:
                return Refusal(
                    f"works on {operator.inputs[0].dtype} ({', '.join(operator.operators)})",
                    "quantize this part of the model to int8",
                )
            return Refusal(
                f"no int8 form of {', '.join(operator.operators)}",
                "a form in loadstone.partition.patterns",
            )
        if isinstance(operator, Reshape) and operator.input.shape == operator.output.shape:
            return Refusal(
                "it copies what is an input, an output or a constant already",
                "a model without this output",
            )
        return Refusal(
            f"the device has no {operator.kind}", "a pattern and a schedule for it in the back end"
        )


# --------------------------------------------------------------------------------------------------
# Reasons for the host
# --------------------------------------------------------------------------------------------------


def explain(result: Partition) -> list[dict[str, str]]:
    """One row per operator: operator, kind, where, why, remedy. An operator that the first back end
    took has no reason."""
    rows = []
    for assignment in result.assignments:
        row = {
            "operator": assignment.operator.name,
            "kind": assignment.operator.kind,
            "where": assignment.backend,
        }
        if isinstance(assignment.operator, Host) and (
            names := codegens(assignment.operator.function)
        ):
            row["where"] += f" ({', '.join(names)})"
        row["why"] = "; ".join(f"{name}: {refusal.why}" for name, refusal in assignment.refusals)
        row["remedy"] = "; ".join(
            dict.fromkeys(refusal.remedy for _, refusal in assignment.refusals)
        )
        rows.append(row)
    return rows
