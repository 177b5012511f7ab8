# SPDX-License-Identifier: Apache-2.0
"""A dot-product engine with instructions of 32 bits: 16 sums stay where they are, a requantizer has
8 bits and rounds half up, one queue.

In:   convolutions and dense layers.
Out:  for each segment one program.
Next: tests/conformance/test_near.py: it passes within the bound that it states.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import ClassVar

import numpy as np

from loadstone.backend import (
    Backend,
    MultiplyShift,
    Pattern,
    ProgramRegion,
    Refusal,
    Segment,
    StatedRounding,
    offered,
)
from loadstone.graph import Conv2D, Dense, Operator
from loadstone.isa.accelerator import Accelerator, Port
from loadstone.isa.codec import At, TableInsn
from loadstone.isa.state import MachineState
from loadstone.isa.table import (
    AddressRegister,
    Bits,
    InstructionForm,
    InstructionTable,
    Keep,
    LocalMemory,
    Reach,
    Register,
    Set,
)

__all__ = ["DotEngine"]

LANES, ROWS, PAR_BYTES = 16, 16, 128
ADDRESSES = ("source", "weights", "par", "target")
LEVELS = ("zero", "low", "high")
Fields = Mapping[str, int]


def instructions() -> InstructionTable:
    """Addresses count 64 bytes; limits are kept."""
    at = Bits("address", 26, address=True, shift=6)
    sets = [
        InstructionForm(f"set_{name}", 1 + k, (at,), keeps=(Keep(name, "address"),), unit="core")
        for k, name in enumerate(ADDRESSES)
    ]
    limits = InstructionForm(
        "limits",
        5,
        tuple(Bits(name, 8, signed=True) for name in LEVELS),
        sets=tuple(Set(f"{name}_level", name) for name in LEVELS),
        unit="core",
    )
    off, row = Bits("off", 20), Bits("row", 4)
    sums = (Reach("acc", 0), Reach("acc", 0, writes=True))
    load = Reach("dram", "source", offset=f"off*{LANES}", extent=LANES)
    tile = Reach("dram", "weights", offset=f"off*{LANES * LANES}", extent=LANES * LANES)
    par = Reach("dram", "par", offset=f"block*{PAR_BYTES}", extent=PAR_BYTES)
    store = Reach("dram", "target", offset=f"off*{LANES}", extent=LANES, writes=True)
    forms = (
        InstructionForm("load", 6, (off, row), reaches=(load, Reach("vec", "row", writes=True))),
        InstructionForm("clear", 7, (), reaches=sums[1:]),
        InstructionForm("dot", 8, (off, row), reaches=(tile, Reach("vec", "row"), *sums)),
        InstructionForm(
            "scale",
            9,
            (off, Bits("block", 6)),
            reaches=(par, sums[0], store),
            reads=tuple(f"{name}_level" for name in LEVELS),
        ),
    )
    return InstructionTable(
        "dot_engine",
        (*sets, limits, *forms),
        (LocalMemory("vec", ROWS, LANES), LocalMemory("acc", 1, LANES, "int32")),
        opcode_bits=6,
        address_registers=tuple(AddressRegister(name) for name in ADDRESSES),
        registers=tuple(
            Register(f"{name}_level", 8, low=-128, high=127, signed=True) for name in LEVELS
        ),
    )


def load(state: MachineState, i: Fields) -> None:
    data = state.dram.read(state.kept["source"][0] + LANES * i["off"], LANES)
    state.memory["vec"][i["row"]] = data.view(np.int8)[0]


def clear(state: MachineState, i: Fields) -> None:
    del i
    state.memory["acc"][0] = 0


def dot(state: MachineState, i: Fields) -> None:
    first = state.kept["weights"][0] + LANES * LANES * i["off"]
    tile = state.dram.read(first, LANES, LANES, LANES).view(np.int8).astype(np.int32)
    state.memory["acc"][0] += tile @ state.memory["vec"][i["row"]].astype(np.int32)


def scale(state: MachineState, i: Fields) -> None:
    par = state.dram.read(state.kept["par"][0] + PAR_BYTES * i["block"], PAR_BYTES)[0]
    bias, factors = par[:64].view(np.int32), par[64:].reshape(LANES, 4).astype(np.int64)
    product = (state.memory["acc"][0].astype(np.int64) + bias) * factors[:, 0]
    rounded = (product + ((1 << factors[:, 1]) >> 1)) >> factors[:, 1]
    levels = np.clip(rounded + i["zero_level"], i["low_level"], i["high_level"])
    state.dram.write(state.kept["target"][0] + LANES * i["off"], levels.astype(np.int8))


class DotEngine(Backend):
    """It has no way to give the framework's integers."""

    name: ClassVar[str] = "dot-engine"

    def __init__(self, **values: int | str | bool) -> None:
        super().__init__(**values)
        meaning = {"load": load, "clear": clear, "dot": dot, "scale": scale}
        said = self.name, instructions(), meaning, self.attributes
        self.accelerator = Accelerator(*said, port=Port(), queue=0)

    def patterns(self) -> list[Pattern]:
        return [offered("conv2d", self.accepts), offered("dense", self.accepts)]

    def accepts(self, operator: Operator) -> Refusal | None:
        """What its table cannot say."""
        assert isinstance(operator, Conv2D | Dense)
        if isinstance(operator, Conv2D) and operator.groups != 1:
            return Refusal(f"{operator.groups} groups", "one group")
        if operator.weight_zero_points.any():
            return Refusal("weights with a zero point", "symmetric weights")
        if operator.real_scales().max() >= 1:
            return Refusal("a scale of one or more", "a larger output scale")
        return None

    def rule(self, operator: Conv2D | Dense) -> MultiplyShift:
        """Its requantizer."""
        return MultiplyShift.of(operator, bits=8, most_shift=31)

    def rounding(self, operator: Operator) -> StatedRounding:
        assert isinstance(operator, Conv2D | Dense)
        return StatedRounding(self.rule(operator), bound=1)

    def lower(self, segment: Segment) -> ProgramRegion:
        region = ProgramRegion(segment, self.accelerator)
        for operator in segment.operators:
            assert isinstance(operator, Conv2D | Dense)
            region.emit(operator, *self.program(operator, region))
        return region

    def program(self, o: Conv2D | Dense, region: ProgramRegion) -> Iterator[TableInsn]:
        """Pixel by pixel, 16 outputs at a time."""
        kernels = o.weights.reshape(len(o.weights), -1, o.weights.shape[-1])
        outs, taps, ins = kernels.shape
        out_blocks, in_blocks = -(-outs // LANES), -(-ins // LANES)
        whole = np.zeros((out_blocks * LANES, taps, in_blocks * LANES), np.int8)
        whole[:outs, :, :ins] = kernels
        tiles = whole.reshape(out_blocks, LANES, taps, in_blocks, LANES).transpose(0, 2, 3, 1, 4)
        par, rule = np.zeros((out_blocks * LANES, 8), np.uint8), self.rule(o)
        bias = o.bias - o.input.zero_point * kernels.reshape(outs, -1).sum(1, dtype=np.int64)
        par[:outs, :4] = bias.astype(np.int32).view(np.uint8).reshape(outs, 4)
        par[:outs, 4], par[:outs, 5] = rule.multiplier, rule.shift
        rows = par.reshape(out_blocks, LANES, 8)
        halves = [rows[..., :4].reshape(out_blocks, -1), rows[..., 4:].reshape(out_blocks, -1)]
        pad = region.constant(f"pad of {o.name}", np.full(LANES, o.input.zero_point, np.int8))
        x, y = region.tensor(o.input, LANES), region.tensor(o.output, LANES)
        weights = region.constant(f"weights of {o.name}", np.ascontiguousarray(tiles))
        kept = region.constant(f"par of {o.name}", np.concatenate(halves, axis=1))
        for name, symbol in (("weights", weights), ("par", kept), ("target", y)):
            yield TableInsn(f"set_{name}", {"address": At(symbol)})
        levels = (o.output.zero_point, o.low, o.high)
        yield TableInsn("limits", dict(zip(LEVELS, levels, strict=True)))
        source = None
        for pixel, reads in enumerate(_windows(o)):
            for block in range(out_blocks):
                yield TableInsn("clear", {})
                for tap, at in enumerate(reads):
                    wanted = pad if at is None else x
                    if source != wanted:
                        yield TableInsn("set_source", {"address": At(wanted)})
                    source = wanted
                    for k in range(in_blocks):
                        off = 0 if at is None else at * in_blocks + k
                        yield TableInsn("load", {"off": off, "row": tap % ROWS})
                        off = (block * taps + tap) * in_blocks + k
                        yield TableInsn("dot", {"off": off, "row": tap % ROWS})
                yield TableInsn("scale", {"off": pixel * out_blocks + block, "block": block})


def _windows(o: Conv2D | Dense) -> Iterator[list[int | None]]:
    """Of each output pixel the input pixels, by number; None: in the padding."""
    if isinstance(o, Dense):
        yield from ([row] for row in range(o.input.shape[0]))
        return
    samples, height, width, _ = o.input.shape
    _, out_height, out_width, _ = o.output.shape
    for at in np.ndindex(samples, out_height, out_width):
        reads: list[int | None] = []
        for ky, kx in np.ndindex(*o.weights.shape[1:3]):
            y = at[1] * o.strides[0] + ky * o.dilation[0] - o.padding[0]
            x = at[2] * o.strides[1] + kx * o.dilation[1] - o.padding[1]
            inside = 0 <= y < height and 0 <= x < width
            reads.append((at[0] * height + y) * width + x if inside else None)
        yield reads
