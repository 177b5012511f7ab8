# SPDX-License-Identifier: Apache-2.0
"""Max pooling as TensorIR: the window's input comes through the GEMM core into ACC, and the ALU
takes maxima tap by tap.

In:   `MaxPoolSpec`.
Out:  a scheduled IRModule. Parameters: x, identity, out.
Next: kernels/from_tir.py.

    pixels[c, y, x]    = sum over k of x_padded[c, y, x][b, k] * identity[l, k]         pads are
    -128 and never win
    largest[c, i, j]   = max over ky, kx of pixels[c, i*stride + ky, j*stride + kx]
"""

from __future__ import annotations

from dataclasses import dataclass
from operator import gt
from typing import TYPE_CHECKING

from loadstone.errors import LoweringError
from loadstone.graph.bfloat16 import LOWEST, immediate
from loadstone.relax.compat import s_tir, te, tirx, tvm
from loadstone.vta.device.hw_config import HwConfig
from loadstone.vta.isa.spec import Memory
from loadstone.vta.schedule import epilogue as epilogues
from loadstone.vta.schedule.epilogue import Step

if TYPE_CHECKING:
    from loadstone.relax.types import Expr, IRModule, PrimFunc

__all__ = ["MaxPoolSpec", "schedule"]

_LOWEST = -128
#: The bits of the least finite bfloat16: minus infinity, times the zeros of the identity, would be
#: no number.
_LOWEST_FLOAT = immediate(LOWEST)


@dataclass(frozen=True)
class MaxPoolSpec:
    """blocks: samples times channel blocks. padding: (top, left)."""

    blocks: int
    input: tuple[int, int]
    output: tuple[int, int]
    kernel: tuple[int, int]
    strides: tuple[int, int]
    padding: tuple[int, int]
    tail: tuple[Step, ...]

    def reach(self, tile: tuple[int, int]) -> tuple[int, int]:
        """Input pixels of a tile of output pixels."""
        rows, columns = ((tile[a] - 1) * self.strides[a] + self.kernel[a] for a in (0, 1))
        return rows, columns


def schedule(spec: MaxPoolSpec, config: HwConfig) -> IRModule:
    """The scheduled IRModule of one max pool."""
    s = s_tir.Schedule(tvm.IRModule({"main": _define(spec, config)}))
    blocks, rows, columns = _tile(spec, config)
    c, i, j, batch, lane = s.get_loops(s.get_sblock("out"))
    (c0, c1), (i0, i1), (j0, j1) = (
        s.split(c, [None, blocks]),
        s.split(i, [None, rows]),
        s.split(j, [None, columns]),
    )
    s.reorder(c0, i0, j0, c1, i1, j1, batch, lane)
    for name in ("tail", "largest", "pixels") if spec.tail else ("largest", "pixels"):
        s.set_scope(s.get_sblock(name), 0, "local.acc")
        s.compute_at(s.get_sblock(name), j0, preserve_unit_loops=True)
    pixels, largest = s.get_sblock("pixels"), s.get_sblock("largest")
    *_, cl, il, jl, bl, ll, ky, kx = s.get_loops(largest)
    s.reorder(ky, kx, cl, il, jl, bl, ll)  # the same accumulator again only after all others
    s.decompose_reduction(largest, ky)
    s.cache_read(pixels, 1, "local.wgt")
    inputs = s.cache_read(pixels, 0, "local.inp")
    s.compute_inline(s.get_sblock("x_padded"))
    s.compute_at(inputs, j0, preserve_unit_loops=True)
    s.decompose_reduction(pixels, s.get_loops(pixels)[3])
    return s.mod


def _define(spec: MaxPoolSpec, config: HwConfig) -> PrimFunc:
    lanes = (config.batch, config.block)
    element, lowest = ("int16", _LOWEST_FLOAT) if config.is_float else ("int8", _LOWEST)
    x = te.placeholder((spec.blocks, *spec.input, *lanes), element, name="x")
    identity = te.placeholder((1, config.block, config.block), "int8", name="identity")
    padded_size = spec.reach(spec.output)

    def pixel(c: Expr, i: Expr, j: Expr, b: Expr, lane: Expr) -> Expr:
        conditions = []
        for index, pad, padded, size in zip(
            (i, j), spec.padding, padded_size, spec.input, strict=True
        ):
            conditions += [index >= pad] if pad else []
            conditions += [index < pad + size] if padded > pad + size else []
        value = x[c, i - spec.padding[0], j - spec.padding[1], b, lane]
        return (
            tirx.if_then_else(tirx.all(*conditions), value, tirx.IntImm(element, lowest))
            if conditions
            else value
        )

    padded = te.compute((spec.blocks, *padded_size, *lanes), pixel, name="x_padded")
    k = te.reduce_axis((0, config.block), "k")
    pixels = te.compute(
        padded.shape,
        lambda c, i, j, b, lane: te.sum(
            padded[c, i, j, b, k].astype("int32") * identity[0, lane, k].astype("int32"), [k]
        ),
        name="pixels",
    )
    ky, kx = (
        te.reduce_axis((0, extent), name)
        for extent, name in zip(spec.kernel, ("ky", "kx"), strict=True)
    )
    maximum = te.comm_reducer(
        lambda a, b: te.max(a, b), lambda dtype: tirx.const(lowest, dtype), name="maximum"
    )
    last = te.compute(
        (spec.blocks, *spec.output, *lanes),
        lambda c, i, j, b, lane: maximum(
            pixels[c, i * spec.strides[0] + ky, j * spec.strides[1] + kx, b, lane], [ky, kx]
        ),
        name="largest",
    )
    if spec.tail:
        largest = last
        last = te.compute(
            largest.shape, lambda *at: epilogues.apply(spec.tail, largest[at], []), name="tail"
        )
    out = te.compute(last.shape, lambda *at: last[at].astype("int8"), name="out")
    return te.create_prim_func([x, identity, out])


def _tile(spec: MaxPoolSpec, config: HwConfig) -> tuple[int, int, int]:
    """(blocks, rows, columns): whole rows of one block where two sets fit; else parts of rows; more
    blocks where all rows fit.

    Where windows leave gaps (a stride larger than the kernel) that axis stays whole: TVM finds no
    affine binding for a part.
    """

    def fits(blocks: int, rows: int, columns: int, sets: int) -> bool:
        height, width = spec.reach((rows, columns))
        pixels = blocks * height * width
        acc = sets * (pixels + blocks * rows * columns)
        return sets * pixels <= config.depth(Memory.INP) and acc <= config.depth(Memory.ACC)

    def extents(axis: int) -> list[int]:
        size = spec.output[axis]
        if spec.strides[axis] > spec.kernel[axis]:
            return [size]
        return sorted({-(-size // count) for count in range(1, size + 1)}, reverse=True)

    for sets in (2, 1):
        for columns in extents(1):
            for rows in extents(0):
                if fits(1, rows, columns, sets):
                    whole = (rows, columns) == spec.output
                    blocks = max(
                        b
                        for b in range(1, spec.blocks + 1)
                        if b == 1 or (whole and fits(b, rows, columns, sets))
                    )
                    return blocks, rows, columns
    gaps = (
        ", with strides of {}x{},".format(*spec.strides)
        if any(map(gt, spec.strides, spec.kernel))
        else ""
    )
    raise LoweringError(
        f"tile: windows of {spec.kernel[0]}x{spec.kernel[1]} pixels{gaps} fit no scratchpad "
        f"of {config.name}"
    )
