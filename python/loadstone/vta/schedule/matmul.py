# SPDX-License-Identifier: Apache-2.0
"""The product of two activations as TensorIR: one of them is loaded as weights.

In:   `MatmulSpec`: extents in tiles; the parts of both zero points; the tail.
Out:  a scheduled IRModule. Parameters: x, w, [a,] [b,] [p,] out.
Next: kernels/from_tir.py.

    x[n, c, h, m][1, k]        the first factor, blocked
    w[n, c, h, o][lane, k]     the second one, blocked: its rows are lanes, sixteen to a tile
    a[c, part][1, k]           tiles whose parts add up to minus the zero point of x, 0 beyond K
    b[c, part][lane, k]        the same for w
    p[row][1, lane]            bias, multiplier, shift; none where nothing is requantized
    acc[n, o, h, m][0, l] = sum x * w + a * w + x * b
    out = int8(rq(acc, p))

Blocked, a tensor (n, h, m, K) has its channels in tiles of a block for each of m. So many rows of
it that fill a block are a tile of weights as the GEMM core reads one: out lane by in lane. Nothing
is transposed.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING

from loadstone.errors import LoweringError
from loadstone.relax.compat import s_tir, te, tvm
from loadstone.vta.device.hw_config import HwConfig
from loadstone.vta.isa.spec import Memory
from loadstone.vta.schedule import epilogue as epilogues
from loadstone.vta.schedule.epilogue import Step

if TYPE_CHECKING:
    from loadstone.relax.types import Expr, IRModule, PrimFunc

__all__ = ["MatmulSpec", "schedule"]

_OPERAND_TILES = 3


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
    tail: tuple[Step, ...]


def schedule(spec: MatmulSpec, config: HwConfig) -> IRModule:
    """The scheduled IRModule. Raises LoweringError where no tile fits the scratchpads."""
    rows, columns = _tile(spec, config)
    function, stages = _function(spec, config)
    s = s_tir.Schedule(tvm.IRModule({"main": function}))
    n, o, h, m, batch, lane = s.get_loops(s.get_sblock("out"))
    o0, o1 = s.split(o, [None, columns])
    m0, m1 = s.split(m, [None, rows])
    s.reorder(n, h, o0, m0, o1, m1, batch, lane)
    for name in (*stages, "acc"):
        s.set_scope(s.get_sblock(name), 0, "local.acc")
        s.compute_at(s.get_sblock(name), m0, preserve_unit_loops=True)
    epilogues.cache_operands(s, stages)
    acc = s.get_sblock("acc")
    places = {"x": m0, "w": o0}
    for position, region in enumerate(s.get(acc).reads):
        name = str(region.source.name)
        scope = "local.wgt" if name in "wb" else "local.inp"
        block = s.cache_read(acc, position, scope)
        if name in places:
            s.compute_at(block, places[name], preserve_unit_loops=True)
    s.decompose_reduction(acc, s.get_loops(acc)[4])
    return s.mod


def _function(spec: MatmulSpec, config: HwConfig) -> tuple[PrimFunc, list[str]]:
    """And the names of the stages after the sum."""
    block = config.block
    lanes = (config.batch, block)
    n, h, m, c, o = spec.samples, spec.matrices, spec.rows, spec.depth, spec.columns
    x = te.placeholder((n, c, h, m, *lanes), "int8", name="x")
    w = te.placeholder((n, c, h, o, block, block), "int8", name="w")
    first, second = spec.parts
    a = te.placeholder((c, max(first, 1), *lanes), "int8", name="a")
    b = te.placeholder((c, max(second, 1), block, block), "int8", name="b")
    operands = epilogues.operand_rows(spec.tail)
    p = te.placeholder((1, 1, max(operands, 1), *lanes), "int32", name="p")
    ic, k = te.reduce_axis((0, c), "ic"), te.reduce_axis((0, block), "k")

    def products(*at: Expr) -> Iterator[Expr]:
        sample, column, matrix, row, batch, lane = at
        pixel = x[sample, ic, matrix, row, batch, k].astype("int32")
        weight = w[sample, ic, matrix, column, lane, k].astype("int32")
        yield pixel * weight
        for part in range(first):
            yield a[ic, part, batch, k].astype("int32") * weight
        for part in range(second):
            yield pixel * b[ic, part, lane, k].astype("int32")

    def total(*at: Expr) -> Expr:
        head, *others = products(*at)
        for product in others:
            head = head + product
        return te.sum(head, [ic, k])

    acc = te.compute((n, o, h, m, *lanes), total, name="acc")
    last, stages = epilogues.finish(
        acc, spec.tail, lambda at: [p[0, 0, row, at[-2], at[-1]] for row in range(operands)]
    )
    out = te.compute(acc.shape, lambda *at: last[at].astype("int8"), name="out")
    constants = [tensor for tensor, parts in zip((a, b), spec.parts, strict=True) if parts]
    return te.create_prim_func([x, w, *constants, *[p] * (operands > 0), out]), stages


def _tile(spec: MatmulSpec, config: HwConfig) -> tuple[int, int]:
    """Rows and blocks of columns at once: as many columns as leave room for the next ones, then as
    many rows."""
    first, second = spec.parts
    weights = (config.depth(Memory.WGT) - spec.depth * second) // 2
    inputs = (config.depth(Memory.INP) - spec.depth * first) // 2
    sums = (config.depth(Memory.ACC) - _OPERAND_TILES) // 2
    if spec.depth > min(weights, inputs) or sums < 1:
        raise LoweringError(
            f"tile: a sum of {spec.depth} blocks of channels fits no scratchpad of {config.name}"
        )
    columns = _part(spec.columns, min(weights // spec.depth, sums))
    return _part(spec.rows, min(inputs // spec.depth, sums // columns)), columns


def _part(total: int, most: int) -> int:
    """A part of at most that size, such that all are nearly equal."""
    return -(-total // -(-total // most))
