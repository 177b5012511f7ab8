# SPDX-License-Identifier: Apache-2.0
"""A convolution that TVM's own primitives schedule: what a back end may give in `schedules`.

In:   a Conv2D; lanes and rows of a tile; whether the schedule makes its copies itself.
Out:  `scheduled`: its TensorIR.
Next: test_c_source.py makes C of it; test_from_tir.py reads it.
"""

from __future__ import annotations

from typing import Any

from loadstone.graph import Conv2D
from loadstone.relax.compat import s_tir, te, tirx, tvm


def rounded(size: int, dim: int) -> int:
    """Up to a multiple of dim."""
    return (size + dim - 1) // dim * dim


def padded(operator: Conv2D, size: int, axis: int) -> int:
    """Pixels of input that `size` pixels of output read along an axis."""
    reach = operator.dilation[axis] * (operator.weights.shape[1 + axis] - 1) + 1
    return int((size - 1) * operator.strides[axis] + reach)


def scheduled(op: Conv2D, dim: int, rows: int, *, copies: bool) -> Any:
    """A convolution as a sum over blocks of channels and taps, in tiles of `rows` rows and one
    block. Every tensor ends in a tile of lanes. copies: by cache_read, as TVM has them; else the
    schedule says nothing of memories."""
    (_, h, w, c), (_, oh, ow, o) = op.input.shape, op.output.shape
    ins, outs = rounded(c, dim) // dim, rounded(o, dim) // dim
    (top, left), (sy, sx), (dy, dx) = op.padding[:2], op.strides, op.dilation
    x = te.placeholder((h, w, ins, 1, dim), "int8", name="x")
    weights = te.placeholder((outs, ins, *op.weights.shape[1:3], dim, dim), "int8", name="w")
    lanes = te.placeholder((outs, 3, 1, dim), "int32", name="p")
    extents = {"n": ins, "ky": op.weights.shape[1], "kx": op.weights.shape[2], "k": dim}
    n, ky, kx, k = (te.reduce_axis((0, extent), name) for name, extent in extents.items())
    pad = tirx.IntImm("int8", op.input.zero_point)

    def pixel(i: Any, j: Any, block: Any, b: Any, lane: Any) -> Any:
        inside = tirx.all(i >= top, i < h + top, j >= left, j < w + left)
        return tirx.if_then_else(inside, x[i - top, j - left, block, b, lane], pad)

    def term(i: Any, j: Any, block: Any, b: Any, lane: Any) -> Any:
        data = pixels[i * sy + ky * dy, j * sx + kx * dx, n, b, k].astype("int32")
        return te.sum(data * weights[block, n, ky, kx, lane, k].astype("int32"), [n, ky, kx, k])

    def requantized(i: Any, j: Any, block: Any, b: Any, lane: Any) -> Any:
        operands = [lanes[block, row, b, lane] for row in range(3)]
        immediates = (op.output.zero_point, op.low, op.high, int(op.rounding))
        head = acc[i, j, block, b, lane]
        return tirx.call_pure_extern("int32", "lds.rq", head, *operands, *immediates)

    size = (padded(op, oh, 0), padded(op, ow, 1))
    pixels = te.compute((*size, ins, 1, dim), pixel, name="pixels")
    acc = te.compute((oh, ow, outs, 1, dim), term, name="acc")
    tail = te.compute(acc.shape, requantized, name="tail")
    out = te.compute(acc.shape, lambda *at: tail[at].astype("int8"), name="out")

    s = s_tir.Schedule(tvm.IRModule({"main": te.create_prim_func([x, weights, lanes, out])}))
    i, j, block, b, lane = s.get_loops(s.get_sblock("out"))
    i0, i1 = s.split(i, [None, rows])
    s.reorder(i0, block, i1, j, b, lane)
    for name in ("tail", "acc"):
        if copies:
            s.set_scope(s.get_sblock(name), 0, "local.acc")
        s.compute_at(s.get_sblock(name), block, preserve_unit_loops=True)
    sums = s.get_sblock("acc")
    _, _, i1, j, channel, b, lane, block_in, row, column, k = s.get_loops(sums)
    s.reorder(block_in, row, column, i1, j, channel, b, lane, k)
    s.annotate(block_in, "lds.level", "kept")  # one block of input channels at a time
    if copies:
        data = s.cache_read(sums, 0, "local.inp")
        s.compute_inline(s.get_sblock("pixels"))
        for cached in (data, s.cache_read(sums, 1, "local.wgt")):
            s.compute_at(cached, block_in, preserve_unit_loops=True)
        rows_of_p = s.cache_read(s.get_sblock("tail"), 1, "local.acc")
        s.compute_at(rows_of_p, block, preserve_unit_loops=True)
    else:
        s.compute_inline(s.get_sblock("pixels"))
    s.decompose_reduction(sums, block_in)
    return s.mod
