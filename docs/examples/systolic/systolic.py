# SPDX-License-Identifier: Apache-2.0
"""A systolic array that moves data explicitly, and whose accumulators scale: the whole device.

In:   convolutions, in runs that follow each other.
Out:  for each run one program of the array's own instructions, of 8, 12 and 16 bytes.
Next: the C runtime checks it, fills its addresses in and starts it; `Systolic.accelerator` is what
      the simulator runs it on.

    loadstone compile net.tflite -t systolic,vtaq-1x16x16 --uma-backends docs/examples/systolic

The device, after Gemmini: `dim` x `dim` multipliers that keep a tile of weights; a scratchpad whose
rows hold `dim` int8; an accumulator whose rows hold `dim` int32. Tensors in memory are (H, W, C),
their channels rounded up to rows of `dim`.

    mvin        address stride rows row             scratchpad[row + i] =
                                                    memory[address + i * stride], for i < rows
    mvin_sums   address stride rows row             accumulator[row + i] = the same
    preload     row                                 weights = scratchpad[row : row + dim]
    compute     row step rows target adds           accumulator[target + i] (+)=
                                                    scratchpad[row + i * step] @ weights
    scale       row zero_point low high rounding    how mvout scales: bias, multiplier and shift
                                                    come from three accumulator rows
    mvout       address stride rows row             memory[address + i * stride] =
                                                    int8(scaled accumulator[row + i])

With `-tokens=1` units wait for tokens, as VTA's do; the compiler sets them. `nop` is the array's.
`instructions` is the table, MEANING what each does. `computed` says the sum and its tiles, and
nothing of memories; OPERANDS, which instruction reads what of it. Loadstone inserts the copies,
`Code` makes instructions of what is then called; Loadstone gives their tiles rows, and loads what
is next while the array works.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from math import prod
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from loadstone.backend import Attribute, Backend, Pattern, ProgramRegion, Refusal, Segment, offered
from loadstone.backend.lowering import with_copies
from loadstone.graph import Conv2D, Operator
from loadstone.ir_pass.memory_table import MemoryTable
from loadstone.ir_pass.nests import Function, NestAccess, NestLoops, NestStep, NestTensor
from loadstone.ir_pass.tile_loops import tiled
from loadstone.ir_pass.unroll import Buffer, Call, Place, offset, runs, turns, unroll_nests
from loadstone.isa.accelerator import Accelerator, Port
from loadstone.isa.codec import At
from loadstone.isa.queues import chained
from loadstone.isa.state import MachineState
from loadstone.isa.table import Bits, InstructionForm, InstructionTable, LocalMemory, Reach
from loadstone.isa.tiles import InTile, LocalTile, TiledInsn
from loadstone.numerics import Rounding, rq, wrap_int32

Array = NDArray[Any]
Fields = Mapping[str, int]


# --- the device -----------------------------------------------------------------------------------
def instructions(dim: int, scratchpad_rows: int, sums_rows: int, tokens: int) -> InstructionTable:
    """Fields, what they reach, the unit and its cycles."""
    address, stride = Bits("address", 32, address=True), Bits("stride", 24)
    rows, row = Bits("rows", 20, low=1), Bits("row", 20)
    lines = (("rows", "stride"),)
    from_row: dict[str, Any] = {"first": "row", "loops": (("rows", 1),)}

    def mvin(name: str, opcode: int, target: str, size: int) -> InstructionForm:
        reaches = (Reach("dram", "address", lines, size), Reach(target, **from_row, writes=True))
        fields = (address, stride, rows, row)
        return InstructionForm(name, opcode, fields, 16, reaches=reaches, unit="load")

    sums = Reach("accumulator", "target", (("rows", 1),), writes=True)
    added = Reach("accumulator", "target", (("rows*adds", 1),))  # what the sums are added to
    compute = (Reach("weights", 0), Reach("scratchpad", "row", (("rows", "step"),)), added, sums)
    values = [Bits(name, 10, signed=True) for name in ("zero_point", "low", "high")]
    scale = (row, *values, Bits("rounding", 2, values=tuple(r.name.lower() for r in Rounding)))
    scaling = (Reach("accumulator", "row", extent=3), Reach("scaling", 0, writes=True))
    far = Reach("dram", "address", lines, dim, writes=True)
    mvout = (Reach("accumulator", **from_row), Reach("scaling", 0), far)
    weights = (Reach("scratchpad", "row", extent=dim), Reach("weights", 0, writes=True))
    fields = (row, Bits("step", 16), rows, Bits("target", 20), Bits("adds", 1))
    forms = (
        mvin("mvin", 1, "scratchpad", dim),
        mvin("mvin_sums", 2, "accumulator", 4 * dim),
        InstructionForm("preload", 3, (row,), 8, "", weights, "array", dim),
        InstructionForm("compute", 4, fields, 12, "", compute, "array", 1, (("rows", 1),)),
        InstructionForm("scale", 5, scale, 8, "", scaling, "store", 3),
        InstructionForm("mvout", 6, (address, stride, rows, row), 16, reaches=mvout, unit="store"),
    )
    memories = (
        LocalMemory("scratchpad", scratchpad_rows, dim),
        LocalMemory("accumulator", sums_rows, dim, "int32"),
        LocalMemory("weights", 1, dim * dim, "int32"),
        LocalMemory("scaling", 1, 4 + 3 * dim, "int32"),
    )
    table = InstructionTable("systolic", forms, memories)
    queues, nop = chained("load", "array", "store"), InstructionForm("nop", 7, unit="array")
    return table.ordered_by(queues, nop) if tokens else table


def moved(memory: str) -> Callable[[MachineState, Fields], None]:
    def mvin(state: MachineState, i: Fields) -> None:
        target = state.memory[memory]
        data = state.dram.read(i["address"], target[0].nbytes, i["stride"], i["rows"])
        target[i["row"] : i["row"] + i["rows"]] = data.view(target.dtype)

    return mvin


def preload(state: MachineState, i: Fields) -> None:
    dim = state.memory["scratchpad"].shape[1]
    state.memory["weights"][0] = state.memory["scratchpad"][i["row"] : i["row"] + dim].ravel()


def compute(state: MachineState, i: Fields) -> None:
    data, dim = state.memory["scratchpad"], state.memory["scratchpad"].shape[1]
    sums = state.memory["accumulator"][i["target"] : i["target"] + i["rows"]]
    picked = data[i["row"] + i["step"] * np.arange(i["rows"])].astype(np.float64)
    product = picked @ state.memory["weights"][0].reshape(dim, dim)  # exact: below 2^53
    sums[:] = wrap_int32(i["adds"] * sums.astype(np.int64) + product.astype(np.int64))


def scale(state: MachineState, i: Fields) -> None:
    values = [i[f] for f in ("zero_point", "low", "high", "rounding")]
    state.memory["scaling"][0] = [*values, *state.memory["accumulator"][i["row"] :][:3].ravel()]


def mvout(state: MachineState, i: Fields) -> None:
    (zero, low, high, rounding), lanes = np.split(state.memory["scaling"][0], [4])
    sums = state.memory["accumulator"][i["row"] : i["row"] + i["rows"]]
    limits: dict[str, Any] = {"zero_point": zero, "low": low, "high": high}
    scaled = rq(sums, *lanes.reshape(3, -1), **limits, rounding=Rounding(rounding))
    state.dram.write(i["address"], scaled.astype(np.int8), i["stride"])


MEANING = {"mvin": moved("scratchpad"), "mvin_sums": moved("accumulator"), "preload": preload}
MEANING |= {"compute": compute, "scale": scale, "mvout": mvout}
#: By step of a computation, the instruction and the field that say where each operand stands.
OPERANDS = {
    "fill": [("compute", "target")],
    "gemm": [("compute", "target"), ("compute", "row"), ("preload", "row")],
    "rq": [("mvout", "row"), ("scale", "row")],
}


# --- the back end ---------------------------------------------------------------------------------
class Systolic(Backend):
    """Convolutions without groups."""

    name: ClassVar[str] = "systolic"
    target_attributes: ClassVar[Sequence[Attribute]] = (
        Attribute("dim", 16, "rows and columns of multipliers", range(2, 257)),
        Attribute("scratchpad_rows", 8192, "rows of dim int8", range(1, 2**20)),
        Attribute("accumulator_rows", 1024, "rows of dim int32", range(4, 2**20)),
        Attribute("tokens", 0, "1: units are ordered by tokens", range(2)),
    )

    def __init__(self, **values: int | str | bool) -> None:
        super().__init__(**values)
        sizes = [int(self.attributes[entry.name]) for entry in self.target_attributes]
        self.dim, self.scratchpad_rows, self.accumulator_rows, _ = sizes
        table, macs = instructions(*sizes), {"compute": f"rows*{self.dim**2}"}
        said = "systolic", table, MEANING, self.attributes, Port()
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
