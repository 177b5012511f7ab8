# SPDX-License-Identifier: Apache-2.0
"""Loop nests over tiles as plain data: the form of an operator's computation, before and after its
copies are inserted.

In:   tensors in DRAM and in scratchpads, loops, and the operations inside them.
Out:  `Function`: nests, groups of them, loops around them, allocations.
Next: a back end turns it into operations; nest_text.py prints and parses it; to_tir.py writes the
      TensorIR that says the same, for passes of TVM, and from_tir.py reads it back.

    loops = NestLoops()
    i, j = loops.loop(4, "i"), loops.loop(9, "j")
    loops.conditions.append(EXTENT - 1 - (row * 4 + i))               done where it is not negative
    loops.nest(NestStep("gemm", (acc[i, j], x[i, j], w[0])))          acc += x * w, tile by tile

Every tensor is one of tiles: lanes are in no index. A step (lanes.py names them)
works in place, in its first operand; or it is a `copy`, between DRAM and a scratchpad.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property, lru_cache
from typing import Literal, NamedTuple, TypeAlias

from loadstone.errors import LoweringError
from loadstone.ir_pass.affine import Index, Place, Variable, highest, index, lowest

__all__ = [
    "COPY",
    "Function",
    "Nest",
    "NestAccess",
    "NestAllocation",
    "NestAxis",
    "NestBound",
    "NestCall",
    "NestGroup",
    "NestLoop",
    "NestLoops",
    "NestStep",
    "NestTensor",
    "Role",
    "Statement",
    "once",
]

#: The step that crosses between DRAM and a scratchpad.
COPY = "copy"
#: param: a tensor in DRAM. table: a small one that every tile reads. local: a value between
#: statements, which is never in DRAM.
Role: TypeAlias = Literal["param", "table", "local"]


class NestAccess(NamedTuple):
    """An access to one tile of a tensor. pad: the value that is read outside the tensor; None: no
    access may be outside."""

    tensor: NestTensor
    at: tuple[Place, ...]
    pad: int | None = None

    @property
    def inside(self) -> tuple[Index, ...]:
        """None of them is negative where the tensor itself is read, and not its padding."""
        if self.pad is None:
            return ()
        found: list[Index] = []
        for place, size in zip(map(index, self.at), self.tensor.shape, strict=True):
            if lowest(place) < 0:
                found.append(place)
            if highest(place) >= size:
                found.append(size - 1 - place)
        return tuple(found)

    @property
    def number(self) -> Index:
        """Of the tile, as they lie one after the other."""
        constant, step = 0, 1
        terms: dict[Variable, int] = {}
        for size, place in zip(self.tensor.shape[::-1], self.at[::-1], strict=True):
            if isinstance(place, int):
                constant += place * step
            else:
                constant += place.constant * step
                for variable, factor in place.terms.items():
                    terms[variable] = terms.get(variable, 0) + factor * step
            step *= size
        return Index(constant, terms)


@dataclass(frozen=True, eq=False)
class NestTensor:
    """shape: in tiles. lanes: rows and columns of a tile. memory: a scratchpad, by its name in the
    device's table; None: DRAM, or of a local one that is not decided yet."""

    name: str
    shape: tuple[int, ...]
    lanes: tuple[int, int]
    dtype: str
    role: Role = "param"
    memory: str | None = None

    def __getitem__(self, at: Place | tuple[Place, ...]) -> NestAccess:
        return NestAccess(self, at if isinstance(at, tuple) else (at,))


class NestStep(NamedTuple):
    """One operation on tiles. operands: as in lanes.py; for a copy the destination, then the
    source."""

    name: str
    operands: tuple[NestAccess, ...]
    immediates: tuple[int, ...] = ()


class NestBound(NamedTuple):
    """factor * loop + base is not negative."""

    factor: int
    base: Index


class NestAxis(NamedTuple):
    """One loop of a call. strides: in tiles, of each operand. guards: where it is executed. pads:
    where a copy reads its source."""

    extent: int
    strides: tuple[int, ...]
    guards: tuple[NestBound, ...] = ()
    pads: tuple[NestBound, ...] = ()

    def executed(self, values: Mapping[Variable, int]) -> tuple[int, int]:
        """The turns [first, last) that are executed, where outer loops have these values."""
        return _turns(self.extent, self.guards, values)

    def inside(self, values: Mapping[Variable, int]) -> tuple[int, int]:
        """The turns [first, last) in which a copy reads its source."""
        return _turns(self.extent, self.pads or self.guards, values)


def _turns(
    extent: int, bounds: Iterable[NestBound], values: Mapping[Variable, int]
) -> tuple[int, int]:
    first, last = 0, extent
    for factor, base in bounds:
        number = base.at(values)
        if factor > 0:
            first = max(first, -(number // factor))
        else:
            last = min(last, number // -factor + 1)
    return first, last


class NestCall(NamedTuple):
    """A step with all its loops: operands with the numbers of the tiles that they begin with.
    immediates: of a copy the value of its pads."""

    name: str
    operands: tuple[tuple[NestTensor, Index], ...]
    immediates: tuple[int, ...]
    axes: tuple[NestAxis, ...]


@dataclass(frozen=True, eq=False)
class Nest:
    """Steps, one after another for all turns of the loops, outermost first, in which no condition
    is negative."""

    loops: tuple[Variable, ...]
    conditions: tuple[Index, ...]
    steps: tuple[NestStep, ...]

    @cached_property
    def calls(self) -> tuple[NestCall, ...]:
        """One of each step. Raises LoweringError for a condition on two loops of the nest."""
        return tuple(map(self._call, self.steps))

    def _call(self, step: NestStep) -> NestCall:
        numbers = [access.number for access in step.operands]
        strides = [tuple([number.terms.get(loop, 0) for number in numbers]) for loop in self.loops]
        inside = step.operands[1].inside if step.name == COPY else ()
        guards, pads = self._bounds(self.conditions), self._bounds(inside)
        still = (0,) * len(numbers)
        axes = [NestAxis(1, still, (bound,)) for bound in guards.get(None, ())]
        axes += [NestAxis(1, still, (), (bound,)) for bound in pads.get(None, ())]
        for loop, own in zip(self.loops, strides, strict=True):
            axis = NestAxis(loop.extent, own, guards.get(loop, ()), pads.get(loop, ()))
            if axis.extent > 1 or axis.guards or axis.pads:
                axes.append(axis)
        operands = (
            (access.tensor, self._outer(number))
            for access, number in zip(step.operands, numbers, strict=True)
        )
        immediates = step.immediates
        if step.name == COPY:
            immediates = ((step.operands[1].pad or 0) if inside else 0,)
        return NestCall(step.name, tuple(operands), immediates, tuple(axes))

    def _outer(self, number: Index) -> Index:
        """Without the nest's own loops."""
        terms = {v: n for v, n in number.terms.items() if n and v not in self.loops}
        return Index(number.constant, terms)

    def _bounds(self, conditions: Sequence[Index]) -> dict[Variable | None, tuple[NestBound, ...]]:
        """By the loop that they bound; None: one of the loops around."""
        found: dict[Variable | None, tuple[NestBound, ...]] = {}
        for condition in conditions:
            own = [loop for loop in self.loops if condition.terms.get(loop)]
            if len(own) > 1:
                raise LoweringError(
                    f"nest: a condition bounds the loops {[loop.name for loop in own]}"
                )
            loop = own[0] if own else None
            factor = condition.terms[loop] if loop is not None else -1
            bound = NestBound(factor, self._outer(condition))
            found[loop] = (*found.get(loop, ()), bound)
        return found


class NestAllocation(NamedTuple):
    """A new life of a tensor in a scratchpad."""

    tensor: NestTensor


@dataclass(frozen=True, eq=False)
class NestLoop:
    """Statements, again for each turn of a loop. apart: nothing is kept on the chip from one turn
    to the next. A loop of one turn is a level, too."""

    variable: Variable
    body: tuple[Statement, ...]
    apart: bool = False


@dataclass(frozen=True, eq=False)
class NestGroup:
    """Statements that stand as one, such as a sum and its start: copies come in front, and none
    between them."""

    body: tuple[Statement, ...]


Statement: TypeAlias = Nest | NestLoop | NestGroup | NestAllocation


class Function(NamedTuple):
    """tensors: those in DRAM, which are the function's parameters, and locals whose memory is open;
    in the order in which equal copies come."""

    name: str
    tensors: tuple[NestTensor, ...]
    body: tuple[Statement, ...]

    @property
    def parameters(self) -> tuple[NestTensor, ...]:
        """Those in DRAM."""
        return tuple(tensor for tensor in self.tensors if tensor.role != "local")


class NestLoops:
    """The open loops, outermost first, and the conditions inside them: a statement is executed
    where none of them is negative."""

    def __init__(self) -> None:
        self.variables: list[Variable] = []
        self.conditions: list[Index] = []

    def loop(self, extent: int, name: str) -> Index:
        """One more loop inside."""
        variable = Variable(name, extent)
        self.variables.append(variable)
        return Index(0, {variable: 1})

    def turn(self, extent: int, name: str) -> Place:
        """As `loop`; 0 where it has but one turn."""
        return self.loop(extent, name) if extent > 1 else 0

    def within(self, place: Place, extent: int) -> None:
        """Adds the condition place < extent."""
        self.conditions.append(extent - 1 - index(place))

    def nest(self, *steps: NestStep) -> Nest:
        """The loops around steps."""
        return Nest(tuple(self.variables), tuple(self.conditions), steps)

    def around(
        self, statements: Iterable[Statement], *, apart: bool = False
    ) -> tuple[Statement, ...]:
        """The loops around statements. apart: each of them stands so."""
        body = tuple(statements)
        for variable in reversed(self.variables):
            body = (NestLoop(variable, body, apart),)
        return body


@lru_cache(maxsize=4096)
def once(write: Callable[..., Nest], *arguments: Hashable) -> Nest:
    """What `write` makes of the arguments, which decide all that is in it; or the nest that another
    function has of the same. A network's rescaled convolutions differ in a few of their nests: a
    tile is loaded and summed in one way, and what then becomes of the sum is one of some thirty
    chains."""
    return write(*arguments)
