# SPDX-License-Identifier: Apache-2.0
"""What every function of tiles is written with: loops, buffers, and statements on whole tiles.

In:   a RescaledSpec, a HwConfig.
Out:  `TileWriter`, whose methods give statements; `Loops`, which stand around one; buffers.
Next: rescaled.py writes a convolution with them.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from loadstone.ir_pass.pipeline import SIMPLE_LOOPS
from loadstone.relax.compat import tirx, tvm
from loadstone.vta.hw_config import HwConfig
from loadstone.vta.schedule.epilogue import extern
from loadstone.vta.schedule.rescaled_spec import RescaledSpec

if TYPE_CHECKING:
    from loadstone.relax.types import Buffer, Expr, IRModule, Stmt, Var

__all__ = [
    "Loops",
    "TileWriter",
    "chip_buffer",
    "chip_copy",
    "dram_buffer",
    "whole_copy",
    "written",
]

Index = Sequence["Expr | int"]


@dataclass
class Loops:
    """Loops that are open around a statement, outermost first, and the conditions inside them."""

    variables: list[tuple[Var, int]] = field(default_factory=list)
    conditions: list[Expr] = field(default_factory=list)

    def loop(self, extent: int, name: str) -> Expr:
        """One more loop inside; its variable."""
        variable = tirx.Var(name, "int32")
        self.variables.append((variable, extent))
        return variable

    def turn(self, extent: int, name: str) -> Expr:
        """As `loop`; 0 where it has but one turn."""
        return self.loop(extent, name) if extent > 1 else 0

    def around(self, body: Stmt) -> Stmt:
        """The loops around a statement."""
        if self.conditions:
            body = tirx.IfThenElse(tirx.all(*self.conditions), body, None)
        for variable, extent in reversed(self.variables):
            body = tirx.For(variable, 0, extent, tirx.ForKind.SERIAL, body)
        return body


def written(parameters: Sequence[Buffer], body: Stmt) -> IRModule:
    """A module of one function, which is loops already, with indices and conditions as simple as
    they can be read."""
    function = tirx.PrimFunc(list(parameters), body)
    for attribute in ("s_tir", "tirx.noalias", SIMPLE_LOOPS):
        function = function.with_attr(attribute, True)
    return tvm.IRModule({"main": function.with_attr("global_symbol", "main")})


def dram_buffer(name: str, shape: tuple[int, ...], dtype: str) -> Buffer:
    """In DRAM: a parameter."""
    return tirx.decl_buffer(shape, dtype, name=name)


def chip_buffer(name: str, shape: Sequence[int], dtype: str, memory: str) -> Buffer:
    """In a scratchpad: inp, wgt or acc."""
    return tirx.decl_buffer(tuple(shape), dtype, name=name, scope=f"local.{memory}")


def chip_copy(source: Buffer, memory: str) -> Buffer:
    """A buffer of a scratchpad as large as one of DRAM."""
    return chip_buffer(f"{source.name}_chip", source.shape, source.dtype, memory)


def whole_copy(source: Buffer, copy: Buffer) -> list[Stmt]:
    """All of a tensor to a scratchpad: its buffer there, and the load."""
    loops = Loops()
    at = [loops.turn(int(extent), f"ax{axis}") for axis, extent in enumerate(source.shape)]
    return [tirx.AllocBuffer(copy), loops.around(tirx.BufferStore(copy, source[tuple(at)], at))]


class TileWriter:
    """Statements on the tile of one turn: `turns` are the two outer loops, everything else is nests
    of one store. acc: the sum of every output of the tile; p: operand tiles of each block."""

    def __init__(self, spec: RescaledSpec, config: HwConfig) -> None:
        self.spec, self.window = spec, spec.window
        self.batch, self.block = config.batch, config.block
        self.rows, self.columns, self.chunk = spec.tile
        self.turns = Loops()
        self.row = self.turns.loop(-(-self.window.output[0] // self.rows), "row")
        self.column = self.turns.loop(-(-self.window.output[1] // self.columns), "column")
        lanes = (self.batch, self.block)
        self.p = dram_buffer("p", (spec.blocks, max(1, spec.operand_rows), *lanes), "int32")
        self.p_chip = chip_copy(self.p, "acc")
        self.acc = chip_buffer("acc", (spec.blocks, *spec.tile[:2], *lanes), "int32", "acc")

    def pixel_loops(self, loops: Loops) -> tuple[Expr, Expr, Expr]:
        """Loops over the tile's blocks and pixels, those that the output has."""
        block = loops.loop(self.spec.blocks, "block")
        i, j = loops.loop(self.rows, "i"), loops.loop(self.columns, "j")
        self.place(loops, i, j)
        return block, i, j

    def place(self, loops: Loops, i: Expr, j: Expr) -> tuple[Expr, Expr]:
        """Row and column of the output; a condition where a tile hangs over."""
        row, column = self.row * self.rows + i, self.column * self.columns + j
        for place, size, tile in zip(
            (row, column), self.window.output, (self.rows, self.columns), strict=True
        ):
            if size % tile:
                loops.conditions.append(place < size)
        return row, column

    def product_lanes(self, loops: Loops) -> tuple[Expr, Expr, Expr]:
        """Loops over the lanes of a product: sample, output, input."""
        return (
            loops.loop(self.batch, "lane_b"),
            loops.loop(self.block, "lane"),
            loops.loop(self.block, "k"),
        )

    def gemm(self, at: Index, source: Expr, weight: Expr, into: Buffer | None = None) -> Stmt:
        """into (None: the sum) += source * weight."""
        into = self.acc if into is None else into
        product = source.astype("int32") * weight.astype("int32")
        return tirx.BufferStore(into, into[tuple(at)] + product, list(at))

    def cleared(self, buffer: Buffer) -> Stmt:
        """All elements of a tile 0."""
        return self.pixels(lambda at: (buffer, at, tirx.IntImm("int32", 0)))

    def plus(self, into: Buffer, other: Buffer) -> Stmt:
        """into += other."""
        return self.alu(lambda value, at: extern("add", value, other[at]), into)

    def pixels(self, store: Callable[[tuple[Expr, ...]], tuple[Buffer, Index, Expr]]) -> Stmt:
        """One store for every element of the tile."""
        loops = Loops()
        block, i, j = self.pixel_loops(loops)
        batch, lane = loops.loop(self.batch, "lane_b"), loops.loop(self.block, "lane")
        buffer, at, value = store((block, i, j, batch, lane))
        return loops.around(tirx.BufferStore(buffer, value, list(at)))

    def alu(
        self, step: Callable[[Expr, tuple[Expr, ...]], Expr], into: Buffer | None = None
    ) -> Stmt:
        """into (None: the sum) = step of it and where it stands."""
        buffer = self.acc if into is None else into
        return self.pixels(lambda at: (buffer, at, step(buffer[at], at)))

    def shift(self, bits: int, into: Buffer | None = None) -> Stmt:
        """To the right by so many bits; to the left where they are negative."""
        return self.alu(lambda value, _: extern("shr", value, bits), into)

    def shift_by_tile(self, row: int) -> Stmt:
        """By a row of the operands."""
        return self.alu(
            lambda value, at: extern("shr", value, self.p_chip[at[0], row, at[3], at[4]])
        )

    def add_tile(self, row: int) -> Stmt:
        """The sum += a row of the operands."""
        return self.alu(
            lambda value, at: extern("add", value, self.p_chip[at[0], row, at[3], at[4]])
        )

    def clamp(self, low: int, high: int) -> Stmt:
        """The sum within bounds."""
        return self.alu(lambda value, _: extern("min", extern("max", value, low), high))

    def store(self, to: Callable[[tuple[Expr, ...]], tuple[Buffer, Index]]) -> Stmt:
        """The low bytes of the sum to DRAM: the buffer and the place of each element."""

        def element(at: tuple[Expr, ...]) -> tuple[Buffer, Index, Expr]:
            row = self.row * self.rows + at[1]
            column = self.column * self.columns + at[2]
            buffer, place = to((at[0], row, column, at[3], at[4]))
            return buffer, place, self.acc[at].astype("int8")

        return self.pixels(element)
