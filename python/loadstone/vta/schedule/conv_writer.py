# SPDX-License-Identifier: Apache-2.0
"""A convolution's loops, written out: what is loaded where, the sum, and what follows it.

In:   a ConvSpec, a Tiling, a HwConfig.
Out:  `ConvWriter`, whose module() is the IRModule of loops.
Next: conv.py gives it to kernels/from_tir.py.

An access is loaded outside the loops that it does not depend on; where all of it is small, once:

    [p, w: whole]
    for pixels, then channels (or channels, then pixels):
        [x: rows of the tile]  [w: blocks of the tile]                where the sum is whole
        acc = 0
        for chunks of input blocks:  [x, w where they are a chunk]  acc += x * w
        [b: blocks of the tile]  acc += e * b             where padding is left out, edge by edge
        acc = tail(acc, p, c)
        out = acc
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import TYPE_CHECKING

from loadstone.relax.compat import tirx
from loadstone.vta.device.hw_config import HwConfig
from loadstone.vta.schedule import epilogue as epilogues
from loadstone.vta.schedule.epilogue import ConstantProduct, Step, TieCorrection, extern
from loadstone.vta.schedule.loops import Loops, chip_buffer, dram_buffer, whole_copy, written

if TYPE_CHECKING:
    from loadstone.relax.types import Buffer, Expr, IRModule, Stmt
    from loadstone.vta.schedule.conv_spec import ConvSpec, Edge
    from loadstone.vta.schedule.tile import Tiling

__all__ = ["ConvWriter"]

_N, _S, _O, _I, _J, _C = range(6)  # axes: samples, groups, output blocks, rows, columns, inputs
_PIXELS_OUTSIDE = (_N, _I, _J, _S, _O)
_CHANNELS_OUTSIDE = (_S, _O, _N, _I, _J)


class ConvWriter:
    """Writes the function. `places` are the loops over tiles: axis -> variable, 0 for one turn."""

    def __init__(self, spec: ConvSpec, tiling: Tiling, config: HwConfig) -> None:
        self.spec, self.tiling = spec, tiling
        self.order = _PIXELS_OUTSIDE if tiling.spatial_outer else _CHANNELS_OUTSIDE
        self.totals = (spec.samples, spec.groups, spec.out_blocks, *spec.output, spec.in_blocks)
        self.sizes = (
            *(tiling.samples, tiling.groups, tiling.out),
            *(tiling.height, tiling.width, tiling.in_),
        )
        self.whole_sum = tiling.in_ >= spec.in_blocks
        self.batch, self.block = config.batch, config.block
        self.tiles = [Loops() for _ in self.totals]
        self.places = [
            loops.turn(-(-total // size), f"i{axis}_0" if axis != _C else "ic_0")
            for axis, (loops, total, size) in enumerate(
                zip(self.tiles, self.totals, self.sizes, strict=True)
            )
        ]
        lanes, square = (self.batch, self.block), (self.block, self.block)
        n, s, o, i, j, c = self.totals
        tn, ts, to, ti, tj, tc = self.sizes
        self.x = dram_buffer("x", (n, s, c, *spec.input, *lanes), "int8")
        loaded = ((ti - 1) * spec.row_step, (tj - 1) * spec.strides[1])
        rows, columns = (reach + size for reach, size in zip(loaded, spec.window, strict=True))
        self.x_chip = chip_buffer(
            "x_padded_local_inp", (tn, ts, tc, rows, columns, *lanes), "int8", "inp"
        )
        taps = (spec.parts, *spec.kernel)
        weights = (1,) * 6 if spec.shared_weights else (s, o, c, *taps)
        self.w = dram_buffer("w", (*weights, *square), "int8")
        weights = (1,) * 6 if spec.shared_weights else (ts, to, tc, *taps)
        self.w_chip = chip_buffer("w_local_wgt", (*weights, *square), "int8", "wgt")
        which = {"channel": (s, o), "pixel": (i, j), "all": (1, 1)}[spec.operands]
        tile = {"channel": (ts, to), "pixel": (ti, tj), "all": (1, 1)}[spec.operands]
        operands = (max(1, spec.operand_rows), *lanes)
        self.p = dram_buffer("p", (*which, *operands), "int32")
        kept = which if tiling.operands_resident else tile
        self.p_chip = chip_buffer("p_local_acc", (*kept, *operands), "int32", "acc")
        self.one = dram_buffer("one", (1, *lanes), "int8")
        self.one_chip = chip_buffer("one_local_inp", (1, *lanes), "int8", "inp")
        products = (max(1, spec.product_rows), *square)
        self.c = dram_buffer("c", (s, o, *products), "int8")
        self.c_chip = chip_buffer("c_local_wgt", (ts, to, *products), "int8", "wgt")
        self.e = dram_buffer("e", (max(1, spec.edge_inputs), *lanes), "int8")
        self.e_chip = chip_buffer("e_local_inp", self.e.shape, "int8", "inp")
        edges = (max(1, spec.edge_tiles), *square)
        self.b = dram_buffer("b", (s, o, *edges), "int8")
        self.b_chip = chip_buffer("b_local_wgt", (ts, to, *edges), "int8", "wgt")
        self.constants = [(self.c, self.c_chip)] if spec.product_rows else []
        self.constants += [(self.b, self.b_chip)] if spec.edges else []
        self.shape = (tn, ts, to, ti, tj, *lanes)
        self.acc = chip_buffer("acc_local_acc", self.shape, "int32", "acc")
        self.out = dram_buffer("out", (n, s, o, i, j, *lanes), "int8")

    def module(self) -> IRModule:
        """The whole function."""
        spec = self.spec
        resident = [(self.one, self.one_chip)] if spec.product_rows else []
        resident += [(self.e, self.e_chip)] if spec.edges else []
        resident += [(self.w, self.w_chip)] if spec.shared_weights else []
        if spec.operand_rows and self.tiling.operands_resident:
            resident.append((self.p, self.p_chip))
        loads = [part for source, copy in resident for part in whole_copy(source, copy)]
        body = self._innermost()
        for number, axis in reversed(list(enumerate(self.order))):
            if number < len(self.order) - 1:
                body = [*self._loaded_in(axis), *body]
            body = [self.tiles[axis].around(tirx.stmt_seq(*body))]
        parameters = [self.x, self.w]
        parameters += [self.p] if spec.operand_rows else []
        parameters += [self.one, self.c] if spec.product_rows else []
        parameters += [self.e, self.b] if spec.edges else []
        return written([*parameters, self.out], tirx.stmt_seq(*loads, *body))

    # --- what is loaded where ---------------------------------------------------------------------
    def _loaded_in(self, axis: int) -> list[Stmt]:
        """Inside the loop of an axis that is not the innermost one."""
        return [
            part
            for load in (self._operands_in, self._pixels_in, self._weights_in, self._constants_in)
            for part in load(axis)
        ]

    def _operands_in(self, axis: int) -> list[Stmt]:
        spec = self.spec
        at = _O if spec.operands == "channel" else self.order[-1]
        if axis != at or not spec.operand_rows or self.tiling.operands_resident:
            return []
        axes = {"channel": (_S, _O), "pixel": (_I, _J), "all": ()}[spec.operands]
        loops = Loops()
        here, place = self._tile(loops, axes) if axes else ([0, 0], [0, 0])
        rest = self._rest(loops, self.p_chip, 2)
        load = tirx.BufferStore(self.p_chip, self.p[(*place, *rest)], [*here, *rest])
        return [tirx.AllocBuffer(self.p_chip), loops.around(load)]

    def _pixels_in(self, axis: int) -> list[Stmt]:
        """axis _C: in a chunk of the sum."""
        inner = _S if self.tiling.spatial_outer else _J
        if axis != (inner if self.whole_sum else _C):
            return []
        spec, loops = self.spec, Loops()
        here, place = self._tile(loops, (_N, _S, _C))
        steps = (spec.row_step, spec.strides[1])
        for number, axis_ in enumerate((_I, _J)):
            size, step = self.sizes[axis_], steps[number]
            count = (size - 1) * step + spec.window[number]
            inner_loop = loops.turn(count, f"ax{axis_}")
            here.append(inner_loop)
            place.append(self.places[axis_] * (size * step) + inner_loop)
            turns = -(-self.totals[axis_] // size)
            if (turns - 1) * size * step + count > spec.padded_size[number]:
                loops.conditions.append(place[-1] < spec.padded_size[number])
        lanes = self._rest(loops, self.x_chip, 5)
        value = _pixel(spec, self.x, (*place, *lanes))
        load = loops.around(tirx.BufferStore(self.x_chip, value, [*here, *lanes]))
        return [tirx.AllocBuffer(self.x_chip), load]

    def _weights_in(self, axis: int) -> list[Stmt]:
        """axis _C: in a chunk of the sum."""
        if self.spec.shared_weights or axis != (_O if self.whole_sum else _C):
            return []
        loops = Loops()
        here, place = self._tile(loops, (_S, _O, _C))
        rest = self._rest(loops, self.w_chip, 3)
        load = tirx.BufferStore(self.w_chip, self.w[(*place, *rest)], [*here, *rest])
        return [tirx.AllocBuffer(self.w_chip), loops.around(load)]

    def _constants_in(self, axis: int) -> list[Stmt]:
        made: list[Stmt] = []
        for source, copy in self.constants if axis == _O else []:
            loops = Loops()
            here, place = self._tile(loops, (_S, _O))
            rest = self._rest(loops, copy, 2)
            load = tirx.BufferStore(copy, source[(*place, *rest)], [*here, *rest])
            made += [tirx.AllocBuffer(copy), loops.around(load)]
        return made

    # --- one tile ---------------------------------------------------------------------------------
    def _innermost(self) -> list[Stmt]:
        """Inside all loops over tiles. Constants and operands come just before who reads them."""
        inner = self.order[-1]
        self._late = [self._constants_in(inner), self._operands_in(inner)]
        chunk = [*self._pixels_in(_C), *self._weights_in(_C), self._products()]
        ties = [step for step in self.spec.tail if isinstance(step, TieCorrection)]
        edges = self._edges()
        begun, tail = (
            self._corrected(ties[0]) if ties else ([], self._stepped(self.acc, self.spec.tail))
        )
        return [
            tirx.AllocBuffer(self.acc),
            *begun,
            *self._pixels_in(inner),
            *self._weights_in(inner),
            self._cleared(self.acc),
            self.tiles[_C].around(tirx.stmt_seq(*chunk)),
            *edges,
            *tail,
            self._store(),
        ]

    def _corrected(self, tie: TieCorrection) -> tuple[list[Stmt], list[Stmt]]:
        """What stands before the sum, the beginning of its copy; and what follows it."""
        at = self.spec.tail.index(tie)
        before, after = self.spec.tail[:at], self.spec.tail[at + 1 :]
        first, rest = tie.steps[0], tie.steps
        constant = first if isinstance(first, ConstantProduct) else None
        name = "zero" if constant is None else f"product{constant.row}"
        copy = chip_buffer(f"{name}_local_acc", self.shape, "int32", "acc")
        begun = [tirx.AllocBuffer(copy), self._cleared(copy)]
        if constant is not None:
            begun = [*self._taken(0), *begun, self._product(copy, constant)]
            rest = tie.steps[1:]
        return begun, [
            *self._stepped(self.acc, before),
            *self._operands_for(rest),
            self._alu(copy, lambda value, at: extern("add", value, self.acc[at])),
            *self._stepped(copy, rest),
            *self._operands_for((*tie.kept, *after)),
            *self._stepped(self.acc, tie.kept),
            self._alu(self.acc, lambda value, at: extern("add", value, copy[at])),
            *self._stepped(self.acc, after),
        ]

    def _taken(self, which: int) -> list[Stmt]:
        """Loads of constants (0) or operands (1) that wait for their first reader."""
        late, self._late[which] = self._late[which], []
        return late

    def _operands_for(self, steps: Sequence[Step]) -> list[Stmt]:
        """The load of the operands, where these steps are the first that read them."""
        return self._taken(1) if epilogues.operand_rows(steps) else []

    def _stepped(self, buffer: Buffer, steps: Sequence[Step]) -> list[Stmt]:
        """The steps on a buffer, in place."""
        made: list[Stmt] = []
        if steps and isinstance(steps[0], ConstantProduct):
            made += [*self._taken(0), self._product(buffer, steps[0])]
            steps = steps[1:]
        if not steps:
            return made
        made += self._operands_for(steps)
        element = self._alu(
            buffer, lambda value, at: epilogues.apply(steps, value, list(self._operands(at)))
        )
        return [*made, element]

    def _operands(self, at: Sequence[Expr]) -> Iterator[Expr]:
        """This lane of the operand tiles."""
        axes = {"channel": (_S, _O), "pixel": (_I, _J), "all": ()}[self.spec.operands]
        where: list[Expr] = [at[axis] for axis in axes] or [0, 0]
        if self.tiling.operands_resident and axes:
            where = [self.places[axis] * self.sizes[axis] + at[axis] for axis in axes]
        for row in range(self.spec.operand_rows):
            yield self.p_chip[(*where, row, *at[-2:])]

    def _cleared(self, buffer: Buffer) -> Stmt:
        return self._alu(buffer, lambda _value, _at: tirx.IntImm("int32", 0))

    def _alu(self, buffer: Buffer, element: Callable[[Expr, tuple[Expr, ...]], Expr]) -> Stmt:
        """Every element of the tile by what it becomes."""
        loops = Loops()
        here, _ = self._tile(loops, (_N, _S, _O, _I, _J))
        at = (*here, *self._rest(loops, buffer, 5))
        return loops.around(tirx.BufferStore(buffer, element(buffer[at], at), list(at)))

    def _products(self) -> Stmt:
        """acc += x * w over the input blocks of a chunk."""
        spec, loops = self.spec, Loops()
        here, _ = self._tile(loops, (_N, _S, _O, _I, _J))
        (block,), _ = self._tile(loops, (_C,))
        part, y, x = (
            loops.turn(extent, name)
            for extent, name in zip((spec.parts, *spec.kernel), ("part", "ky", "kx"), strict=True)
        )
        batch, lane, k = self._product_lanes(loops)
        n, s, o, i, j = here
        row = i * spec.row_step + y * spec.dilation[0]
        column = j * spec.strides[1] + x * spec.dilation[1]
        pixel = self.x_chip[n, s, block, row, column, batch, k]
        tap = (0,) * 6 if spec.shared_weights else (s, o, block, part, y, x)
        return loops.around(
            self._gemm(self.acc, (*here, batch, lane), pixel, self.w_chip[(*tap, lane, k)])
        )

    def _product(self, buffer: Buffer, step: ConstantProduct) -> Stmt:
        return self._constant(buffer, (self.one_chip, 0), (self.c_chip, step.row))

    def _edges(self) -> list[Stmt]:
        """acc += what products with padding would have come to."""
        made = self._taken(0) if self.spec.edges else []
        for edge in self.spec.edges:
            for one, tile in edge.products:
                made.append(self._constant(self.acc, (self.e_chip, one), (self.b_chip, tile), edge))
        return made

    def _constant(
        self,
        buffer: Buffer,
        one: tuple[Buffer, int],
        constant: tuple[Buffer, int],
        edge: Edge | None = None,
    ) -> Stmt:
        """buffer += a value per channel: a constant input tile times a weight tile of each channel
        block; at the pixels of an edge, or at all."""
        loops = Loops()
        here, place = self._tile(loops, (_N, _S, _O, _I, _J))
        for axis, (first, end) in zip(
            (_I, _J), (edge.rows, edge.columns) if edge else (), strict=False
        ):
            loops.conditions += [place[axis] >= first] if first else []
            loops.conditions += [place[axis] < end] if end < self.totals[axis] else []
        batch, lane, k = self._product_lanes(loops)
        weight = constant[0][here[_S], here[_O], constant[1], lane, k]
        pixel = one[0][one[1], batch, k]
        return loops.around(self._gemm(buffer, (*here, batch, lane), pixel, weight))

    def _gemm(self, buffer: Buffer, at: tuple[Expr, ...], pixel: Expr, weight: Expr) -> Stmt:
        product = pixel.astype("int32") * weight.astype("int32")
        return tirx.BufferStore(buffer, buffer[at] + product, list(at))

    def _store(self) -> Stmt:
        loops = Loops()
        here, place = self._tile(loops, (_N, _S, _O, _I, _J))
        lanes = self._rest(loops, self.acc, 5)
        element = self.acc[(*here, *lanes)].astype("int8")
        return loops.around(tirx.BufferStore(self.out, element, [*place, *lanes]))

    # --- loops ------------------------------------------------------------------------------------
    def _tile(self, loops: Loops, axes: Sequence[int]) -> tuple[list[Expr], list[Expr]]:
        """Loops over a tile along some axes: the place in it, and in the whole."""
        here, place = [], []
        for axis in axes:
            size = self.sizes[axis]
            here.append(loops.turn(size, f"i{axis}_1"))
            place.append(self.places[axis] * size + here[-1])
            if self.totals[axis] % size:
                loops.conditions.append(place[-1] < self.totals[axis])
        return here, place

    def _rest(self, loops: Loops, buffer: Buffer, first: int) -> list[Expr]:
        """Loops over the dimensions of a buffer from `first` on."""
        extents = [int(extent) for extent in buffer.shape[first:]]
        return [loops.turn(extent, f"ax{first + k}") for k, extent in enumerate(extents)]

    def _product_lanes(self, loops: Loops) -> tuple[Expr, Expr, Expr]:
        return (
            loops.turn(self.batch, "lane_b"),
            loops.turn(self.block, "lane"),
            loops.turn(self.block, "k"),
        )


def _pixel(spec: ConvSpec, x: Buffer, at: tuple[Expr, ...]) -> Expr:
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
