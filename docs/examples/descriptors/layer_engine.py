"""A back end for a device that is programmed by layer descriptors in registers, without an
instruction stream.

In:   dense layers, in runs that follow each other.
Out:  for each region one descriptor a layer, kept as text in the artifact: values of registers,
      names where addresses will stand.
Next: `execute`, the driver, writes them into LayerEngine, the functional model; on a board, into
the device's page.

    loadstone compile net.tflite --uma-backends docs/examples/descriptors --target
    layer-engine,vtaq-1x16x16

The device sees one memory, in which the driver gives each array an address. A layer is 14 writes
(REGISTERS) and one to START, which computes it; then DONE counts one more.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

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
from loadstone.graph import Dense, Operator
from loadstone.graph.kernels.windows import matmul
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

#: Name -> byte offset in the device's page, in the order in which a descriptor writes them; START
#: last.
REGISTERS = {
    name: 4 * k
    for k, name in enumerate(
        (
            "X",
            "WEIGHTS",
            "BIAS",
            "MULTIPLIER",
            "SHIFT",
            "Y",
            "ROWS",
            "INPUTS",
            "OUTPUTS",
            "ZERO_X",
            "ZERO_Y",
            "LOW",
            "HIGH",
            "ROUNDING",
        )
    )
}
START = 4 * len(REGISTERS)
DONE = START + 4


class LayerEngineBackend(Backend):
    """Dense layers."""

    name: ClassVar[str] = "layer-engine"
    target_attributes: ClassVar[Sequence[Attribute]] = (
        Attribute("max_inputs", 4096, "elements that one row of its buffer holds"),
    )

    def patterns(self) -> Sequence[Pattern]:
        """One."""
        return [offered("dense", self.accepts)]

    def accepts(self, operator: Operator) -> Refusal | None:
        """What has no field in the descriptor is left."""
        assert isinstance(operator, Dense)
        limit = int(self.attributes["max_inputs"])
        if operator.weights.shape[1] > limit:
            return Refusal(
                f"rows of {operator.weights.shape[1]} elements, the buffer holds {limit}",
                "a larger max_inputs",
            )
        if np.any(operator.weight_zero_points):
            return Refusal("weights with a zero point", "symmetric weights")
        return None

    def lower(self, segment: Segment) -> ExternalRegion:
        """Descriptors with names where addresses will stand: the driver knows the addresses, and
        nobody else."""
        constants: dict[str, Array] = {}
        sizes: dict[str, int] = {}
        descriptors = []
        for number, operator in enumerate(segment.operators):
            assert isinstance(operator, Dense)
            scales = operator.input.scale, operator.weight_scales, operator.output.scale
            multiplier: Array
            if (
                operator.rounding is Rounding.SINGLE
            ):  # TFLite's fully connected: the sum times a float64, kept by its bits
                multiplier, shift = (
                    tflite_scale(*scales).view(np.int64),
                    np.zeros_like(operator.bias),
                )
            elif operator.rounding is Rounding.FLOAT32:
                multiplier, shift = scale_lane(onnx_scale(*scales)), np.zeros_like(operator.bias)
            else:
                multiplier, shift = quantize_multiplier(tflite_scale(*scales))
                shift = shift_lane(shift)
            arrays: dict[str, Array] = {
                "WEIGHTS": operator.weights,
                "BIAS": operator.bias,
                "MULTIPLIER": multiplier,
                "SHIFT": shift,
            }
            constants.update({f"{name}{number}": array for name, array in arrays.items()})
            sizes[operator.output.name] = operator.output.size
            named = {
                "X": operator.input.name,
                "Y": operator.output.name,
                **{name: f"{name}{number}" for name in arrays},
            }
            (rows, inputs), (_, outputs) = operator.input.shape, operator.output.shape
            numbers = {
                "ROWS": rows,
                "INPUTS": inputs,
                "OUTPUTS": outputs,
                "LOW": operator.low,
                "HIGH": operator.high,
            }
            numbers |= {
                "ZERO_X": operator.input.zero_point,
                "ZERO_Y": operator.output.zero_point,
                "ROUNDING": int(operator.rounding),
            }
            descriptors.append({"tensors": named, "numbers": numbers})
        said = {
            "arrays": [*(tensor.name for tensor in segment.inputs), *constants],
            "sizes": sizes,
            "descriptors": descriptors,
            "outputs": [[tensor.name, tensor.shape] for tensor in segment.outputs],
        }
        text = json.dumps(said)
        return ExternalRegion(
            segment.name,
            segment.operators,
            segment.inputs,
            segment.outputs,
            "layer-engine.run",
            text,
            constants,
        )

    def cost_cycles(self, segment: Segment) -> int:
        """At 100 MHz: sixteen multipliers go along a row for each output; a register is written in
        ten cycles."""
        products = (
            o.input.shape[0] * o.weights.shape[0] * -(-o.weights.shape[1] // 16)
            for o in segment.operators
            if isinstance(o, Dense)
        )
        return int(sum(products) + 10 * (len(REGISTERS) + 1) * len(segment.operators))

    @classmethod
    def externals(cls) -> Mapping[str, External]:
        """The driver, on the functional model."""
        return {"layer-engine.run": execute}


class LayerEngine:
    """The functional model: a page of registers and a memory of bytes."""

    def __init__(self, memory: NDArray[np.uint8]) -> None:
        self.memory = memory
        self.page: dict[int, int] = {DONE: 0}

    def write(self, offset: int, value: int) -> None:
        """A 32 bit write; START computes the layer that the page describes."""
        if offset == START:
            self._compute()
            self.page[DONE] += 1
        else:
            self.page[offset] = value

    def read(self, offset: int) -> int:
        """A 32 bit read."""
        return self.page[offset]

    def _at(self, name: str, count: int, dtype: Any) -> Array:
        begin = self.page[REGISTERS[name]]
        return self.memory[begin : begin + count * np.dtype(dtype).itemsize].view(dtype)

    def _compute(self) -> None:
        value = {name: self.page[offset] for name, offset in REGISTERS.items()}
        rows, inputs, outputs = value["ROWS"], value["INPUTS"], value["OUTPUTS"]
        x = (
            self._at("X", rows * inputs, np.int8).reshape(rows, inputs).astype(np.int64)
            - value["ZERO_X"]
        )
        weights = self._at("WEIGHTS", outputs * inputs, np.int8).reshape(outputs, inputs)
        acc, bias = matmul(x, weights.T), self._at("BIAS", outputs, np.int32)
        low, high, zero_point = value["LOW"], value["HIGH"], value["ZERO_Y"]
        if value["ROUNDING"] == Rounding.SINGLE:
            scaled = requantize_float64(
                wrap_int32(acc.astype(np.int64) + bias), self._at("MULTIPLIER", outputs, np.float64)
            )
            y: Array = np.clip(scaled.astype(np.int64) + zero_point, low, high)
        else:
            multiplier, shift = (
                self._at(name, outputs, np.int32) for name in ("MULTIPLIER", "SHIFT")
            )
            rounding = Rounding(value["ROUNDING"])
            y = rq(
                acc,
                bias,
                multiplier,
                shift,
                zero_point=zero_point,
                low=low,
                high=high,
                rounding=rounding,
            )
        self._at("Y", rows * outputs, np.int8)[:] = y.astype(np.int8).reshape(-1)


def execute(arrays: Sequence[Array], attributes: str) -> list[Array]:
    """The driver: gives every tensor an address, writes the descriptors, waits for DONE, reads the
    outputs."""
    said = json.loads(attributes)
    contents = dict(
        zip(
            said["arrays"],
            (np.ascontiguousarray(array).reshape(-1).view(np.uint8) for array in arrays),
            strict=True,
        )
    )
    contents.update({name: np.zeros(size, np.uint8) for name, size in said["sizes"].items()})
    address, end = {}, 0
    for name, content in contents.items():
        address[name] = end
        end += -(-content.size // 64) * 64
    memory = np.zeros(end, np.uint8)
    for name, content in contents.items():
        memory[address[name] : address[name] + content.size] = content
    engine = LayerEngine(memory)
    for number, descriptor in enumerate(said["descriptors"], 1):
        values = {
            **{field: address[name] for field, name in descriptor["tensors"].items()},
            **descriptor["numbers"],
        }
        for field, offset in REGISTERS.items():
            engine.write(offset, values[field])
        engine.write(START, 1)
        assert engine.read(DONE) == number
    outputs = []
    for name, shape in said["outputs"]:
        outputs.append(
            memory[address[name] : address[name] + int(np.prod(shape))].view(np.int8).reshape(shape)
        )
    return outputs
