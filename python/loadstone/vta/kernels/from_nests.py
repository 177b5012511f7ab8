# SPDX-License-Identifier: Apache-2.0
"""Operations of functions that are nests over tiles.

In:   `Function` of ir_pass/nests.py.
Out:  `Kernel`.
Next: operators/kernels.py runs it with names.

A network on a device without RQ has hundreds of such functions. Their nests are read once, however
many of them share one, and once for each turn that differs; what is left are the lives of the tiles
and where the tensors begin.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import lru_cache, partial
from math import prod
from operator import itemgetter
from typing import TypeAlias

from loadstone.errors import LoweringError
from loadstone.ir_pass.affine import Variable
from loadstone.ir_pass.nests import (
    COPY,
    Function,
    Nest,
    NestAllocation,
    NestAxis,
    NestCall,
    NestGroup,
    NestTensor,
    Statement,
)
from loadstone.numerics import Rounding
from loadstone.vta.device.hw_config import HwConfig
from loadstone.vta.device.instruction_table import REQUANTIZE_TILES
from loadstone.vta.isa.spec import AluOp, Capability, Memory
from loadstone.vta.kernels.clipped_loops import clipped_nest
from loadstone.vta.kernels.copy_pieces import CopyLoop, Loading, load_pieces, store_pieces
from loadstone.vta.kernels.emitter import ALU, Emitter
from loadstone.vta.kernels.kernel import Kernel
from loadstone.vta.stream.operations import (
    Access,
    AluNest,
    DramTile,
    FillNest,
    GemmNest,
    LaneWindow,
    Operation,
    RequantizeNest,
    VirtualTile,
)

__all__ = ["kernel_of_nests"]

_Values: TypeAlias = dict[Variable, int]
#: A tile by weights of two parts, lane by lane.
_WIDE = LaneWindow(1, 1, 0, wide=True)


@dataclass(slots=True)
class _Run:
    """A kernel at work: where its tensors are in DRAM and on the chip, and its turn."""

    emitter: Emitter
    operations: list[Operation]
    dram: dict[NestTensor, DramTile]
    chip: dict[NestTensor, VirtualTile] = field(default_factory=dict)
    values: _Values = field(default_factory=dict)


_Action: TypeAlias = Callable[[_Run], None]
_Extents: TypeAlias = tuple[int, ...]
#: A tensor, and the base and the strides of what is accessed of it.
_Operand: TypeAlias = tuple[NestTensor, int, tuple[int, ...]]


def kernel_of_nests(function: Function, config: HwConfig) -> Kernel:
    """Raises LoweringError where no unit does what a nest holds, or a tensor is used that is
    nowhere."""
    any_pad = config.has(Capability.CONFIG)
    actions = _actions(function.body, set(function.parameters), any_pad)

    def emit(emitter: Emitter, *places: DramTile) -> None:
        run = _Run(emitter, emitter.operations, dict(zip(function.parameters, places, strict=True)))
        for action in actions:
            action(run)

    return Kernel(tuple(tensor.name for tensor in function.parameters), emit)


def _actions(body: Sequence[Statement], known: set[NestTensor], any_pad: bool) -> list[_Action]:
    """What statements do. known: tensors that are somewhere; gets those that are allocated.
    any_pad: whether a LOAD can make a pad of any value."""
    found: list[_Action] = []
    for statement in body:
        if isinstance(statement, Nest):
            for call, action in _read(statement, any_pad):
                for tensor, _ in call.operands:
                    if tensor not in known:
                        raise LoweringError(f"nest: {tensor.name} is used where it is nowhere")
                found.append(action)
        elif isinstance(statement, NestAllocation):
            known.add(statement.tensor)
            found.append(_allocation(statement.tensor))
        elif isinstance(statement, NestGroup):
            found += _actions(statement.body, known, any_pad)
        else:
            inside = _actions(statement.body, known, any_pad)
            found.append(partial(_repeat, statement.variable, inside))
    return found


def _allocation(tensor: NestTensor) -> _Action:
    memory, size = _memory(tensor), prod(tensor.shape)

    def act(run: _Run) -> None:
        run.chip[tensor] = run.emitter.tile(memory, size, tensor.name)

    return act


def _repeat(loop: Variable, body: Sequence[_Action], run: _Run) -> None:
    for turn in range(loop.extent):
        run.values[loop] = turn
        for action in body:
            action(run)


@lru_cache(maxsize=4096)
def _read(nest: Nest, any_pad: bool) -> Sequence[tuple[NestCall, _Action]]:
    """What a nest calls, and what that does."""
    return [(call, _by_turn(call, _maker(call, any_pad))) for call in nest.calls]


def _by_turn(call: NestCall, made: Callable[[_Values], _Action]) -> _Action:
    """What is made of a call where the loops around it have some values: once for all turns, and
    all functions, in which those that it depends on have the same."""
    numbers = [number for _, number in call.operands]
    numbers += [bound.base for axis in call.axes for bound in axis.guards + axis.pads]
    variables = dict.fromkeys([variable for number in numbers for variable in number.terms])
    if not variables:
        return made({})
    known: dict[int | tuple[int, ...], _Action] = {}
    turn_of = itemgetter(*variables)

    def act(run: _Run) -> None:
        turn = turn_of(run.values)
        if turn not in known:
            known[turn] = made(run.values)
        known[turn](run)

    return act


def _maker(call: NestCall, any_pad: bool) -> Callable[[_Values], _Action]:
    """Raises LoweringError for what no unit does."""
    memories = tuple(tensor.memory for tensor, _ in call.operands)
    if call.name == COPY and memories.count(None) == 1:
        return partial(_store, call) if memories[0] is None else partial(_load, call, any_pad)
    if memories == ("acc", "inp", "wgt"):
        if call.name == "gemm":
            return partial(_computation, _product, call)
        if call.name in {"depthwise", "wide"}:
            return partial(_windows, call)
    if set(memories) == {"acc"}:
        if call.name == "rq":
            return partial(_computation, partial(_requantized, call.immediates), call)
        if call.name == "fill":
            return partial(_computation, partial(_in_place, FillNest, call.immediates), call)
        if call.name in ALU and call.immediates:
            alu, immediate = partial(AluNest, ALU[call.name]), (None, *call.immediates)
            return partial(_computation, partial(_in_place, alu, immediate), call)
        if call.name in ALU:
            return partial(_computation, partial(_with_tiles, ALU[call.name]), call)
    names = [tensor.name for tensor, _ in call.operands]
    raise LoweringError(f"nest: no unit does {call.name} of {', '.join(names)}")


def _computation(
    act: Callable[[_Extents, Sequence[_Operand]], _Action],
    call: NestCall,
    values: _Values,
    source: int = 1,
) -> _Action:
    """act: what is done with tiles, where any is. source: tiles that a step reads of its second
    operand."""
    loops = tuple((axis.extent, *axis.executed(values), *axis.strides) for axis in call.axes)
    nest = clipped_nest(loops, len(call.operands))
    if nest is None:
        return lambda _: None
    operands = []
    reaches = (1, REQUANTIZE_TILES if call.name == "rq" else source, 1)
    for path, (tensor, number), reach in zip(nest.paths, call.operands, reaches, strict=False):
        life = VirtualTile(_memory(tensor), prod(tensor.shape), tensor.name)
        inside = path.access((life, number.at(values)), reach)
        operands.append((tensor, inside.base, inside.strides))
    return act(nest.extents, operands)


def _windows(call: NestCall, values: _Values) -> _Action:
    """The innermost loops are those of the window, whose sizes the call says: a loop of one turn is
    none. A wide one is of one tile."""
    if call.name == "wide":
        return _computation(partial(_product, window=_WIDE), call, values)
    rows, columns = call.immediates
    axes, strides = list(call.axes), []
    for size in (columns, rows):
        stride = 0
        if size > 1:
            axis = axes.pop()
            to, stride, by = axis.strides
            if axis.executed(values) != (0, size) or axis.extent != size or to or by:
                raise LoweringError("nest: depthwise of a part of a window")
        strides.append(stride)
    if strides[0] > 1:
        raise LoweringError(f"nest: depthwise of columns {strides[0]} tiles apart")
    window = LaneWindow(rows, columns, strides[1])
    act = partial(_product, window=window)
    return _computation(act, call._replace(axes=tuple(axes)), values, window.reach + 1)


def _product(
    extents: _Extents, operands: Sequence[_Operand], window: LaneWindow | None = None
) -> _Action:
    (to, dst, ways), (of, src, ways_of), (by, wgt, ways_by) = operands

    def act(run: _Run) -> None:
        chip = run.chip
        run.operations.append(
            GemmNest(
                extents,
                Access(chip[to], dst, ways),
                Access(chip[of], src, ways_of),
                Access(chip[by], wgt, ways_by),
                window,
            )
        )

    return act


def _in_place(
    operation: Callable[..., Operation],
    immediate: tuple[int | None, ...],
    extents: _Extents,
    operands: Sequence[_Operand],
) -> _Action:
    ((to, dst, ways),) = operands

    def act(run: _Run) -> None:
        run.operations.append(operation(extents, Access(run.chip[to], dst, ways), *immediate))

    return act


def _with_tiles(op: AluOp, extents: _Extents, operands: Sequence[_Operand]) -> _Action:
    (to, dst, ways), (of, src, ways_of) = operands

    def act(run: _Run) -> None:
        chip = run.chip
        run.operations.append(
            AluNest(op, extents, Access(chip[to], dst, ways), Access(chip[of], src, ways_of))
        )

    return act


def _requantized(
    immediates: tuple[int, ...], extents: _Extents, operands: Sequence[_Operand]
) -> _Action:
    (to, dst, ways), (of, src, ways_of) = operands
    zero_point, low, high, rounding = immediates

    def act(run: _Run) -> None:
        run.operations.append(
            RequantizeNest(
                extents,
                Access(run.chip[to], dst, ways),
                Access(run.chip[of], src, ways_of),
                zero_point,
                low,
                high,
                Rounding(rounding),
            )
        )

    return act


def _load(call: NestCall, any_pad: bool, values: _Values) -> _Action:
    ((to, first), (source, start)), (pad,) = call.operands, call.immediates
    extends = to.memory == "acc" and source.dtype == "int8"
    loading = Loading(Memory.ACC_8BIT if extends else _memory(to), pad, any_pad)
    offset, tile = first.at(values), start.at(values)
    pieces = load_pieces(loading, tuple(_copied(a, a.strides, values) for a in call.axes))

    def act(run: _Run) -> None:
        run.emitter.load(loading, (run.chip[to], offset), (run.dram[source], tile), pieces)

    return act


def _store(call: NestCall, values: _Values) -> _Action:
    (to, start), (source, first) = call.operands
    offset, tile, whole = first.at(values), start.at(values), to.dtype == "int32"
    pieces = store_pieces(tuple(_copied(a, a.strides[::-1], values) for a in call.axes))

    def act(run: _Run) -> None:
        run.emitter.store((run.chip[source], offset), (run.dram[to], tile), pieces, whole=whole)

    return act


def _copied(axis: NestAxis, strides: Sequence[int], values: _Values) -> CopyLoop:
    """strides: in the scratchpad and in DRAM."""
    chip, dram = strides
    return (axis.extent, *axis.executed(values), *axis.inside(values), chip, dram)


def _memory(tensor: NestTensor) -> Memory:
    if tensor.memory is None:
        raise LoweringError(f"nest: {tensor.name} is in DRAM, and no scratchpad's")
    return Memory[tensor.memory.upper()]
