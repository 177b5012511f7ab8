# SPDX-License-Identifier: Apache-2.0
"""The accelerator that `loadstone backend new NAME --isa` writes: dense layers, in instructions of
its own. It works as it is, on its simulator, in C, and in a firmware; edit it.

In:   operators of the network (loadstone.graph), which `accepts` looks at; then a Segment of those
      that it takes together.
Out:  a ProgramRegion: instructions, which the runtime checks, places and starts.
Next: `loadstone conform my-npu --uma-backends DIR`; `loadstone simd SOCKET --device my-npu
      --uma-backends DIR`; `loadstone export MODEL.lds --board cortex-m -o DIR --uma-backends DIR`.

Four things to edit: `instructions` (fields, what each touches, where and how long it works),
MEANING (what it does), `accepts` (what the device cannot do), `program` (how an operator is
computed).

    load   address size            buffer = memory[address : address + size]
    dense  weights lanes y ...     y[k] = requantized(sum(buffer * weights[k]) + bias[k]), for
                                   k < outputs; bias, multiplier and shift stand in `lanes`
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, ClassVar

import numpy as np

from loadstone.backend import Attribute, Backend, Pattern, ProgramRegion, Refusal, Segment, offered
from loadstone.graph import Dense, Operator
from loadstone.isa.accelerator import Accelerator, Port
from loadstone.isa.codec import At, TableInsn
from loadstone.isa.state import MachineState
from loadstone.isa.table import Bits, InstructionForm, InstructionTable, LocalMemory, Reach
from loadstone.numerics import Rounding, rq, wrap_int32

__all__ = ["MyIsaNpu"]

Fields = Mapping[str, int]
_ROUNDINGS = tuple(rounding.name.lower() for rounding in Rounding)


# --- the device -----------------------------------------------------------------------------------
def instructions(buffer_bytes: int) -> InstructionTable:
    """EDIT: the instruction set. A Reach is what the validator and the simulator hold to: `first`,
    then loops of (count, stride), then `extent` places; in DRAM these are bytes."""
    load = InstructionForm(
        "load",
        opcode=1,
        fields=(Bits("address", 32, address=True), Bits("size", 16, low=1, high=buffer_bytes)),
        reaches=(
            Reach("dram", "address", extent="size"),
            Reach("buffer", 0, extent="size", writes=True),
        ),
        unit="load",
    )
    numbers = [Bits(name, 10, signed=True) for name in ("zero_y", "low", "high")]
    dense = InstructionForm(
        "dense",
        opcode=2,
        fields=(
            *(Bits(name, 32, address=True) for name in ("weights", "lanes", "y")),
            Bits("inputs", 16, low=1, high=buffer_bytes),
            Bits("outputs", 16, low=1),
            *numbers,
            Bits("rounding", 2, values=_ROUNDINGS),
        ),
        reaches=(
            Reach("buffer", 0, extent="inputs"),
            Reach("dram", "weights", (("outputs", "inputs"),), "inputs"),
            Reach("dram", "lanes", (("outputs", 12),), 12),
            Reach("dram", "y", extent="outputs", writes=True),
        ),
        unit="compute",
        per=(("outputs", 1),),
    )
    memories = (LocalMemory("buffer", buffer_bytes),)
    return InstructionTable("my_npu", (load, dense), memories)


def load(state: MachineState, i: Fields) -> None:
    """EDIT: what it does. state.dram reads and writes bytes, state.memory holds arrays of (rows,
    lanes)."""
    data = state.dram.read(i["address"], i["size"])
    state.memory["buffer"][: i["size"], 0] = data.view(np.int8)[0]


def dense(state: MachineState, i: Fields) -> None:
    """One row of a layer."""
    inputs, outputs = i["inputs"], i["outputs"]
    weights = state.dram.read(i["weights"], inputs, inputs, outputs).view(np.int8)
    lanes = state.dram.read(i["lanes"], 12 * outputs).view(np.int32).reshape(3, outputs)
    sums = weights.astype(np.int64) @ state.memory["buffer"][:inputs, 0].astype(np.int64)
    limits = {"zero_point": i["zero_y"], "low": i["low"], "high": i["high"]}
    y = rq(sums, *lanes, **limits, rounding=Rounding(i["rounding"]))
    state.dram.write(i["y"], y.astype(np.int8))


MEANING = {"load": load, "dense": dense}


# --- the back end ---------------------------------------------------------------------------------
class MyIsaNpu(Backend):
    """An accelerator that runs dense layers."""

    name: ClassVar[str] = "my-npu"
    target_attributes: ClassVar[Sequence[Attribute]] = (
        Attribute("buffer_bytes", 1024, "elements that its buffer holds", range(16, 2**16)),
    )

    def __init__(self, **values: int | str | bool) -> None:
        super().__init__(**values)
        self.limit = int(self.attributes["buffer_bytes"])
        # EDIT: port says what memory costs; queue, how many instructions wait at each unit
        self.accelerator = Accelerator(
            self.name, instructions(self.limit), MEANING, self.attributes, port=Port(), queue=4
        )

    def patterns(self) -> Sequence[Pattern]:
        """The forms that it takes, the longest first: names of loadstone.partition.patterns."""
        return [offered("dense", self.accepts)]

    def accepts(self, operator: Operator) -> Refusal | None:
        """None to take it. EDIT: what can the device not do?"""
        assert isinstance(operator, Dense)
        outputs, inputs = operator.weights.shape
        if inputs > self.limit or outputs >= 1 << 16:
            return Refusal(f"more than {self.limit} inputs", "a larger buffer_bytes")
        if np.any(operator.weight_zero_points):
            return Refusal("weights have a zero point", "symmetric weights")
        if not operator.integers_round:
            return Refusal(
                "a scale that no integer multiplier equals", "another scale of its output"
            )
        return None

    def lower(self, segment: Segment) -> ProgramRegion:
        """Every operator's instructions, in one program."""
        region = ProgramRegion(segment, self.accelerator)
        for operator in segment.operators:
            assert isinstance(operator, Dense)
            self.program(operator, region)
        return region

    def program(self, operator: Dense, region: ProgramRegion) -> None:
        """EDIT: how an operator is computed. region.tensor and region.constant give names; At names
        a byte of what they name, and becomes its address."""
        sums = operator.weights.sum(axis=1, dtype=np.int64)
        bias = wrap_int32(operator.bias - operator.input.zero_point * sums)
        lanes = np.array([bias, *operator.requantization()], np.int32)
        weights = region.constant(f"weights of {operator.name}", operator.weights)
        kept = region.constant(f"lanes of {operator.name}", lanes)
        x, y = region.tensor(operator.input), region.tensor(operator.output)
        (rows, inputs), outputs = operator.input.shape, operator.output.shape[1]
        numbers: dict[str, Any] = {"inputs": inputs, "outputs": outputs}
        numbers |= {"zero_y": operator.output.zero_point, "low": operator.low}
        numbers |= {"high": operator.high, "rounding": int(operator.rounding)}
        for row in range(rows):
            places = {"weights": At(weights), "lanes": At(kept), "y": At(y, row * outputs)}
            region.emit(
                operator,
                TableInsn("load", {"address": At(x, row * inputs), "size": inputs}),
                TableInsn("dense", {**places, **numbers}),
            )
