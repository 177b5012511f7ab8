# SPDX-License-Identifier: Apache-2.0
"""The systolic array of docs/examples with a program that is written by hand: what the one that
follows from its table is measured against.

In:   convolutions, in runs that follow each other.
Out:  for each run one program.
Next: tests/backend/test_from_table.py compares cycles; other tests take its computations.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping, Sequence
from importlib.util import module_from_spec, spec_from_file_location
from math import prod
from pathlib import Path
from typing import Any, ClassVar

import numpy as np

from loadstone.backend import Attribute, Backend, Pattern, ProgramRegion, Refusal, Segment, offered
from loadstone.backend.lowering import with_copies
from loadstone.graph import Conv2D, Operator
from loadstone.ir_pass.memory_table import MemoryTable
from loadstone.ir_pass.nests import Function, NestAccess, NestLoops, NestStep, NestTensor
from loadstone.ir_pass.tile_loops import tiled
from loadstone.ir_pass.unroll import Buffer, Call, Place, offset, runs, turns, unroll_nests
from loadstone.isa.accelerator import Accelerator, Port
from loadstone.isa.codec import At
from loadstone.isa.tiles import InTile, LocalTile, TiledInsn
from loadstone.numerics import Rounding, wrap_int32

_FILE = Path(__file__).parents[3] / "docs/examples/systolic/systolic.py"
_SPEC = spec_from_file_location("systolic_device", _FILE)
assert _SPEC is not None
assert _SPEC.loader is not None
DEVICE = module_from_spec(_SPEC)
sys.modules[_SPEC.name] = DEVICE
_SPEC.loader.exec_module(DEVICE)

#: By step of a computation, the instruction and the field that say where each operand stands.
OPERANDS = {
    "fill": [("compute", "target")],
    "gemm": [("compute", "target"), ("compute", "row"), ("preload", "row")],
    "rq": [("mvout", "row"), ("scale", "row")],
}


class SystolicByHand(Backend):
    """Convolutions without groups."""

    name: ClassVar[str] = "systolic-by-hand"
    target_attributes: ClassVar[Sequence[Attribute]] = DEVICE.Systolic.target_attributes

    def __init__(self, **values: int | str | bool) -> None:
        super().__init__(**values)
        sizes = [int(self.attributes[entry.name]) for entry in self.target_attributes]
        self.dim, self.scratchpad_rows, self.accumulator_rows, _ = sizes
        table, macs = DEVICE.instructions(*sizes), {"compute": f"rows*{self.dim**2}"}
        said = self.name, table, DEVICE.MEANING, self.attributes, Port()
        self.accelerator = Accelerator(*said, queue=8, macs=macs, macs_per_cycle=self.dim**2)
        self.memories = MemoryTable.of(table, OPERANDS, stores=("mvout", "row"))

    def patterns(self) -> Sequence[Pattern]:
        return [offered("conv2d", self.accepts)]

    def accepts(self, operator: Operator) -> Refusal | None:
        """What the array cannot do, or what not even one row of output fits."""
        assert isinstance(operator, Conv2D)
        groups, rounding = operator.groups, operator.rounding
        if groups != 1:
            return Refusal(f"{groups} groups: each would fill one column", "one without groups")
        if np.any(operator.weight_zero_points):
            return Refusal("weights with a zero point", "symmetric weights")
        if rounding not in (Rounding.DOUBLE, Rounding.FLOAT32):
            return Refusal(f"MVOUT has no rounding {rounding.name.lower()}", "another rounding")
        if self.tile_rows(operator) == 0:
            larger = "more scratchpad_rows or accumulator_rows"
            return Refusal("a row of output does not fit the scratchpads", larger)
        return None

    def tile_rows(self, operator: Conv2D) -> int:
        """The most rows of output that divide its height and fit, if they can twice: one set of
        tiles is filled while the other is used. 0 where not even one row fits."""
        sets = self.fitting(operator)
        return max(((min(2, n), rows) for rows, n in sets.items()), default=(0, 0))[1]

    def space(self, operator: Any) -> dict[str, Any]:
        """For `loadstone tune`: the rows of a tile, and which loop over tiles is outside."""
        return {"rows": list(self.fitting(operator)), "outside": ["rows", "channels"]}

    def fitting(self, operator: Conv2D) -> dict[int, int]:
        """Rows of output in a tile -> how many such tiles fit, of those that do."""
        _, height, width, _ = operator.output.shape
        taps = operator.weights[0, :, :, 0].size
        dim, scratchpad, accumulator = self.dim, self.scratchpad_rows, self.accumulator_rows

        def sets(rows: int) -> int:
            pixels = padded(operator, rows, 0) * padded(operator, width, 1)
            fit = accumulator // (rows * width + 3), scratchpad // (pixels + taps * dim)
            return min(fit)

        return {n: sets(n) for n in range(1, height + 1) if height % n == 0 and sets(n)}

    def computations(self) -> Mapping[str, Callable[[Any], Function]]:
        return {"conv2d": self.computed}

    def computed(self, conv: Conv2D) -> Function:
        said: Any = {"rows": self.tile_rows(conv), "outside": "rows", **self.choice(conv)}
        return computed(conv, self.dim, **said)

    def lower(self, segment: Segment) -> ProgramRegion:
        """Every operator into one program."""
        region = ProgramRegion(segment, self.accelerator)
        for operator in segment.operators:
            assert isinstance(operator, Conv2D)
            self.program(operator, region)
        return region

    def program(self, operator: Conv2D, region: ProgramRegion) -> None:
        """The instructions of one operator, for each sample."""
        (_, *pixels, inputs), (_, *results, outputs) = operator.input.shape, operator.output.shape
        dim, zero_point = self.dim, operator.input.zero_point
        c, o = rounded(inputs, dim), rounded(outputs, dim)
        taps = operator.weights.shape[1:3]
        weights = np.zeros((o, *taps, c), np.int8)
        weights[:outputs, :, :, :inputs] = operator.weights
        tiles = weights.reshape(o // dim, dim, *taps, c // dim, dim).transpose(0, 4, 2, 3, 5, 1)
        sums = operator.weights.sum(axis=(1, 2, 3), dtype=np.int64)
        lanes = np.zeros((3, o), np.int32)
        bias = wrap_int32(operator.bias - zero_point * sums)  # pads are zero points
        lanes[:, :outputs] = bias, *operator.requantization()
        scales = lanes.reshape(3, -1, dim).transpose(1, 0, 2)
        symbols = {
            "w": region.constant(f"weights of {operator.name}", tiles),
            "p": region.constant(f"lanes of {operator.name}", scales),
            "pad": region.constant(f"pads of {operator.name}", np.full(dim, zero_point, np.int8)),
            "x": region.tensor(operator.input, dim),
            "out": region.tensor(operator.output, dim),
        }
        calls = unroll_nests(with_copies(self, operator, region.log(operator)))
        for sample in range(operator.input.shape[0]):
            apart = {"x": sample * prod(pixels) * c, "out": sample * prod(results) * o}
            code = Code(dim, {key: At(name, apart.get(key, 0)) for key, name in symbols.items()})
            for call in calls:
                getattr(code, call.name)(call)
            region.emit(operator, *code.instructions)


def rounded(size: int, dim: int) -> int:
    return (size + dim - 1) // dim * dim


def padded(operator: Conv2D, size: int, axis: int) -> int:
    """Pixels of input that are loaded for `size` pixels of output along an axis: what a kernel of
    one pixel skips stays where it is."""
    taps = operator.weights.shape[1 + axis]
    reach = operator.dilation[axis] * (taps - 1) + 1
    return int((size - 1) * operator.strides[axis] + reach) if taps > 1 else size


def computed(op: Conv2D, dim: int, rows: int, outside: str) -> Function:
    """A convolution of rows of `dim` channels, in tiles of `rows` rows of pixels and one of output
    channels. One of input channels is summed at a time."""
    (_, h, w, c), (_, oh, ow, o) = op.input.shape, op.output.shape
    (top, left), (sy, sx), (dy, dx) = op.padding[:2], op.strides, op.dilation
    _, kh, kw, _ = op.weights.shape
    ins, outs, lanes = rounded(c, dim) // dim, rounded(o, dim) // dim, (1, dim)
    x = NestTensor("x", (h, w, ins), lanes, "int8")
    weights = NestTensor("w", (outs, ins, kh, kw, dim), lanes, "int8")
    scales = NestTensor("p", (outs, 3), lanes, "int32")
    sums = NestTensor("acc", (oh, ow, outs), lanes, "int32", "local")
    out = NestTensor("out", (oh, ow, outs), lanes, "int8")

    loops = NestLoops()
    at = i, j, n = loops.loop(oh, "i"), loops.loop(ow, "j"), loops.loop(outs, "n")
    limits = (op.output.zero_point, op.low, op.high, int(op.rounding))
    fill = loops.nest(NestStep("fill", (sums[at],), (0,)))
    rq = loops.nest(NestStep("rq", (sums[at], scales[n, 0]), limits))
    store = loops.nest(NestStep("copy", (out[at], sums[at])))
    k, ky, kx = loops.loop(ins, "k"), loops.loop(kh, "ky"), loops.loop(kw, "kx")
    pixel = (i * sy + ky * dy - top, j * sx + kx * dx - left, k)
    read = NestAccess(x, pixel, pad=op.input.zero_point)
    gemm = loops.nest(NestStep("gemm", (sums[at], read, weights[n, k, ky, kx, 0])))
    whole = Function("conv2d", (scales, sums, x, weights, out), (fill, gemm, rq, store))
    row, _, block, chunk, _, _ = loops.variables
    order = (row, block) if outside == "rows" else (block, row)
    return tiled(whole, {row: rows, block: 1, chunk: 1}, order=order)


class Code:
    """Instructions from calls. places: of the operator's parameters, and of a row of pads."""

    def __init__(self, dim: int, places: Mapping[str, At]) -> None:
        self.dim, self.places = dim, places
        self.tiles: dict[Buffer, LocalTile] = {}  # of scratchpad or accumulator
        self.fresh: set[Buffer] = set()  # accumulators that hold nothing yet
        self.instructions: list[TiledInsn] = []

    def emit(self, name: str, **fields: int | At | InTile) -> None:
        self.instructions.append(TiledInsn(name, fields))

    def row(self, place: Place, offset: int = 0) -> InTile:
        """A row of a buffer; Loadstone says where that is."""
        buffer = place.buffer
        if buffer not in self.tiles:
            self.tiles[buffer] = LocalTile(buffer.scope, prod(buffer.shape), buffer.name)
        return InTile(self.tiles[buffer], place.offset + offset)

    def fill(self, call: Call) -> None:
        self.fresh.add(call.operands[0].buffer)  # zero: the next product overwrites

    def copy(self, call: Call) -> None:
        """MVIN or MVOUT for every run of rows; those outside the tensor come from the pads."""
        side = int(call.operands[1].buffer.scope == "global")
        far, local = call.operands[side], call.operands[1 - side]
        sums = far.buffer.dtype == "int32"
        name = "mvout" if not side else "mvin_sums" if sums else "mvin"
        row_bytes = self.dim * (4 if sums else 1)
        for run in runs(call.loops):
            address, stride = self.places["pad"], 0
            if run.inside:
                place, stride = self.places[far.buffer.name], run.strides[side] * row_bytes
                moved = (far.offset + run.offsets[side]) * row_bytes
                address = At(place.symbol, place.offset_bytes + moved)
            row = self.row(local, run.offsets[1 - side])
            self.emit(name, address=address, stride=stride, rows=run.count, row=row)

    def gemm(self, call: Call) -> None:
        """Weights stay for all pixels: PRELOAD for every tap, COMPUTE for every row of pixels."""
        sums, data, weights = call.operands
        taps = [loop for loop in call.loops if loop.strides[0] == 0]
        pixels = [loop for loop in call.loops if loop.strides[0] != 0]
        for tap in turns(taps):
            self.emit("preload", row=self.row(weights, offset(taps, tap, 2)))
            adds = int(sums.buffer not in self.fresh)
            for run in runs(pixels):
                row = self.row(data, offset(taps, tap, 1) + run.offsets[1])
                step, target = run.strides[1], self.row(sums, run.offsets[0])
                self.emit("compute", row=row, step=step, rows=run.count, target=target, adds=adds)
            self.fresh.discard(sums.buffer)

    def rq(self, call: Call) -> None:
        """MVOUT does it, with these lanes and limits."""
        values = dict(zip(("zero_point", "low", "high", "rounding"), call.immediates, strict=True))
        self.emit("scale", row=self.row(call.operands[1]), **values)
