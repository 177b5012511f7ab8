# SPDX-License-Identifier: Apache-2.0
"""A convolution whose requantization the GEMM core does, as TensorIR: digits through memory and
back.

In:   `RescaledSpec`: extents of a few blocks of output channels, tile sizes, what the digits are
      multiplied by.
Out:  an IRModule, scheduled. Parameters: x, w, b, m, c, p, digits, out.
Next: lower.py; operators/slots.py puts the parts of neighbouring tiles side by side.

    acc = c * b[...] + sum x * w          bias and offset come from the constant input tile c
    digits[0] = low byte of acc           STORE
    acc = (acc + 128) >> 8; digits[1] = low byte ...
    d = digits                            LOAD as input tiles
    acc = (acc + sum d * m[...]) >> 8 ... level by level: m are diagonal weight tiles
    out = clamp(acc >> p)

te has no word for an accumulator that is shifted and added to again, so the loops are written out
as TensorIR, in the form in which TVM's own passes leave a scheduled function.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from loadstone.relax.compat import tirx
from loadstone.vta.hw_config import HwConfig
from loadstone.vta.schedule.epilogue import extern
from loadstone.vta.schedule.loops import Loops, chip_buffer, chip_copy, dram_buffer, written
from loadstone.vta.schedule.rescaled_spec import RescaledSpec, StairShape
from loadstone.vta.schedule.tile_writer import TileWriter

if TYPE_CHECKING:
    from loadstone.relax.types import Buffer, Expr, IRModule, Stmt

__all__ = ["schedule"]


def schedule(spec: RescaledSpec, config: HwConfig) -> IRModule:
    """The IRModule of one spec."""
    return _Writer(spec, config).module()


class _Writer(TileWriter):
    """Writes the function."""

    def __init__(self, spec: RescaledSpec, config: HwConfig) -> None:
        super().__init__(spec, config)
        window, blocks, stored = spec.window, spec.blocks, spec.stored
        groups = blocks if spec.own_input else 1
        inputs = (groups, window.in_blocks)
        lanes, square = self.lanes, self.square
        weights = (window.in_blocks, window.parts, *window.kernel)
        self.x = dram_buffer("x", (*inputs, *window.input, *lanes), "int8")
        self.w = dram_buffer("w", (blocks, *weights, *square), "int8")
        self.b = dram_buffer("b", (blocks, max(1, spec.bias), *square), "int8")
        self.m = dram_buffer("m", (spec.multipliers, max(1, spec.chain_tiles), *square), "int8")
        self.c = dram_buffer("c", (1, *lanes), "int8")
        self.digits = dram_buffer(
            "digits", (blocks, max(1, stored), *window.output, *lanes), "int8"
        )
        self.out = dram_buffer("out", (blocks, *window.output, *lanes), "int8")
        self.c_chip = chip_copy(self.c, "inp")
        self.m_chip, self.b_chip = chip_copy(self.m, "wgt"), chip_copy(self.b, "wgt")
        self.more = [chip_buffer(name, self.shape, "int32", "acc") for name in ("acc1", "acc2")]
        self.next_tile = 0
        digits = (blocks, max(1, stored), self.rows, self.columns, *lanes)
        self.d = chip_buffer("d", digits, "int8", "inp")

    def module(self) -> IRModule:
        """The whole function."""
        spec = self.spec
        parameters = [self.x, self.w]
        parameters += [self.b] if spec.bias else []
        parameters += [self.m] if spec.chain_tiles else []
        parameters += [self.c]
        parameters += [self.p] if spec.operand_rows else []
        parameters += [self.digits] if spec.digits else []
        parameters += [self.out]
        body = self.turns.around(tirx.stmt_seq(*self._tile()))
        return written(parameters, body)

    # --- one tile ---------------------------------------------------------------------------------
    def _tile(self) -> list[Stmt]:
        statements = [*self._constants(), tirx.AllocBuffer(self.acc)]
        statements += [self.cleared(self.acc)]
        statements += [self._constant(self.b_chip, tile, 0) for tile in range(self.spec.bias)]
        statements += [self.add_tile(self.spec.bias_row)] if self.spec.added else []
        if self.spec.digits:
            statements += self._sum()
            statements += self._split()
            statements += [tirx.AllocBuffer(self.d), self._fetch()]
            statements += self._chain(self._level_products)
        else:
            *loads, products = self._sum_of(0)
            statements += loads
            statements += self._chain(lambda first, count, _: products(first, count))
        statements += [self.store(lambda at: (self.out, at))]
        return statements

    def _constants(self) -> list[Stmt]:
        """Loads of what does not depend on the pixels; allocate.py drops those of what is still
        there."""
        spec = self.spec
        pairs = [(self.c, self.c_chip)]
        pairs += [(self.m, self.m_chip)] if spec.chain_tiles else []
        pairs += [(self.b, self.b_chip)] if spec.bias else []
        pairs += [(self.p, self.p_chip)] if spec.operand_rows else []
        statements = []
        for source, copy in pairs:
            loops = Loops()
            at = [loops.loop(int(extent), f"a{axis}") for axis, extent in enumerate(source.shape)]
            statements += [
                tirx.AllocBuffer(copy),
                loops.around(tirx.BufferStore(copy, tirx.BufferLoad(source, at), at)),
            ]
        return statements

    def _sum(self) -> list[Stmt]:
        """The sum over taps and input blocks, chunk by chunk."""
        chunks = -(-self.window.in_blocks // self.chunk)
        turn = Loops()
        chunk = turn.loop(chunks, "chunk") if chunks > 1 else 0
        *loads, products = self._sum_of(chunk)
        return [turn.around(tirx.stmt_seq(*loads, products(0, self.window.parts)))]

    def _sum_of(self, chunk: Expr) -> list[Any]:
        """The loads of a chunk, and the function that makes the products of some parts."""
        window, spec = self.window, self.spec
        groups = spec.blocks if spec.own_input else 1
        loaded = window.loaded(self.rows, self.columns)
        pixels = chip_buffer("x_chip", (groups, self.chunk, *loaded, *self.lanes), "int8", "inp")
        taps = (self.chunk, window.parts, *window.kernel)
        weights = chip_buffer("w_chip", (spec.blocks, *taps, *self.square), "int8", "wgt")
        return [
            tirx.AllocBuffer(pixels),
            self._load_pixels(pixels, chunk),
            tirx.AllocBuffer(weights),
            self._load_weights(weights, chunk),
            lambda first, count: self._products(pixels, weights, chunk, (first, count)),
        ]

    def _load_pixels(self, pixels: Buffer, chunk: Expr) -> Stmt:
        """Input rows of the tile, with pads, no more than the whole output needs."""
        window, loops = self.window, Loops()
        names = ("group", "inner", "y", "x", "lane_b", "lane")
        group, inner, y, x, batch, lane = (
            loops.loop(int(extent), name) for extent, name in zip(pixels.shape, names, strict=True)
        )
        whole = window.loaded(*window.output)
        first = (self.row * self.rows, self.column * self.columns)
        places = [
            start * step + at for start, step, at in zip(first, window.step, (y, x), strict=True)
        ]
        inside = []
        sources = []
        for axis, place in enumerate(places):
            turns = -(-window.output[axis] // (self.rows, self.columns)[axis])
            covered = (turns - 1) * (self.rows, self.columns)[axis] * window.step[axis]
            if covered + int(pixels.shape[2 + axis]) > whole[axis]:
                loops.conditions.append(place < whole[axis])
            apart = window.strides[0] if axis == 0 and window.kernel[0] == 1 else 1
            source = place * apart - window.padding[axis]
            if window.padding[axis] > 0:
                inside.append(source >= 0)
            if (whole[axis] - 1) * apart - window.padding[axis] >= window.input[axis]:
                inside.append(source < window.input[axis])
            sources.append(source)
        self._within(loops, inner, chunk)
        at = (group, chunk * self.chunk + inner, *sources, batch, lane)
        value = tirx.BufferLoad(self.x, at)
        if inside:
            value = tirx.if_then_else(
                tirx.all(*inside), value, tirx.IntImm("int8", window.pad_value)
            )
        indices = [group, inner, y, x, batch, lane]
        return loops.around(tirx.BufferStore(pixels, value, indices))

    def _load_weights(self, weights: Buffer, chunk: Expr) -> Stmt:
        loops = Loops()
        at = [loops.loop(int(extent), f"w{axis}") for axis, extent in enumerate(weights.shape)]
        self._within(loops, at[1], chunk)
        source = [at[0], chunk * self.chunk + at[1], *at[2:]]
        return loops.around(tirx.BufferStore(weights, tirx.BufferLoad(self.w, source), at))

    def _within(self, loops: Loops, inner: Expr, chunk: Expr) -> None:
        """Input blocks beyond the last one are in no chunk."""
        if self.window.in_blocks % self.chunk:
            loops.conditions.append(chunk * self.chunk + inner < self.window.in_blocks)

    def _products(
        self, pixels: Buffer, weights: Buffer, chunk: Expr, parts: tuple[int, int]
    ) -> Stmt:
        window, loops = self.window, Loops()
        block, i, j = self.tile_loops(loops)
        inner, part, y, x = (
            loops.loop(extent, name)
            for extent, name in zip(
                (self.chunk, parts[1], *window.kernel),
                ("inner", "part", "ky", "kx"),
                strict=True,
            )
        )
        batch, lane, k = self.product_lanes(loops)
        self._within(loops, inner, chunk)
        source = (
            block if self.spec.own_input else 0,
            inner,
            i * window.step[0] + y * window.dilation[0],
            j * window.step[1] + x * window.dilation[1],
            batch,
            k,
        )
        at = (block, i, j, batch, lane)
        weight = (block, inner, parts[0] + part, y, x, lane, k)
        return loops.around(
            self.gemm(at, tirx.BufferLoad(pixels, source), tirx.BufferLoad(weights, weight))
        )

    # --- digits -----------------------------------------------------------------------------------
    def _split(self) -> list[Stmt]:
        spec = self.spec
        statements = []
        if spec.left:
            statements.append(self.shift(-spec.left))
        if spec.right:
            statements.append(self.shift_by_tile(spec.operand_rows - 1))
        statements.append(self._store_digit(0))
        for digit in range(1, spec.digits):
            statements.append(
                self.alu(lambda value, _: extern("shr", extern("add", value, 128), 8))
            )
            if digit + 1 == spec.digits and spec.clamped:
                statements.append(self.clamp(-128, 127))
            statements.append(self._store_digit(digit))
        if spec.signed:
            statements += [self.shift(8), self._store_digit(spec.digits)]
        return statements

    def _store_digit(self, digit: int) -> Stmt:
        return self.store(lambda at: (self.digits, (at[0], digit, *at[1:])))

    def _fetch(self) -> Stmt:
        loops = Loops()
        block = loops.loop(self.spec.blocks, "block")
        digit = loops.loop(self.spec.stored, "digit")
        i, j = loops.loop(self.rows, "i"), loops.loop(self.columns, "j")
        batch, lane = loops.loop(self.batch, "lane_b"), loops.loop(self.block, "lane")
        row, column = self.place(loops, i, j)
        value = tirx.BufferLoad(self.digits, (block, digit, row, column, batch, lane))
        return loops.around(tirx.BufferStore(self.d, value, [block, digit, i, j, batch, lane]))

    # --- levels -----------------------------------------------------------------------------------
    def _chain(self, products: Callable[[int, int, int], Stmt]) -> list[Stmt]:
        """products: of a run (first, count) and the first of its tiles."""
        statements: list[Stmt] = []
        chain = self.spec.chain
        self.next_tile = 0
        for level in chain.levels:
            if level.shift:
                statements.append(self.shift(level.shift))
            statements += [self._chain_constant(self.acc) for _ in range(level.constants)]
            for first, count in level.runs:
                tile = self._taken(count) if self.spec.digits else 0
                statements.append(products(first, count, tile))
        if chain.upper:
            statements += self._upper(self.more[0])
        if chain.stairs:
            statements += self._stairs()
        elif chain.shift is None:
            statements.append(self.shift_by_tile(0))
        elif chain.shift:
            statements.append(self.shift(chain.shift))
        statements.append(self.clamp(chain.low, chain.high))
        return statements

    def _upper(self, sums: Buffer) -> list[Stmt]:
        """acc += the levels that are summed from the highest down."""
        statements = [tirx.AllocBuffer(sums), self.cleared(sums)]
        for level in self.spec.chain.upper:
            if level.shift:
                statements.append(self.shift(-level.shift, sums))
            statements += [self._chain_constant(sums) for _ in range(level.constants)]
            for first, count in level.runs:
                statements.append(self._level_products(first, count, self._taken(count), sums))
        return [*statements, self.plus(self.acc, sums)]

    def _stairs(self) -> list[Stmt]:
        """acc = the sum of all stairs; each but the last is a copy of acc."""
        *copies, last = self.spec.chain.stairs
        statements: list[Stmt] = []
        for number, stair in enumerate(copies):
            into = self.more[min(number, 1)]
            if number == 1 or (number == 0 and not self.spec.chain.upper):
                statements.append(tirx.AllocBuffer(into))
            statements += [self.cleared(into), *self._stair(stair, into)]
            statements += [self.plus(self.more[0], into)] if number else []
        statements += self._stair(last, self.acc)
        return [*statements, *([self.plus(self.acc, self.more[0])] if copies else [])]

    def _stair(self, stair: StairShape, into: Buffer) -> list[Stmt]:
        """What becomes of one copy of acc, or of acc itself."""
        statements = [self._chain_constant(into) for _ in range(stair.constants)]
        if stair.signed:
            sign = self.spec.stored - 1
            statements.append(self._level_products(sign, 1, self._taken(1), into))
        if into is not self.acc:
            statements.append(self.plus(into, self.acc))
        first, second = stair.shifts

        def shifted(value: Expr, _: tuple[Expr, ...]) -> Expr:
            value = extern("shr", value, first)
            value = extern("add", value, stair.add) if stair.add else value
            value = extern("shr", value, second)
            value = value if stair.low is None else extern("max", value, stair.low)
            return value if stair.high is None else extern("min", value, stair.high)

        return [*statements, self.alu(shifted, into)]

    def _taken(self, count: int) -> int:
        """The next weight tiles of the chain: the first of so many."""
        self.next_tile += count
        return self.next_tile - count

    def _chain_constant(self, into: Buffer) -> Stmt:
        return self._constant(self.m_chip, self._taken(1), None, into)

    def _level_products(
        self, first: int, count: int, tile: int, into: Buffer | None = None
    ) -> Stmt:
        loops = Loops()
        block, i, j = self.tile_loops(loops)
        turn = loops.loop(count, "digit")
        batch, lane, k = self.product_lanes(loops)
        owner = block if self.spec.multipliers > 1 else 0
        source = tirx.BufferLoad(self.d, (block, first + turn, i, j, batch, k))
        weight = tirx.BufferLoad(self.m_chip, (owner, tile + turn, lane, k))
        return loops.around(self.gemm((block, i, j, batch, lane), source, weight, into))

    def _constant(
        self, tiles: Buffer, tile: int, owner: int | None, into: Buffer | None = None
    ) -> Stmt:
        """acc += a constant. owner None: the chain's tiles, which blocks may share."""
        loops = Loops()
        block, i, j = self.tile_loops(loops)
        batch, lane, k = self.product_lanes(loops)
        shared = owner is None and self.spec.multipliers == 1
        weight = tirx.BufferLoad(tiles, (0 if shared else block, tile, lane, k))
        source = tirx.BufferLoad(self.c_chip, (0, batch, k))
        return loops.around(self.gemm((block, i, j, batch, lane), source, weight, into))
