# SPDX-License-Identifier: Apache-2.0
"""A convolution that TVM's own primitives schedule, copies and all: what a back end may give in
`schedules`.

In:   a Conv2D; lanes and rows of a tile.
Out:  `scheduled`: its TensorIR.
Next: test_c_source.py makes C of it.
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


def scheduled(op: Conv2D, dim: int, rows: int) -> Any:
    """A convolution as a sum over channels and taps, in tiles of `rows` rows and `dim` channels."""
    (_, h, w, c), (_, oh, ow, o) = op.input.shape, op.output.shape
    c, o = rounded(c, dim), rounded(o, dim)
    (top, left), (sy, sx), (dy, dx) = op.padding[:2], op.strides, op.dilation
    x = te.placeholder((h, w, c), "int8", name="x")
    weights = te.placeholder((*op.weights.shape[1:3], c, o), "int8", name="w")
    lanes = te.placeholder((3, o), "int32", name="p")
    extents = {"k": c, "ky": op.weights.shape[1], "kx": op.weights.shape[2]}
    k, ky, kx = (te.reduce_axis((0, extent), name) for name, extent in extents.items())
    pad = tirx.IntImm("int8", op.input.zero_point)

    def pixel(i: Any, j: Any, channel: Any) -> Any:
        inside = tirx.all(i >= top, i < h + top, j >= left, j < w + left)
        return tirx.if_then_else(inside, x[i - top, j - left, channel], pad)

    def term(i: Any, j: Any, channel: Any) -> Any:
        data = pixels[i * sy + ky * dy, j * sx + kx * dx, k].astype("int32")
        return te.sum(data * weights[ky, kx, k, channel].astype("int32"), [k, ky, kx])

    def requantized(i: Any, j: Any, channel: Any) -> Any:
        operands = [lanes[row, channel] for row in range(3)]
        immediates = (op.output.zero_point, op.low, op.high, int(op.rounding))
        return tirx.call_pure_extern("int32", "lds.rq", acc[i, j, channel], *operands, *immediates)

    pixels = te.compute((padded(op, oh, 0), padded(op, ow, 1), c), pixel, name="pixels")
    acc = te.compute((oh, ow, o), term, name="acc")
    tail = te.compute((oh, ow, o), requantized, name="tail")
    out = te.compute((oh, ow, o), lambda *at: tail[at].astype("int8"), name="out")

    s = s_tir.Schedule(tvm.IRModule({"main": te.create_prim_func([x, weights, lanes, out])}))
    i, j, lane = s.get_loops(s.get_sblock("out"))
    (i0, i1), (o0, o1) = s.split(i, [None, rows]), s.split(lane, [None, dim])
    s.reorder(i0, o0, i1, j, o1)
    for name in ("tail", "acc"):
        s.set_scope(s.get_sblock(name), 0, "local.acc")
        s.compute_at(s.get_sblock(name), o0, preserve_unit_loops=True)
    block = s.get_sblock("acc")
    *_, i1, j, o1, channel, row, column = s.get_loops(block)
    k0, k1 = s.split(channel, [None, dim])
    s.reorder(k0, row, column, i1, j, o1, k1)
    data = s.cache_read(block, 0, "local.inp")
    s.compute_inline(s.get_sblock("pixels"))
    for cached in (data, s.cache_read(block, 1, "local.wgt")):
        s.compute_at(cached, k0, preserve_unit_loops=True)
    s.compute_at(s.cache_read(s.get_sblock("tail"), 1, "local.acc"), o0, preserve_unit_loops=True)
    s.decompose_reduction(block, k0)
    return s.mod
