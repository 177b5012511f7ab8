# SPDX-License-Identifier: Apache-2.0
"""A device that is programmed by layer descriptors: one instruction is a whole layer.

In:   convolutions, depthwise ones, dense layers, sums and pools, in runs that follow each other.
Out:  for each run a list of descriptors in memory, which the device fetches by itself.
Next: layer_engine.c works its registers, and refuses what the table cannot say.

    loadstone compile net.tflite -t layer-engine --uma-backends docs/examples/descriptors

The device sees one memory. A descriptor of 32 to 44 bytes holds the addresses of its arrays, (H, W,
C) with the channels last, and the numbers of a layer. The driver writes the address of the first
descriptor, their number, and GO.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from fractions import Fraction
from math import prod
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from loadstone.backend import Attribute, Backend, Pattern, ProgramRegion, Refusal, Segment, offered
from loadstone.graph import Add, AveragePool2D, Conv2D, Dense, MaxPool2D, Operator, Quantization
from loadstone.graph.kernels.tflite.elementwise import ADD_PRE_SHIFT, add_constants
from loadstone.isa.accelerator import Accelerator, Port
from loadstone.isa.codec import At, TableInsn
from loadstone.isa.native_page import Action, PageJob, RegisterPage
from loadstone.isa.state import MachineFault, MachineRun, MachineState
from loadstone.isa.table import Bits, InstructionForm, InstructionTable, Reach
from loadstone.numerics import (
    Rounding,
    requantize_double,
    requantize_float64,
    rq,
    wrap_int32,
)

Array = NDArray[Any]
Fields = Mapping[str, int]
Layer = Conv2D | Dense | AveragePool2D | MaxPool2D
DRIVER = Path(__file__).with_suffix(".c")
MACS_PER_CYCLE = 256
#: What stands in memory for each output channel. A multiplier is the bits of a float64 for the
#: rounding of TFLite's dense layers.
LANE = np.dtype([("bias", "<i4"), ("shift", "<i4"), ("multiplier", "<i8")])
WINDOW = ("kernel_h", "kernel_w", "stride_y", "stride_x", "top", "left")
#: TFLite's sum: what each input and their sum are multiplied and shifted by.
FACTORS = [f"{word}_{of}" for of in "aby" for word in ("multiplier", "shift")]


# --- the device -----------------------------------------------------------------------------------
def descriptors(max_channels: int) -> InstructionTable:
    """The five. Windows begin `top` and `left` before the input; what is outside counts nothing."""

    def numbers(width: int, *names: str, **more: Any) -> list[Bits]:
        return [Bits(name, width, **more) for name in names]

    def addresses(*names: str) -> list[Bits]:
        return numbers(32, *names, address=True)

    limits = numbers(10, "low", "high", signed=True)  # first: layer_engine.c reads them
    planes = numbers(16, "height", "width", "out_height", "out_width", low=1)
    channels = Bits("channels", 16, low=1, high=max_channels)
    window = numbers(8, *WINDOW[:4], low=1) + numbers(8, *WINDOW[4:])
    weighted = [*limits, *addresses("x", "weights", "lanes", "y"), *planes, channels, *window]
    weighted += numbers(8, "dilation_y", "dilation_x", low=1) + numbers(16, "outputs", low=1)
    weighted += numbers(10, "zero_x", "zero_y", signed=True)
    weighted += [Bits("rounding", 2, values=tuple(r.name.lower() for r in Rounding))]
    x = Reach("dram", "x", extent="height*width*channels")

    def layer(name: str, opcode: int, taps: str) -> InstructionForm:
        y = Reach("dram", "y", extent="out_height*out_width*outputs", writes=True)
        kept = Reach("dram", "weights", extent=taps), Reach("dram", "lanes", extent="outputs*16")
        macs = f"out_height*out_width*{taps}", Fraction(1, MACS_PER_CYCLE)
        where: dict[str, Any] = {"unit": "array", "cycles": 64, "per": (macs,)}
        return InstructionForm(name, opcode, tuple(weighted), reaches=(x, *kept, y), **where)

    pool = [*limits, *addresses("x", "y"), *planes, channels, *window]
    pool += [Bits("mode", 1, values=("max", "average"))]
    y = Reach("dram", "y", extent="out_height*out_width*channels", writes=True)
    windows = "out_height*out_width*kernel_h*kernel_w*channels", Fraction(1, 16)
    adds = [*limits, *addresses("a", "b", "y"), *numbers(24, "size", low=1)]
    adds += numbers(31, *FACTORS[::2]) + numbers(6, *FACTORS[1::2], signed=True)
    adds += numbers(10, "zero_a", "zero_b", "zero_y", signed=True)
    sums = tuple(Reach("dram", name, extent="size", writes=name == "y") for name in "aby")
    elements = (("size", Fraction(1, 16)),)
    where: dict[str, Any] = {"unit": "vector", "cycles": 64}
    conv = layer("conv", 1, "outputs*kernel_h*kernel_w*channels")
    depthwise = layer("depthwise", 2, "outputs*kernel_h*kernel_w")
    pools = InstructionForm("pool", 3, tuple(pool), reaches=(x, y), per=(windows,), **where)
    total = InstructionForm("add", 4, tuple(adds), reaches=sums, per=elements, **where)
    return InstructionTable("layer_engine", (conv, depthwise, pools, total))


def array(state: MachineState, i: Fields, name: str, shape: Sequence[int], dtype: Any) -> Array:
    data = state.dram.read(i[name], prod(shape) * np.dtype(dtype).itemsize)
    return np.asarray(data.view(dtype).reshape(shape))


def taps(i: Fields, x: Array, outside: int) -> Iterator[tuple[int, int, Array, Array]]:
    """Row and column in the window, what stands there (OH, OW, C), whether inside (OH, OW, 1)."""
    for ky in range(i["kernel_h"]):
        for kx in range(i["kernel_w"]):
            rows = np.arange(i["out_height"]) * i["stride_y"] - i["top"]
            columns = np.arange(i["out_width"]) * i["stride_x"] - i["left"]
            rows += ky * i.get("dilation_y", 1)
            columns += kx * i.get("dilation_x", 1)
            y, x_of = rows.clip(0, i["height"] - 1), columns.clip(0, i["width"] - 1)
            inside = (y == rows)[:, None, None] & (x_of == columns)[None, :, None]
            yield ky, kx, np.where(inside, x[y][:, x_of], outside), inside


def weighted(each: bool) -> Callable[[MachineState, Fields], None]:
    """each: output channel o reads one input channel."""

    def layer(state: MachineState, i: Fields) -> None:
        c, o, kernel = i["channels"], i["outputs"], (i["kernel_h"], i["kernel_w"])
        x = array(state, i, "x", (i["height"], i["width"], c), np.int8).astype(np.float64)
        shape = (*kernel, o) if each else (*kernel, c, o)
        weights = array(state, i, "weights", shape, np.int8).astype(np.float64)
        acc = np.zeros((i["out_height"], i["out_width"], o))  # exact: below 2^53
        x -= i["zero_x"]
        for ky, kx, data, _ in taps(i, x, 0):
            few = data[:, :, np.arange(o) * c // o] if each else data
            acc += few * weights[ky, kx] if each else few @ weights[ky, kx]
        lanes = array(state, i, "lanes", (o,), LANE)
        requantized(state, i, acc.astype(np.int64), lanes)

    return layer


def requantized(state: MachineState, i: Fields, acc: Array, lanes: Array) -> None:
    low, high, zero = i["low"], i["high"], i["zero_y"]
    if i["rounding"] == Rounding.SINGLE:
        total = wrap_int32(acc + lanes["bias"])
        with np.errstate(all="ignore"):
            scaled = requantize_float64(total, lanes["multiplier"].view(np.float64))
        y: Array = np.clip(scaled.astype(np.int64) + zero, low, high)
    else:
        of = acc, lanes["bias"], lanes["multiplier"].astype(np.int32), lanes["shift"]
        y = rq(*of, zero_point=zero, low=low, high=high, rounding=Rounding(i["rounding"]))
    state.dram.write(i["y"], y.astype(np.int8).reshape(1, -1))


def pool(state: MachineState, i: Fields) -> None:
    """TFLite's: the integers themselves are averaged, half away from zero."""
    shape, averages = (i["height"], i["width"], i["channels"]), bool(i["mode"])
    x = array(state, i, "x", shape, np.int8).astype(np.int64)
    largest, total, count = np.array(-128), np.array(0), np.array(0)
    for _, _, data, inside in taps(i, x, 0 if averages else -128):
        largest, total, count = np.maximum(largest, data), total + data, count + inside
    some = np.maximum(count, 1)
    average = np.sign(total) * ((np.abs(total) + some // 2) // some)
    y = np.clip(average if averages else largest, i["low"], i["high"])
    state.dram.write(i["y"], y.astype(np.int8).reshape(1, -1))


def add(state: MachineState, i: Fields) -> None:
    """TFLite's."""

    def scaled(values: Array, of: str) -> Array:
        return requantize_double(values, i[f"multiplier_{of}"], i[f"shift_{of}"]).astype(np.int64)

    total = np.array(0)
    for of in "ab":
        data = array(state, i, of, (i["size"],), np.int8).astype(np.int64)
        total = total + scaled((data - i[f"zero_{of}"]) << ADD_PRE_SHIFT, of)
    y = np.clip(scaled(total, "y") + i["zero_y"], i["low"], i["high"])
    state.dram.write(i["y"], y.astype(np.int8).reshape(1, -1))


MEANING = {"conv": weighted(False), "depthwise": weighted(True), "pool": pool, "add": add}


class EnginePage(RegisterPage):
    """HASH 0, FIRST 4, COUNT 8, GO 12 (1 start, 2 reset), STATE 16 (0 idle, 1 busy, 2 done, 3
    error), AT 20, CAUSE 24, CYCLES 28, IRQ 32 (1 pending; any write clears it)."""

    def __init__(self, config_hash: int) -> None:
        self.registers = [config_hash, *[0] * 8]

    def read32(self, offset: int) -> int:
        return self.registers[offset // 4] if offset < 36 else 0

    def write32(self, offset: int, value: int) -> Action | None:
        if offset in (4, 8):
            self.registers[offset // 4] = value
        if offset == 32:
            self.registers[8] = 0
        return (None, Action.START, Action.RESET)[value % 3] if offset == 12 else None

    def job(self) -> PageJob:
        return PageJob(self.registers[1], self.registers[2])

    def started(self) -> None:
        self.registers[4:9] = [1, 0, 0, 0, 0]

    def moved(self, completed: int) -> None:
        self.registers[5] = completed

    def ended(self, result: MachineRun | MachineFault | None) -> None:
        if result is None:
            self.registers[4:9] = [0] * 5
        elif isinstance(result, MachineFault):
            self.registers[4:9] = [3, result.instruction, result.error, 0, 1]
        else:
            self.registers[4:9] = [2, result.instructions, 0, result.cycles, 1]

    def irq(self) -> int:
        return self.registers[8]


# --- the back end ---------------------------------------------------------------------------------
class LayerEngineBackend(Backend):
    """What has a descriptor."""

    name: ClassVar[str] = "layer-engine"
    target_attributes: ClassVar[Sequence[Attribute]] = (
        Attribute("max_channels", 4096, "channels that its buffer holds", range(1, 65536)),
    )

    def __init__(self, **values: int | str | bool) -> None:
        super().__init__(**values)
        self.limit = int(self.attributes["max_channels"])
        said = self.name, descriptors(self.limit), MEANING, self.attributes, Port(), 2
        self.accelerator = Accelerator(*said, page=EnginePage, driver=DRIVER)

    def patterns(self) -> Sequence[Pattern]:
        """A kind of layer each."""
        of = {"conv2d": self.accepts_weighted, "dense": self.accepts_weighted, "add": accepts_add}
        of |= {"average_pool2d": self.accepts_pool, "max_pool2d": self.accepts_pool}
        return [offered(kind, accepts) for kind, accepts in of.items()]

    def accepts(self, operator: Operator, *bytes_: int) -> Refusal | None:
        """bytes_: sizes with 8 bits."""
        if max(bytes_, default=0) >= 256:
            return Refusal("a kernel, stride, padding or dilation above 255", "a smaller window")
        if max(*operator.input.shape, *operator.output.shape) >= 1 << 16:
            return Refusal("65,536 rows or outputs and more", "a smaller layer")
        if operator.input.shape[-1] > self.limit:
            return Refusal(f"more than {self.limit} channels", "a larger max_channels")
        return None

    def accepts_weighted(self, operator: Operator) -> Refusal | None:
        """What has no field in the descriptor is left."""
        assert isinstance(operator, Conv2D | Dense)
        if np.any(operator.weight_zero_points):
            return Refusal("weights with a zero point", "symmetric weights")
        if isinstance(operator, Dense):
            return self.accepts(operator)
        if operator.groups != 1 and not operator.is_depthwise:
            return Refusal(f"{operator.groups} groups of several channels", "one group")
        if operator.rounding is Rounding.SINGLE:
            return Refusal("rounding single is for dense layers", "another rounding")
        return self.accepts(operator, *window(operator).values(), *operator.dilation)

    def accepts_pool(self, operator: Operator) -> Refusal | None:
        """TFLite's averages; any maximum."""
        assert isinstance(operator, AveragePool2D | MaxPool2D)
        exact = operator.rounding is not Rounding.FLOAT32 and not getattr(operator, "unsigned", 0)
        if isinstance(operator, AveragePool2D) and not exact:
            return Refusal("a mean that is not rounded as TFLite's", "an int8 TFLite model")
        return self.accepts(operator, *window(operator).values())

    def lower(self, segment: Segment) -> ProgramRegion:
        """A descriptor for each layer, and each sample."""
        region = ProgramRegion(segment, self.accelerator)
        for operator in segment.operators:
            if isinstance(operator, Add):
                emit_add(operator, region)
            elif isinstance(operator, Dense | Conv2D):
                emit_weighted(operator, region)
            elif isinstance(operator, AveragePool2D | MaxPool2D):
                mode = int(isinstance(operator, AveragePool2D))
                emit_planes(operator, region, "pool", {}, window(operator) | {"mode": mode})
        return region


def accepts_add(operator: Operator) -> Refusal | None:
    """TFLite's, of two tensors of one shape."""
    assert isinstance(operator, Add)
    if len({tensor.shape for tensor in (*operator.inputs, operator.output)}) > 1:
        return Refusal("a sum that broadcasts", "two tensors of one shape")
    if operator.rounding is not Rounding.DOUBLE:
        return Refusal("rounding that is not TFLite's", "a TFLite model")
    if operator.output.size >= 1 << 24:
        return Refusal("2^24 elements and more", "a smaller tensor")
    return None


def window(operator: Conv2D | AveragePool2D | MaxPool2D) -> dict[str, int]:
    kernel = operator.weights.shape[1:3] if isinstance(operator, Conv2D) else operator.kernel
    return dict(zip(WINDOW, (*kernel, *operator.strides, *operator.padding[:2]), strict=True))


def emit_planes(o: Layer, region: ProgramRegion, name: str, kept: Any, more: Fields) -> None:
    """A descriptor for each sample; the rows of a dense layer are one image."""
    image = len(o.input.shape) == 4
    (samples, *size), (_, *out) = o.input.shape, o.output.shape
    if not image:
        samples, size, out = 1, [samples, 1, *size], [samples, 1, *out]
    x, y = region.tensor(o.input), region.tensor(o.output)
    names = ("height", "width", "channels", "out_height", "out_width", "low", "high")
    numbers = dict(zip(names, (*size, *out[:2], o.low, o.high), strict=True)) | dict(more)
    for sample in range(samples):
        places = {"x": At(x, sample * prod(size)), "y": At(y, sample * prod(out))}
        places |= {field: At(symbol) for field, symbol in kept.items()}
        region.emit(o, TableInsn(name, {**places, **numbers}))


def emit_weighted(o: Conv2D | Dense, region: ProgramRegion) -> None:
    each = isinstance(o, Conv2D) and o.is_depthwise
    weights = np.moveaxis(o.weights, 0, -1)  # outputs last: (KH, KW, C, O), (I, O)
    kept = {
        "weights": region.constant(f"weights of {o.name}", weights),
        "lanes": region.constant(f"lanes of {o.name}", lanes(o).view(np.uint8)),
    }
    numbers = {"zero_x": o.input.zero_point, "zero_y": o.output.zero_point}
    numbers |= {"outputs": o.weights.shape[0], "rounding": int(o.rounding)}
    if isinstance(o, Conv2D):
        numbers |= {**window(o), "dilation_y": o.dilation[0], "dilation_x": o.dilation[1]}
    else:
        numbers |= dict.fromkeys((*WINDOW[:4], "dilation_y", "dilation_x"), 1)
    emit_planes(o, region, "depthwise" if each else "conv", kept, numbers)


def emit_add(o: Add, region: ProgramRegion) -> None:
    tensors = dict(zip("aby", (*o.inputs, o.output), strict=True))
    grids = [Quantization(tensor.scale, tensor.zero_point) for tensor in tensors.values()]
    constants = [n for pair in add_constants(*grids) for n in pair]
    fields: dict[str, int | At] = {of: At(region.tensor(t)) for of, t in tensors.items()}
    fields |= dict(zip(FACTORS, constants, strict=True))
    fields |= {f"zero_{of}": tensor.zero_point for of, tensor in tensors.items()}
    fields |= {"low": o.low, "high": o.high, "size": o.output.size}
    region.emit(o, TableInsn("add", fields))


def lanes(o: Conv2D | Dense) -> Array:
    """(O,) LANE: bias, multiplier and shift of each output."""
    made = np.zeros(len(o.bias), LANE)
    made["bias"] = o.bias
    if o.rounding is Rounding.SINGLE:  # TFLite's fully connected: the sum times a float64
        made["multiplier"] = o.real_scales().view(np.int64)
    else:
        made["multiplier"], made["shift"] = o.requantization()
    return made
