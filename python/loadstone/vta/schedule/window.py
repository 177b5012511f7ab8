# SPDX-License-Identifier: Apache-2.0
"""Sums over windows, and a chain of products and ALU operations on them, as TensorIR.

In:   `WindowSpec`: geometry in tiles, which part of the output, the steps.
Out:  a scheduled IRModule. Parameters: x, weights, out.
Next: lower.py.

A product of the chain (script.py) is that of every tap of the window with one weight tile, so that
the window's sum is multiplied. The input stays on the chip from the first product to the last; a
sum of more taps than fit is loaded again, part by part, for each product.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from math import prod
from typing import TYPE_CHECKING

from loadstone.errors import LoweringError
from loadstone.relax.compat import parsed_tir, s_tir, tvm
from loadstone.vta.hw_config import HwConfig
from loadstone.vta.isa.spec import Memory
from loadstone.vta.schedule.script import (
    ChainStep,
    Multiply,
    block,
    chain_blocks,
    function_head,
)

if TYPE_CHECKING:
    from loadstone.relax.types import IRModule, SBlockRV, Schedule

__all__ = ["WindowSpec", "schedule"]

#: Tiles of the output that are in flight are at most this part of all, so that load, compute and
#: store overlap.
_LEAST_PARTS = 4


@dataclass(frozen=True)
class WindowSpec:
    """blocks: samples times channel blocks. padding: (top, left), read as 0. first, part: the
    output pixels that are computed, of output."""

    blocks: int
    input: tuple[int, int]
    output: tuple[int, int]
    kernel: tuple[int, int]
    strides: tuple[int, int]
    padding: tuple[int, int]
    first: tuple[int, int]
    part: tuple[int, int]
    steps: tuple[ChainStep, ...]

    @property
    def tiles(self) -> int:
        """Weight tiles."""
        return 1 + max(step.tile for step in self.steps if isinstance(step, Multiply))

    def reach(self, axis: int, extent: int) -> int:
        """Input pixels along an axis that so many output pixels read."""
        return (extent - 1) * self.strides[axis] + self.kernel[axis]


@dataclass(frozen=True)
class _Tile:
    """Output tiles in flight, and rows of the window whose input is."""

    blocks: int
    rows: int
    columns: int
    taps: int


def schedule(spec: WindowSpec, config: HwConfig) -> IRModule:
    """The scheduled IRModule."""
    tile = _tile(spec, config)
    s = s_tir.Schedule(tvm.IRModule({"main": parsed_tir("\n".join(_lines(spec, config)) + "\n")}))
    c, i, j, batch, lane = s.get_loops(s.get_sblock("out"))
    (c0, c1), (i0, i1), (j0, j1) = (
        s.split(loop, [None, size])
        for loop, size in ((c, tile.blocks), (i, tile.rows), (j, tile.columns))
    )
    s.reorder(c0, i0, j0, c1, i1, j1, batch, lane)
    for number in reversed(range(len(spec.steps))):  # consumers first
        stage = s.get_sblock(f"acc{number}")
        s.set_scope(stage, 0, "local.acc")
        s.compute_at(stage, j0, preserve_unit_loops=True)
    products = [
        s.get_sblock(f"acc{number}")
        for number, step in enumerate(spec.steps)
        if isinstance(step, Multiply)
    ]
    s.cache_read(products[0], _position(s, products[0], "weights"), "local.wgt", products)
    whole = tile.taps >= spec.kernel[0]
    together = [products] if whole else [[product] for product in products]
    caches = [
        s.cache_read(readers[0], _position(s, readers[0], "x_padded"), "local.inp", readers)
        for readers in together
    ]
    s.compute_inline(s.get_sblock("x_padded"))
    if whole:
        s.compute_at(caches[0], j0, preserve_unit_loops=True)
    for number, product in enumerate(products):
        *_, cl, il, jl, bl, ll, ky, kx, k = s.get_loops(product)
        ky0, ky1 = s.split(ky, [None, tile.taps])
        s.reorder(ky0, cl, il, jl, ky1, kx, bl, ll, k)
        if not whole:
            s.compute_at(caches[number], ky0, preserve_unit_loops=True)
        s.decompose_reduction(product, ky0)
    return s.mod


def _position(s: Schedule, stage: SBlockRV, source: str) -> int:
    return [str(region.source.name) for region in s.get(stage).reads].index(source)


def _lines(spec: WindowSpec, config: HwConfig) -> Iterator[str]:
    """The computation, unscheduled, as TVMScript."""
    lanes = {"b": config.batch, "l": config.block}
    rows, columns = (spec.reach(axis, spec.part[axis]) for axis in (0, 1))
    yield from function_head(
        {
            "x": (spec.blocks, *spec.input, *lanes.values()),
            "weights": (spec.tiles, config.block, config.block),
            "out": (spec.blocks, *spec.output, *lanes.values()),
        }
    )
    padded = {"c": spec.blocks, "row": rows, "column": columns, **lanes}
    yield f'    x_padded = T.sblock_alloc_buffer({tuple(padded.values())}, "int8")'
    yield from block("x_padded", padded, {})
    begins = [spec.first[axis] * spec.strides[axis] - spec.padding[axis] for axis in (0, 1)]
    conditions = []
    for value, begin, extent, size in zip(
        ("row", "column"), begins, (rows, columns), spec.input, strict=True
    ):
        conditions += [f"v_{value} >= {-begin}"] if begin < 0 else []
        conditions += [f"v_{value} < {size - begin}"] if begin + extent > size else []
    value = f"x[v_c, v_row + {begins[0]}, v_column + {begins[1]}, v_b, v_l]"
    if conditions:
        value = f"T.if_then_else({' and '.join(conditions)}, {value}, T.int8(0))"
    yield f"            x_padded[v_c, v_row, v_column, v_b, v_l] = {value}"

    def product(step: Multiply) -> str:
        at = f"v_i * {spec.strides[0]} + v_ky, v_j * {spec.strides[1]} + v_kx"
        return (
            f'T.Cast("int32", x_padded[v_c, {at}, v_b, v_k]) '
            f'* T.Cast("int32", weights[{step.tile}, v_l, v_k])'
        )

    loops = {"c": spec.blocks, "i": spec.part[0], "j": spec.part[1], **lanes}
    taps = {"ky": spec.kernel[0], "kx": spec.kernel[1], "k": config.block}
    yield from chain_blocks(spec.steps, loops, taps, product)
    yield from block("out", loops, {})
    yield (
        f"            out[v_c, v_i + {spec.first[0]}, v_j + {spec.first[1]}, v_b, v_l] = "
        f'T.Cast("int8", acc{len(spec.steps) - 1}[v_c, v_i, v_j, v_b, v_l])'
    )


def _tile(spec: WindowSpec, config: HwConfig) -> _Tile:
    """The largest part whose input fits twice, with its accumulators; of a window that does not
    fit, as many rows as do."""
    found = [
        _Tile(blocks, rows, columns, taps)
        for taps in _parts(spec.kernel[0])
        for columns in _parts(spec.part[1])
        for rows in _parts(spec.part[0])
        for blocks in _parts(spec.blocks)
        if (rows == spec.part[0] or blocks == 1)
        and (taps == spec.kernel[0] or (rows, columns, blocks) == (1, 1, 1))
        and _fits(spec, config, _Tile(blocks, rows, columns, taps))
    ]
    if not found:
        raise LoweringError(
            f"tile: windows of {spec.kernel[0]}x{spec.kernel[1]} pixels fit no scratchpad "
            f"of {config.name}"
        )
    whole = spec.blocks * prod(spec.part)

    def preferred(tile: _Tile) -> tuple[int, bool, int]:
        size = tile.blocks * tile.rows * tile.columns
        small = size * _LEAST_PARTS <= whole
        return tile.taps, small, size if small else -size

    return max(found, key=preferred)


def _fits(spec: WindowSpec, config: HwConfig, tile: _Tile) -> bool:
    rows = (tile.rows - 1) * spec.strides[0] + tile.taps
    pixels = tile.blocks * rows * spec.reach(1, tile.columns)
    accumulators = tile.blocks * tile.rows * tile.columns
    micro_ops = tile.taps * spec.kernel[1] * min(tile.blocks, tile.rows, tile.columns)
    return (
        2 * pixels <= config.depth(Memory.INP)
        and 2 * accumulators <= config.depth(Memory.ACC)
        and 4 * micro_ops <= config.depth(Memory.UOP)
    )


def _parts(total: int) -> list[int]:
    """Sizes that cut `total` into nearly equal parts."""
    return sorted({-(-total // count) for count in range(1, total + 1)}, reverse=True)
