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

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from loadstone.relax.compat import tirx, tvm
from loadstone.vta.hw_config import HwConfig
from loadstone.vta.schedule.epilogue import extern
from loadstone.vta.schedule.rescaled_spec import RescaledSpec

if TYPE_CHECKING:
    from loadstone.relax.types import Buffer, Expr, IRModule, Stmt, Var

__all__ = ["schedule"]


def schedule(spec: RescaledSpec, config: HwConfig) -> IRModule:
    """The IRModule of one spec."""
    return _Writer(spec, config).module()


Index = Sequence["Expr | int"]


@dataclass
class _Loops:
    """Loops that are open around a statement, outermost first, and the conditions inside them."""

    variables: list[tuple[Var, int]] = field(default_factory=list)
    conditions: list[Expr] = field(default_factory=list)

    def loop(self, extent: int, name: str) -> Expr:
        """One more loop inside; its variable."""
        variable = tirx.Var(name, "int32")
        self.variables.append((variable, extent))
        return variable

    def around(self, body: Stmt) -> Stmt:
        """The loops around a statement."""
        if self.conditions:
            body = tirx.IfThenElse(tirx.all(*self.conditions), body, None)
        for variable, extent in reversed(self.variables):
            body = tirx.For(variable, 0, extent, tirx.ForKind.SERIAL, body)
        return body


class _Writer:
    """Writes the function: `tile_turns` are the two outer loops, everything else is nests of one
    store."""

    def __init__(self, spec: RescaledSpec, config: HwConfig) -> None:
        self.spec, self.window = spec, spec.window
        self.batch, self.block = config.batch, config.block
        window, blocks, stored = spec.window, spec.blocks, spec.stored
        self.rows, self.columns, self.chunk = spec.tile
        groups = blocks if spec.own_input else 1
        inputs = (groups, window.in_blocks)
        lanes, square = (self.batch, self.block), (self.block, self.block)
        weights = (window.in_blocks, window.parts, *window.kernel)
        self.x = _dram("x", (*inputs, *window.input, *lanes), "int8")
        self.w = _dram("w", (blocks, *weights, *square), "int8")
        self.b = _dram("b", (blocks, max(1, spec.bias), *square), "int8")
        self.m = _dram("m", (spec.multipliers, max(1, spec.chain_tiles), *square), "int8")
        self.c = _dram("c", (1, *lanes), "int8")
        self.p = _dram("p", (blocks, max(1, spec.operand_rows), *lanes), "int32")
        self.digits = _dram("digits", (blocks, max(1, stored), *window.output, *lanes), "int8")
        self.out = _dram("out", (blocks, *window.output, *lanes), "int8")
        self.turns = _Loops()
        self.row = self.turns.loop(-(-window.output[0] // self.rows), "row")
        self.column = self.turns.loop(-(-window.output[1] // self.columns), "column")
        self.c_chip = _copy_of(self.c, "inp")
        self.m_chip, self.b_chip = _copy_of(self.m, "wgt"), _copy_of(self.b, "wgt")
        self.p_chip = _copy_of(self.p, "acc")
        tile = (blocks, self.rows, self.columns)
        self.acc = _chip("acc", (*tile, *lanes), "int32", "acc")
        self.d = _chip("d", (blocks, max(1, stored), *tile[1:], *lanes), "int8", "inp")

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
        function = tirx.PrimFunc(parameters, body)
        function = function.with_attr("s_tir", True).with_attr("tirx.noalias", True)
        return tvm.IRModule({"main": function.with_attr("global_symbol", "main")})

    # --- one tile ---------------------------------------------------------------------------------
    def _tile(self) -> list[Stmt]:
        statements = [*self._constants(), tirx.AllocBuffer(self.acc)]
        statements += [self._pixels(lambda at: (self.acc, at, tirx.IntImm("int32", 0)))]
        statements += [self._constant(self.b_chip, tile, 0) for tile in range(self.spec.bias)]
        if self.spec.digits:
            statements += self._sum()
            statements += self._split()
            statements += [tirx.AllocBuffer(self.d), self._fetch()]
            statements += self._chain(self._level_products)
        else:
            *loads, products = self._sum_of(0)
            statements += loads
            statements += self._chain(lambda first, count, _: products(first, count))
        statements += [self._store(lambda at: (self.out, at))]
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
            loops = _Loops()
            at = [loops.loop(int(extent), f"a{axis}") for axis, extent in enumerate(source.shape)]
            statements += [
                tirx.AllocBuffer(copy),
                loops.around(tirx.BufferStore(copy, source[tuple(at)], at)),
            ]
        return statements

    def _sum(self) -> list[Stmt]:
        """The sum over taps and input blocks, chunk by chunk."""
        chunks = -(-self.window.in_blocks // self.chunk)
        turn = _Loops()
        chunk = turn.loop(chunks, "chunk") if chunks > 1 else 0
        *loads, products = self._sum_of(chunk)
        return [turn.around(tirx.stmt_seq(*loads, products(0, self.window.parts)))]

    def _sum_of(self, chunk: Expr) -> list[Any]:
        """The loads of a chunk, and the function that makes the products of some parts."""
        window, spec = self.window, self.spec
        groups = spec.blocks if spec.own_input else 1
        loaded = window.loaded(self.rows, self.columns)
        lanes = (self.batch, self.block)
        pixels = _chip("x_chip", (groups, self.chunk, *loaded, *lanes), "int8", "inp")
        taps = (self.chunk, window.parts, *window.kernel)
        weights = _chip("w_chip", (spec.blocks, *taps, self.block, self.block), "int8", "wgt")
        return [
            tirx.AllocBuffer(pixels),
            self._load_pixels(pixels, chunk),
            tirx.AllocBuffer(weights),
            self._load_weights(weights, chunk),
            lambda first, count: self._products(pixels, weights, chunk, (first, count)),
        ]

    def _load_pixels(self, pixels: Buffer, chunk: Expr) -> Stmt:
        """Input rows of the tile, with pads, no more than the whole output needs."""
        window, loops = self.window, _Loops()
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
        value = self.x[at]
        if inside:
            value = tirx.if_then_else(
                tirx.all(*inside), value, tirx.IntImm("int8", window.pad_value)
            )
        indices = [group, inner, y, x, batch, lane]
        return loops.around(tirx.BufferStore(pixels, value, indices))

    def _load_weights(self, weights: Buffer, chunk: Expr) -> Stmt:
        loops = _Loops()
        at = [loops.loop(int(extent), f"w{axis}") for axis, extent in enumerate(weights.shape)]
        self._within(loops, at[1], chunk)
        source = [at[0], chunk * self.chunk + at[1], *at[2:]]
        return loops.around(tirx.BufferStore(weights, self.w[tuple(source)], at))

    def _within(self, loops: _Loops, inner: Expr, chunk: Expr) -> None:
        """Input blocks beyond the last one are in no chunk."""
        if self.window.in_blocks % self.chunk:
            loops.conditions.append(chunk * self.chunk + inner < self.window.in_blocks)

    def _products(
        self, pixels: Buffer, weights: Buffer, chunk: Expr, parts: tuple[int, int]
    ) -> Stmt:
        window, loops = self.window, _Loops()
        block, i, j = self._pixel_loops(loops)
        inner, part, y, x = (
            loops.loop(extent, name)
            for extent, name in zip(
                (self.chunk, parts[1], *window.kernel),
                ("inner", "part", "ky", "kx"),
                strict=True,
            )
        )
        batch, lane, k = self._lanes(loops)
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
        return loops.around(
            self._gemm(at, pixels[source], weights[block, inner, parts[0] + part, y, x, lane, k])
        )

    # --- digits -----------------------------------------------------------------------------------
    def _split(self) -> list[Stmt]:
        spec = self.spec
        statements = []
        if spec.left:
            statements.append(self._shift(-spec.left))
        if spec.right:
            statements.append(self._shift_by_tile(spec.operand_rows - 1))
        statements.append(self._store_digit(0))
        for digit in range(1, spec.digits):
            statements.append(
                self._alu(lambda value, _: extern("shr", extern("add", value, 128), 8))
            )
            if digit + 1 == spec.digits and spec.clamped:
                statements.append(self._clamp(-128, 127))
            statements.append(self._store_digit(digit))
        if spec.signed:
            statements += [self._clamp(-1, 0), self._store_digit(spec.digits)]
        return statements

    def _store_digit(self, digit: int) -> Stmt:
        return self._store(lambda at: (self.digits, (at[0], digit, *at[1:])))

    def _fetch(self) -> Stmt:
        loops = _Loops()
        block = loops.loop(self.spec.blocks, "block")
        digit = loops.loop(self.spec.stored, "digit")
        i, j = loops.loop(self.rows, "i"), loops.loop(self.columns, "j")
        batch, lane = loops.loop(self.batch, "lane_b"), loops.loop(self.block, "lane")
        row, column = self._place(loops, i, j)
        value = self.digits[block, digit, row, column, batch, lane]
        return loops.around(tirx.BufferStore(self.d, value, [block, digit, i, j, batch, lane]))

    # --- levels -----------------------------------------------------------------------------------
    def _chain(self, products: Callable[[int, int, int], Stmt]) -> list[Stmt]:
        """products: of a run (first, count) and the first of its tiles."""
        statements: list[Stmt] = []
        chain, tile = self.spec.chain, 0
        for level in chain.levels:
            if level.shift:
                statements.append(self._shift(level.shift))
            for _ in range(level.constants):
                statements.append(self._constant(self.m_chip, tile, None))
                tile += 1
            for first, count in level.runs:
                statements.append(products(first, count, tile))
                tile += count if self.spec.digits else 0
        if chain.shift is None:
            statements.append(self._shift_by_tile(0))
        elif chain.shift:
            statements.append(self._shift(chain.shift))
        statements.append(self._clamp(chain.low, chain.high))
        return statements

    def _level_products(self, first: int, count: int, tile: int) -> Stmt:
        loops = _Loops()
        block, i, j = self._pixel_loops(loops)
        turn = loops.loop(count, "digit")
        batch, lane, k = self._lanes(loops)
        owner = block if self.spec.multipliers > 1 else 0
        source = self.d[block, first + turn, i, j, batch, k]
        weight = self.m_chip[owner, tile + turn, lane, k]
        return loops.around(self._gemm((block, i, j, batch, lane), source, weight))

    def _constant(self, tiles: Buffer, tile: int, owner: int | None) -> Stmt:
        """acc += a constant. owner None: the chain's tiles, which blocks may share."""
        loops = _Loops()
        block, i, j = self._pixel_loops(loops)
        batch, lane, k = self._lanes(loops)
        shared = owner is None and self.spec.multipliers == 1
        weight = tiles[0 if shared else block, tile, lane, k]
        source = self.c_chip[0, batch, k]
        return loops.around(self._gemm((block, i, j, batch, lane), source, weight))

    # --- words ------------------------------------------------------------------------------------
    def _pixel_loops(self, loops: _Loops) -> tuple[Expr, Expr, Expr]:
        """Loops over the tile's blocks and pixels, those that the output has."""
        block = loops.loop(self.spec.blocks, "block")
        i, j = loops.loop(self.rows, "i"), loops.loop(self.columns, "j")
        self._place(loops, i, j)
        return block, i, j

    def _place(self, loops: _Loops, i: Expr, j: Expr) -> tuple[Expr, Expr]:
        """Row and column of the output; a condition where a tile hangs over."""
        row, column = self.row * self.rows + i, self.column * self.columns + j
        for place, size, tile in zip(
            (row, column), self.window.output, (self.rows, self.columns), strict=True
        ):
            if size % tile:
                loops.conditions.append(place < size)
        return row, column

    def _lanes(self, loops: _Loops) -> tuple[Expr, Expr, Expr]:
        return (
            loops.loop(self.batch, "lane_b"),
            loops.loop(self.block, "lane"),
            loops.loop(self.block, "k"),
        )

    def _gemm(self, at: Index, source: Expr, weight: Expr) -> Stmt:
        product = source.astype("int32") * weight.astype("int32")
        return tirx.BufferStore(self.acc, self.acc[tuple(at)] + product, list(at))

    def _pixels(self, store: Callable[[tuple[Expr, ...]], tuple[Buffer, Index, Expr]]) -> Stmt:
        """One store for every element of the tile."""
        loops = _Loops()
        block, i, j = self._pixel_loops(loops)
        batch, lane = loops.loop(self.batch, "lane_b"), loops.loop(self.block, "lane")
        buffer, at, value = store((block, i, j, batch, lane))
        return loops.around(tirx.BufferStore(buffer, value, list(at)))

    def _alu(self, step: Callable[[Expr, tuple[Expr, ...]], Expr]) -> Stmt:
        return self._pixels(lambda at: (self.acc, at, step(self.acc[at], at)))

    def _shift(self, bits: int) -> Stmt:
        return self._alu(lambda value, _: extern("shr", value, bits))

    def _shift_by_tile(self, row: int) -> Stmt:
        """By a row of the operands."""
        return self._alu(
            lambda value, at: extern("shr", value, self.p_chip[at[0], row, at[3], at[4]])
        )

    def _clamp(self, low: int, high: int) -> Stmt:
        return self._alu(lambda value, _: extern("min", extern("max", value, low), high))

    def _store(self, to: Callable[[tuple[Expr, ...]], tuple[Buffer, Index]]) -> Stmt:
        def element(at: tuple[Expr, ...]) -> tuple[Buffer, Index, Expr]:
            row = self.row * self.rows + at[1]
            column = self.column * self.columns + at[2]
            buffer, place = to((at[0], row, column, at[3], at[4]))
            return buffer, place, self.acc[at].astype("int8")

        return self._pixels(element)


def _dram(name: str, shape: tuple[int, ...], dtype: str) -> Buffer:
    return tirx.decl_buffer(shape, dtype, name=name)


def _chip(name: str, shape: Sequence[int], dtype: str, memory: str) -> Buffer:
    return tirx.decl_buffer(tuple(shape), dtype, name=name, scope=f"local.{memory}")


def _copy_of(source: Buffer, memory: str) -> Buffer:
    return _chip(f"{source.name}_chip", source.shape, source.dtype, memory)
