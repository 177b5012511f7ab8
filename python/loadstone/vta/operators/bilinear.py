# SPDX-License-Identifier: Apache-2.0
"""Bilinear resizing: every output pixel is a sum of four input pixels times small integers, then
one requantization, or products and shifts on a device without it.

In:   graph.ResizeBilinear under TFLite's rule (10 fractional bits per axis, half away from zero).
Out:  operations on virtual tiles, and diagonal weight tiles.
Next: __init__.py.

Along each axis output pixels fall into runs: pixels `step` apart that read neighbouring inputs with
the same two weights.

    2x, half pixel centers:    out 0 | out 1 3 5 ... | out 2 4 6 ... | last        reads  0 | t, t+1
                               | t, t+1 | last
                               4     | 3 1           | 1 3           | 4           quarters

A run of rows and a run of columns is one loop nest, whose four taps are GEMMs with diagonal
weights. The borders, where a pixel is read twice, are runs of their own. The stream is written here
directly: runs are no perfect nest of one tensor expression.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from functools import lru_cache
from math import gcd

import numpy as np
from numpy.typing import NDArray

from loadstone import graph as g
from loadstone.backend.interface import Refusal
from loadstone.errors import LoweringError
from loadstone.graph.kernels import tflite
from loadstone.numerics import Array, Rounding
from loadstone.vta.device.hw_config import HwConfig
from loadstone.vta.integers.chain import AluStep, Chain, Product
from loadstone.vta.integers.linear_form import Correction
from loadstone.vta.integers.linear_search import LinearProblem, find_chain
from loadstone.vta.integers.requantization_search import (
    OutputRange,
    Requantization,
    find_requantization,
)
from loadstone.vta.isa.spec import AluOp, Capability, Memory
from loadstone.vta.operators import constants
from loadstone.vta.operators.kernels import LoweredOperator
from loadstone.vta.operators.layout import Blocked
from loadstone.vta.operators.request import LayerRequest
from loadstone.vta.stream.operations import (
    Access,
    AluNest,
    DramTile,
    FillNest,
    GemmNest,
    Operation,
    RequantizeNest,
    TileLoad,
    TileStore,
    VirtualTile,
)

__all__ = ["lower", "unsupported"]

#: The largest sum of weights, that of a factor of 4. Beyond it runs get so many and so short that
#: instructions cost more than steps.
_LARGEST_WHOLE = 64
_LARGEST_WEIGHT = 127


@dataclass(frozen=True)
class _Run:
    """Output pixels first, first + step, ... (count of them) read inputs source, source + 1, ...
    and the next one to each."""

    first: int
    step: int
    count: int
    source: int
    weights: tuple[int, int]


def unsupported(op: g.ResizeBilinear, config: HwConfig) -> Refusal | None:
    """Why the device cannot do this exactly; None if it can."""
    spreads = op.input.shape[1:3] == (1, 1)
    if op.rounding is Rounding.FLOAT32 and not spreads:
        return Refusal("ONNX interpolates in float32", "nearest resizing")
    rows, columns = _runs(op, 1), _runs(op, 2)
    whole = sum(rows[0].weights) * sum(columns[0].weights)
    if whole > _LARGEST_WHOLE:
        return Refusal(
            f"{op.input.shape} to {op.output.shape} needs weights of {whole} parts",
            "an integer factor of at most 4",
        )
    if op.unsigned and whole % 2 == 0 and not (_exact(op, 1) and _exact(op, 2)):
        return Refusal(
            "the uint8 kernel's float32 weights are not exact, and its sums may lie on a half",
            "factors that are powers of two",
        )
    found = (
        _requantization(whole, op.unsigned)
        if config.has(Capability.REQUANTIZE)
        else _chain(whole, _largest(rows) * _largest(columns), op.unsigned)
    )
    if found is None:
        return Refusal(f"no requantization divides by {whole} as the kernel does", "another factor")
    return None


def lower(op: g.ResizeBilinear, config: HwConfig, _: LayerRequest) -> LoweredOperator:
    """Chunk of rows by chunk of rows, channel block by channel block."""
    return _Resize(op, config).lowered()


class _Resize:
    def __init__(self, op: g.ResizeBilinear, config: HwConfig) -> None:
        self.op, self.config = op, config
        self.rows, self.columns = _runs(op, 1), _runs(op, 2)
        whole = sum(self.rows[0].weights) * sum(self.columns[0].weights)
        self.chain, self.requantization = _finish(
            whole, _largest(self.rows) * _largest(self.columns), op.unsigned, config
        )
        if whole == 1:
            self.chain, self.requantization = (Product(0, 1),), None
        products = {
            step.weight * y * x
            for step in self.chain
            if isinstance(step, Product)
            for row in self.rows
            for column in self.columns
            for y in row.weights
            for x in column.weights
            if y * x
        }
        self.parts = {product: _small_parts(product) for product in products}
        self.diagonals = sorted({part for parts in self.parts.values() for part in parts})
        self.names = (f"{op.name}.diagonals", f"{op.name}.operands")

    def lowered(self) -> LoweredOperator:
        tiles = np.concatenate(
            [constants.identity_tile(self.config) * np.int8(weight) for weight in self.diagonals]
        )
        own: dict[str, tuple[Memory, Array]] = {self.names[0]: (Memory.WGT, tiles)}
        weights = VirtualTile(Memory.WGT, len(tiles), "diagonals")
        operations: list[Operation] = [
            TileLoad(Memory.WGT, weights, 0, DramTile(self.names[0], 0), 1, len(tiles), len(tiles))
        ]
        held = VirtualTile(Memory.ACC, 3, "operands")
        if self.requantization is not None:
            r = self.requantization
            rows = (r.bias, r.multiplier, r.shift)
            operands = constants.operand_tiles(rows, self.config.block, self.config)
            own[self.names[1]] = (Memory.ACC, operands)
            operations.append(TileLoad(Memory.ACC, held, 0, DramTile(self.names[1], 0), 1, 3, 3))
        layout = Blocked(self.op.input.shape, self.config.batch, self.config.block)
        for plane in range(layout.samples * layout.channel_blocks):
            for first, last in self._chunks():
                operations += self._chunk(plane, (first, last), weights, held)
        return LoweredOperator(operations, own)

    def _chunks(self) -> Iterator[tuple[int, int]]:
        """Output rows [first, last) whose tiles fit twice, or once where one row is too long."""
        height, width = self.op.output.shape[1:3]
        for sets in (2, 1):
            size = height
            while size and not all(
                self._fits(first, min(first + size, height), sets)
                for first in range(0, height, size)
            ):
                size //= 2
            if size:
                yield from ((first, min(first + size, height)) for first in range(0, height, size))
                return
        raise LoweringError(
            f"operators: {self.op.kind} {self.op.name}: a row of {width} pixels does not fit "
            f"{self.config.name}"
        )

    def _fits(self, first: int, last: int, sets: int) -> bool:
        low, high = self._inputs(first, last)
        acc = sets * (last - first) * self.op.output.shape[2] + 3
        return sets * (high - low) * self.op.input.shape[2] <= self.config.depth(
            Memory.INP
        ) and acc <= self.config.depth(Memory.ACC)

    def _inputs(self, first: int, last: int) -> tuple[int, int]:
        """Input rows [low, high) that output rows [first, last) read."""
        read = [
            source + tap
            for run in (_cut(run, first, last) for run in self.rows)
            if run is not None
            for source in (run.source, run.source + run.count - 1)
            for tap in (0, 1)
            if run.weights[tap]
        ]
        return min(read), max(read) + 1

    def _chunk(
        self, plane: int, rows: tuple[int, int], weights: VirtualTile, operands: VirtualTile
    ) -> Iterator[Operation]:
        """Output rows [first, last) of a plane."""
        first, last = rows
        height, width = self.op.input.shape[1:3]
        out_height, out_width = self.op.output.shape[1:3]
        low, high = self._inputs(first, last)
        inp = VirtualTile(Memory.INP, (high - low) * width, "x")
        acc = VirtualTile(Memory.ACC, (last - first) * out_width, "acc")
        pixels, columns = acc.size_tiles, inp.size_tiles
        yield TileLoad(
            Memory.INP,
            inp,
            0,
            DramTile(self.op.input.name, (plane * height + low) * width),
            1,
            columns,
            columns,
        )
        every = Access(acc, 0, (1,))
        yield FillNest((pixels,), every, 0)
        for step in self.chain:
            if isinstance(step, AluStep):
                yield AluNest(AluOp[step.op.upper()], (pixels,), every, None, step.value)
                continue
            for run in self.rows:
                row = _cut(run, first, last)
                if row is not None:
                    above, below = row.weights
                    scaled = replace(row, weights=(step.weight * above, step.weight * below))
                    yield from self._products(scaled, acc, inp, weights, (first, low))
        if self.requantization is not None:
            r = self.requantization
            held = Access(operands, 0, (0,))
            target = (r.zero_point, r.low, r.high, r.rounding)
            yield RequantizeNest((pixels,), every, held, *target)
        yield TileStore(
            acc,
            0,
            DramTile(self.op.output.name, (plane * out_height + first) * out_width),
            1,
            pixels,
            pixels,
        )

    def _products(
        self,
        row: _Run,
        acc: VirtualTile,
        inp: VirtualTile,
        weights: VirtualTile,
        origin: tuple[int, int],
    ) -> Iterator[Operation]:
        """The taps of one run of rows and every run of columns. origin: the first output row and
        input row on the chip."""
        first, low = origin
        width, out_width = self.op.input.shape[2], self.op.output.shape[2]
        for column in self.columns:
            dst = Access(
                acc,
                (row.first - first) * out_width + column.first,
                (row.step * out_width, column.step),
            )
            for y, x in np.ndindex(2, 2):
                product = row.weights[y] * column.weights[x]
                source = (row.source + y - low) * width + column.source + x
                for part in self.parts[product] if product else ():
                    wgt = Access(weights, self.diagonals.index(part), (0, 0))
                    yield GemmNest(
                        (row.count, column.count), dst, Access(inp, source, (width, 1)), wgt
                    )


def _runs(op: g.ResizeBilinear, axis: int) -> tuple[_Run, ...]:
    """The runs of one axis, with weights in the smallest integers."""
    lower, pairs = _taps(op, axis)
    divisor = gcd(*pairs.ravel().tolist())
    runs: list[_Run] = []
    groups: dict[tuple[int, int], list[int]] = {}
    for index, pair in enumerate((pairs // divisor).tolist()):
        groups.setdefault((pair[0], pair[1]), []).append(index)
    for weights, members in groups.items():
        start = 0
        while start < len(members):
            run = _longest(members[start:], lower)
            runs.append(_Run(members[start], run[0], run[1], int(lower[members[start]]), weights))
            start += run[1]
    return tuple(runs)


def _taps(op: g.ResizeBilinear, axis: int) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """The first input of each output pixel, and the weights of it and the next in 1/1024, or finer
    where the kernel is float32."""
    taps = tflite.bilinear_taps_uint8 if op.unsigned else tflite.bilinear_taps
    lower, upper, share = taps(
        op.input.shape[axis], op.output.shape[axis], op.align_corners, op.half_pixel_centers
    )
    one = (1 << 23) if op.unsigned else 1 << 10
    second = np.asarray(np.round(share.astype(np.float64) * (one if op.unsigned else 1)), np.int64)
    pairs = np.stack([one - second, second], axis=1)
    pairs[np.asarray(lower) == np.asarray(upper)] = (
        one,
        0,
    )  # a pixel that is read twice: all weight on it
    return np.asarray(lower, np.int64), pairs


def _exact(op: g.ResizeBilinear, axis: int) -> bool:
    """Whether float32 weights of an axis are whole parts of _LARGEST_WHOLE, also those of a pixel
    that is read twice: then the kernel's products and sums of 8 + 12 bits are exact, and its halves
    are ours. An odd sum of weights has no halves, and its float32 errors are rounded away."""
    share = tflite.bilinear_taps_uint8(
        op.input.shape[axis], op.output.shape[axis], op.align_corners, op.half_pixel_centers
    )[2]
    return not np.any(share.astype(np.float64) * _LARGEST_WHOLE % 1)


def _longest(members: list[int], lower: NDArray[np.int64]) -> tuple[int, int]:
    """(step, count) of the longest run that begins with the first member: equal steps, neighbouring
    inputs."""
    if len(members) == 1:
        return 1, 1
    step, count = members[1] - members[0], 1
    while (
        count < len(members)
        and members[count] - members[count - 1] == step
        and lower[members[count]] - lower[members[count - 1]] == 1
    ):
        count += 1
    return step, count


def _cut(run: _Run, first: int, last: int) -> _Run | None:
    """The part of a run within output pixels [first, last)."""
    skip = max(0, -(-(first - run.first) // run.step))
    count = min(run.count, -(-(last - run.first) // run.step)) - skip
    return (
        _Run(run.first + skip * run.step, run.step, count, run.source + skip, run.weights)
        if count > 0
        else None
    )


def _small_parts(weight: int) -> list[int]:
    """Weights of 8 bits that add up to one."""
    parts = -(-abs(weight) // _LARGEST_WEIGHT)
    return [(weight + part) // parts for part in range(parts)]


def _largest(runs: tuple[_Run, ...]) -> int:
    return max(max(run.weights) for run in runs)


def _finish(
    whole: int, largest: int, unsigned: bool, config: HwConfig
) -> tuple[Chain, Requantization | None]:
    """What becomes of the sum: once, and RQ; or products of it and shifts."""
    if config.has(Capability.REQUANTIZE):
        found = _requantization(whole, unsigned)
        if found is not None:
            return (Product(0, 1),), found
    else:
        chain = _chain(whole, largest, unsigned)
        if chain is not None:
            return chain, None
    raise LoweringError(f"operators: resize_bilinear: nothing divides by {whole}")


def _means(whole: int, offset: int) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Every sum, and its share: half away from zero of x + offset."""
    sums = np.arange(-128 * whole, 127 * whole + 1)
    raised = sums + offset * whole
    return sums, np.sign(raised) * ((2 * np.abs(raised) + whole) // (2 * whole)) - offset


@lru_cache(maxsize=64)
def _requantization(whole: int, unsigned: bool) -> Requantization | None:
    """Division by the sum of weights, tried on every sum; in uint8 models of x + 128."""
    offset = 128 if unsigned else 0
    sums, wanted = _means(whole, offset)
    return find_requantization(sums, wanted, 1 / whole, offset * whole, OutputRange(-offset))


@lru_cache(maxsize=64)
def _chain(whole: int, largest: int, unsigned: bool) -> Chain | None:
    """The same by products and shifts. largest: the largest weight of a tap."""
    offset = 128 if unsigned else 0
    sums, wanted = _means(whole, offset)
    taps = 4
    problem = LinearProblem(
        (sums,), wanted, (1 / whole,), (-offset * whole,), -128, 127, taps, largest
    )
    return find_chain(problem, (Correction.NONE, Correction.NEGATIVE))
