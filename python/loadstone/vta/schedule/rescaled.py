# SPDX-License-Identifier: Apache-2.0
"""A sum whose requantization the GEMM core does, as nests over tiles: digits through memory and
back.

In:   `RescaledSpec`: extents of a few blocks of output channels, tile sizes, the multipliers
      of the digits.
Out:  a Function without copies. Parameters: c, m, b, p, x, w, digits, out; of a product of
      activations first and second, too (factor_sum.py).
Next: ir_pass/insert_dma_copy.py; operators/slots.py puts the parts of neighbouring tiles side by
      side.

    acc = c * b[...] + sum x * w          bias and offset come from the constant input tile c
    digits[0] = low byte of acc           STORE
    acc = (acc + 128) >> 8; digits[1] = low byte ...
    acc = (acc + sum digits * m[...]) >> 8 ...     level by level: m are diagonal weight tiles
    out = clamp(acc >> p)

The digits go through DRAM, because only a LOAD makes input tiles of what a STORE wrote.
"""

from __future__ import annotations

from functools import lru_cache

from loadstone.ir_pass.affine import Place
from loadstone.ir_pass.nests import (
    Function,
    Nest,
    NestGroup,
    NestTensor,
    Role,
    Statement,
    once,
)
from loadstone.vta.device.hw_config import HwConfig
from loadstone.vta.schedule.factor_sum import FactorSum
from loadstone.vta.schedule.rescaled_spec import RescaledSpec, StairShape
from loadstone.vta.schedule.sum_writer import sum_writer
from loadstone.vta.schedule.tile_writer import tile_writer

__all__ = ["schedule"]


def schedule(spec: RescaledSpec, config: HwConfig) -> Function:
    """The function of one spec."""
    return _Writer(spec, config).function()


class _Writer:
    """Writes the function, of nests that others may have, too."""

    def __init__(self, spec: RescaledSpec, config: HwConfig) -> None:
        window, blocks, stored = spec.window, spec.blocks, max(1, spec.stored)
        rows, columns, chunk = spec.tile
        self.spec = spec
        self.tile = tile_writer(blocks, window.output, (rows, columns), config)
        self.sum = (
            sum_writer(window, spec.own_input, chunk, self.tile)
            if spec.factors is None
            else FactorSum(window, spec.factors, chunk, self.tile)
        )
        lanes, square = self.tile.lanes, self.tile.square
        self.b = _tensor("b", (blocks, max(1, spec.bias)), square, "table")
        multipliers = (spec.multipliers, max(1, spec.chain_tiles))
        self.m = _tensor("m", multipliers, square, "table")
        self.c = _tensor("c", (1,), lanes, "table")
        self.p = _tensor("p", (blocks, max(1, spec.operand_rows)), lanes, "table", "int32")
        self.digits = _tensor("digits", (blocks, stored, *window.output), lanes, "param")
        self.next_tile = 0

    def function(self) -> Function:
        """The whole function."""
        spec = self.spec
        tensors = [self.c]
        tensors += [self.m] if spec.chain_tiles else []
        tensors += [self.b] if spec.bias else []
        tensors += [self.p] if spec.operand_rows else []
        tensors += [*self.sum.tables, self.sum.x, self.sum.w]
        tensors += [self.digits] if spec.digits else []
        tensors += [self.tile.acc, *self.tile.more, self.tile.out]
        turns = self.tile.turns.around(self._tile(), apart=True)
        return Function("rescaled", tuple(tensors), turns)

    # --- one tile ---------------------------------------------------------------------------------
    def _tile(self) -> list[Statement]:
        spec, tile = self.spec, self.tile
        statements: list[Statement] = [once(tile.cleared, tile.acc)]
        statements += [
            once(tile.constant, self.c, self.b, number, False, tile.acc)
            for number in range(spec.bias)
        ]
        statements += [self._by_tile("add", spec.bias_row)] if spec.added else []
        if spec.digits:
            whole = self._sum(self.sum.each, (0, spec.window.parts))
            statements += self.sum.chunks.around([whole, *self.sum.others()])
            statements += self._split()
            statements += self._chain()
        else:
            chain = self._chain()
            first = next(number for number, each in enumerate(chain) if self._reads_factors(each))
            statements += [NestGroup(tuple(chain[: first + 1])), *chain[first + 1 :]]
        return [*statements, once(tile.store, tile.out)]

    def _reads_factors(self, statement: Statement) -> bool:
        """Whether it is the sum, or one of several."""
        return isinstance(statement, Nest) and any(
            access.tensor is self.sum.x for step in statement.steps for access in step.operands
        )

    def _sum(self, chunk: Place, parts: tuple[int, int]) -> Nest:
        """acc += the products of a run of parts."""
        return once(self.sum.products, chunk, parts)

    def _shift(self, bits: int, into: NestTensor) -> Nest:
        return once(self.tile.shift, bits, into)

    def _by_tile(self, operation: str, row: int) -> Nest:
        """acc = acc, operation, a row of the operands."""
        return once(self.tile.by_tile, operation, self.p, row)

    # --- digits -----------------------------------------------------------------------------------
    def _split(self) -> list[Statement]:
        spec, tile = self.spec, self.tile
        statements: list[Statement] = []
        if spec.left:
            statements.append(self._shift(-spec.left, tile.acc))
        if spec.right:
            statements.append(self._by_tile("shr", spec.operand_rows - 1))
        statements.append(self._store_digit(0))
        for digit in range(1, spec.digits):
            statements.append(once(tile.next_byte))
            if digit + 1 == spec.digits and spec.clamped:
                statements.append(once(tile.clamp, -128, 127))
            statements.append(self._store_digit(digit))
        if spec.signed:
            statements += [self._shift(8, tile.acc), self._store_digit(spec.digits)]
        return statements

    def _store_digit(self, digit: int) -> Nest:
        return once(self.tile.store, self.digits, digit)

    # --- levels -----------------------------------------------------------------------------------
    def _chain(self) -> list[Statement]:
        statements: list[Statement] = []
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
        statements.append(once(self.tile.clamp, chain.low, chain.high))
        return statements

    def _upper(self, sums: NestTensor) -> list[Statement]:
        """acc += the levels that are summed from the highest down."""
        statements: list[Statement] = [once(self.tile.cleared, sums)]
        for level in self.spec.chain.upper:
            if level.shift:
                statements.append(self._shift(-level.shift, sums))
            statements += [self._chain_constant(sums) for _ in range(level.constants)]
            statements += [self._level_products(run, sums) for run in level.runs]
        return [*statements, self._plus(self.tile.acc, sums)]

    def _stairs(self) -> list[Statement]:
        """acc = the sum of all stairs; each but the last is a copy of acc."""
        *copies, last = self.spec.chain.stairs
        acc, more = self.tile.acc, self.tile.more
        statements: list[Statement] = []
        for number, stair in enumerate(copies):
            into = more[min(number, 1)]
            statements += [once(self.tile.cleared, into), *self._stair(stair, into)]
            statements += [self._plus(more[0], into)] if number else []
        statements += self._stair(last, acc)
        return [*statements, *([self._plus(acc, more[0])] if copies else [])]

    def _stair(self, stair: StairShape, into: NestTensor) -> list[Statement]:
        """The operations on one copy of acc, or on acc itself."""
        statements = [self._chain_constant(into) for _ in range(stair.constants)]
        if stair.signed:
            statements.append(self._level_products((self.spec.stored - 1, 1), into))
        if into is not self.tile.acc:
            statements.append(self._plus(into, self.tile.acc))
        return [*statements, once(self.tile.floor, stair, into)]

    def _plus(self, into: NestTensor, other: NestTensor) -> Nest:
        return once(self.tile.plus, into, other)

    def _taken(self, count: int) -> int:
        """The index of the first of the next `count` weight tiles of the chain."""
        self.next_tile += count
        return self.next_tile - count

    def _chain_constant(self, into: NestTensor) -> Nest:
        place = (self.m, self._taken(1), self.spec.multipliers == 1)
        return once(self.tile.constant, self.c, *place, into)

    def _level_products(self, run: tuple[int, int], into: NestTensor) -> Nest:
        place = (self.m, self._taken(run[1]), self.spec.multipliers == 1)
        return once(self.tile.digit_products, self.digits, run, *place, into)


# --- tensors: the same objects for all functions, as their nests are ------------------------------
@lru_cache(maxsize=256)
def _tensor(
    name: str, shape: tuple[int, ...], lanes: tuple[int, int], role: Role, dtype: str = "int8"
) -> NestTensor:
    return NestTensor(name, shape, lanes, dtype, role)
