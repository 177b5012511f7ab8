# SPDX-License-Identifier: Apache-2.0
"""The product of two activations as a computation in tiles: one of them is loaded as weights.

In:   `MatmulSpec`: extents in tiles; the parts of both zero points; the tail.
Out:  a Function without copies. Parameters: [second,] [first,] [p,] w, x, out.
Next: ir_pass/insert_dma_copy.py.

    x[n, c, h, m][1, k]        the first factor, blocked
    w[n, c, h, o][lane, k]     the second one, blocked: its rows are lanes, sixteen to a tile
    first[c, part][1, k]       tiles whose parts add up to minus the zero point of x, 0 beyond K
    second[c, part][lane, k]   the same for w
    p[row][1, lane]            bias, multiplier, shift; none where nothing is requantized
    acc[n, o, h, m][0, l] = sum x * w + first * w + x * second
    out = int8(rq(acc, p))

Blocked, a tensor (n, h, m, K) has its channels in tiles of a block for each of m. So many rows of
it that fill a block are a tile of weights as the GEMM core reads one: out lane by in lane. Nothing
is transposed.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from loadstone.errors import LoweringError
from loadstone.ir_pass.affine import Index, Variable
from loadstone.ir_pass.nests import (
    COPY,
    Function,
    Nest,
    NestAccess,
    NestGroup,
    NestStep,
    NestTensor,
    Statement,
)
from loadstone.ir_pass.tile_loops import tiled
from loadstone.vta.device.hw_config import HwConfig
from loadstone.vta.device.instruction_table import REQUANTIZE_TILES
from loadstone.vta.isa.spec import Memory
from loadstone.vta.schedule.alu_steps import alu_step
from loadstone.vta.schedule.epilogue import Immediate, Rq, operand_rows

__all__ = ["MatmulSpec", "schedule"]


@dataclass(frozen=True)
class MatmulSpec:
    """samples, matrices: products, along the leading axis and the others. rows: M. depth, columns:
    K and N in blocks. parts: tiles that make up each zero point, of x and of w."""

    samples: int
    matrices: int
    rows: int
    depth: int
    columns: int
    parts: tuple[int, int]
    tail: tuple[Rq | Immediate, ...]


def schedule(spec: MatmulSpec, config: HwConfig) -> Function:
    """The function of one spec. Raises LoweringError where no tile fits the scratchpads."""
    computation = _Computation(spec, config)
    n, h, o, m = computation.axes
    rows, columns = _tile(spec, config)
    return tiled(computation.function(), {n: 1, h: 1, o: columns, m: rows}, (n, h, o, m))


class _Computation:
    """The computation of a spec, on whole axes.

    axes: samples, matrices, blocks of columns, rows.
    """

    def __init__(self, spec: MatmulSpec, config: HwConfig) -> None:
        self._spec = spec
        lanes, square = (config.batch, config.block), (config.block, config.block)
        totals = (spec.samples, spec.matrices, spec.columns, spec.rows)
        self.axes = tuple(map(Variable, "nhom", totals))
        self._depth = Variable("c", spec.depth)
        *self._at, self._c = (Index(0, {loop: 1}) for loop in (*self.axes, self._depth))
        samples, matrices, columns, rows = totals
        first, second = (max(1, parts) for parts in spec.parts)
        depth, shape = spec.depth, (samples, columns, matrices, rows)
        self._second = NestTensor("second", (depth, second), square, "int8", "table")
        self._first = NestTensor("first", (depth, first), lanes, "int8", "table")
        self._p = NestTensor("p", (max(1, operand_rows(spec.tail)),), lanes, "int32", "table")
        self._w = NestTensor("w", (samples, depth, matrices, columns), square, "int8")
        self._acc = NestTensor("acc", shape, lanes, "int32", "local")
        self._x = NestTensor("x", (samples, depth, matrices, rows), lanes, "int8")
        self._out = NestTensor("out", shape, lanes, "int8")

    def function(self) -> Function:
        """The whole of it."""
        first, second = self._spec.parts
        has_operands = operand_rows(self._spec.tail) > 0
        tables = [self._second] * (second > 0) + [self._first] * (first > 0)
        tables += [self._p] * has_operands
        tensors = (*tables, self._w, self._acc, self._x, self._out)
        return Function("matmul", tensors, tuple(self._statements()))

    def _statements(self) -> Iterator[Statement]:
        n, h, o, m = self._at
        element = (n, o, h, m)
        value = self._acc[element]
        cleared = self._elements(NestStep("fill", (value,), (0,)))
        yield NestGroup((cleared, *self._products(value)))
        steps = [alu_step(step, value, lambda row: self._p[row]) for step in self._spec.tail]
        if steps:
            yield self._elements(*steps)
        yield self._elements(NestStep(COPY, (self._out[element], value)))

    def _elements(self, *steps: NestStep) -> Nest:
        """Steps for every element of the output."""
        n, h, o, m = self.axes
        return Nest((n, o, h, m), (), steps)

    def _products(self, value: NestAccess) -> Iterator[Nest]:
        """value += x * w + first * w + x * second, part by part."""
        (n, h, o, m), c = self._at, self._c
        x, w = self._x[n, c, h, m], self._w[n, c, h, o]
        first, second = self._spec.parts
        factors = [(x, w)]
        factors += [(self._first[c, part], w) for part in range(first)]
        factors += [(x, self._second[c, part]) for part in range(second)]
        samples, matrices, columns, rows = self.axes
        loops = (samples, columns, matrices, rows, self._depth)
        for pixel, weight in factors:
            yield Nest(loops, (), (NestStep("gemm", (value, pixel, weight)),))


def _tile(spec: MatmulSpec, config: HwConfig) -> tuple[int, int]:
    """Rows and blocks of columns at once: as many columns as leave room for the next ones, then as
    many rows."""
    first, second = spec.parts
    weights = (config.depth(Memory.WGT) - spec.depth * second) // 2
    inputs = (config.depth(Memory.INP) - spec.depth * first) // 2
    sums = (config.depth(Memory.ACC) - REQUANTIZE_TILES) // 2
    if spec.depth > min(weights, inputs) or sums < 1:
        raise LoweringError(
            f"tile: a sum of {spec.depth} blocks of channels fits no scratchpad of {config.name}"
        )
    columns = _part(spec.columns, min(weights // spec.depth, sums))
    return _part(spec.rows, min(inputs // spec.depth, sums // columns)), columns


def _part(total: int, most: int) -> int:
    """A part of at most that size, such that all are nearly equal."""
    return -(-total // -(-total // most))
