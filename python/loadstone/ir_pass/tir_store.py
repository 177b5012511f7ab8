# SPDX-License-Identifier: Apache-2.0
"""One store of TensorIR, in its loops, as a nest of steps on tiles.

In:   loops and conditions of a perfect nest, and the store inside; the tensors of its buffers.
Out:  the nests that it is: one, or one for each product of a sum.
Next: from_tir.py puts them into the function's loops.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, NamedTuple

from loadstone.errors import LoweringError
from loadstone.ir_pass.affine import Index, Place, Variable
from loadstone.ir_pass.lanes import PREFIX, LaneAccess, lanes_of
from loadstone.ir_pass.memory_table import MemoryTable
from loadstone.ir_pass.nests import COPY, Nest, NestAccess, NestStep, NestTensor
from loadstone.ir_pass.tir_index import bounds_of, implied, index_of
from loadstone.ir_pass.tir_tensors import Tensors, loaded
from loadstone.relax.compat import TensorLoad, is_tir_call, loaded_buffer, tirx

if TYPE_CHECKING:
    from loadstone.relax.types import Buffer, BufferStore, Expr

__all__ = ["OpenNest", "StoreReader"]

#: Operations of a reduction that TVM writes as arithmetic.
_PLAIN = {tirx.Add: "add", tirx.Max: "max", tirx.Min: "min"}


class OpenNest(NamedTuple):
    """loops: of the nest. conditions: under which it is executed. known: all loops that are open,
    by the address of TVM's variable."""

    loops: tuple[Variable, ...]
    conditions: tuple[Index, ...]
    known: Mapping[int, Variable]


@dataclass(frozen=True)
class _Element:
    """An access to one element: places of its tile, row and column; where it is read (None:
    everywhere), and the pad elsewhere."""

    tensor: NestTensor
    at: tuple[Index, ...]
    row: Index
    column: Index
    inside: tuple[Index, ...] | None = None
    pad: int | None = None


@dataclass
class _LaneLoops:
    """Takes the loops over lanes off the accesses of a nest. found: by their names in lanes.py."""

    nest: OpenNest
    found: dict[str, Variable] = field(default_factory=dict)

    def without(
        self, element: _Element, by: LaneAccess, turns: Mapping[str, int]
    ) -> tuple[Place, ...]:
        """The places of the tile that an element's access begins with. Raises LoweringError where
        the element is not the whole tiles of its step."""
        self._expect(element, element.row, by.row, turns)
        self._expect(element, element.column, by.column, turns)
        *outer, last = element.at
        if by.tile:
            own = [v for v in last.terms if v in self.nest.loops and self._fits(by.tile, v, turns)]
            loop = own[-1] if own else None
            if loop is None or last.terms[loop] != 1:
                raise self._within(element)
            self.found[by.tile] = loop
            last = Index(last.constant, {v: n for v, n in last.terms.items() if v is not loop})
        return tuple(place if place.terms else place.constant for place in (*outer, last))

    def _expect(self, element: _Element, place: Index, name: str, turns: Mapping[str, int]) -> None:
        if not name or (turns[name] == 1 and not place.terms):
            if place.terms or place.constant:
                raise self._within(element)
            return
        ((loop, factor),) = place.terms.items() if len(place.terms) == 1 else ((None, 0),)
        if loop is None or factor != 1 or place.constant or not self._fits(name, loop, turns):
            raise self._within(element)
        self.found[name] = loop

    def _fits(self, name: str, loop: Variable, turns: Mapping[str, int]) -> bool:
        free = self.found.get(name, loop) is loop and loop in self.nest.loops
        others = [other for key, other in self.found.items() if key != name]
        return free and loop.extent == turns[name] and loop not in others

    def _within(self, element: _Element) -> LoweringError:
        rows, columns = element.tensor.lanes
        return LoweringError(
            f"TensorIR: {element.tensor.name} is accessed within a tile: its last two indices must "
            f"run over all {rows} rows and {columns} columns, each by a loop of its own"
        )


class StoreReader:
    """Reads the stores of one function."""

    def __init__(self, tensors: Tensors, table: MemoryTable) -> None:
        self._tensors, self._table = tensors, table

    def nests(self, nest: OpenNest, store: BufferStore) -> Sequence[Nest]:
        """Raises LoweringError where no step is what is stored."""
        target = self._tensors.of(store.buffer)
        value, _, _ = loaded(store.value)
        if target.role != "local":
            return [self._stored(nest, store, value)]
        if isinstance(value, tirx.IntImm):
            return [self._filled(nest, store, int(value.value))]
        if target.memory is not None and isinstance(value, TensorLoad) and self._in_dram(value):
            self._tensors.written(store.buffer)
            read = self._element(nest, store.value)
            return [self._nest(nest, COPY, [self._target(nest, store), read])]
        return self._products(nest, store) or [self._chain(nest, store)]

    def _in_dram(self, load: TensorLoad) -> bool:
        return self._tensors.of(loaded_buffer(load)).role != "local"

    # --- what is stored ---------------------------------------------------------------------------
    def _stored(self, nest: OpenNest, store: BufferStore, value: Expr) -> Nest:
        if not isinstance(value, TensorLoad) or self._in_dram(value):
            raise LoweringError(
                f"TensorIR: {store.buffer.name} is in DRAM, to which only what stands in a "
                f"scratchpad is copied: {_line(store)}"
            )
        return self._nest(nest, COPY, [self._target(nest, store), self._element(nest, store.value)])

    def _filled(self, nest: OpenNest, store: BufferStore, value: int) -> Nest:
        self._tensors.written(store.buffer)
        target = self._target(nest, store)
        (where, *_) = self._table.operands.get(self._table.starts, (None,))
        if target.tensor.memory in (None, where):
            return self._nest(nest, self._table.starts, [target], (value,))
        # A load of pads alone, of which TVM's simplifier has left the constant.
        for tensor in self._tensors.parameters:
            if (tensor.lanes, tensor.dtype) == (target.tensor.lanes, target.tensor.dtype):
                at = (Index(-1, {}), *(Index(0, {}) for _ in tensor.shape[1:]))
                never = (Index(-1, {}),)
                pads = _Element(tensor, at, target.row, target.column, never, value)
                return self._nest(nest, COPY, [target, pads])
        raise LoweringError(f"TensorIR: nothing fills {store.buffer.name}: {_line(store)}")

    def _products(self, nest: OpenNest, store: BufferStore) -> list[Nest]:
        """C + product, or C + a sum of products; none where it is something else."""
        addends = _addends(store.value)
        products = [each for each in addends if not _is_load_of(each, store.buffer)]
        if not products or len(products) != len(addends) - 1:
            return []
        factors = [_factors(product) for product in products]
        self._tensors.read(store.buffer)
        target, made = self._target(nest, store), list[Nest]()
        for pair in factors:
            if pair is None:
                return []
            elements = [self._element(nest, factor) for factor in pair]
            moves = [target.column.terms.keys() & _lane_terms(each) for each in elements]
            if moves[0] and not moves[1]:
                elements.reverse()  # the weights are what moves with the lanes of the result
            made.append(self._nest(nest, "gemm", [target, *elements]))
        return made

    def _chain(self, nest: OpenNest, store: BufferStore) -> Nest:
        """op(op(head, x), y): steps in the place of `head`, which the stored buffer takes over."""
        calls: list[tuple[str, list[_Element], tuple[int, ...]]] = []
        head = store.value
        while not isinstance(head, TensorLoad):
            name, head, rest = self._called(head, store)
            constants = [each for each in rest if isinstance(each, tirx.IntImm)]
            loads = [each for each in rest if not isinstance(each, tirx.IntImm)]
            elements = [self._element(nest, each) for each in loads]
            calls.append((name, elements, tuple(int(each.value) for each in constants)))
        if not calls:
            raise LoweringError(
                f"TensorIR: no step copies {loaded_buffer(head).name}: {_line(store)}"
            )
        place = self._element(nest, head)
        if place.tensor.role != "local":
            raise LoweringError(
                f"TensorIR: {place.tensor.name} is in DRAM, and an operation works in place: "
                f"{_line(store)}"
            )
        if not loaded_buffer(head).same_as(store.buffer):
            self._take_over(nest, store, head, place)
        lanes = _LaneLoops(nest)
        steps = [self._step(lanes, name, [place, *es], ns) for name, es, ns in reversed(calls)]
        return self._whole(lanes, steps)

    def _take_over(
        self, nest: OpenNest, store: BufferStore, head: TensorLoad, place: _Element
    ) -> None:
        target = self._target(nest, store)
        ours = (target.at, target.row, target.column)
        same = all(
            _distance(a, b) == 0
            for a, b in zip(
                (*ours[0], *ours[1:]), (*place.at, place.row, place.column), strict=False
            )
        )
        if not same or target.tensor.shape != place.tensor.shape:
            raise LoweringError(
                f"TensorIR: {store.buffer.name} cannot be computed in the place of "
                f"{loaded_buffer(head).name}, whose shape or index is another: {_line(store)}"
            )
        self._tensors.take_over(store.buffer, loaded_buffer(head))

    def _called(self, expr: Expr, store: BufferStore) -> tuple[str, Expr, list[Expr]]:
        """One operation: its name, its first operand, its other operands."""
        if is_tir_call(expr, "call_pure_extern"):
            name = str(expr.args[0].value)
            if name.startswith(PREFIX):
                return name.removeprefix(PREFIX), expr.args[1], list(expr.args[2:])
        if type(expr) in _PLAIN:
            for head, operand in ((expr.a, expr.b), (expr.b, expr.a)):
                if _is_load_of(head, store.buffer):
                    return _PLAIN[type(expr)], head, [operand]
        raise LoweringError(f"TensorIR: no step does {expr}: {_line(store)}")

    # --- elements ---------------------------------------------------------------------------------
    def _target(self, nest: OpenNest, store: BufferStore) -> _Element:
        return self._at(nest, self._tensors.of(store.buffer), store.indices[:])

    def _element(self, nest: OpenNest, value: Expr) -> _Element:
        load, condition, pad = loaded(value)
        if not isinstance(load, TensorLoad):
            raise LoweringError(f"TensorIR: {load} is neither an element of a buffer nor a number")
        inside = None if condition is None else tuple(bounds_of(condition, nest.known))
        return self._at(nest, self._tensors.read(loaded_buffer(load)), load.indices[:], inside, pad)

    def _at(
        self,
        nest: OpenNest,
        tensor: NestTensor,
        indices: Sequence[Expr],
        inside: tuple[Index, ...] | None = None,
        pad: int | None = None,
    ) -> _Element:
        *at, row, column = (index_of(each, nest.known) for each in indices)
        return _Element(tensor, tuple(at) or (Index(0, {}),), row, column, inside, pad)

    # --- steps ------------------------------------------------------------------------------------
    def _nest(
        self,
        nest: OpenNest,
        name: str,
        elements: Sequence[_Element],
        immediates: tuple[int, ...] = (),
    ) -> Nest:
        lanes = _LaneLoops(nest)
        return self._whole(lanes, [self._step(lanes, name, elements, immediates)])

    def _step(
        self,
        lanes: _LaneLoops,
        name: str,
        elements: Sequence[_Element],
        immediates: tuple[int, ...],
    ) -> NestStep:
        operands = self._operands(name, elements)
        raw = tuple(NestAccess(each.tensor, each.at, each.pad) for each in operands)
        step = NestStep(name, raw, immediates)
        loops, by = lanes_of(step, self._table)
        accesses = tuple(
            NestAccess(each.tensor, lanes.without(each, own, loops), each.pad)
            for each, own in zip(operands, by, strict=True)
        )
        for access, each in zip(accesses, operands, strict=True):
            _check_pad(access, each, lanes.nest)
            if access.tensor.role == "local" and access.inside:
                raise LoweringError(
                    f"TensorIR: {name} reads {access.tensor.name} with a pad, which only a copy "
                    "from DRAM makes"
                )
        step = step._replace(operands=accesses)
        self._check_memories(step)
        return step

    def _operands(self, name: str, elements: Sequence[_Element]) -> list[_Element]:
        """The first element of each operand; one of several tiles has an element for each."""
        left, found = list(elements), list[_Element]()
        while left:
            several = 1 if name == "gemm" else self._table.reach.get((name, len(found)), 1)
            taken, left = left[:several], left[several:]
            first, *others = taken
            for number, other in enumerate(others, start=1):
                steps = [_distance(a, b) for a, b in zip(first.at, other.at, strict=False)]
                ahead = [0] * (len(first.at) - 1) + [number]
                if other.tensor is not first.tensor or steps != ahead:
                    raise LoweringError(
                        f"TensorIR: {several} operands of {name} do not stand in consecutive tiles "
                        f"of {first.tensor.name}"
                    )
            if len(taken) != several:
                raise LoweringError(f"TensorIR: {name} of {first.tensor.name} lacks an operand")
            found.append(first)
        return found

    def _check_memories(self, step: NestStep) -> None:
        """Raises LoweringError where an operand stands elsewhere than the instruction reads it."""
        if step.name == COPY and step.operands[0].tensor.role == "local":
            return  # a load goes where it is read
        for number, access in enumerate(step.operands):
            tensor = access.tensor
            needed = self._table.memory(step, number)
            said = tensor.memory if self._tensors.copied else self._tensors.scope(tensor)
            if said == needed or not (self._tensors.copied or said):
                continue
            raise LoweringError(
                f"TensorIR: {step.name} reads operand {number} from {needed or 'DRAM'}, and "
                f"{tensor.name} stands in {said or 'DRAM'}"
            )

    def _whole(self, lanes: _LaneLoops, steps: Sequence[NestStep]) -> Nest:
        """Raises LoweringError where a part of the lanes is taken."""
        over = set(lanes.found.values())
        places = [each for step in steps for access in step.operands for each in access.at]
        moving = [place for place in places if isinstance(place, Index)]
        for place in (*lanes.nest.conditions, *moving):
            if over & place.terms.keys():
                name = steps[0].operands[0].tensor.name
                raise LoweringError(
                    f"TensorIR: {steps[0].name} of {name} takes a part of the lanes"
                )
        loops = tuple(loop for loop in lanes.nest.loops if loop not in over)
        return Nest(loops, lanes.nest.conditions, tuple(steps))


def _check_pad(access: NestAccess, element: _Element, nest: OpenNest) -> None:
    """Raises LoweringError where what is read is not the tensor where there is one, and the pad
    elsewhere."""
    if element.inside is None:
        return
    wanted = access.inside
    holds = (*element.inside, *nest.conditions)
    less = [bound for bound in element.inside if not implied(bound, (*wanted, *nest.conditions))]
    more = [bound for bound in wanted if not implied(bound, holds)]
    if less or more:
        what = "a part of it" if less else "more than it"
        raise LoweringError(
            f"TensorIR: the condition on reading {access.tensor.name} leaves {what}: a pad is what "
            "is read outside the whole tensor"
        )


def _addends(expr: Expr) -> list[Expr]:
    """The terms of a sum; TVM's simplifier writes x * w + a * w as (x + a) * w."""
    if isinstance(expr, tirx.Add):
        return [*_addends(expr.a), *_addends(expr.b)]
    if isinstance(expr, tirx.Mul) and tirx.Add in (type(expr.a), type(expr.b)):
        return [a * b for a in _addends(expr.a) for b in _addends(expr.b)]
    return [expr]


def _factors(product: Expr) -> tuple[Expr, Expr] | None:
    """What cast(input) * cast(weight) multiplies."""
    if not isinstance(product, tirx.Mul):
        return None
    for factor in (product.a, product.b):
        if not isinstance(factor, tirx.Cast):
            return None
    return product.a, product.b


def _lane_terms(element: _Element) -> set[Variable]:
    return {*element.row.terms, *element.column.terms}


def _distance(a: Index, b: Index) -> int | None:
    """b - a, where that is a number."""
    between = b - a
    return None if any(between.terms.values()) else between.constant


def _is_load_of(expr: Expr, buffer: Buffer) -> bool:
    return isinstance(expr, TensorLoad) and bool(loaded_buffer(expr).same_as(buffer))


def _line(store: BufferStore) -> str:
    return " ".join(str(store).split())[:200]
