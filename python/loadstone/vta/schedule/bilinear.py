# SPDX-License-Identifier: Apache-2.0
"""Bilinear resizing as nests over tiles: runs of rows and columns, each a loop of products.

In:   `BilinearSpec`: planes of tiles, the runs of both axes, what becomes of a sum.
Out:  a Function without copies. Parameters: diagonals, [operands,] x, out.
Next: ir_pass/insert_dma_copy.py.

    for planes:
        for a chunk of output rows:                                     its own statements
            acc = 0
            acc[first + step*i, ...] += x[source + i, ...] * diagonal   tap by tap, run by run
            out = tail(acc)

Chunks read different numbers of input rows, at places that are no multiple of the chunk's number.
So there is no loop over chunks: each one is a loop of one turn, inside which its input is loaded,
with an accumulator of its own.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from itertools import product

from loadstone.errors import LoweringError
from loadstone.ir_pass.affine import Index
from loadstone.ir_pass.nests import (
    COPY,
    Function,
    Nest,
    NestAccess,
    NestGroup,
    NestLoops,
    NestStep,
    NestTensor,
    Statement,
)
from loadstone.vta.device.hw_config import HwConfig
from loadstone.vta.device.instruction_table import REQUANTIZE_TILES
from loadstone.vta.isa.spec import Memory
from loadstone.vta.schedule.alu_steps import alu_step
from loadstone.vta.schedule.epilogue import Immediate, Rq, operand_rows

__all__ = ["BilinearSpec", "PixelRun", "schedule"]

_LARGEST_WEIGHT = 127


@dataclass(frozen=True)
class PixelRun:
    """Output pixels first, first + step, ... (count of them) read inputs source, source + 1, ...
    and the next one to each."""

    first: int
    step: int
    count: int
    source: int
    weights: tuple[int, int]

    def within(self, first: int, last: int) -> PixelRun | None:
        """The part of it within output pixels [first, last)."""
        skip = max(0, -(-(first - self.first) // self.step))
        count = min(self.count, -(-(last - self.first) // self.step)) - skip
        if count <= 0:
            return None
        begin, source = self.first + skip * self.step, self.source + skip
        return PixelRun(begin, self.step, count, source, self.weights)


@dataclass(frozen=True)
class BilinearSpec:
    """planes: samples times channel blocks. rows, columns: the runs of each axis. steps: a number
    adds that many times the weighted sum of four inputs; the others are operations on the sum."""

    planes: int
    input: tuple[int, int]
    output: tuple[int, int]
    rows: tuple[PixelRun, ...]
    columns: tuple[PixelRun, ...]
    steps: tuple[int | Immediate | Rq, ...]

    def parts(self, weight: int) -> list[int]:
        """Weights of 8 bits that add up to one."""
        parts = -(-abs(weight) // _LARGEST_WEIGHT)
        return [(weight + part) // parts for part in range(parts)]

    @cached_property
    def diagonals(self) -> tuple[int, ...]:
        """The number on the diagonal of each weight tile."""
        axes = [{w for run in runs for w in run.weights} for runs in (self.rows, self.columns)]
        factors = {step for step in self.steps if isinstance(step, int)}
        weights = {y * x * factor for y, x, factor in product(*axes, factors)} - {0}
        return tuple(sorted({part for weight in weights for part in self.parts(weight)}))

    def rows_of(self, first: int, last: int) -> list[PixelRun]:
        """Runs of output rows [first, last)."""
        found = (run.within(first, last) for run in self.rows)
        return [run for run in found if run is not None]

    def height_read(self, first: int, last: int) -> int:
        """How many input rows they span."""
        read = [
            source + tap
            for run in self.rows_of(first, last)
            for source in (run.source, run.source + run.count - 1)
            for tap in (0, 1)
            if run.weights[tap]
        ]
        return max(read) + 1 - min(read)


def schedule(spec: BilinearSpec, config: HwConfig) -> Function:
    """The function of one spec. Raises LoweringError where one row fits no scratchpad."""
    return _Writer(spec, config).function()


class _Writer:
    """Writes the function. acc: the accumulators of each chunk."""

    def __init__(self, spec: BilinearSpec, config: HwConfig) -> None:
        self.spec, self.chunks = spec, _chunks(spec, config)
        lanes, square = (config.batch, config.block), (config.block, config.block)
        tail = [step for step in spec.steps if isinstance(step, Rq)]
        tiles = (len(spec.diagonals),)
        self.diagonals = NestTensor("diagonals", tiles, square, "int8", "table")
        operands = NestTensor("operands", (REQUANTIZE_TILES,), lanes, "int32", "table")
        self.operands = [operands] if operand_rows(tail) else []
        self.acc = [
            NestTensor("acc", (last - first, spec.output[1]), lanes, "int32", "local")
            for first, last in self.chunks
        ]
        self.x = NestTensor("x", (spec.planes, *spec.input), lanes, "int8")
        self.out = NestTensor("out", (spec.planes, *spec.output), lanes, "int8")
        self.planes = NestLoops()
        self.plane = self.planes.loop(spec.planes, "plane")

    def function(self) -> Function:
        """The whole function."""
        tensors = (self.diagonals, *self.operands, *self.acc, self.x, self.out)
        body = [
            loop
            for acc, (first, last) in zip(self.acc, self.chunks, strict=True)
            for loop in self._chunk(acc, first, last)
        ]
        return Function("bilinear", tensors, self.planes.around(body))

    def _chunk(self, acc: NestTensor, first: int, last: int) -> tuple[Statement, ...]:
        """Output rows [first, last). The first step is a sum, before which all is 0."""
        around, elements = NestLoops(), NestLoops()
        turn = around.loop(1, "chunk")
        row, column = map(elements.loop, acc.shape, "ij")
        value = acc[row, column]
        body: list[Nest] = []
        for step in self.spec.steps:
            if isinstance(step, int):
                body += self._products(acc, turn, (first, last), step)
            else:
                body.append(elements.nest(alu_step(step, value, self._operand)))
        body.append(
            elements.nest(NestStep(COPY, (self.out[self.plane, row + first, column], value)))
        )
        begun = NestGroup((elements.nest(NestStep("fill", (value,), (0,))), body[0]))
        return around.around([begun, *body[1:]])

    def _operand(self, row: int) -> NestAccess:
        return self.operands[0][row]

    def _products(
        self, acc: NestTensor, turn: Index, rows: tuple[int, int], factor: int
    ) -> Iterator[Nest]:
        """acc += factor times the weighted inputs: every run of rows with every run of columns, tap
        by tap."""
        for row, column in product(self.spec.rows_of(*rows), self.spec.columns):
            loops = NestLoops()
            i, j = map(loops.loop, (row.count, column.count), "ij")
            value = acc[i * row.step + (row.first - rows[0]), j * column.step + column.first]
            for y, x in product((0, 1), (0, 1)):
                source = self.x[self.plane, turn + i + (row.source + y), j + (column.source + x)]
                for part in self.spec.parts(factor * row.weights[y] * column.weights[x]):
                    weight = self.diagonals[self.spec.diagonals.index(part)]
                    yield loops.nest(NestStep("gemm", (value, source, weight)))


def _chunks(spec: BilinearSpec, config: HwConfig) -> list[tuple[int, int]]:
    """Output rows [first, last) whose tiles fit twice, or once where one row is too long."""
    height, width = spec.output
    for sets in (2, 1):
        size = height
        while size:
            chunks = [(at, min(at + size, height)) for at in range(0, height, size)]
            if all(_fits(spec, config, chunk, sets) for chunk in chunks):
                return chunks
            size //= 2
    raise LoweringError(f"tile: a row of {width} pixels does not fit {config.name}")


def _fits(spec: BilinearSpec, config: HwConfig, rows: tuple[int, int], sets: int) -> bool:
    inputs = sets * spec.height_read(*rows) * spec.input[1]
    sums = sets * (rows[1] - rows[0]) * spec.output[1] + REQUANTIZE_TILES
    return inputs <= config.depth(Memory.INP) and sums <= config.depth(Memory.ACC)
