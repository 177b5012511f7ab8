# SPDX-License-Identifier: Apache-2.0
"""The occurrences of patterns in a function, in time linear in the size of the function.

In:   a Dataflow; rows of a name, one of TVM's dataflow patterns and a check, preferred ones first.
Out:  the Occurrences that the checks take; none of them share a call.
Next: composites.py makes a function of each; eager.py has the rows.

TVM's pass for this, FuseOpsByPattern, passes the bindings and readers of the whole function to each
check of a match, and rewrites the function for each row, which takes minutes for thousands of
operators. Here function and patterns are converted to Python objects once. The matches equal those
of `dpl` (tests/partition/test_matching.py compares them); TVM matches a row with a kind of pattern
that this file does not support.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from itertools import count
from typing import TYPE_CHECKING, TypeAlias

from loadstone.partition.dataflow import Dataflow, DataflowNode
from loadstone.relax.compat import dpl, extracted_match, tvm

if TYPE_CHECKING:
    from loadstone.relax.types import DFPattern

__all__ = ["FusionRow", "Occurrence", "occurrences"]

#: Their patterns also match with the arguments exchanged.
_COMMUTATIVE = ("relax.add", "relax.multiply")

#: What each pattern stands for so far, by number; a pattern that is named twice matches one thing.
Memo: TypeAlias = dict[int, DataflowNode]
Matcher: TypeAlias = Callable[[DataflowNode, Memo], bool]


@dataclass(frozen=True, eq=False)
class Occurrence:
    """row: its name. root: what the others are for. covers: the calls that it stands for, the root
    among them."""

    row: str
    root: DataflowNode
    covers: tuple[DataflowNode, ...]


@dataclass(frozen=True)
class FusionRow:
    """check: whether an occurrence is one, after all; what it covers nobody outside reads, but for
    the root."""

    name: str
    pattern: Callable[[], DFPattern]
    check: Callable[[Occurrence], bool]


def occurrences(flow: Dataflow, table: Iterable[FusionRow]) -> list[Occurrence]:
    """In the order of the rows, and of the function. Marks what they cover as taken."""
    order = {node: place for place, node in enumerate(flow.nodes)}
    by_operator: dict[str, list[DataflowNode]] = {}
    for node in flow.nodes:
        if node.is_call:
            by_operator.setdefault(node.operator, []).append(node)
    found: list[Occurrence] = []
    for row in table:
        match, ends = _matcher(flow, row)
        calls = [
            node
            for operator in (by_operator if ends is None else ends & by_operator.keys())
            for node in by_operator[operator]
            if not node.taken
        ]
        owner: dict[DataflowNode, Occurrence] = {}
        for call in sorted(calls, key=order.__getitem__):
            covers = match(call)
            if covers is None or not _is_free(call, covers, owner):
                continue
            occurrence = Occurrence(row.name, call, tuple(sorted(covers, key=order.__getitem__)))
            if row.check(occurrence):
                owner.update(dict.fromkeys(covers, occurrence))
        found += dict.fromkeys(owner.values())
        for node in owner:
            node.taken = True
    return found


def _is_free(
    root: DataflowNode, covers: set[DataflowNode], owner: Mapping[DataflowNode, Occurrence]
) -> bool:
    """Nobody outside reads what is computed on the way; and of two of one row that share a call
    the first one is, unless the other has all that it has."""
    if any(reader not in covers for node in covers - {root} for reader in node.readers):
        return False
    before = {owner[node] for node in covers if node in owner}
    return all(covers.issuperset(occurrence.covers) for occurrence in before)


def _matcher(
    flow: Dataflow, row: FusionRow
) -> tuple[Callable[[DataflowNode], set[DataflowNode] | None], frozenset[str] | None]:
    """What a call matches, and the operators of calls that can: None for any."""
    compiled = _compiled(row.pattern)
    if compiled is None:
        return _asked_of_tvm(flow, row.pattern()), None
    return compiled.match, compiled.ends


@dataclass(frozen=True)
class _Compiled:
    """ends: the operators of the calls that it can match; None: any."""

    matcher: Matcher
    calls: frozenset[int]
    ends: frozenset[str] | None

    def match(self, root: DataflowNode) -> set[DataflowNode] | None:
        """The bound calls, and items of tuples, that the pattern covers with this root."""
        memo: Memo = {}
        if not self.matcher(root, memo):
            return None
        return {node for number, node in memo.items() if number in self.calls}


@lru_cache(maxsize=1024)
def _compiled(pattern: Callable[[], DFPattern]) -> _Compiled | None:
    """None: it has a kind of pattern that is TVM's alone."""
    compiler = _Compiler()
    try:
        root = pattern()
        matcher = compiler.matcher(root)
    except NotImplementedError:
        return None
    return _Compiled(matcher, frozenset(compiler.calls), compiler.ends(root))


class _Compiler:
    """Functions for patterns. calls: numbers of those that a composite covers."""

    def __init__(self) -> None:
        self.numbers = count()
        self.known: dict[DFPattern, Matcher] = {}
        self.calls: set[int] = set()

    def matcher(self, pattern: DFPattern) -> Matcher:
        """Raises NotImplementedError for a kind that is not known here."""
        if pattern not in self.known:
            number = next(self.numbers)
            self.known[pattern] = _once(number, self._one(number, pattern))
        return self.known[pattern]

    def _one(self, number: int, pattern: DFPattern) -> Matcher:
        if isinstance(pattern, dpl.CallPattern):
            self.calls.add(number)
            return self._call(pattern)
        if isinstance(pattern, dpl.OrPattern):
            left, right = self.matcher(pattern.left), self.matcher(pattern.right)
            return lambda node, memo: left(node, memo) or right(node, memo)
        if isinstance(pattern, dpl.WildcardPattern):
            return lambda node, memo: True
        if isinstance(pattern, dpl.ConstantPattern):
            return lambda node, memo: node.is_constant
        if type(pattern) is dpl.TuplePattern:
            fields = [self.matcher(item) for item in pattern.fields]
            return lambda node, memo: node.is_tuple and _all(fields, node.arguments, memo)
        if isinstance(pattern, dpl.TupleGetItemPattern):
            self.calls.add(number)
            whole, index = self.matcher(pattern.tuple), int(pattern.index)
            return lambda node, memo: (
                node.index is not None
                and index in (-1, node.index)
                and whole(node.arguments[0], memo)
            )
        raise NotImplementedError

    def _call(self, pattern: DFPattern) -> Matcher:
        operator = _operator(pattern)
        arguments = [self.matcher(argument) for argument in pattern.args]
        commutes = operator in _COMMUTATIVE
        if str(pattern).endswith("...)"):  # more arguments may follow: it has no field that says so
            raise NotImplementedError

        def match(node: DataflowNode, memo: Memo) -> bool:
            return (
                node.operator == operator
                and not node.taken
                and (
                    _all(arguments, node.arguments, memo)
                    or (commutes and _all(arguments, node.arguments[::-1], memo))
                )
            )

        return match

    def ends(self, pattern: DFPattern) -> frozenset[str] | None:
        """The operators that a call which matches may have."""
        if isinstance(pattern, dpl.CallPattern):
            return frozenset([_operator(pattern)])
        if isinstance(pattern, dpl.OrPattern):
            left, right = self.ends(pattern.left), self.ends(pattern.right)
            return None if left is None or right is None else left | right
        return frozenset() if isinstance(pattern, dpl.ConstantPattern) else None


def _operator(pattern: DFPattern) -> str:
    if isinstance(pattern.op, dpl.ExprPattern) and isinstance(pattern.op.expr, tvm.ir.Op):
        return str(pattern.op.expr.name)
    raise NotImplementedError


def _once(number: int, inner: Matcher) -> Matcher:
    """What the pattern of that number matches, which is the same in all places that name it; what
    fails leaves nothing behind."""

    def match(node: DataflowNode, memo: Memo) -> bool:
        known = memo.get(number)
        if known is not None:
            return known is node
        before = len(memo)
        if inner(node, memo):
            memo[number] = node
            return True
        _forget(memo, before)
        return False

    return match


def _all(matchers: Sequence[Matcher], nodes: Sequence[DataflowNode], memo: Memo) -> bool:
    if len(matchers) != len(nodes):
        return False
    before = len(memo)
    for matcher, node in zip(matchers, nodes, strict=True):
        if not matcher(node, memo):
            _forget(memo, before)
            return False
    return True


def _forget(memo: Memo, count: int) -> None:
    while len(memo) > count:
        memo.popitem()


def _asked_of_tvm(
    flow: Dataflow, pattern: DFPattern
) -> Callable[[DataflowNode], set[DataflowNode] | None]:
    """By TVM's own matcher, which gets all bindings that are left for each call."""
    left = {node.variable: node.expr for node in flow.nodes if not node.taken}

    def match(root: DataflowNode) -> set[DataflowNode] | None:
        found = extracted_match(pattern, root.expr, left)
        if found is None:
            return None
        return {
            flow.of_expr[expr]
            for kind, expr in found
            if isinstance(kind, dpl.CallPattern | dpl.TupleGetItemPattern)
        }

    return match
