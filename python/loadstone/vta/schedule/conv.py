"""Convolutions of every kind as TensorIR: a sum over weights on the blocked layout, then a tail.

In:   `ConvSpec`: extents, strides and padding in blocks and pixels; the tail.
Out:  a scheduled IRModule: tiled, with cache reads into the scratchpads.
Next: lower.py.

One sum serves many operators: dense layers (one pixel), depthwise (each group one block, weight
tiles diagonal), grouped (`groups` convolutions side by side), average pooling and copies (one
identity tile for all: `shared_weights`).

    x[n, s, c, y, x][batch, k]                              input, int8
    w[s, o, c, part, ky, kx][lane, k]                       weights, int8; parts are added up
    (weights of more than 8 bits)
    p[s, o, row][batch, lane]                               what the tail reads, int32 (or p[i, j,
    row], or p[row]: `operands`)
    one[0][batch, k], c[s, o, row][lane, k]                 constants that the tail adds as products
    acc[n, s, o, i, j][b, l] = sum x_padded[n, s, c, i*stride + ky*dilation, j*stride +
    kx*dilation][b, k] * w[...][l, k] out = int8(tail(acc, p))
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal, TypeAlias

from loadstone.relax.compat import s_tir, te, tirx, tvm
from loadstone.vta.hw_config import HwConfig
from loadstone.vta.schedule import epilogue as epilogues
from loadstone.vta.schedule import tile
from loadstone.vta.schedule.epilogue import Step, TieCorrection

if TYPE_CHECKING:
    from loadstone.relax.types import Expr, IRModule, PrimFunc, TeTensor

__all__ = ["PIXEL", "ConvSpec", "Operands", "nest", "schedule", "tiling"]

Operands: TypeAlias = Literal["channel", "pixel", "all"]


@dataclass(frozen=True)
class ConvSpec:
    """A convolution in tiles. samples: N / batch. in_blocks, out_blocks: of one group. padding:
    (top, left), read as pad_value.

    The bottom and right padding follow from the sizes; a negative padding leaves pixels out.
    operands: what the requantization depends on.
    """

    samples: int
    groups: int
    in_blocks: int
    out_blocks: int
    input: tuple[int, int]
    output: tuple[int, int]
    kernel: tuple[int, int]
    strides: tuple[int, int]
    dilation: tuple[int, int]
    padding: tuple[int, int]
    pad_value: int
    parts: int
    shared_weights: bool
    tail: tuple[Step, ...]
    operands: Operands = "channel"
    chosen: tuple[tuple[int, ...], str] | None = None  # sizes and order, as tile.given takes them

    @property
    def operand_rows(self) -> int:
        """Operand tiles per channel block (or pixel) that the tail reads."""
        return epilogues.operand_rows(self.tail)

    @property
    def product_rows(self) -> int:
        """Weight tiles of constants per channel block that the tail reads."""
        return epilogues.product_rows(self.tail)

    @property
    def row_step(self) -> int:
        """Input rows between output rows as they lie in the scratchpad: a kernel of one row loads
        only the rows that it reads."""
        return 1 if self.kernel[0] == 1 else self.strides[0]

    @property
    def window(self) -> tuple[int, int]:
        """Pixels that one output pixel needs, with dilation."""
        return self.dilation[0] * (self.kernel[0] - 1) + 1, self.dilation[1] * (
            self.kernel[1] - 1
        ) + 1

    @property
    def padded_size(self) -> tuple[int, int]:
        """Rows and columns that the whole output needs in the scratchpad."""
        rows, columns = self.output
        return (rows - 1) * self.row_step + self.window[0], (columns - 1) * self.strides[
            1
        ] + self.window[1]


#: A product of one block of channels, at one pixel.
PIXEL = ConvSpec(
    samples=1,
    groups=1,
    in_blocks=1,
    out_blocks=1,
    input=(1, 1),
    output=(1, 1),
    kernel=(1, 1),
    strides=(1, 1),
    dilation=(1, 1),
    padding=(0, 0),
    pad_value=0,
    parts=1,
    shared_weights=False,
    tail=(),
)


def tiling(spec: ConvSpec, config: HwConfig) -> tile.Tiling:
    """Tile sizes and loop order for a spec: those that were chosen, or the cheapest."""
    if spec.chosen is not None:
        return tile.given(nest(spec), *spec.chosen, config)
    return tile.choose(nest(spec), config)


def nest(spec: ConvSpec) -> tile.WeightedNest:
    """The loops of a spec."""
    return tile.WeightedNest(
        samples=spec.samples,
        groups=spec.groups,
        out=spec.out_blocks,
        in_=spec.in_blocks,
        height=spec.output[0],
        width=spec.output[1],
        taps=spec.parts * spec.kernel[0] * spec.kernel[1],
        step=(spec.row_step, spec.strides[1]),
        window=spec.window,
        padded_rows=spec.padding[1] > 0
        or spec.padded_size[1] != spec.input[1]
        or spec.row_step != spec.strides[0],
        shared_weights=spec.shared_weights,
        operands=spec.operands,
        operand_rows=spec.operand_rows,
        product_rows=spec.product_rows,
        tail_steps=epilogues.tensor_steps(spec.tail),
        requantizes=any(isinstance(step, epilogues.Rq) for step in spec.tail),
        acc_copies=2 if any(isinstance(step, TieCorrection) for step in spec.tail) else 1,
    )


def schedule(spec: ConvSpec, config: HwConfig) -> IRModule:
    """The scheduled IRModule of one convolution. Parameters: x, w, [p,] [one, c,]
    out."""
    return _schedule(spec, tiling(spec, config), *_define(spec, config))


def _define(spec: ConvSpec, config: HwConfig) -> tuple[PrimFunc, list[str]]:
    """The computation as a PrimFunc, and the names of the stages after the sum, consumers first."""
    batch, block = config.batch, config.block
    n, s, o, c = spec.samples, spec.groups, spec.out_blocks, spec.in_blocks
    x = te.placeholder((n, s, c, *spec.input, batch, block), "int8", name="x")
    padded = te.compute(
        (n, s, c, *spec.padded_size, batch, block), lambda *i: _pixel(spec, x, i), name="x_padded"
    )
    weights_shape = (1,) * 6 if spec.shared_weights else (s, o, c, spec.parts, *spec.kernel)
    w = te.placeholder((*weights_shape, block, block), "int8", name="w")

    ic, part, k = (
        te.reduce_axis((0, extent), name)
        for extent, name in ((c, "ic"), (spec.parts, "part"), (block, "k"))
    )
    ky, kx = (
        te.reduce_axis((0, extent), name)
        for extent, name in zip(spec.kernel, ("ky", "kx"), strict=True)
    )

    def product(*at: Expr) -> Expr:
        sample, group, out, i, j, b, lane = at
        pixel = padded[
            sample,
            group,
            ic,
            i * spec.row_step + ky * spec.dilation[0],
            j * spec.strides[1] + kx * spec.dilation[1],
            b,
            k,
        ]
        weight = (
            w[(0,) * 6 + (lane, k)]
            if spec.shared_weights
            else w[group, out, ic, part, ky, kx, lane, k]
        )
        return te.sum(pixel.astype("int32") * weight.astype("int32"), [ic, part, ky, kx, k])

    acc = te.compute((n, s, o, *spec.output, batch, block), product, name="acc")
    parameters = [x, w]
    if spec.operand_rows:
        which = {"channel": (s, o), "pixel": spec.output, "all": (1, 1)}[spec.operands]
        p = te.placeholder((*which, spec.operand_rows, batch, block), "int32", name="p")
        parameters.append(p)

    def operands(at: tuple[Expr, ...]) -> list[Expr]:
        first, second = {"channel": at[1:3], "pixel": at[3:5], "all": (0, 0)}[spec.operands]
        return [p[first, second, row, at[5], at[6]] for row in range(spec.operand_rows)]

    if spec.product_rows:
        one = te.placeholder((1, batch, block), "int8", name="one")
        tiles = te.placeholder((s, o, spec.product_rows, block, block), "int8", name="c")
        parameters += [one, tiles]

    def constant(row: int, at: tuple[Expr, ...]) -> Expr:
        lane = te.reduce_axis((0, block), "k")
        weight = tiles[at[1], at[2], row, at[6], lane]
        return te.sum(one[0, at[5], lane].astype("int32") * weight.astype("int32"), [lane])

    last, stages = epilogues.finish(acc, spec.tail, operands, constant)
    out = te.compute(acc.shape, lambda *at: last[at].astype("int8"), name="out")
    return te.create_prim_func([*parameters, out]), stages


def _pixel(spec: ConvSpec, x: TeTensor, at: tuple[Expr, ...]) -> Expr:
    """x where the padded position is inside, else the pad value; only the conditions that can
    fail."""
    sample, group, c, i, j, b, lane = at
    row = i * (1 if spec.row_step == spec.strides[0] else spec.strides[0]) - spec.padding[0]
    column = j - spec.padding[1]
    row_end = (spec.padded_size[0] - 1) * (
        1 if spec.row_step == spec.strides[0] else spec.strides[0]
    ) - spec.padding[0]
    column_end = spec.padded_size[1] - 1 - spec.padding[1]
    conditions = []
    for position, last, size, pad in (
        (row, row_end, spec.input[0], spec.padding[0]),
        (column, column_end, spec.input[1], spec.padding[1]),
    ):
        conditions += [position >= 0] if pad > 0 else []
        conditions += [position < size] if last >= size else []
    value = x[sample, group, c, row, column, b, lane]
    return (
        tirx.if_then_else(tirx.all(*conditions), value, tirx.IntImm("int8", spec.pad_value))
        if conditions
        else value
    )


def _schedule(
    spec: ConvSpec, tiling: tile.Tiling, function: PrimFunc, stages: list[str]
) -> IRModule:
    """Splits every loop, puts the sum and the tail into ACC, and reads inputs, weights and operands
    through the scratchpads."""
    s = s_tir.Schedule(tvm.IRModule({"main": function}))
    *loops, batch, lane = s.get_loops(s.get_sblock("out"))
    extents = (tiling.samples, tiling.groups, tiling.out, tiling.height, tiling.width)
    (n0, n1), (s0, s1), (o0, o1), (i0, i1), (j0, j1) = (
        s.split(loop, [None, extent]) for loop, extent in zip(loops, extents, strict=True)
    )
    outer = [n0, i0, j0, s0, o0] if tiling.spatial_outer else [s0, o0, n0, i0, j0]
    s.reorder(*outer, n1, s1, o1, i1, j1, batch, lane)

    for name in epilogues.consumers_first(stages, "acc"):
        s.set_scope(s.get_sblock(name), 0, "local.acc")
        s.compute_at(s.get_sblock(name), outer[-1], preserve_unit_loops=True)
    acc = s.get_sblock("acc")
    *_, nl, sl, ol, il, jl, bl, ll, ic, part, ky, kx, k = s.get_loops(acc)
    ic0, ic1 = s.split(ic, [None, tiling.in_])
    s.reorder(ic0, nl, sl, ol, il, jl, ic1, part, ky, kx, bl, ll, k)

    # An access is loaded outside the loops that it does not depend on. Operands and weights come
    # first: they wait for nobody.
    whole_sum = tiling.in_ >= spec.in_blocks
    operands = epilogues.cache_operands(s, stages)
    if operands is not None and not tiling.operands_resident:
        s.compute_at(
            operands, o0 if spec.operands == "channel" else outer[-1], preserve_unit_loops=True
        )
    pixels = s.cache_read(acc, 0, "local.inp")
    s.compute_inline(s.get_sblock("x_padded"))
    inner_pixels = s0 if tiling.spatial_outer else j0
    s.compute_at(pixels, inner_pixels if whole_sum else ic0, preserve_unit_loops=True)
    weights = s.cache_read(acc, 1, "local.wgt")
    if not spec.shared_weights:
        s.compute_at(weights, o0 if whole_sum else ic0, preserve_unit_loops=True)
    s.decompose_reduction(acc, ic0)
    epilogues.cache_products(s, stages, outer, o0)
    return s.mod
