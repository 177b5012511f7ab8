# SPDX-License-Identifier: Apache-2.0
"""Operations on virtual tiles as text.

In:   records of operations.py, and the scratchpad addresses of their tiles where there are any.
Out:  one line for each operation.
Next: passes/program.py puts the lines of a program together, for dumps and golden texts.

    load inp x#2@30 [0] = t0[17 + 80*y + x] for y<7 x<16 pad top 1 left 1 with -5
    gemm acc#1@0 [8*a + b] += x#2@30 [9*a + b + c] * w#3@0 [c] for a<8 b<8 c<9

A tile is called by the name of its buffer and the number of its life; `@` stands before its first
scratchpad tile. Loops are lettered from the outermost on.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field

from loadstone.vta.isa.asm_words import ALU_SIGNS
from loadstone.vta.stream.operations import (
    Access,
    AluNest,
    FillNest,
    GemmNest,
    Operation,
    RequantizeNest,
    TileLoad,
    TileStore,
    VirtualTile,
)

__all__ = ["OperationPrinter", "operation_lines"]

_LOOPS = "abcdefghijklmnopqrstuvw"


def operation_lines(
    operations: Iterable[tuple[str, Operation]], address: Mapping[VirtualTile, int] | None = None
) -> Iterator[str]:
    """A line for each operation, and a comment where another layer begins."""
    printer = OperationPrinter(address)
    last = None
    for layer, operation in operations:
        if layer != last:
            yield f"# layer {layer}"
            last = layer
        yield printer.line(operation)


@dataclass
class OperationPrinter:
    """Numbers virtual tiles in the order in which they are met."""

    address: Mapping[VirtualTile, int] | None = None
    _numbers: dict[VirtualTile, int] = field(default_factory=dict)

    def line(self, operation: Operation) -> str:
        """One operation."""
        match operation:
            case TileLoad():
                return self._load(operation)
            case TileStore():
                return self._store(operation)
            case GemmNest(extents, dst, src, wgt, window):
                name = "gemm" if window is None else f"depthwise {window.rows}x{window.columns}"
                name += " wide" if window is not None and window.wide else ""
                apart = f" by {window.row_stride}" if window is not None else ""
                return (
                    f"{name} {self._access(dst)} += {self._access(src)}{apart} * "
                    f"{self._access(wgt)}{_loops(extents)}"
                )
            case FillNest(extents, dst, value):
                return f"fill {self._access(dst)} = {value}{_loops(extents)}"
            case AluNest(op, extents, dst, operand, imm):
                other = str(imm) if operand is None else self._access(operand)
                return f"alu {self._access(dst)} {ALU_SIGNS[op]} {other}{_loops(extents)}"
            case RequantizeNest():
                return self._requantize(operation)

    def _load(self, o: TileLoad) -> str:
        sides = (
            ("top", o.y_pad_0),
            ("bottom", o.y_pad_1),
            ("left", o.x_pad_0),
            ("right", o.x_pad_1),
        )
        pads = "".join(f" {side} {tiles}" for side, tiles in sides if tiles)
        return (
            f"load {o.memory.name.lower()} {self._tile(o.tile)} [{o.offset}] = {_rows(o)}"
            f"{_extent(o)}" + (f" pad{pads} with {o.pad_value}" if pads else "")
        )

    def _store(self, o: TileStore) -> str:
        by, how = o.requantization, ""
        if by is not None:
            rows = f" + {by.step}*y" if by.step else ""
            how = (
                f" requantized by {self._tile(by.tile)} [{by.offset}{rows}] to {by.zero_point} in "
                f"{by.low}..{by.high} {by.rounding.name.lower()}"
            )
        how = how or (" as int32" if o.whole else "")
        to = _rows(o)
        if o.inp is not None:
            place = f"{self._tile(o.inp.tile)} [{o.inp.offset}{_row_term(o)}]"
            to = f"inp {place} <- {o.dram.tensor}[{o.dram.tile}]"
        return f"store {to} = {self._tile(o.tile)} [{o.offset}]{how}{_extent(o)}"

    def _requantize(self, o: RequantizeNest) -> str:
        return (
            f"requantize {self._access(o.dst)} by {self._access(o.operands)} to "
            f"{o.zero_point} in {o.low}..{o.high} {o.rounding.name.lower()}{_loops(o.extents)}"
        )

    def _tile(self, tile: VirtualTile) -> str:
        number = self._numbers.setdefault(tile, len(self._numbers))
        place = f"@{self.address[tile]}" if self.address is not None else ""
        return f"{tile.name}#{number}{place}"

    def _access(self, access: Access) -> str:
        terms = [str(access.base)] if access.base else []
        terms += [
            _LOOPS[loop] if stride == 1 else f"{stride}*{_LOOPS[loop]}"
            for loop, stride in enumerate(access.strides)
            if stride
        ]
        return f"{self._tile(access.tile)} [{' + '.join(terms) or '0'}]"


def _row_term(o: TileStore) -> str:
    return f" + {o.x_stride}*y" if o.y_size > 1 else ""


def _rows(o: TileLoad | TileStore) -> str:
    row = "" if o.y_size == 1 else f"{o.x_stride}*y + "
    return f"{o.dram.tensor}[{o.dram.tile} + {row}x]"


def _extent(o: TileLoad | TileStore) -> str:
    return f" for {'' if o.y_size == 1 else f'y<{o.y_size} '}x<{o.x_size}"


def _loops(extents: tuple[int, ...]) -> str:
    loops = " ".join(f"{_LOOPS[loop]}<{extent}" for loop, extent in enumerate(extents))
    return f" for {loops}" if loops else ""
