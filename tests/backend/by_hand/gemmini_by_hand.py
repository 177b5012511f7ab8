# SPDX-License-Identifier: Apache-2.0
"""The Gemmini of docs/examples with a program that is written by hand: what the one that follows
from its table is measured against.

In:   convolutions, depthwise ones and dense layers, in runs that follow each other.
Out:  for each run one program.
Next: tests/backend/test_from_table.py compares cycles.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator, Sequence
from importlib.util import module_from_spec, spec_from_file_location
from pathlib import Path
from typing import Any, ClassVar

import numpy as np

from loadstone.backend import Attribute, Backend, Pattern, ProgramRegion, Refusal, Segment, offered
from loadstone.graph import Conv2D, Dense, Operator
from loadstone.isa.accelerator import Accelerator, Port
from loadstone.isa.codec import At
from loadstone.isa.tiles import InTile, LocalTile, TiledInsn
from loadstone.numerics import Array, Rounding

_FILE = Path(__file__).parents[3] / "docs/examples/gemmini/gemmini.py"
_SPEC = spec_from_file_location("gemmini_device", _FILE)
assert _SPEC is not None
assert _SPEC.loader is not None
DEVICE = module_from_spec(_SPEC)
sys.modules[_SPEC.name] = DEVICE
_SPEC.loader.exec_module(DEVICE)
DIM = DEVICE.DIM


class GemminiByHand(Backend):
    """Layers without zero points, scaled by one float32 each."""

    name: ClassVar[str] = "gemmini-by-hand"
    scheme = "symmetric"
    per_channel = False
    target_attributes: ClassVar[Sequence[Attribute]] = DEVICE.Gemmini.target_attributes

    def __init__(self, **values: int | str | bool) -> None:
        super().__init__(**values)
        self.spad, self.acc = (int(self.attributes[name]) for name in ("spad_rows", "acc_rows"))
        table, port = DEVICE.instructions(self.spad, self.acc), Port(bytes_per_cycle=16)
        macs = dict.fromkeys(("compute_preloaded", "compute_accumulated"), f"rows*{DIM * DIM}")
        said: dict[str, Any] = {"page": DEVICE.CommandPage, "driver": DEVICE.DRIVER, "macs": macs}
        self.accelerator = Accelerator(
            self.name,
            table,
            DEVICE.MEANING,
            self.attributes,
            port,
            8,
            macs_per_cycle=DIM * DIM,
            **said,
        )

    def patterns(self) -> Sequence[Pattern]:
        return [offered("conv2d", self.accepts), offered("dense", self.accepts)]

    def accepts(self, operator: Operator) -> Refusal | None:
        """What MVOUT cannot scale, and what not even one row of output fits."""
        assert isinstance(operator, Conv2D | Dense)
        o, quantized = operator, "loadstone quantize --scheme symmetric --per-tensor"
        if o.rounding is not Rounding.FLOAT32:
            return Refusal(f"scales in float32, not {o.rounding.name.lower()}", "an ONNX QDQ model")
        if o.input.zero_point or o.output.zero_point or np.any(o.weight_zero_points):
            return Refusal("no zero points", quantized)
        if len(set(o.requantization()[0].tolist())) > 1:
            return Refusal("one scale for a layer", quantized)
        if o.high != 127 or o.low not in (0, -128):
            return Refusal("no activation but ReLU", "a ReLU")
        if (
            isinstance(o, Conv2D)
            and o.groups > 1
            and (o.weights.shape[3], o.groups)
            != (
                1,
                o.output.shape[-1],
            )
        ):
            return Refusal("groups of several channels", "one group, or one for each channel")
        if Shape(o).tile_rows(self.spad, self.acc) == 0:
            return Refusal("a row of output does not fit", "larger spad_rows or acc_rows")
        return None

    def lower(self, segment: Segment) -> ProgramRegion:
        """Every operator into one program."""
        region = ProgramRegion(segment, self.accelerator)
        for operator in segment.operators:
            assert isinstance(operator, Conv2D | Dense)
            region.emit(operator, *Code(operator, region, self).layer())
        return region


class Shape:
    """Sizes of a layer as a convolution; a dense one has a column of pixels. each: one channel of
    input for each of output. wide: pixels of a row of input that a row of output reads."""

    def __init__(self, o: Conv2D | Dense) -> None:
        self.kernel, self.strides, self.dilation, self.pads = (1, 1), (1, 1), (1, 1), (0, 0)
        self.samples = self.h = self.oh = 1
        self.each = isinstance(o, Conv2D) and o.groups > 1
        (self.w, c), (self.ow, k) = o.input.shape[-2:], o.output.shape[-2:]
        if isinstance(o, Conv2D):
            self.kernel, self.strides, self.dilation = o.weights.shape[1:3], o.strides, o.dilation
            self.pads, self.oh = o.padding[:2], o.output.shape[1]
            self.samples, self.h = o.input.shape[:2]
        self.taps = self.kernel[0] * self.kernel[1]
        self.ins, self.outs = -(-c // DIM), -(-k // DIM)
        self.wide = self.lines(self.ow, 1)

    def lines(self, rows: int, axis: int = 0) -> int:
        """Rows (columns) of input that so many of output read."""
        return (rows - 1) * self.strides[axis] + self.dilation[axis] * (self.kernel[axis] - 1) + 1

    def tile_rows(self, spad: int, acc: int) -> int:
        """The most rows of output whose tiles fit twice: one set is filled while the other is used.
        0 where not even one row fits."""
        fit = [
            rows
            for rows in range(1, self.oh + 1)
            if 2 * rows * self.ow <= acc
            and 2 * (self.lines(rows) * self.wide + self.taps * DIM) <= spad
        ]
        return max(fit, default=0)


def packed(o: Conv2D | Dense, s: Shape) -> Array:
    """(blocks of outputs, of inputs, taps, 16 inputs, 16 outputs) int8. Of a depthwise layer each
    block is a diagonal."""
    weights = o.weights.reshape(len(o.weights), s.taps, -1)
    whole = np.zeros((s.outs * DIM, s.taps, (1 if s.each else s.ins) * DIM), np.int8)
    if s.each:
        number = np.arange(len(weights))
        whole[number, :, number % DIM] = weights[:, :, 0]
    else:
        whole[: len(weights), :, : weights.shape[2]] = weights
    blocks = whole.reshape(s.outs, DIM, s.taps, -1, DIM)
    return np.ascontiguousarray(blocks.transpose(0, 3, 2, 4, 1))


def pieces(count: int) -> Iterator[tuple[int, int]]:
    """(first, rows) of what one command moves."""
    return ((first, min(DIM, count - first)) for first in range(0, count, DIM))


class Code:
    """The commands of one layer. held: what the registers of strides are set to."""

    def __init__(self, o: Conv2D | Dense, region: ProgramRegion, backend: GemminiByHand) -> None:
        self.s, self.backend, self.o = Shape(o), backend, o
        weights, bias = packed(o, self.s), np.zeros(self.s.outs * DIM, np.int32)
        bias[: len(o.bias)] = o.bias
        self.weights = region.constant(f"weights of {o.name}", weights)
        self.bias = region.constant(f"bias of {o.name}", bias)
        zeros = np.zeros(DIM * (1 + (DIM - 1) * self.s.ins), np.int8)
        self.pads = region.constant(f"pads of {o.name}", zeros)
        self.x, self.y = region.tensor(o.input, DIM), region.tensor(o.output, DIM)
        self.per_output = weights[0].nbytes
        self.insns: list[TiledInsn] = []
        self.held: dict[str, int] = {}

    def emit(self, name: str, **fields: int | At | InTile) -> None:
        self.insns.append(TiledInsn(name, fields))

    def stride(self, of: str, value: int) -> None:
        if self.held.get(of) != value:
            self.emit(f"config_{of}", stride=value)
        self.held[of] = value

    def layer(self) -> list[TiledInsn]:
        s, rows = self.s, self.s.tile_rows(self.backend.spad, self.backend.acc)
        scale = int(self.o.requantization()[0][0]) & 0xFFFFFFFF
        self.stride("ex", s.strides[1])
        act = int(self.o.low == 0)
        self.emit("config_st", stride=s.outs * DIM, act_of=act, scale_of=scale)
        for sample in range(s.samples):
            for top in range(0, s.oh, rows):
                for block in range(s.outs):
                    self.tile(sample, top, min(rows, s.oh - top), block)
        return self.insns

    def tile(self, sample: int, top: int, rows: int, block: int) -> None:
        """Some rows of output, 16 channels of them: products, then the bias, then out."""
        s, pixels = self.s, rows * self.s.ow
        sums = LocalTile("acc", pixels, f"sums {top} {block}")
        for k in range(1 if s.each else s.ins):
            data = self.load(sample, top, rows, block if s.each else k)
            weights = LocalTile("spad", s.taps * DIM, f"weights {block} {k}")
            two = self.backend.attributes["movers"] == 2
            self.stride("ld2" if two else "ld", DIM)
            begin = block * self.per_output + k * s.taps * DIM * DIM
            for at, count in pieces(s.taps * DIM):
                where, name = At(self.weights, begin + at * DIM), "mvin2" if two else "mvin"
                self.emit(name, address=where, row=InTile(weights, at), rows=count)
            for tap in range(s.taps):
                self.products(sums, data, InTile(weights, tap * DIM), tap, int(k + tap > 0))
        self.stride("ld", 0)
        bias = At(self.bias, 4 * DIM * block)
        for at, count in pieces(pixels):
            self.emit("mvin_acc", address=bias, row=InTile(sums, at), rows=count, accumulate=1)
        for at, count in pieces(pixels):
            first = ((sample * s.oh + top) * s.ow + at) * s.outs + block
            self.emit("mvout", address=At(self.y, first * DIM), row=InTile(sums, at), rows=count)

    def load(self, sample: int, top: int, rows: int, block: int) -> LocalTile:
        """Rows of input, 16 channels of them, with the zeros around them."""
        s, lines = self.s, self.s.lines(rows)
        tile = LocalTile("spad", lines * s.wide, f"pixels {sample} {top} {block}")
        self.stride("ld", s.ins * DIM)
        for line in range(lines):
            y, inside = top * s.strides[0] - s.pads[0] + line, range(s.w)
            begin, end = s.pads[1], min(s.wide, s.pads[1] + s.w)
            if not 0 <= y < s.h:
                begin = end = 0
            for first, last, source in (
                (0, begin, None),
                (begin, end, inside),
                (end, s.wide, None),
            ):
                for at, count in pieces(last - first):
                    place = ((sample * s.h + y) * s.w + at) * s.ins + block
                    far = At(self.pads) if source is None else At(self.x, place * DIM)
                    row = InTile(tile, line * s.wide + first + at)
                    self.emit("mvin", address=far, row=row, rows=count)
        return tile

    def products(
        self, sums: LocalTile, data: LocalTile, weights: InTile, tap: int, accumulate: int
    ) -> None:
        """One tap of all pixels of a tile: weights stay in the array."""
        s, (ky, kx), fresh = self.s, divmod(tap, self.s.kernel[1]), True
        for i in range(sums.size_tiles // s.ow):
            line = (i * s.strides[0] + ky * s.dilation[0]) * s.wide + kx * s.dilation[1]
            for j, count in pieces(s.ow):
                a, c = InTile(data, line + j * s.strides[1]), InTile(sums, i * s.ow + j)
                if fresh:
                    self.emit("preload", b=weights, c=c, rows=count, accumulate=accumulate)
                    self.emit("compute_preloaded", a=a, rows=count)
                else:
                    self.emit("preload_kept", c=c, rows=count, accumulate=accumulate)
                    self.emit("compute_accumulated", a=a, rows=count)
                fresh = False
