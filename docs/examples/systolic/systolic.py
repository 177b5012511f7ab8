"""A back end for a systolic array that moves data explicitly, and whose accumulators scale.

In:   convolutions, in runs that follow each other.
Out:  for each run one program of 32-byte instructions, and the memory image that it works on.
Next: `execute`, the driver, runs it on SystolicArray, the functional model.

    loadstone compile net.tflite -t systolic,vtaq-1x16x16 --uma-backends docs/examples/systolic

The device, after Gemmini: `dim` x `dim` multipliers that keep a tile of weights; a scratchpad whose
rows hold `dim` int8; an accumulator whose rows hold `dim` int32. Tensors in memory are (H, W, C),
their channels rounded up to rows of `dim`.

    MVIN     address stride rows row acc            scratchpad (or accumulator)[row + i] =
                                                    memory[address + i * stride], for i < rows
    PRELOAD  row                                    weights = scratchpad[row : row + dim]
    COMPUTE  row step rows target accumulate        accumulator[target + i] (+)=
                                                    scratchpad[row + i * step] @ weights
    SCALE    row zero_point low high rounding       how MVOUT scales: bias, multiplier and shift
                                                    stand in three accumulator rows
    MVOUT    address stride rows row                memory[address + i * stride] =
                                                    int8(scaled accumulator[row + i])

`scheduled` says the sum and its tiles in TensorIR; loadstone.ir_pass makes calls of its loop nests
(copies, matrix products, requantization); `Code` makes instructions of the calls.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from math import prod
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray
from tvm import s_tir, te, tirx
from tvm.ir import IRModule

from loadstone.backend import (
    Attribute,
    Backend,
    External,
    ExternalRegion,
    Pattern,
    Refusal,
    Segment,
    offered,
)
from loadstone.graph import Conv2D, Operator
from loadstone.ir_pass.pipeline import lowered
from loadstone.ir_pass.unroll import Call, Place, offset, runs, turns, unroll
from loadstone.numerics import Rounding, rq, wrap_int32

Array = NDArray[Any]
OPCODES = ("mvin", "preload", "compute", "scale", "mvout")


class Systolic(Backend):
    """Convolutions without groups."""

    name: ClassVar[str] = "systolic"
    target_attributes: ClassVar[Sequence[Attribute]] = (
        Attribute("dim", 16, "rows and columns of multipliers", range(2, 257)),
        Attribute("scratchpad_rows", 8192, "rows of dim int8", range(1, 2**20)),
        Attribute("accumulator_rows", 1024, "rows of dim int32", range(1, 2**20)),
    )

    @property
    def dim(self) -> int:
        return int(self.attributes["dim"])

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
        """The most rows of output that fit and divide its height; 0 where not even one fits."""
        _, height, width, _ = operator.output.shape
        taps = operator.weights[0, :, :, 0].size
        sizes = (int(self.attributes[entry.name]) for entry in self.target_attributes)
        dim, scratchpad, accumulator = sizes

        def fit(rows: int) -> bool:
            pixels = padded(operator, rows, 0) * padded(operator, width, 1)
            return rows * width + 3 <= accumulator and pixels + taps * dim <= scratchpad

        return max((n for n in range(1, height + 1) if height % n == 0 and fit(n)), default=0)

    def schedules(self) -> Mapping[str, Callable[[Any], IRModule]]:
        return {"conv2d": lambda conv: scheduled(conv, self.dim, self.tile_rows(conv))}

    def lower(self, segment: Segment) -> ExternalRegion:
        """Every operator through TensorIR, into one program on one memory."""
        memory, convolutions = Memory(), [o for o in segment.operators if isinstance(o, Conv2D)]
        instructions = [line for o in convolutions for line in self.program(o, memory)]
        sides = {"inputs": segment.inputs, "outputs": segment.outputs}
        said = {k: [(memory.address[t.name], t.shape[1:]) for t in v] for k, v in sides.items()}
        constants: dict[str, Array] = {
            "image": np.frombuffer(memory.image, np.uint8),
            "program": np.array(instructions, np.int32),
        }
        what = segment.name, segment.operators, segment.inputs, segment.outputs
        text = json.dumps({**said, **self.attributes})
        return ExternalRegion(*what, "systolic.run", text, constants)

    def program(self, operator: Conv2D, memory: Memory) -> list[list[int]]:
        """The instructions of one operator; its tensors get addresses."""
        (_, *pixels, inputs), (_, *results, outputs) = operator.input.shape, operator.output.shape
        dim, zero_point = self.dim, operator.input.zero_point
        c, o = rounded(inputs, dim), rounded(outputs, dim)
        weights = np.zeros((*operator.weights.shape[1:3], c, o), np.int8)
        weights[:, :, :inputs, :outputs] = operator.weights.transpose(1, 2, 3, 0)
        sums = operator.weights.sum(axis=(1, 2, 3), dtype=np.int64)
        lanes = np.zeros((3, o), np.int32)
        bias = wrap_int32(operator.bias - zero_point * sums)  # pads are zero points
        lanes[:, :outputs] = bias, *operator.requantization()
        kept = {
            "w": (f"weights of {operator.name}", weights),
            "p": (f"lanes of {operator.name}", lanes),
            "pad": (f"pads of {operator.name}", np.full(dim, zero_point, np.int8)),
            "x": (operator.input.name, np.zeros((*pixels, c), np.int8)),
            "out": (operator.output.name, np.zeros((*results, o), np.int8)),
        }
        code = Code(dim, {key: memory.keep(name, array) for key, (name, array) in kept.items()})
        for call in unroll(lowered(self, operator)):
            getattr(code, call.name)(call)
        return code.instructions

    def cost_cycles(self, segment: Segment) -> int:
        """One row of the array a cycle, for every tile of weights; it hides the copies."""
        cycles = 0
        for operator in segment.operators:
            if isinstance(operator, Conv2D):
                pixels, (o, *taps, i) = operator.output.shape[1:3], operator.weights.shape
                tiles = rounded(i, self.dim) // self.dim * (rounded(o, self.dim) // self.dim)
                cycles += prod(pixels) * prod(taps) * tiles
        return cycles

    @classmethod
    def externals(cls) -> Mapping[str, External]:
        """The driver, on the functional model."""
        return {"systolic.run": execute}


class Memory:
    """Memory as the artifact keeps it: constants, and zeros where activations will stand."""

    def __init__(self) -> None:
        self.address: dict[str, int] = {}
        self.image = bytearray()

    def keep(self, name: str, array: Array) -> int:
        """The address of `name`; the first time, it gets one."""
        if name not in self.address:
            self.address[name] = len(self.image)
            self.image += array.tobytes().ljust(rounded(array.nbytes, 64), b"\0")
        return self.address[name]


def rounded(size: int, dim: int) -> int:
    return (size + dim - 1) // dim * dim


def padded(operator: Conv2D, size: int, axis: int) -> int:
    """Pixels of input that `size` pixels of output read along an axis."""
    reach = operator.dilation[axis] * (operator.weights.shape[1 + axis] - 1) + 1
    return int((size - 1) * operator.strides[axis] + reach)


def scheduled(op: Conv2D, dim: int, rows: int) -> IRModule:
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

    s = s_tir.Schedule(IRModule({"main": te.create_prim_func([x, weights, lanes, out])}))
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


class Code:
    """Instructions from calls. addresses: of the operator's parameters, and of a row of pads."""

    def __init__(self, dim: int, addresses: Mapping[str, int]) -> None:
        self.dim, self.addresses = dim, addresses
        self.rows: dict[str, int] = {}  # buffer -> its first row in scratchpad or accumulator
        self.free = {"scratchpad": 0, "accumulator": 0}
        self.fresh: set[str] = set()  # accumulators that hold nothing yet
        self.instructions: list[list[int]] = []

    def emit(self, opcode: str, *fields: int) -> None:
        self.instructions.append([OPCODES.index(opcode), *fields, *[0] * (7 - len(fields))])

    def row(self, place: Place, offset: int = 0) -> int:
        """The row that an element stands in; a buffer keeps the rows that it first got."""
        buffer = place.buffer
        if buffer.name not in self.rows:
            memory = "accumulator" if buffer.scope == "local.acc" else "scratchpad"
            self.rows[buffer.name] = self.free[memory]
            self.free[memory] += int(np.prod(buffer.shape)) // self.dim
        return self.rows[buffer.name] + (place.offset + offset) // self.dim

    def fill(self, call: Call) -> None:
        self.fresh.add(call.operands[0].buffer.name)  # zero: the next product overwrites

    def dma_copy(self, call: Call) -> None:
        """MVIN or MVOUT for every run of rows; those outside the tensor come from the pads."""
        side = int(call.operands[1].buffer.scope == "global")
        far, local = call.operands[side], call.operands[1 - side]
        acc = local.buffer.scope == "local.acc"
        size = 4 if acc and side else 1
        for run in runs(call.loops[:-1]):
            place = self.addresses["pad"], 0
            if run.inside:
                address = self.addresses[far.buffer.name] + (far.offset + run.offsets[side]) * size
                place = address, run.strides[side] * size
            row = self.row(local, run.offsets[1 - side])
            self.emit("mvin" if side else "mvout", *place, run.count, row, int(acc))

    def gemm(self, call: Call) -> None:
        """Weights stay for all pixels: PRELOAD for every tap, COMPUTE for every row of pixels."""
        acc, data, weights = call.operands
        still = [loop for loop in call.loops if loop.strides[0] == 0 and loop.extent > 1]
        taps = [loop for loop in still if loop.strides[1] != 1]
        pixels = [loop for loop in call.loops if loop.strides[2] == 0]
        for tap in turns(taps):
            self.emit("preload", self.row(weights, offset(taps, tap, 2)))
            adds = int(acc.buffer.name not in self.fresh)
            for run in runs(pixels):
                row = self.row(data, offset(taps, tap, 1) + run.offsets[1])
                step, target = run.strides[1] // self.dim, self.row(acc, run.offsets[0])
                self.emit("compute", row, step, run.count, target, adds)
            self.fresh.discard(acc.buffer.name)

    def rq(self, call: Call) -> None:
        """MVOUT does it, with these lanes and limits."""
        self.emit("scale", self.row(call.operands[1]), *call.immediates)


class SystolicArray:
    """What the silicon does, instruction by instruction."""

    def __init__(self, memory: Array, dim: int, inputs: int, sums: int) -> None:
        self.memory, self.dim = memory, dim
        self.scratchpad = np.zeros((inputs, dim), np.int8)
        self.accumulator = np.zeros((sums, dim), np.int32)

    def run(self, program: Array) -> None:
        for opcode, *fields in program.tolist():
            getattr(self, OPCODES[opcode])(*fields)

    def at(self, address: int, stride: int, rows: int, row_bytes: int) -> Array:
        return address + stride * np.arange(rows)[:, None] + np.arange(row_bytes)

    def mvin(self, address: int, stride: int, rows: int, row: int, acc: int, *_: int) -> None:
        target: Array = self.accumulator if acc else self.scratchpad
        at = self.at(address, stride, rows, target[0].nbytes)
        target[row : row + rows] = self.memory[at].view(target.dtype)

    def preload(self, row: int, *_: int) -> None:
        self.weights = self.scratchpad[row : row + self.dim].astype(np.int32)

    def compute(self, row: int, step: int, rows: int, target: int, adds: int, *_: int) -> None:
        sums = self.accumulator[target : target + rows]
        sums[:] = adds * sums + self.scratchpad[row + step * np.arange(rows)] @ self.weights

    def scale(self, *fields: int) -> None:
        self.scaling = fields

    def mvout(self, address: int, stride: int, rows: int, row: int, *_: int) -> None:
        lanes, zero, low, high, rounding = self.scaling[:5]
        sums = self.accumulator[row : row + rows], *self.accumulator[lanes : lanes + 3]
        scaled = rq(*sums, zero_point=zero, low=low, high=high, rounding=Rounding(rounding))
        at = self.at(address, stride, rows, self.dim)
        self.memory[at] = scaled.astype(np.int8).view(np.uint8)


def execute(arrays: Sequence[Array], attributes: str) -> list[Array]:
    """One run of the program for each sample."""
    said = json.loads(attributes)
    *inputs, image, program = arrays
    sizes = [said[entry.name] for entry in Systolic.target_attributes]
    outputs = [np.empty((len(inputs[0]), *shape), np.int8) for _, shape in said["outputs"]]
    for sample in range(len(inputs[0])):
        array = SystolicArray(np.array(image), *sizes)
        for (address, shape), x in zip(said["inputs"], inputs, strict=True):
            whole(array, address, shape)[..., : shape[-1]] = x[sample]
        array.run(program)
        for (address, shape), y in zip(said["outputs"], outputs, strict=True):
            y[sample] = whole(array, address, shape)[..., : shape[-1]]
    return outputs


def whole(array: SystolicArray, address: int, shape: Sequence[int]) -> Array:
    """A tensor in memory, with its channels rounded up."""
    stands = (*shape[:-1], rounded(shape[-1], array.dim))
    return array.memory[address : address + int(np.prod(stands))].view(np.int8).reshape(stands)
