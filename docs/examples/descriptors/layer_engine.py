"""A device that is programmed by layer descriptors: one instruction is a whole layer.

In:   dense layers, in runs that follow each other.
Out:  for each run a list of descriptors in memory, which the device fetches by itself.
Next: layer_engine.c works its registers, and refuses what the table cannot say.

    loadstone compile net.tflite --uma-backends docs/examples/descriptors --target
    layer-engine,vtaq-1x16x16

The device sees one memory. A descriptor of 40 bytes holds the addresses of six arrays and the
numbers of a layer. The driver writes the address of the first descriptor, their number, and GO.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from loadstone.backend import Attribute, Backend, Pattern, ProgramRegion, Refusal, Segment, offered
from loadstone.graph import Dense, Operator
from loadstone.graph.kernels.windows import matmul
from loadstone.isa.accelerator import Accelerator, Port
from loadstone.isa.codec import At, TableInsn
from loadstone.isa.native_page import Action, PageJob, RegisterPage
from loadstone.isa.state import MachineFault, MachineRun, MachineState
from loadstone.isa.table import Bits, InstructionForm, InstructionTable, Reach
from loadstone.numerics import (
    Rounding,
    onnx_scale,
    quantize_multiplier,
    requantize_float64,
    rq,
    scale_lane,
    shift_lane,
    tflite_scale,
    wrap_int32,
)

Array = NDArray[Any]
DRIVER = Path(__file__).with_suffix(".c")
ARRAYS = ("x", "weights", "bias", "multiplier", "shift", "y")


# --- the device -----------------------------------------------------------------------------------
def descriptors(max_inputs: int) -> InstructionTable:
    """The one instruction. Rows of x and of the weights have `inputs` bytes."""
    numbers = [Bits(name, 10, signed=True) for name in ("zero_x", "zero_y", "low", "high")]
    fields = (
        *(Bits(name, 32, address=True) for name in ARRAYS),
        Bits("rows", 16, low=1),
        Bits("inputs", 16, low=1, high=max_inputs),
        Bits("outputs", 16, low=1),
        *numbers,
        Bits("rounding", 2, values=tuple(r.name.lower() for r in Rounding)),
    )
    reaches = (
        Reach("dram", "x", (("rows", "inputs"),), "inputs"),
        Reach("dram", "weights", (("outputs", "inputs"),), "inputs"),
        Reach("dram", "bias", (("outputs", 4),), 4),
        Reach("dram", "multiplier", (("outputs", 8),), 8),
        Reach("dram", "shift", (("outputs", 4),), 4),
        Reach("dram", "y", (("rows", "outputs"),), "outputs", writes=True),
    )
    doc = "y = requantized (x - zero_x) @ weights.T + bias, in [low, high]."
    dense = InstructionForm("dense", 1, fields, 40, doc, reaches, "engine", 64, (("outputs", 16),))
    return InstructionTable("layer_engine", (dense,))


def dense(state: MachineState, i: Mapping[str, int]) -> None:
    """What the descriptor says. A multiplier has 64 bits: of a float64 for rounding `single`."""
    rows, inputs, outputs = i["rows"], i["inputs"], i["outputs"]

    def array(name: str, count: int, dtype: Any) -> Array:
        found: Array = state.dram.read(i[name], count * np.dtype(dtype).itemsize).view(dtype)[0]
        return found

    x = array("x", rows * inputs, np.int8).reshape(rows, inputs).astype(np.int64) - i["zero_x"]
    acc = matmul(x, array("weights", outputs * inputs, np.int8).reshape(outputs, inputs).T)
    bias = array("bias", outputs, np.int32)
    low, high, zero = i["low"], i["high"], i["zero_y"]
    if i["rounding"] == Rounding.SINGLE:
        total = wrap_int32(acc.astype(np.int64) + bias)
        scaled = requantize_float64(total, array("multiplier", outputs, np.float64))
        y: Array = np.clip(scaled.astype(np.int64) + zero, low, high)
    else:
        lanes = array("multiplier", outputs, np.int64).astype(np.int32)
        lanes_of = acc, bias, lanes, array("shift", outputs, np.int32)
        y = rq(*lanes_of, zero_point=zero, low=low, high=high, rounding=Rounding(i["rounding"]))
    state.dram.write(i["y"], y.astype(np.int8).reshape(1, -1))


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
    """Dense layers."""

    name: ClassVar[str] = "layer-engine"
    target_attributes: ClassVar[Sequence[Attribute]] = (
        Attribute("max_inputs", 4096, "elements that one row of its buffer holds", range(1, 65536)),
    )

    def __init__(self, **values: int | str | bool) -> None:
        super().__init__(**values)
        self.limit = int(self.attributes["max_inputs"])
        said = self.name, descriptors(self.limit), {"dense": dense}, self.attributes, Port()
        self.accelerator = Accelerator(*said, page=EnginePage, driver=DRIVER)

    def patterns(self) -> Sequence[Pattern]:
        """One."""
        return [offered("dense", self.accepts)]

    def accepts(self, operator: Operator) -> Refusal | None:
        """What has no field in the descriptor is left."""
        assert isinstance(operator, Dense)
        if operator.weights.shape[1] > self.limit:
            return Refusal(
                f"rows of {operator.weights.shape[1]} elements, the buffer holds {self.limit}",
                "a larger max_inputs",
            )
        if max(operator.input.shape[0], operator.weights.shape[0]) >= 1 << 16:
            return Refusal("65,536 rows or outputs and more", "a smaller layer")
        if np.any(operator.weight_zero_points):
            return Refusal("weights with a zero point", "symmetric weights")
        return None

    def lower(self, segment: Segment) -> ProgramRegion:
        """A descriptor for each layer."""
        region = ProgramRegion(segment, self.accelerator)
        for operator in segment.operators:
            assert isinstance(operator, Dense)
            multiplier, shift = lanes(operator)
            kept: dict[str, Array] = {
                "weights": operator.weights,
                "bias": operator.bias,
                "multiplier": multiplier,
                "shift": shift,
            }
            symbols = {k: region.constant(f"{k} of {operator.name}", v) for k, v in kept.items()}
            symbols |= {"x": region.tensor(operator.input), "y": region.tensor(operator.output)}
            (rows, inputs), outputs = operator.input.shape, operator.output.shape[1]
            numbers = {
                "rows": rows,
                "inputs": inputs,
                "outputs": outputs,
                "zero_x": operator.input.zero_point,
                "zero_y": operator.output.zero_point,
                "low": operator.low,
                "high": operator.high,
            }
            addresses = {name: At(symbol) for name, symbol in symbols.items()}
            rounding = int(operator.rounding)
            region.emit(
                operator, TableInsn("dense", {**addresses, **numbers, "rounding": rounding})
            )
        return region


def lanes(operator: Dense) -> tuple[Array, Array]:
    """Multiplier, of 64 bits, and shift of each output."""
    scales = operator.input.scale, operator.weight_scales, operator.output.scale
    none = np.zeros_like(operator.bias)
    if operator.rounding is Rounding.SINGLE:  # TFLite's fully connected: the sum times a float64
        return tflite_scale(*scales).view(np.int64), none
    if operator.rounding is Rounding.FLOAT32:
        return scale_lane(onnx_scale(*scales)).astype(np.int64), none
    multiplier, shift = quantize_multiplier(tflite_scale(*scales))
    return multiplier.astype(np.int64), shift_lane(shift)
