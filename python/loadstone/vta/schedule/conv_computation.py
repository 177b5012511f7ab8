# SPDX-License-Identifier: Apache-2.0
"""What a convolution computes, on whole axes: the sum, and what follows it.

In:   a ConvSpec, the lanes of a tile.
Out:  `ConvComputation`: a Function of nests that says nothing of tiles or memories; its axes.
Next: conv.py tiles it.

    copy = 0;  copy += one * c                      where a correction of ties works on a copy
    group:  acc = 0;  acc += x * w                  or acc += x, lane by lane, by the taps in w
    acc += e * b                                    where padding is left out, edge by edge
    acc = tail(acc, p, c, copy)
    out = low byte of acc                           of several planes each: acc = acc >> 8, the next
                                                    or all of acc
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from loadstone.ir_pass.affine import Index, Place, Variable
from loadstone.ir_pass.nests import (
    COPY,
    Function,
    Nest,
    NestAccess,
    NestGroup,
    NestStep,
    NestTensor,
    Role,
    Statement,
)
from loadstone.vta.schedule.alu_steps import AluStep, alu_step
from loadstone.vta.schedule.conv_spec import ConvSpec, Edge
from loadstone.vta.schedule.epilogue import ConstantProduct, Step, TieCorrection

__all__ = ["ConvComputation"]

#: Between one plane of bytes and the next.
BYTE_BITS = 8


class ConvComputation:
    """axes: samples, groups, output blocks, rows, columns, input blocks."""

    def __init__(self, spec: ConvSpec, batch: int, block: int) -> None:
        self._spec = spec
        self._lanes, self._square = (batch, block), (block, block)
        totals = (spec.samples, spec.groups, spec.out_blocks, *spec.output, spec.in_blocks)
        self.axes = tuple(map(Variable, "nsoijk", totals))
        self._taps = tuple(map(Variable, ("part", "ky", "kx"), (spec.parts, *spec.kernel)))
        *here, self._block = (Index(0, {axis: 1}) for axis in self.axes)
        self._at: tuple[Index, ...] = tuple(here)
        _, self._s, self._o, self._i, self._j = here
        blocks = (spec.groups, spec.out_blocks)
        taps = () if spec.by_lane else spec.kernel
        weights = (*blocks, spec.in_blocks, spec.parts, *taps)
        self.x = self._inputs("x", (spec.samples, spec.groups, spec.in_blocks, *spec.input))
        self.w = (
            self._weights("w", (1,), "table")
            if spec.shared_weights
            else self._weights("w", weights)
        )
        which = {"channel": blocks, "pixel": spec.output, "all": ()}[spec.operands]
        rows = (*which, max(1, spec.operand_rows))
        self.p = NestTensor("p", rows, self._lanes, "int32", "table")
        self.one = self._inputs("one", (1,), "table")
        self.c = self._weights("c", (*blocks, max(1, spec.product_rows)))
        self.e = self._inputs("e", (max(1, spec.edge_inputs),), "table")
        self.b = self._weights("b", (*blocks, max(1, spec.edge_tiles)))
        stored = (spec.planes, *totals[1:5]) if spec.planes > 1 else totals[1:5]
        out = (spec.samples, *stored)
        self.out = NestTensor("out", out, self._lanes, "int32" if spec.whole else "int8")
        self.acc = self._sums("acc")
        self.copy = self._sums("copy")

    def function(self) -> Function:
        """The whole of it. Parameters: x, w, [p,] [one, c,] [e, b,] out."""
        return Function("conv2d", tuple(self._tensors()), tuple(self._statements()))

    # --- tensors ----------------------------------------------------------------------------------
    def _tensors(self) -> Iterator[NestTensor]:
        """In the order in which copies at one place come: tables of the whole function, the pixels
        of a tile, the weights of its blocks."""
        spec = self._spec
        if spec.product_rows:
            yield self.one
        if spec.edges:
            yield self.e
        if spec.shared_weights:
            yield self.w
        if spec.operand_rows:
            yield self.p
        yield self.acc
        if self._tie is not None:
            yield self.copy
        yield self.x
        if not spec.shared_weights:
            yield self.w
        if spec.product_rows:
            yield self.c
        if spec.edges:
            yield self.b
        yield self.out

    def _inputs(self, name: str, shape: tuple[int, ...], role: Role = "param") -> NestTensor:
        return NestTensor(name, shape, self._lanes, "int8", role)

    def _weights(self, name: str, shape: tuple[int, ...], role: Role = "param") -> NestTensor:
        return NestTensor(name, shape, self._square, "int8", role)

    def _sums(self, name: str) -> NestTensor:
        totals = tuple(axis.extent for axis in self.axes[:5])
        return NestTensor(name, totals, self._lanes, "int32", "local")

    # --- statements -------------------------------------------------------------------------------
    def _statements(self) -> Iterator[Statement]:
        tail, tie = self._spec.tail, self._tie
        begun: tuple[Step, ...] = tie.steps[:1] if tie is not None else ()
        product = begun if begun and isinstance(begun[0], ConstantProduct) else ()
        if tie is not None:
            yield NestGroup((self._cleared(self.copy), *self._stepped(self.copy, product)))
        yield NestGroup((self._cleared(self.acc), self._products()))
        yield from self._edges()
        if tie is None:
            yield from self._stepped(self.acc, tail)
        else:
            at = tail.index(tie)
            yield from self._stepped(self.acc, tail[:at])
            steps = self._stepped(self.copy, tie.steps[len(product) :])
            yield NestGroup((self._plus(self.copy, self.acc), *steps))
            yield from self._stepped(self.acc, tie.kept)
            yield self._plus(self.acc, self.copy)
            yield from self._stepped(self.acc, tail[at + 1 :])
        yield from self._stored()

    def _stored(self) -> Iterator[Nest]:
        """The low bytes of the sums; then those above them, plane by plane."""
        value = self.acc[self._at]
        if self._spec.planes == 1:
            yield self._elements(NestStep(COPY, (self.out[self._at], value)))
            return
        for plane in range(self._spec.planes):
            if plane:
                yield self._elements(NestStep("shr", (value,), (BYTE_BITS,)))
            place: tuple[Place, ...] = (self._at[0], plane, *self._at[1:])
            yield self._elements(NestStep(COPY, (self.out[place], value)))

    @property
    def _tie(self) -> TieCorrection | None:
        return next((step for step in self._spec.tail if isinstance(step, TieCorrection)), None)

    def _elements(self, *steps: NestStep, conditions: Sequence[Index] = ()) -> Nest:
        """Steps for every element of the output."""
        return Nest(self.axes[:5], tuple(conditions), steps)

    def _cleared(self, sums: NestTensor) -> Nest:
        return self._elements(NestStep("fill", (sums[self._at],), (0,)))

    def _plus(self, into: NestTensor, other: NestTensor) -> Nest:
        return self._elements(NestStep("add", (into[self._at], other[self._at])))

    def _products(self) -> Nest:
        """acc += x * w, over all input blocks and taps."""
        spec = self._spec
        part, *taps = (Index(0, {tap: 1}) for tap in self._taps)
        n, s, o, *pixel = self._at
        places = [
            place * stride + tap * apart - padding
            for place, stride, tap, apart, padding in zip(
                pixel, spec.strides, taps, spec.dilation, spec.padding, strict=True
            )
        ]
        factor = NestAccess(self.x, (n, s, self._block, *places), spec.pad_value)
        weight: tuple[Place, ...] = (0,)
        if not spec.shared_weights:
            weight = (s, o, self._block, part, *([] if spec.by_lane else taps))
        operands = (self.acc[self._at], factor, self.w[weight])
        by_lane = NestStep("depthwise", operands, spec.kernel)
        step = by_lane if spec.by_lane else NestStep("gemm", operands)
        return Nest((*self.axes, *self._taps), (), (step,))

    def _edges(self) -> Iterator[Nest]:
        """acc += what products with padding would have come to."""
        for edge in self._spec.edges:
            conditions = tuple(self._within(edge))
            for one, tile in edge.products:
                operands = (self.acc[self._at], self.e[one], self.b[self._s, self._o, tile])
                yield self._elements(NestStep("gemm", operands), conditions=conditions)

    def _within(self, edge: Edge) -> Iterator[Index]:
        """None of them is negative at the pixels of an edge; those that can be."""
        rows, columns = edge.rows, edge.columns
        for place, (first, end), total in zip(
            (self._i, self._j), (rows, columns), self._spec.output, strict=True
        ):
            if first:
                yield place - first
            if end < total:
                yield end - 1 - place

    def _stepped(self, sums: NestTensor, steps: Sequence[Step]) -> Iterator[Nest]:
        """Steps on accumulators, in place. A product of constants is the first of them."""
        value = sums[self._at]
        alu: list[AluStep] = []
        for step in steps:
            if isinstance(step, TieCorrection) or (alu and isinstance(step, ConstantProduct)):
                raise AssertionError(f"{type(step).__name__} stands behind what it comes before")
            if isinstance(step, ConstantProduct):
                weight = self.c[self._s, self._o, step.row]
                yield self._elements(NestStep("gemm", (value, self.one[0], weight)))
            else:
                alu.append(step)
        if alu:
            yield self._elements(*(alu_step(step, value, self._operand) for step in alu))

    def _operand(self, row: int) -> NestAccess:
        """An operand tile of the element's block, of its pixel, or of all."""
        where = {"channel": (self._s, self._o), "pixel": (self._i, self._j), "all": ()}
        place: tuple[Place, ...] = (*where[self._spec.operands], row)
        return self.p[place]
