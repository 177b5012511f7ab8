# SPDX-License-Identifier: Apache-2.0
"""TensorIR of loops and intrinsic calls -> operations on virtual tiles.

In:   an IRModule of one operator on the blocked layout, scheduled: by TVM's own primitives, or made
      of nests (schedule/nest_tir.py) for the passes of a back end.
Out:  `Kernel`, as from_nests.py makes it of nests.
Next: operators/kernels.py runs it with names; passes/allocate/allocate.py places what it emitted.

ir_pass/unroll.py gives each call with plain numbers, as it gives them to every back end. Every
buffer ends in the two dimensions of a tile: here the loops over lanes are taken off, and everything
counts tiles.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from math import prod
from typing import TYPE_CHECKING, TypeAlias

from loadstone.errors import LoweringError
from loadstone.ir_pass.pipeline import NO_PASSES, Passes, lower_to_calls
from loadstone.ir_pass.unroll import Buffer, Call, Loop, Place, unroll
from loadstone.ir_pass.verify import DRAM
from loadstone.passes.log import PassLog
from loadstone.vta.isa.spec import Memory
from loadstone.vta.kernels.clipped_loops import ComputeLoop, TileOperand
from loadstone.vta.kernels.copy_pieces import CopyLoop
from loadstone.vta.kernels.emitter import ALU, Emitter
from loadstone.vta.kernels.kernel import Kernel
from loadstone.vta.stream.operations import DramTile, VirtualTile

if TYPE_CHECKING:
    from loadstone.relax.types import IRModule

__all__ = ["lower"]

_MEMORIES = {"local.inp": Memory.INP, "local.wgt": Memory.WGT, "local.acc": Memory.ACC}


@dataclass(slots=True)
class _Run:
    """A kernel at work: where its tensors are in DRAM, and the lives of its buffers."""

    emitter: Emitter
    dram: dict[str, DramTile]
    chip: dict[Buffer, VirtualTile] = field(default_factory=dict)

    def tile(self, place: Place) -> TileOperand:
        """An operand in a scratchpad; its first use begins the life of its buffer."""
        buffer = place.buffer
        if buffer not in self.chip:
            tiles = prod(buffer.shape[:-2])
            self.chip[buffer] = self.emitter.tile(_memory(buffer), tiles, buffer.name)
        return self.chip[buffer], _number(place)


_Action: TypeAlias = Callable[[_Run], None]


def lower(module: IRModule, passes: Passes = NO_PASSES) -> Kernel:
    """Lowers the scheduled function "main" of an IRModule. Raises LoweringError where no
    instruction does what it holds."""
    log = PassLog(texts=True)
    function = lower_to_calls(module, passes, log)
    parameters = tuple(str(parameter.name) for parameter in function.params)
    actions = list(map(_action, unroll(function)))

    def emit(emitter: Emitter, *places: DramTile) -> None:
        run = _Run(emitter, dict(zip(parameters, places, strict=True)))
        for action in actions:
            action(run)

    return Kernel(parameters, emit, tuple(log.runs))


def _action(call: Call) -> _Action:
    """What one call does: a method of the emitter."""
    for place in call.operands:
        _number(place)
    loops = _without_lanes(call)
    if call.name == "dma_copy":
        return _copy(call, loops)
    if call.name == "rq":
        _check_operand_tiles(call, loops)
    operands = call.operands[:2] if call.name == "rq" else call.operands
    clipped = tuple(
        (loop.extent, loop.first, loop.last, *loop.strides[: len(operands)]) for loop in loops
    )
    return partial(_compute, _method(call), operands, clipped)


def _compute(
    method: Callable[..., None],
    operands: Sequence[Place],
    loops: tuple[ComputeLoop, ...],
    run: _Run,
) -> None:
    method(run.emitter, *map(run.tile, operands), loops)


def _method(call: Call) -> Callable[..., None]:
    """Takes the emitter, the operands and the loops."""
    if call.name == "gemm":
        return Emitter.gemm
    if call.name == "fill":
        (value,) = call.immediates
        return lambda e, dst, loops: e.fill(dst, value, loops)
    if call.name == "rq":
        return lambda e, dst, rows, loops: e.requantize(dst, rows, call.immediates, loops)
    if call.name not in ALU:
        raise LoweringError(f"lower: the device has no ALU operation {call.name}")
    op = ALU[call.name]
    if call.immediates:
        (immediate,) = call.immediates
        return lambda e, dst, loops: e.alu_immediate(op, dst, immediate, loops)
    return lambda e, dst, src, loops: e.alu(op, dst, src, loops)


def _copy(call: Call, loops: Sequence[Loop]) -> _Action:
    destination, source = call.operands
    is_load = source.buffer.scope == DRAM
    on_chip, in_dram = (destination, source) if is_load else (source, destination)
    chip, dram = (0, 1) if is_load else (1, 0)
    copied: tuple[CopyLoop, ...] = tuple(
        (
            *(loop.extent, loop.first, loop.last, loop.inside_first, loop.inside_last),
            *(loop.strides[chip], loop.strides[dram]),
        )
        for loop in loops
    )
    memory = _memory(on_chip.buffer)
    if memory is Memory.ACC and in_dram.buffer.dtype == "int8":
        memory = Memory.ACC_8BIT
    name, number = in_dram.buffer.name, _number(in_dram)

    def act(run: _Run) -> None:
        place = run.dram[name], number
        if is_load:
            run.emitter.load(memory, run.tile(on_chip), place, call.immediates[0], copied)
        else:
            run.emitter.store(run.tile(on_chip), place, copied)

    return act


# --- from elements to tiles -----------------------------------------------------------------------
def _memory(buffer: Buffer) -> Memory:
    if buffer.scope not in _MEMORIES:
        raise LoweringError(
            f"lower: buffer {buffer.name} has scope {buffer.scope!r}, not one of "
            f"{', '.join(_MEMORIES)}"
        )
    return _MEMORIES[buffer.scope]


def _lanes(buffer: Buffer) -> tuple[int, int]:
    rows, columns = buffer.shape[-2:]
    return rows, columns


def _number(place: Place) -> int:
    """Of the tile that an operand begins with."""
    number, lane = divmod(place.offset, prod(_lanes(place.buffer)))
    if lane:
        raise LoweringError(f"lower: {place.buffer.name} is accessed within a tile, at lane {lane}")
    return number


def _without_lanes(call: Call) -> list[Loop]:
    """The loops that step over tiles, with strides in tiles; the others must be exactly the lanes
    of the intrinsic's tiles, and whole."""
    sizes = [prod(_lanes(place.buffer)) for place in call.operands]
    tiles, lanes = list[Loop](), list[tuple[int, ...]]()
    for loop in call.loops:
        is_whole = (loop.first, loop.last, loop.inside_first, loop.inside_last) == (
            *(0, loop.extent),
            *(0, loop.extent),
        )
        if not any(stride % size for stride, size in zip(loop.strides, sizes, strict=True)):
            if loop.extent > 1 or not is_whole:
                strides = (stride // size for stride, size in zip(loop.strides, sizes, strict=True))
                tiles.append(replace(loop, strides=tuple(strides)))
        elif is_whole:
            lanes.append((loop.extent, *loop.strides))
        else:
            raise LoweringError(
                f"lower: {call.name} of {call.operands[0].buffer.name} takes a part of the lanes"
            )
    expected = _loops_over_lanes(call)
    if sorted(lanes) != expected:
        raise LoweringError(
            f"lower: {call.name} of {call.operands[0].buffer.name} runs over lanes "
            f"{sorted(lanes)}, not {expected}"
        )
    return tiles


def _loops_over_lanes(call: Call) -> list[tuple[int, ...]]:
    """Extents and strides of the loops inside the tiles of a call."""
    rows, columns = _lanes(call.operands[0].buffer)
    if call.name == "gemm":
        _, depth = _lanes(call.operands[1].buffer)
        lanes: list[tuple[int, ...]] = [
            (rows, columns, depth, 0),
            (columns, 1, 0, depth),
            (depth, 0, 1, 1),
        ]
    else:
        lanes = [
            (rows, *(columns for _ in call.operands)),
            (columns, *(1 for _ in call.operands)),
        ]
    return sorted(lane for lane in lanes if lane[0] > 1)


def _check_operand_tiles(call: Call, loops: Sequence[Loop]) -> None:
    """RQ reads bias, multiplier and shift from consecutive tiles of one buffer."""
    first, *others = call.operands[1:]
    for distance, operand in enumerate(others, start=1):
        same = operand.buffer is first.buffer and all(
            loop.strides[1] == loop.strides[1 + distance] for loop in loops
        )
        if not same or _number(operand) != _number(first) + distance:
            raise LoweringError(
                f"lower: rq's operands of {call.operands[0].buffer.name} do not stand in "
                "consecutive tiles"
            )
