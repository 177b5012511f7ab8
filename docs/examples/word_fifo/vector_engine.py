# SPDX-License-Identifier: Apache-2.0
"""A vector engine that the host feeds: it fetches nothing, instructions are words in its FIFO.

In:   sums of two tensors, in runs that follow each other.
Out:  for each run one program, of instructions of 4 and 8 bytes.
Next: vector_engine.c writes them into the FIFO, word by word.

    loadstone compile net.tflite -t vector-engine,vtaq-1x16x16 --uma-backends
    docs/examples/word_fifo

The device has eight vectors of 1024 int8, sixteen numbers, and four registers that point into
memory; an instruction of 4 bytes has no room for an address.

    point  pointer address          pointer[pointer] = address
    set    number value             number[number] = value
    load   vector pointer chunk size-1    vector = memory[pointer + 1024 * chunk :], size elements
    add    target a b size-1        target = requantized a + b, as the numbers say
    store  vector pointer chunk size-1    the other way round
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from fractions import Fraction
from pathlib import Path
from typing import Any, ClassVar

import numpy as np

from loadstone.backend import Attribute, Backend, Pattern, ProgramRegion, Refusal, Segment, offered
from loadstone.graph import Add, Operator, Quantization
from loadstone.graph.kernels.tflite.elementwise import ADD_PRE_SHIFT, add_constants
from loadstone.isa.accelerator import Accelerator, Meaning, Port
from loadstone.isa.codec import At, TableInsn
from loadstone.isa.native_page import Action, PageJob, RegisterPage
from loadstone.isa.state import MachineFault, MachineRun, MachineState
from loadstone.isa.table import (
    AddressRegister,
    Bits,
    InstructionForm,
    InstructionTable,
    Keep,
    LocalMemory,
    Reach,
)
from loadstone.numerics import Rounding, requantize_double
from loadstone.runtime.c_meanings import c_meanings

Fields = Mapping[str, int]
DRIVER = Path(__file__).with_suffix(".c")
MEANING_IN_C = Path(__file__).with_name("vector_engine_meaning.c")
VECTORS, CHUNK, CHUNKS, FIFO_WORDS = 8, 1024, 256, 64
#: What each number means to `add`.
NUMBERS: tuple[str, ...] = (
    "zero_a",
    "zero_b",
    "zero_y",
    "multiplier_a",
    "shift_a",
    "multiplier_b",
    "shift_b",
)
NUMBERS += ("multiplier_y", "shift_y", "low", "high")


# --- the device -----------------------------------------------------------------------------------
def instructions(lanes: int, *capabilities: str) -> InstructionTable:
    """lanes: elements that are added in a cycle. capabilities: "chunks", or none."""
    size, work = Bits("size", 10), (("(size+1)", Fraction(1, lanes)),)

    def vector(name: str) -> Bits:
        return Bits(name, 3)

    def moves(name: str, opcode: int, stores: bool) -> InstructionForm:
        chunk = Bits("chunk", 8, needs="chunks")
        fields = (vector("vector"), Bits("pointer", 2), chunk, size)
        far: dict[str, Any] = {"index": "pointer", "offset": "chunk*1024", "extent": "(size+1)"}
        reaches = (
            Reach("dram", "pointers", **far, writes=stores),
            Reach("vectors", "vector", writes=not stores),
        )
        return InstructionForm(name, opcode, fields, reaches=reaches, unit=name)

    sums = (
        Reach("vectors", "a"),
        Reach("vectors", "b"),
        Reach("numbers", 0, extent=len(NUMBERS)),
        Reach("vectors", "target", writes=True),
    )
    point = (Bits("pointer", 2), Bits("address", 32, at=32, address=True))
    number = (Bits("number", 4), Bits("value", 32, at=32, signed=True))
    operands = (vector("target"), vector("a"), vector("b"), size)
    forms = (
        InstructionForm("point", 1, point, keeps=(Keep("pointers", "address", "pointer"),)),
        InstructionForm(
            "set", 2, number, reaches=(Reach("numbers", "number", writes=True),), unit="add"
        ),
        moves("load", 3, stores=False),
        InstructionForm("add", 4, operands, reaches=sums, unit="add", cycles=6, per=work),
        moves("store", 5, stores=True),
    )
    memories = (LocalMemory("vectors", VECTORS, CHUNK), LocalMemory("numbers", 16, 1, "int32"))
    pointers = (AddressRegister("pointers", 4),)
    family = InstructionTable("vector_engine", forms, memories, address_registers=pointers)
    return family.having(*capabilities)


def set_number(state: MachineState, i: Fields) -> None:
    state.memory["numbers"][i["number"]] = i["value"]


def load(state: MachineState, i: Fields) -> None:
    address = state.kept["pointers"][i["pointer"]] + CHUNK * i["chunk"]
    data = state.dram.read(address, i["size"] + 1).view(np.int8)
    state.memory["vectors"][i["vector"], : i["size"] + 1] = data[0]


def add(state: MachineState, i: Fields) -> None:
    """TFLite's: both inputs come to one scale, 20 bits up, and the sum to that of the output."""
    said = dict(zip(NUMBERS, state.memory["numbers"][:, 0].tolist(), strict=False))

    def scaled(values: Any, of: str) -> Any:
        shift = min(max(said[f"shift_{of}"], -31), 30)
        return requantize_double(values, said[f"multiplier_{of}"], shift).astype(np.int64)

    vectors, size = state.memory["vectors"], i["size"] + 1
    total = np.zeros(size, np.int64)
    for of in "ab":
        centred = vectors[i[of], :size].astype(np.int64) - said[f"zero_{of}"]
        total += scaled(centred << ADD_PRE_SHIFT, of)
    y = np.clip(scaled(total, "y") + said["zero_y"], said["low"], said["high"])
    vectors[i["target"], :size] = y.astype(np.int8)


def store(state: MachineState, i: Fields) -> None:
    address = state.kept["pointers"][i["pointer"]] + CHUNK * i["chunk"]
    state.dram.write(address, state.memory["vectors"][i["vector"], : i["size"] + 1])


MEANING: dict[str, Meaning] = {"set": set_number, "load": load, "add": add, "store": store}


class FifoPage(RegisterPage):
    """HASH 0; WORDS 4 and COUNT 8: words and instructions that will come; FIFO 12: one word, lost
    where there is no room; ROOM 16; STATE 20 (0 idle, 1 busy, 2 done, 3 error), AT 24, CAUSE 28,
    CYCLES 32, IRQ 36 (1 pending; any write clears it), RESET 40."""

    def __init__(self, config_hash: int) -> None:
        self.config_hash, self.words, self.count, self.pending = config_hash, 0, 0, 0
        self.waiting = self.state = self.at = self.cause = self.cycles = 0
        self.code = bytearray()

    def read32(self, offset: int) -> int:
        if offset == 16:  # who looks gives the device time to take what is there
            room, self.waiting = FIFO_WORDS - self.waiting, 0
            return room
        said = [self.config_hash, self.words, self.count, 0, 0, self.state, self.at, self.cause]
        said += [self.cycles, self.pending]
        return said[offset // 4] if offset < 4 * len(said) else 0

    def write32(self, offset: int, value: int) -> Action | None:
        if offset == 4:
            self.words, self.state, self.waiting, self.code = value, 1, 0, bytearray()
        elif offset == 8:
            self.count = value
        elif offset == 12 and self.waiting < FIFO_WORDS:
            self.waiting += 1
            self.code += value.to_bytes(4, "little")
            return Action.START if len(self.code) == 4 * self.words else None
        elif offset == 36:
            self.pending = 0
        return Action.RESET if offset == 40 else None

    def job(self) -> PageJob:
        return PageJob(0, self.count, bytes(self.code))

    def started(self) -> None:
        self.state = 1

    def moved(self, completed: int) -> None:
        self.at = completed

    def ended(self, result: MachineRun | MachineFault | None) -> None:
        self.state, self.pending = 0, int(result is not None)
        if isinstance(result, MachineFault):
            self.state, self.at, self.cause = 3, result.instruction, result.error
        elif result is not None:
            self.state, self.at, self.cycles = 2, result.instructions, result.cycles

    def irq(self) -> int:
        return self.pending


# --- the back end ---------------------------------------------------------------------------------
class VectorEngine(Backend):
    """Sums."""

    name: ClassVar[str] = "vector-engine"
    target_attributes: ClassVar[Sequence[Attribute]] = (
        Attribute("lanes", 64, "elements that it adds in a cycle", (16, 32, 64, 128)),
        Attribute("chunks", 1, "0: pointers are set for each chunk", range(2)),
        Attribute("meaning", "python", "what the simulator calls", ("python", "c")),
    )

    def __init__(self, **values: int | str | bool) -> None:
        super().__init__(**values)
        capabilities = ["chunks"] if self.attributes["chunks"] else []
        table = instructions(int(self.attributes["lanes"]), *capabilities)
        meaning = MEANING
        if self.attributes["meaning"] == "c":
            meaning = c_meanings(table, MEANING_IN_C)
        said = self.name, table, meaning, self.attributes
        self.accelerator = Accelerator(*said, Port(), queue=4, page=FifoPage, driver=DRIVER)

    def patterns(self) -> Sequence[Pattern]:
        return [offered("add", self.accepts)]

    def accepts(self, operator: Operator) -> Refusal | None:
        """TFLite's, of two tensors of one shape."""
        assert isinstance(operator, Add)
        if len({tensor.shape for tensor in (*operator.inputs, operator.output)}) > 1:
            return Refusal("a sum that broadcasts", "two tensors of one shape")
        if operator.rounding is not Rounding.DOUBLE:
            return Refusal("rounding that is not TFLite's", "a TFLite model")
        return None

    def lower(self, segment: Segment) -> ProgramRegion:
        region = ProgramRegion(segment, self.accelerator)
        for operator in segment.operators:
            assert isinstance(operator, Add)
            region.emit(operator, *numbers(operator), *chunks(operator, region))
        return region


def numbers(operator: Add) -> list[TableInsn]:
    tensors = (*operator.inputs, operator.output)
    grids = [Quantization(tensor.scale, tensor.zero_point) for tensor in tensors]
    values = [grid.zero_point for grid in grids]
    values += [number for pair in add_constants(*grids) for number in pair]
    values += [operator.low, operator.high]
    return [TableInsn("set", {"number": k, "value": value}) for k, value in enumerate(values)]


def chunks(operator: Add, region: ProgramRegion) -> list[TableInsn]:
    """Two vectors in, one out, and the other three for the next: loads, sums and stores overlap."""
    symbols = [region.tensor(tensor) for tensor in (*operator.inputs, operator.output)]
    most = CHUNKS if region.accelerator.table.has("chunks") else 1
    insns: list[TableInsn] = []
    for number, begin in enumerate(range(0, operator.output.size, CHUNK)):
        if number % most == 0:
            places = [At(symbol, begin) for symbol in symbols]
            insns += [
                TableInsn("point", {"pointer": k, "address": p}) for k, p in enumerate(places)
            ]
        size, vector = min(CHUNK, operator.output.size - begin) - 1, 3 * (number % 2)
        where = {"chunk": number % most, "size": size}
        insns += [
            TableInsn("load", {"vector": vector, "pointer": 0, **where}),
            TableInsn("load", {"vector": vector + 1, "pointer": 1, **where}),
            TableInsn("add", {"target": vector + 2, "a": vector, "b": vector + 1, "size": size}),
            TableInsn("store", {"vector": vector + 2, "pointer": 2, **where}),
        ]
    return insns
