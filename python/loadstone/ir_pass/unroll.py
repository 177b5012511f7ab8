# SPDX-License-Identifier: Apache-2.0
"""Unroll a lowered operator into its calls, with plain numbers, from which a back end generates
instructions.

In:   the PrimFunc of pipeline.py.
Out:  Calls in the order of execution: names, buffers, offsets and loops as integers.
Next: a back end's code generator, such as that of docs/examples/systolic.

    for call in unroll(function):
        match call.name:
            case "dma_copy": ...
            case "gemm": ...
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise, product
from math import prod
from typing import TYPE_CHECKING

from loadstone.ir_pass.intrinsics import Axis, BufferOperand, Intrinsic, extents
from loadstone.ir_pass.translate import Translator

if TYPE_CHECKING:
    from loadstone.relax.types import Buffer as TirBuffer
    from loadstone.relax.types import PrimFunc

__all__ = ["Buffer", "Call", "Loop", "Place", "Run", "offset", "runs", "turns", "unroll"]


@dataclass(frozen=True, eq=False)
class Buffer:
    """One life of a buffer: a loop that allocates one makes a new one each time. scope: "global" is
    DRAM. shape: in elements, of a function of nests in tiles, as offsets and strides are. dtype: of
    an element, in TVM's words."""

    name: str
    scope: str
    shape: tuple[int, ...]
    dtype: str


@dataclass(frozen=True)
class Place:
    """The element of `buffer` that a call begins with, counted in elements from its start."""

    buffer: Buffer
    offset: int


@dataclass(frozen=True)
class Loop:
    """One loop of a call, outermost first. Iterations first <= i < last are executed; a copy writes
    the pad value in iterations outside [inside_first, inside_last). strides: in elements, one for
    each operand."""

    extent: int
    first: int
    last: int
    inside_first: int
    inside_last: int
    strides: tuple[int, ...]


@dataclass(frozen=True)
class Call:
    """One intrinsic call (intrinsics.py says what each does). operands: buffers. immediates: pad
    value, zero point ..."""

    name: str
    operands: tuple[Place, ...]
    immediates: tuple[int, ...]
    loops: tuple[Loop, ...]


@dataclass(frozen=True)
class Run:
    """One turn of all loops but the last, and a part of that: `count` turns that are all inside, or
    all outside (a pad is read).

    offsets: elements from each operand's place to its first element. strides: elements from turn to
        turn.
    """

    inside: bool
    count: int
    offsets: tuple[int, ...]
    strides: tuple[int, ...]


def turns(loops: Sequence[Loop]) -> Iterator[tuple[int, ...]]:
    """Every turn of a nest that is executed."""
    return product(*(range(loop.first, loop.last) for loop in loops))


def offset(loops: Sequence[Loop], turn: Sequence[int], operand: int) -> int:
    """Elements from an operand's place to what one turn accesses."""
    return sum(loop.strides[operand] * n for loop, n in zip(loops, turn, strict=True))


def runs(loops: Sequence[Loop]) -> Iterator[Run]:
    """A nest for a device whose instructions step along one loop: the last. A nest without loops is
    one turn.

    for run in runs(call.loops[:-1]):          # the last loop of a copy runs over the lanes of a
               row
        move(run.count, run.offsets, run.strides)
    """
    *outer, line = loops or (Loop(1, 0, 1, 0, 1, (0,) * 4),)
    for turn in turns(outer):
        within = all(
            loop.inside_first <= n < loop.inside_last for loop, n in zip(outer, turn, strict=True)
        )
        begin, end = max(line.first, line.inside_first), min(line.last, line.inside_last)
        cuts = (
            (line.first, begin, end, line.last)
            if within and begin < end
            else (line.first, line.last)
        )
        for number, (first, last) in enumerate(pairwise(cuts)):
            if first < last:
                offsets = (
                    offset([*outer, line], (*turn, first), operand)
                    for operand in range(len(line.strides))
                )
                yield Run(
                    len(cuts) == 4 and number == 1, last - first, tuple(offsets), line.strides
                )


def unroll(function: PrimFunc) -> list[Call]:
    """All calls, in the order of execution. Raises LoweringError for a statement that is neither a
    loop nor a call."""
    recorder = _Recorder()
    namespace: dict[str, Callable[..., None]] = {}
    exec(compile(_Words(function).source(), "<lowered operator>", "exec"), namespace)
    parameters = (Buffer(str(p.name), "global", extents(p), str(p.dtype)) for p in function.params)
    namespace["emit"](recorder, *parameters)
    return recorder.calls


class _Recorder:
    """The functions that the translated text calls."""

    def __init__(self) -> None:
        self.calls: list[Call] = []

    def buffer(self, name: str, scope: str, shape: tuple[int, ...], dtype: str) -> Buffer:
        return Buffer(name, scope, shape, dtype)

    def call(
        self,
        name: str,
        operands: list[tuple[Buffer, int]],
        immediates: tuple[int, ...],
        loops: list[tuple[int, int, int, int, int, tuple[int, ...]]],
    ) -> None:
        self.calls.append(
            Call(
                name,
                tuple(Place(*place) for place in operands),
                immediates,
                tuple(Loop(*loop) for loop in loops),
            )
        )


class _Words(Translator):
    def allocate(self, buffer: TirBuffer) -> str:
        return (
            f"e.buffer({str(buffer.name)!r}, {str(buffer.scope())!r}, "
            f"{extents(buffer)}, {str(buffer.dtype)!r})"
        )

    def call(self, intrinsic: Intrinsic) -> str:
        places = ", ".join(
            f"({self.name(operand.buffer)}, {self._offset(operand)})"
            for operand in intrinsic.operands
        )
        loops = ", ".join(self._loop(axis) for axis in intrinsic.axes)
        return f"e.call({intrinsic.name!r}, [{places}], {intrinsic.immediates}, [{loops}])"

    def _offset(self, operand: BufferOperand) -> str:
        shape = extents(operand.buffer)
        steps = [prod(shape[position + 1 :]) for position in range(len(shape))]
        return " + ".join(
            f"{self.python(index)} * {step}"
            for index, step in zip(operand.indices, steps, strict=True)
        )

    def _loop(self, axis: Axis) -> str:
        first, last = axis.first, axis.extent if axis.last is None else axis.last
        inside = (
            (first, last) if axis.inside_first is None else (axis.inside_first, axis.inside_last)
        )
        return (
            f"({axis.extent}, {', '.join(map(self.python, (first, last, *inside)))}, "
            f"{axis.strides})"
        )
