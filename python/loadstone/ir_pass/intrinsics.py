# SPDX-License-Identifier: Apache-2.0
"""The intrinsic calls that ir_pass leaves in a PrimFunc: how they are built, printed and read back.

In:   accesses to buffers that are affine in the loops of a perfect nest.
Out:  one `T.call_extern` for the whole nest.
Next: verify.py checks the calls; unroll.py gives them with plain numbers.

    lds.dma_copy(dst, src, pad_value, axis...)           dst = inside(src) ? src : pad_value; one
                           side is in DRAM
    lds.gemm(dst, src, wgt, axis...)                     dst += src * wgt
    lds.fill(dst, value, axis...)                        dst = value
    lds.add | lds.sub | lds.mul | lds.min | lds.max | lds.shr (dst, operand or immediate, axis...)
             dst = dst op operand
    lds.rq(dst, bias, multiplier, shift, zero_point, low, high, rounding, axis...)

A buffer operand is the address of its element at the origin of the loops. An axis is one loop,
outermost first:

    axis(extent, strides...)                                               a stride per buffer
                                                                           operand, in elements
    axis(extent, strides..., first, last)                                  only first <= loop < last
                             is executed
    axis(extent, strides..., first, last, inside_first, inside_last)       dma_copy: outside it the
                             pad is read
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import TYPE_CHECKING, NamedTuple

from loadstone.errors import LoweringError
from loadstone.relax.compat import is_tir_call, tirx

if TYPE_CHECKING:
    from loadstone.relax.types import Buffer, Call, Expr, Stmt

__all__ = [
    "ALU_BINARY",
    "BUFFER_OPERANDS",
    "PREFIX",
    "Axis",
    "BufferOperand",
    "Intrinsic",
    "extents",
    "is_intrinsic",
    "is_value",
    "read_intrinsic",
]


PREFIX = "lds."
_AXIS = "axis"
ALU_BINARY = ("add", "sub", "mul", "min", "max", "shr")
#: Leading arguments that may be buffers; the immediates follow them.
BUFFER_OPERANDS = {"dma_copy": 2, "gemm": 3, "fill": 1, "rq": 4, **dict.fromkeys(ALU_BINARY, 2)}


def extents(buffer: Buffer) -> tuple[int, ...]:
    """The shape of a buffer as numbers. Every access asks for it, and TVM's containers are slow."""
    address = buffer.__chandle__()  # to compare two buffers takes as long as to read a shape
    if address not in _shapes:
        if len(_shapes) >= _MOST_KNOWN:
            _shapes.clear()
        _shapes[address] = buffer, tuple(int(size) for size in buffer.shape[:])
    return _shapes[address][1]


#: Shapes by address; who stands there stays alive.
_shapes: dict[int, tuple[Buffer, tuple[int, ...]]] = {}
_MOST_KNOWN = 1024


class BufferOperand(NamedTuple):
    """An element of a buffer: the one that the nest accesses when all its loops are 0."""

    buffer: Buffer
    indices: tuple[Expr, ...]

    @property
    def scope(self) -> str:
        """Memory scope: "global" is DRAM."""
        return str(self.buffer.scope())


class Axis(NamedTuple):
    """One loop of a nest: its extent, a stride in elements for each buffer operand, and the ranges
    of iterations that are executed and that are inside the source."""

    extent: int
    strides: tuple[int, ...]
    first: Expr = 0
    last: Expr = None
    inside_first: Expr = None
    inside_last: Expr = None

    def to_call(self) -> Expr:
        """The axis as a call; bounds that bound nothing are left out."""
        last = self.extent if self.last is None else self.last
        if self.inside_first is not None:
            bounds: tuple[Expr, ...] = (self.first, last, self.inside_first, self.inside_last)
        elif is_value(self.first, 0) and is_value(last, self.extent):
            return _plain_axis(self.extent, *self.strides)
        else:
            bounds = (self.first, last)
        return tirx.call_pure_extern("int32", _AXIS, self.extent, *self.strides, *bounds)


@lru_cache(maxsize=4096)
def _plain_axis(*fields: int) -> Expr:
    """Of numbers alone: there are few different ones, and nothing changes an expression."""
    return tirx.call_pure_extern("int32", _AXIS, *fields)


@dataclass(frozen=True, eq=False)
class Intrinsic:
    """One call: `name` without the prefix, buffer operands, immediates (ints) and axes. Equal to
    itself alone: to compare two of TVM's expressions makes a third."""

    name: str
    operands: tuple[BufferOperand, ...]
    immediates: tuple[int, ...]
    axes: tuple[Axis, ...]

    def to_stmt(self) -> Stmt:
        """The statement in the PrimFunc."""
        addresses = [
            tirx.address_of(tirx.BufferLoad(operand.buffer, list(operand.indices)))
            for operand in self.operands
        ]
        axes = [axis.to_call() for axis in self.axes]
        stmt = tirx.Evaluate(
            tirx.call_extern("int32", PREFIX + self.name, *addresses, *self.immediates, *axes)
        )
        _remember(stmt, self)
        return stmt


#: What statements say that were written or read a short while ago: each is verified twice, and then
#: translated.
_known: dict[Stmt, Intrinsic] = {}


def _remember(stmt: Stmt, intrinsic: Intrinsic) -> None:
    if len(_known) >= _MOST_KNOWN:
        _known.clear()
    _known[stmt] = intrinsic


def is_intrinsic(stmt: Stmt) -> bool:
    """Whether a statement is one of our calls."""
    return stmt in _known or (
        isinstance(stmt, tirx.Evaluate)
        and is_tir_call(stmt.value, "call_extern")
        and str(stmt.value.args[0].value).startswith(PREFIX)
    )


def read_intrinsic(stmt: Stmt) -> Intrinsic:
    """The inverse of `Intrinsic.to_stmt`. Raises LoweringError on a call that is not ours."""
    if stmt in _known:
        return _known[stmt]
    if not is_intrinsic(stmt):
        raise LoweringError(f"ir_pass: not an intrinsic call: {stmt}")
    name = str(stmt.value.args[0].value).removeprefix(PREFIX)
    operands, immediates, axes = [], [], []
    for argument in stmt.value.args[1:]:
        if is_tir_call(argument, "address_of"):
            load = argument.args[0]
            operands.append(BufferOperand(load.source, tuple(load.indices[:])))
        elif is_tir_call(argument, "call_pure_extern"):
            axes.append(_read_axis(argument, len(operands)))
        else:
            immediates.append(int(argument.value))
    if name not in BUFFER_OPERANDS:
        raise LoweringError(
            f"ir_pass: unknown intrinsic {PREFIX}{name}; known are "
            f"{', '.join(sorted(BUFFER_OPERANDS))}"
        )
    intrinsic = Intrinsic(name, tuple(operands), tuple(immediates), tuple(axes))
    _remember(stmt, intrinsic)
    return intrinsic


def _read_axis(call: Call, operands: int) -> Axis:
    values: Sequence[Expr] = call.args[1:]
    extent, strides = (
        int(values[0].value),
        tuple(int(value.value) for value in values[1 : 1 + operands]),
    )
    return Axis(extent, strides, *values[1 + operands :])


def is_value(expr: Expr, value: int) -> bool:
    """Whether an expression is the literal of this number."""
    return (
        bool(expr == value)
        if isinstance(expr, int)
        else isinstance(expr, tirx.IntImm) and int(expr.value) == value
    )
