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

from functools import lru_cache
from typing import TYPE_CHECKING

from loadstone.ir_pass.intrinsics import extents
from loadstone.relax.compat import tirx
from loadstone.vta.hw_config import HwConfig
from loadstone.vta.schedule.loops import Loops, chip_buffer, chip_copy, dram_buffer, written
from loadstone.vta.schedule.rescaled_spec import RescaledSpec, StairShape
from loadstone.vta.schedule.statements import Statements
from loadstone.vta.schedule.sum_writer import sum_writer
from loadstone.vta.schedule.tile_writer import tile_writer

if TYPE_CHECKING:
    from loadstone.relax.types import Buffer, Expr, IRModule, Stmt

__all__ = ["schedule"]


def schedule(spec: RescaledSpec, config: HwConfig) -> IRModule:
    """The IRModule of one spec."""
    return _Writer(spec, config).module()


class _Writer:
    """Writes the function, of statements that others may have, too."""

    def __init__(self, spec: RescaledSpec, config: HwConfig) -> None:
        window, blocks, stored = spec.window, spec.blocks, max(1, spec.stored)
        rows, columns, chunk = spec.tile
        self.spec = spec
        self.tile = tile_writer(blocks, window.output, (rows, columns), config)
        self.sum = sum_writer(window, spec.own_input, chunk, self.tile)
        lanes, square = self.tile.lanes, self.tile.square
        self.b, self.b_chip = _copied("b", (blocks, max(1, spec.bias), *square), "int8", "wgt")
        multipliers = (spec.multipliers, max(1, spec.chain_tiles), *square)
        self.m, self.m_chip = _copied("m", multipliers, "int8", "wgt")
        self.c, self.c_chip = _copied("c", (1, *lanes), "int8", "inp")
        operands = (blocks, max(1, spec.operand_rows), *lanes)
        self.p, self.p_chip = _copied("p", operands, "int32", "acc")
        self.digits, self.d = _digits((blocks, stored), window.output, (rows, columns), lanes)
        self.once = Statements().once
        self.next_tile = 0

    def module(self) -> IRModule:
        """The whole function."""
        spec = self.spec
        parameters = [self.sum.x, self.sum.w]
        parameters += [self.b] if spec.bias else []
        parameters += [self.m] if spec.chain_tiles else []
        parameters += [self.c]
        parameters += [self.p] if spec.operand_rows else []
        parameters += [self.digits] if spec.digits else []
        parameters += [self.tile.out]
        body = self.tile.turns.around(tirx.stmt_seq(*self._tile()))
        return written(parameters, body)

    # --- one tile ---------------------------------------------------------------------------------
    def _tile(self) -> list[Stmt]:
        spec, tile = self.spec, self.tile
        statements = [*self._constants(), *self._cleared(tile.acc)]
        statements += [
            self.once(tile.constant, self.c_chip, self.b_chip, number, False, tile.acc)
            for number in range(spec.bias)
        ]
        statements += [self._by_tile("add", spec.bias_row)] if spec.added else []
        if spec.digits:
            whole = (*self._loads(self.sum.each), self._sum(self.sum.each, (0, spec.window.parts)))
            statements += [self.sum.chunks.around(tirx.stmt_seq(*whole))]
            statements += self._split()
            statements += [self._room(self.d)]
            statements += [self.once(tile.fetch, self.digits, self.d, spec.stored)]
        else:
            statements += self._loads(0)
        statements += self._chain()
        return [*statements, self.once(tile.store, tile.out)]

    def _room(self, buffer: Buffer) -> Stmt:
        return self.once(tirx.AllocBuffer, buffer)

    def _constants(self) -> list[Stmt]:
        """Loads of what does not depend on the pixels; allocate.py drops those of what is still
        there."""
        spec = self.spec
        pairs = [(self.c, self.c_chip)]
        pairs += [(self.m, self.m_chip)] if spec.chain_tiles else []
        pairs += [(self.b, self.b_chip)] if spec.bias else []
        pairs += [(self.p, self.p_chip)] if spec.operand_rows else []
        return [
            statement
            for source, copy in pairs
            for statement in (self._room(copy), self.once(_load, source, copy))
        ]

    def _cleared(self, buffer: Buffer) -> list[Stmt]:
        return [self._room(buffer), self.once(self.tile.cleared, buffer)]

    def _loads(self, chunk: Expr) -> list[Stmt]:
        """The factors of a chunk."""
        return [
            self._room(self.sum.pixels),
            self.once(self.sum.load_pixels, chunk),
            self._room(self.sum.weights),
            self.once(self.sum.load_weights, chunk),
        ]

    def _sum(self, chunk: Expr, parts: tuple[int, int]) -> Stmt:
        """acc += the products of a run of parts."""
        return self.once(self.sum.products, chunk, parts)

    def _shift(self, bits: int, into: Buffer) -> Stmt:
        return self.once(self.tile.shift, bits, into)

    def _by_tile(self, operation: str, row: int) -> Stmt:
        """acc = acc, operation, a row of the operands."""
        return self.once(self.tile.by_tile, operation, self.p_chip, row)

    # --- digits -----------------------------------------------------------------------------------
    def _split(self) -> list[Stmt]:
        spec, tile = self.spec, self.tile
        statements = []
        if spec.left:
            statements.append(self._shift(-spec.left, tile.acc))
        if spec.right:
            statements.append(self._by_tile("shr", spec.operand_rows - 1))
        statements.append(self._store_digit(0))
        for digit in range(1, spec.digits):
            statements.append(self.once(tile.next_byte))
            if digit + 1 == spec.digits and spec.clamped:
                statements.append(self.once(tile.clamp, -128, 127))
            statements.append(self._store_digit(digit))
        if spec.signed:
            statements += [self._shift(8, tile.acc), self._store_digit(spec.digits)]
        return statements

    def _store_digit(self, digit: int) -> Stmt:
        return self.once(self.tile.store, self.digits, digit)

    # --- levels -----------------------------------------------------------------------------------
    def _chain(self) -> list[Stmt]:
        statements: list[Stmt] = []
        chain, acc = self.spec.chain, self.tile.acc
        self.next_tile = 0
        for level in chain.levels:
            if level.shift:
                statements.append(self._shift(level.shift, acc))
            statements += [self._chain_constant(acc) for _ in range(level.constants)]
            statements += [
                self._level_products(run, acc) if self.spec.digits else self._sum(0, run)
                for run in level.runs
            ]
        if chain.upper:
            statements += self._upper(self.tile.more[0])
        if chain.stairs:
            statements += self._stairs()
        elif chain.shift is None:
            statements.append(self._by_tile("shr", 0))
        elif chain.shift:
            statements.append(self._shift(chain.shift, acc))
        statements.append(self.once(self.tile.clamp, chain.low, chain.high))
        return statements

    def _upper(self, sums: Buffer) -> list[Stmt]:
        """acc += the levels that are summed from the highest down."""
        statements = self._cleared(sums)
        for level in self.spec.chain.upper:
            if level.shift:
                statements.append(self._shift(-level.shift, sums))
            statements += [self._chain_constant(sums) for _ in range(level.constants)]
            statements += [self._level_products(run, sums) for run in level.runs]
        return [*statements, self._plus(self.tile.acc, sums)]

    def _stairs(self) -> list[Stmt]:
        """acc = the sum of all stairs; each but the last is a copy of acc."""
        *copies, last = self.spec.chain.stairs
        acc, more = self.tile.acc, self.tile.more
        statements: list[Stmt] = []
        for number, stair in enumerate(copies):
            into = more[min(number, 1)]
            if number == 1 or (number == 0 and not self.spec.chain.upper):
                statements.append(self._room(into))
            statements += [self.once(self.tile.cleared, into), *self._stair(stair, into)]
            statements += [self._plus(more[0], into)] if number else []
        statements += self._stair(last, acc)
        return [*statements, *([self._plus(acc, more[0])] if copies else [])]

    def _stair(self, stair: StairShape, into: Buffer) -> list[Stmt]:
        """What becomes of one copy of acc, or of acc itself."""
        statements = [self._chain_constant(into) for _ in range(stair.constants)]
        if stair.signed:
            statements.append(self._level_products((self.spec.stored - 1, 1), into))
        if into is not self.tile.acc:
            statements.append(self._plus(into, self.tile.acc))
        return [*statements, self.once(self.tile.floor, stair, into)]

    def _plus(self, into: Buffer, other: Buffer) -> Stmt:
        return self.once(self.tile.plus, into, other)

    def _taken(self, count: int) -> int:
        """The next weight tiles of the chain: the first of so many."""
        self.next_tile += count
        return self.next_tile - count

    def _chain_constant(self, into: Buffer) -> Stmt:
        place = (self.m_chip, self._taken(1), self.spec.multipliers == 1)
        return self.once(self.tile.constant, self.c_chip, *place, into)

    def _level_products(self, run: tuple[int, int], into: Buffer) -> Stmt:
        place = (self.m_chip, self._taken(run[1]), self.spec.multipliers == 1)
        return self.once(self.tile.digit_products, self.d, run, *place, into)


# --- buffers: the same objects for all functions, as their statements are -------------------------
@lru_cache(maxsize=256)
def _copied(name: str, shape: tuple[int, ...], dtype: str, memory: str) -> tuple[Buffer, Buffer]:
    """A tensor in DRAM, and its copy in a scratchpad."""
    source = dram_buffer(name, shape, dtype)
    return source, chip_copy(source, memory)


@lru_cache(maxsize=256)
def _digits(
    stored: tuple[int, int], output: tuple[int, int], tile: tuple[int, int], lanes: tuple[int, int]
) -> tuple[Buffer, Buffer]:
    """Digits in DRAM, and those of a tile as input tiles. stored: (blocks, digits)."""
    return (
        dram_buffer("digits", (*stored, *output, *lanes), "int8"),
        chip_buffer("d", (*stored, *tile, *lanes), "int8", "inp"),
    )


def _load(source: Buffer, copy: Buffer) -> Stmt:
    """All of a tensor to a scratchpad."""
    loops = Loops()
    at = [loops.loop(extent, f"a{axis}") for axis, extent in enumerate(extents(source))]
    return loops.around(tirx.BufferStore(copy, tirx.BufferLoad(source, at), at))
