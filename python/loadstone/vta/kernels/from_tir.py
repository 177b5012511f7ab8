# SPDX-License-Identifier: Apache-2.0
"""TensorIR of loops and intrinsic calls -> Python source -> operations on virtual tiles.

In:   a scheduled IRModule of one operator on the blocked layout.
Out:  `Kernel`: a Python function that, given an Emitter and the names of the DRAM tensors, appends
      the operator's operations;
      and the text of every stage, for dumps.
Next: operators/kernels.py calls it with names; passes/allocate/allocate.py places what it emitted.

ir_pass/translate.py makes Python source of the lowered TensorIR; here its calls get the words of
emitter.py:

    for i3_0 in range(4):
        x_local = e.tile(Memory.INP, 252, "x_local")
        e.load(Memory.INP, (x_local, 0), (x, i3_0*80-17), -5, ((7, 0, min(7,18-i3_0*5),
        max(0,1-i3_0*5), min(7,17-i3_0*5), 18, 16), ...))

Every buffer ends in the two dimensions of a tile. Here the loops over lanes are taken off, and
everything counts tiles.
"""

from __future__ import annotations

import re
from ast import literal_eval
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property, lru_cache
from math import prod
from operator import floordiv, mod
from typing import TYPE_CHECKING, Any, cast

from loadstone.errors import LoweringError
from loadstone.ir_pass.intrinsics import Axis, BufferOperand, Intrinsic, extents, is_value
from loadstone.ir_pass.pipeline import NO_PASSES, Passes, lower_to_calls, translatable
from loadstone.ir_pass.translate import Translator
from loadstone.vta.isa.spec import AluOp, Memory

if TYPE_CHECKING:
    from loadstone.relax.types import Buffer, Expr, IRModule, PrimFunc

__all__ = ["ALU", "Kernel", "kernel_of", "lower"]

_MEMORIES = {"local.inp": Memory.INP, "local.wgt": Memory.WGT, "local.acc": Memory.ACC}
_NUMBER = re.compile(r"-?\d+")
#: Loops whose bounds are known, as the argument of a call.
_NUMBERS = re.compile(r"(?<=, )\((?:\([-\d][-\d, ]*\),? ?)+\)")
#: What has them where a kernel runs.
_LOOPS = "LOOPS"
#: The device's ALU operation of an intrinsic.
ALU = {"add": AluOp.ADD, "mul": AluOp.MUL, "min": AluOp.MIN, "max": AluOp.MAX, "shr": AluOp.SHR}


@dataclass(frozen=True, eq=False)
class Kernel:
    """One lowered operator. emit(emitter, *places): the DRAM tensors in the order of
    `parameters`. functions: (title, PrimFunc) of every stage, for dumps; lowers again, and writes
    the calls into the TensorIR. text: Python that emits the same. forms: (title, text) of what
    comes in front of the TensorIR."""

    parameters: tuple[str, ...]
    emit: Callable[..., None]
    functions: Callable[[], Sequence[tuple[str, PrimFunc]]]
    text: Callable[[], str]
    forms: Callable[[], tuple[tuple[str, str], ...]] = tuple

    @cached_property
    def source(self) -> str:
        """The Python; it is made when somebody asks."""
        return self.text()

    @cached_property
    def stages(self) -> tuple[tuple[str, str], ...]:
        """(title, text) of every stage. Printing costs as much as lowering, so it is done when
        somebody asks."""
        return (
            *self.forms(),
            *((title, _text(function)) for title, function in self.functions()),
            ("python", self.source),
        )


def lower(module: IRModule, passes: Passes = NO_PASSES) -> Kernel:
    """Lowers the scheduled function "main" of an IRModule. Raises LoweringError where no
    instruction does what it holds."""
    function, calls = translatable(module, passes)
    source = _Translator(function, calls).source()
    parameters = tuple(str(parameter.name) for parameter in function.params)
    return kernel_of(parameters, source, lambda: lower_to_calls(module, passes))


def kernel_of(
    parameters: tuple[str, ...],
    source: str,
    functions: Callable[[], Sequence[tuple[str, PrimFunc]]],
) -> Kernel:
    """The kernel that some source says. Its loops of numbers are read apart, because most are
    written many times, and Python takes as long for them as for all else."""
    places: dict[str, str] = {}

    def place(found: re.Match[str]) -> str:
        return places.setdefault(found[0], f"{_LOOPS}[{len(places)}]")

    short = _NUMBERS.sub(place, source)
    loops = [_loops(text) for text in places]
    namespace: dict[str, Any] = {"Memory": Memory, "AluOp": AluOp, _LOOPS: loops}
    exec(compile(short, "<lowered operator>", "exec"), namespace)
    return Kernel(parameters, namespace["emit"], functions, lambda: source)


@lru_cache(maxsize=2048)
def _loops(text: str) -> tuple[tuple[int, ...], ...]:
    """The numbers of some loops."""
    return cast("tuple[tuple[int, ...], ...]", literal_eval(text))


def _text(function: PrimFunc) -> str:
    """TVMScript without the annotations that every allocation carries and nothing reads."""
    return re.sub(r", annotations=\{[^}]*\}", "", str(function.script())) + "\n"


class _Translator(Translator):
    """Calls of emitter.py's methods."""

    reserved = ("e", "Memory", "AluOp", _LOOPS)

    def allocate(self, buffer: Buffer) -> str:
        """A virtual tile."""
        return f"e.tile(Memory.{_memory(buffer).name}, {_size(buffer)[0]}, {self.name(buffer)!r})"

    def call(self, call: Intrinsic) -> str:
        """One method of the emitter."""
        axes = _without_lanes(call)
        if call.name == "dma_copy":
            return self._copy(call, axes)
        buffers = [
            f"({self.name(operand.buffer)}, {self._tile(operand)})" for operand in call.operands
        ]
        loops = self._tuple([self._compute_loop(axis) for axis in axes])
        if call.name == "gemm":
            return f"e.gemm({', '.join(buffers)}, {loops})"
        if call.name == "fill":
            return f"e.fill({buffers[0]}, {call.immediates[0]}, {loops})"
        if call.name == "rq":
            _check_operand_tiles(call)
            loops = self._tuple(
                [self._compute_loop(Axis(a.extent, a.strides[:2], a.first, a.last)) for a in axes]
            )
            return (
                f"e.requantize({buffers[0]}, {buffers[1]}, "
                f"({', '.join(map(str, call.immediates))}), {loops})"
            )
        if call.name not in ALU:
            raise LoweringError(f"lower: the device has no ALU operation {call.name}")
        op = f"AluOp.{ALU[call.name].name}"
        if call.immediates:
            return f"e.alu_immediate({op}, {buffers[0]}, {call.immediates[0]}, {loops})"
        return f"e.alu({op}, {', '.join(buffers)}, {loops})"

    def _copy(self, call: Intrinsic, axes: Sequence[Axis]) -> str:
        destination, source = call.operands
        is_load = source.scope == "global"
        on_chip, in_dram = (destination, source) if is_load else (source, destination)
        order = (0, 1) if is_load else (1, 0)
        loops = self._tuple([self._copy_loop(axis, order) for axis in axes])
        places = (
            f"({self.name(on_chip.buffer)}, {self._tile(on_chip)}), "
            f"({self.name(in_dram.buffer)}, {self._tile(in_dram)})"
        )
        if not is_load:
            return f"e.store({places}, {loops})"
        memory = _memory(on_chip.buffer)
        if memory is Memory.ACC and str(in_dram.buffer.dtype) == "int8":
            memory = Memory.ACC_8BIT
        return f"e.load(Memory.{memory.name}, {places}, {call.immediates[0]}, {loops})"

    def _compute_loop(self, axis: Axis) -> str:
        last = axis.extent if axis.last is None else axis.last
        return self._tuple(
            [str(axis.extent), self.python(axis.first), self.python(last), *map(str, axis.strides)]
        )

    def _copy_loop(self, axis: Axis, order: tuple[int, int]) -> str:
        last = axis.extent if axis.last is None else axis.last
        inside = (
            (axis.first, last)
            if axis.inside_first is None
            else (axis.inside_first, axis.inside_last)
        )
        bounds = [self.python(bound) for bound in (axis.first, last, *inside)]
        return self._tuple(
            [str(axis.extent), *bounds, *(str(axis.strides[side]) for side in order)]
        )

    def _tile(self, operand: BufferOperand) -> str:
        """Number of the tile that an operand begins with."""
        shape, indices = extents(operand.buffer), [self.python(index) for index in operand.indices]
        if indices[-2:] != ["0", "0"]:
            raise LoweringError(
                f"lower: {operand.buffer.name} is accessed within a tile: "
                f"{list(map(str, operand.indices))}"
            )
        number = "0"
        for size, index in zip(shape[:-2], indices[:-2], strict=True):
            number = _sum(_product(number, size), index)
        return number

    def _tuple(self, parts: Sequence[str]) -> str:
        return f"({', '.join(parts)}{',' if len(parts) == 1 else ''})"


def _product(number: str, size: int) -> str:
    """As Python, with numbers worked out."""
    if _NUMBER.fullmatch(number):
        return str(int(number) * size)
    return number if size == 1 else f"({number}*{size})"


def _sum(a: str, b: str) -> str:
    if _NUMBER.fullmatch(a) and _NUMBER.fullmatch(b):
        return str(int(a) + int(b))
    return b if a == "0" else a if b == "0" else f"({a}+{b})"


def _memory(buffer: Buffer) -> Memory:
    scope = str(buffer.scope())
    if scope not in _MEMORIES:
        raise LoweringError(
            f"lower: buffer {buffer.name} has scope {scope!r}, not one of {', '.join(_MEMORIES)}"
        )
    return _MEMORIES[scope]


def _size(buffer: Buffer) -> tuple[int, int]:
    """(tiles, elements of a tile) of a buffer."""
    shape = extents(buffer)
    return prod(shape[:-2]), prod(shape[-2:])


def _without_lanes(call: Intrinsic) -> list[Axis]:
    """The axes that step over tiles, with strides in tiles; the others must be exactly the lanes of
    the intrinsic's tiles."""
    shapes = tuple(extents(operand.buffer)[-2:] for operand in call.operands)
    sizes, expected = _lanes(call.name == "gemm", shapes)
    tiles, found = [], []
    for extent, strides, *bounds in call.axes:
        if any(map(mod, strides, sizes)):
            found.append((extent, *strides))
        elif extent > 1 or _is_clipped(bounds):
            tiles.append(Axis(extent, tuple(map(floordiv, strides, sizes)), *bounds))
    if sorted(found) != expected:
        raise LoweringError(
            f"lower: {call.name} of {call.operands[0].buffer.name} runs over lanes {found}, "
            f"not {expected}"
        )
    return tiles


def _is_clipped(bounds: Sequence[Expr]) -> bool:
    """Whether a loop of one turn may have none, or one of padding: another changes nothing."""
    return any(
        bound is not None and not is_value(bound, turn)
        for bound, turn in zip(bounds, (0, 1, 0, 1), strict=True)
    )


@lru_cache(maxsize=256)
def _lanes(
    is_gemm: bool, shapes: tuple[tuple[int, ...], ...]
) -> tuple[tuple[int, ...], list[tuple[int, ...]]]:
    """Elements of each operand's tile, and the loops over lanes: their extents and strides. shapes:
    of the tiles."""
    if is_gemm:
        (rows, columns), (_, depth), _ = shapes
        lanes: list[tuple[int, ...]] = [
            (rows, columns, depth, 0),
            (columns, 1, 0, depth),
            (depth, 0, 1, 1),
        ]
    else:
        rows, columns = shapes[0]
        lanes = [(rows, *(columns for _ in shapes)), (columns, *(1 for _ in shapes))]
    return tuple(map(prod, shapes)), sorted(lane for lane in lanes if lane[0] > 1)


def _check_operand_tiles(call: Intrinsic) -> None:
    """RQ reads bias, multiplier and shift from consecutive tiles of one buffer."""
    first, *others = call.operands[1:]
    for distance, operand in enumerate(others, start=1):
        same = operand.buffer.same_as(first.buffer) and all(
            axis.strides[1] == axis.strides[1 + distance] for axis in call.axes
        )
        third = operand.indices[-3] - first.indices[-3]
        third = third if isinstance(third, int) else getattr(third, "value", None)
        if not same or third != distance:
            raise LoweringError(
                f"lower: rq's operands of {call.operands[0].buffer.name} do not stand in "
                "consecutive tiles"
            )
