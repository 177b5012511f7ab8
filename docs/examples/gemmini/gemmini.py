# SPDX-License-Identifier: Apache-2.0
"""Gemmini: a systolic array that takes RISC-V's custom commands, most of whose settings are state.

In:   convolutions, depthwise ones and dense layers, in runs that follow each other.
Out:  for each run one program of Gemmini's own commands, of 20 bytes: the instruction and the two
      registers of the host that it names.
Next: gemmini.c writes them into the command queue, word by word.

    loadstone quantize net.tflite --data cal.npz --scheme symmetric --per-tensor -o net.onnx
    loadstone compile net.onnx -t gemmini --uma-backends docs/examples/gemmini

The device: 16 x 16 multipliers that keep a tile of weights; a scratchpad whose rows hold 16 int8;
an accumulator whose rows hold 16 int32, which a float32 scales on the way out. It is one that was
built for weights that stay, without scales on loads and without pooling: bit 8 of config_st, which
names a pad of pools, says here that activation and scale follow. Tensors in memory are (H, W, C),
their channels rounded up to 16.

    config_ex   stride                    every which row of A COMPUTE takes
    config_ld   stride                    bytes between rows of memory, for MVIN (MVIN2: config_ld2)
    config_st   stride act scale          the same for MVOUT, and how it scales (config_stride: not)
    mvin        address row rows          scratchpad[row + i] = memory[address + i * stride]
    mvin_acc    address row rows accumulate    accumulator[row + i] (+)= the same
    preload     b c accumulate            what the next COMPUTE loads, where it writes
    preload_kept  c accumulate            the same with the weights that are there
    compute_preloaded    a rows           weights = scratchpad[b :]; accumulator[c + i] (+)=
                                          scratchpad[a + i * stride] @ weights, for i < rows
    compute_accumulated  a rows           the same with the weights that are there
    mvout       address row rows          memory[address + i * stride] =
                                          int8(scale * accumulator[row + i])

`instructions` is the table. No program stands here: each instruction says what it means as nests,
in which registers stand as fields do, and the compiler finds which of them a layer becomes, and
which settings go in front. MEANING says in NumPy what the simulator does.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, ClassVar

import numpy as np

from loadstone.backend import Attribute, FromTable
from loadstone.isa.accelerator import Accelerator, Port
from loadstone.isa.native_page import Action, PageJob, RegisterPage
from loadstone.isa.state import MachineFault, MachineRun, MachineState
from loadstone.isa.table import (
    Bits,
    InstructionForm,
    InstructionTable,
    LocalMemory,
    OpcodeBits,
    Reach,
    Register,
    Set,
)
from loadstone.numerics import Array, requantize_float32, wrap_int32

Fields = Mapping[str, int]
DRIVER = Path(__file__).with_suffix(".c")
DIM = 16
#: Bits where the values of the host's two registers begin.
RS1, RS2 = 32, 96
CUSTOM_3, FUNCT3 = 0x7B, 3
COMMAND_BYTES = 20

# --- the device -----------------------------------------------------------------------------------
REGISTERS = (
    Register("a_stride", 16, low=1, doc="Rows of the scratchpad between rows of A."),
    Register("ld_stride", 32, doc="Bytes between rows that MVIN reads."),
    Register("ld2_stride", 32, doc="The same of MVIN2."),
    Register("st_stride", 32, doc="Bytes between rows that MVOUT writes."),
    Register("act", 2, high=1, doc="1: what MVOUT writes is 0 at least."),
    Register("scale", 32, doc="Bits of the float32 by which MVOUT scales."),
    Register("b_row", 29, doc="Where the weights of the next COMPUTE_PRELOADED begin."),
    Register("c_row", 29, doc="Where the next COMPUTE writes."),
    Register("c_accumulate", 1, doc="1: it adds."),
    Register("c_rows", 16, low=1, high=DIM, doc="How many rows it writes: as many as it reads."),
)


def command(
    name: str, funct7: int, *fields: Bits, codes: Sequence[OpcodeBits] = (), **more: Any
) -> InstructionForm:
    """One of Gemmini's, told apart by funct7 and by some bits of what the registers hold."""
    codes = OpcodeBits(12, 3, FUNCT3), OpcodeBits(25, 7, funct7), *codes
    return InstructionForm(name, CUSTOM_3, fields, COMMAND_BYTES, codes=codes, **more)


def config(name: str, kind: int, *fields: Bits, unit: str, **more: Any) -> InstructionForm:
    """kind: 0 of the array, 1 of loads, 2 of stores; further codes: a mover, what is configured."""
    codes = OpcodeBits(RS1, 2, kind), *more.pop("codes", ())
    sets = tuple(Set(register, field) for register, field in more.pop("sets").items())
    return command(name, 0, *fields, codes=codes, unit=unit, sets=sets)


def instructions(spad_rows: int, acc_rows: int, movers: int = 2) -> InstructionTable:
    """A local address is a row in bits 0 to 28, "accumulate" in 30 and "accumulator" in 31; behind
    it stand columns and rows, in 16 bits each."""
    stride, address = Bits("stride", 32, at=RS2), Bits("address", 64, at=RS1, address=True)
    rows, lines = Bits("rows", 16, at=RS2 + 48, low=1, high=DIM), (("rows", 1),)
    none = OpcodeBits(RS2, 32, 0xFFFFFFFF)

    def local(at: int, acc: int, *more: OpcodeBits) -> tuple[OpcodeBits, ...]:
        return OpcodeBits(at + 31, 1, acc), OpcodeBits(at + 32, 16, DIM), *more

    def mvin(name: str, funct7: int, stride: str, acc: int = 0) -> InstructionForm:
        memory, size = ("acc", 4 * DIM) if acc else ("spad", DIM)
        row, accumulate = Bits("row", 29, at=RS2), Bits("accumulate", 1, at=RS2 + 30)
        fields = (address, row, *([accumulate] if acc else []), rows)
        reaches = [Reach("dram", "address", (("rows", stride),), size)]
        reaches += [Reach(memory, "row", (("rows*accumulate", 1),))] if acc else []
        reaches += [Reach(memory, "row", lines, writes=True)]
        moved = f"({memory}[row + i], dram[address + {stride}*i]) for i<rows"
        meaning: tuple[str, ...] = (f"copy{moved}",)
        if acc:
            meaning = f"copy{moved} where accumulate=0", f"add{moved} where accumulate=1"
        said: dict[str, Any] = {"reaches": tuple(reaches), "unit": "load", "cycles": 2}
        said["meaning"] = meaning if movers == 2 or name != "mvin2" else ()
        return command(name, funct7, *fields, codes=local(RS2, acc), **said)

    def preload(name: str, kept: bool) -> InstructionForm:
        b, c = Bits("b", 29, at=RS1), Bits("c", 29, at=RS2)
        accumulate = Bits("accumulate", 1, at=RS2 + 30)
        weights = OpcodeBits(RS1, 32, 0xFFFFFFFF) if kept else OpcodeBits(RS1 + 31, 1, 0)
        size = OpcodeBits(RS1 + 32, 32, 0 if kept else DIM << 16 | DIM)
        sets = [Set("c_row", "c"), Set("c_accumulate", "accumulate"), Set("c_rows", "rows")]
        sets += [] if kept else [Set("b_row", "b")]
        fields = (c, accumulate, rows) if kept else (b, c, accumulate, rows)
        codes = local(RS2, 1, weights, size)
        return command(name, 6, *fields, codes=codes, sets=tuple(sets), unit="execute")

    def compute(name: str, funct7: int, kept: bool) -> InstructionForm:
        a, some = Bits("a", 29, at=RS1), Bits("rows", 16, at=RS1 + 48, low=1, high=DIM)
        reaches = [
            Reach("spad", "a", (("rows", "a_stride"),)),
            Reach("acc", "c_row", (("rows*c_accumulate", 1),)),
            Reach("acc", "c_row", lines, writes=True),
            Reach("array", 0, writes=not kept),
        ]
        reaches += [] if kept else [Reach("spad", "b_row", extent=DIM)]
        product = "gemm(acc[c_row + i], spad[a + a_stride*i], array[0]) for i<rows where"
        first = "" if kept else f"copy(array[k], spad[b_row + k]) for k<{DIM} then "
        said: dict[str, Any] = {"reaches": tuple(reaches), "unit": "execute", "reads": ("c_rows",)}
        said["cycles"] = DIM if kept else 2 * DIM
        said["meaning"] = (
            f"{first}fill(acc[c_row + i] | 0); {product} c_accumulate=0, c_rows=rows",
            f"{first}{product} c_accumulate=1, c_rows=rows",
        )
        return command(name, funct7, a, some, codes=local(RS1, 0, none), **said)

    act_of = Bits("act_of", 2, at=RS1 + 2, values=("none", "relu"))
    scaling = act_of, Bits("scale_of", 32, at=RS2 + 32)
    out = (
        Reach("acc", "row", lines),
        Reach("dram", "address", (("rows", "st_stride"),), DIM, writes=True),
    )
    store: dict[str, Any] = {"reaches": out, "reads": ("act", "scale"), "unit": "store"}
    store["meaning"] = tuple(
        f"copy(y[i], acc[row + i]); scale(y[i] | scale, {low}, 127); "
        f"copy(dram[address + st_stride*i], y[i]) for i<rows where act={act}"
        for act, low in ((0, -128), (1, 0))
    )
    one, two = (OpcodeBits(RS1 + 3, 2, mover) for mover in (0, 1))
    whole, part = (OpcodeBits(RS1 + 8, 1, bit) for bit in (1, 0))
    moved = address, Bits("row", 29, at=RS2), rows
    only = {"st_stride": "stride"}
    act = {**only, "act": "act_of", "scale": "scale_of"}
    step = Bits("stride", 16, at=RS1 + 16, low=1)
    forms = (
        config("config_ex", 0, step, unit="execute", sets={"a_stride": "stride"}),
        config("config_ld", 1, stride, unit="load", codes=[one], sets={"ld_stride": "stride"}),
        config("config_ld2", 1, stride, unit="load", codes=[two], sets={"ld2_stride": "stride"}),
        config("config_st", 2, stride, *scaling, unit="store", codes=[whole], sets=act),
        config("config_stride", 2, stride, unit="store", codes=[part], sets=only),
        mvin("mvin", 2, "ld_stride"),
        mvin("mvin_acc", 2, "ld_stride", acc=1),
        mvin("mvin2", 1, "ld2_stride"),
        preload("preload", kept=False),
        preload("preload_kept", kept=True),
        compute("compute_preloaded", 4, kept=False),
        compute("compute_accumulated", 5, kept=True),
        command("mvout", 3, *moved, codes=local(RS2, 1), cycles=2, **store),
    )
    memories = (
        LocalMemory("spad", spad_rows, DIM),
        LocalMemory("acc", acc_rows, DIM, "int32"),
        LocalMemory("array", 1, DIM * DIM),
    )
    return InstructionTable("gemmini", forms, memories, opcode_bits=7, registers=REGISTERS)


def mvin(state: MachineState, i: Fields) -> None:
    load(state, i, i["ld_stride"])


def mvin2(state: MachineState, i: Fields) -> None:
    load(state, i, i["ld2_stride"])


def load(state: MachineState, i: Fields, stride: int) -> None:
    data = state.dram.read(i["address"], DIM, stride, i["rows"])
    state.memory["spad"][i["row"] : i["row"] + i["rows"]] = data.view(np.int8)


def mvin_acc(state: MachineState, i: Fields) -> None:
    data = state.dram.read(i["address"], 4 * DIM, i["ld_stride"], i["rows"]).view(np.int32)
    add(state.memory["acc"][i["row"] : i["row"] + i["rows"]], data, i["accumulate"])


def add(sums: Array, more: Array, accumulate: int) -> None:
    sums[:] = wrap_int32(sums.astype(np.int64) * accumulate + more)


def compute_preloaded(state: MachineState, i: Fields) -> None:
    state.memory["array"][0] = state.memory["spad"][i["b_row"] : i["b_row"] + DIM].ravel()
    compute_accumulated(state, i)


def compute_accumulated(state: MachineState, i: Fields) -> None:
    a = state.memory["spad"][i["a"] + i["a_stride"] * np.arange(i["rows"])].astype(np.float64)
    product = a @ state.memory["array"][0].reshape(DIM, DIM)  # exact: below 2^53
    sums = state.memory["acc"][i["c_row"] : i["c_row"] + i["rows"]]
    add(sums, product.astype(np.int64), i["c_accumulate"])


def mvout(state: MachineState, i: Fields) -> None:
    sums = state.memory["acc"][i["row"] : i["row"] + i["rows"]]
    scaled = requantize_float32(sums, np.uint32(i["scale"]).view(np.float32))
    y = np.clip(scaled, 0 if i["act"] else -128, 127).astype(np.int8)
    state.dram.write(i["address"], y, i["st_stride"])


MEANING = {"mvin": mvin, "mvin_acc": mvin_acc, "mvin2": mvin2, "mvout": mvout}
MEANING |= {"compute_preloaded": compute_preloaded, "compute_accumulated": compute_accumulated}


class CommandPage(RegisterPage):
    """HASH 0; TOTAL 4: commands that will come; FUNCT 8, RS1 12 and 16, RS2 20 and 24, which takes
    the command; ROOM 28; STATE 32 (0 idle, 1 busy, 2 done, 3 error), AT 36, CAUSE 40, CYCLES 44,
    IRQ 48 (any write clears it), RESET 52."""

    def __init__(self, config_hash: int) -> None:
        self.said = [config_hash, *[0] * 13]
        self.said[7] = 16
        self.code = bytearray()

    def read32(self, offset: int) -> int:
        return self.said[offset // 4] if offset < 56 else 0

    def write32(self, offset: int, value: int) -> Action | None:
        if offset in (4, 8, 12, 16, 20, 24):
            self.said[offset // 4] = value
        if offset == 4:
            self.code, self.said[8] = bytearray(), 1
        elif offset == 24:
            word = CUSTOM_3 | FUNCT3 << 12 | self.said[2] << 25
            values = (word, *self.said[3:7])
            self.code += b"".join(each.to_bytes(4, "little") for each in values)
            done = len(self.code) == COMMAND_BYTES * self.said[1]
            return Action.START if done else None
        elif offset == 48:
            self.said[12] = 0
        return Action.RESET if offset == 52 else None

    def job(self) -> PageJob:
        return PageJob(0, self.said[1], bytes(self.code))

    def started(self) -> None:
        self.said[8] = 1

    def moved(self, completed: int) -> None:
        self.said[9] = completed

    def ended(self, result: MachineRun | MachineFault | None) -> None:
        self.said[8], self.said[12] = 0, int(result is not None)
        if isinstance(result, MachineFault):
            self.said[8:11] = [3, result.instruction, result.error]
        elif result is not None:
            self.said[8:12] = [2, result.instructions, 0, result.cycles]

    def irq(self) -> int:
        return self.said[12]


# --- the back end ---------------------------------------------------------------------------------
class Gemmini(FromTable):
    """Layers without zero points, scaled by one float32 each. Depthwise ones are products with
    diagonal matrices."""

    name: ClassVar[str] = "gemmini"
    scheme = "symmetric"
    per_channel = False
    diagonal = True
    target_attributes: ClassVar[Sequence[Attribute]] = (
        Attribute("spad_rows", 4096, "rows of 16 int8", range(64, 2**20)),
        Attribute("acc_rows", 1024, "rows of 16 int32", range(16, 2**20)),
        Attribute("movers", 2, "1: MVIN2 is not used, and strides change more often", (1, 2)),
    )

    def __init__(self, **values: int | str | bool) -> None:
        super().__init__(**values)
        sizes = (int(self.attributes[entry.name]) for entry in self.target_attributes)
        macs = dict.fromkeys(("compute_preloaded", "compute_accumulated"), f"rows*{DIM * DIM}")
        said: dict[str, Any] = {"page": CommandPage, "driver": DRIVER, "macs": macs}
        self.accelerator = Accelerator(
            self.name,
            instructions(*sizes),
            MEANING,
            self.attributes,
            Port(bytes_per_cycle=16),
            8,
            macs_per_cycle=DIM * DIM,
            **said,
        )
