# SPDX-License-Identifier: Apache-2.0
"""What the fields of instructions can hold, and what stands behind the values: scratchpads, stages,
token queues, registers, capabilities.

In:   nothing.
Out:  the enumerations, and tables that say what belongs to which.
Next: spec.py makes fields of them; everybody imports them from there.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from enum import IntEnum, IntFlag

from loadstone.numerics import Rounding

__all__ = [
    "CONFIG_DEFAULTS",
    "GROUP_WEIGHTS",
    "LOAD_STAGE",
    "SCRATCHPAD_OF",
    "STAGE_REGISTERS",
    "TOKEN_QUEUES",
    "VALUE_NEEDS",
    "WINDOW_COLUMNS",
    "WINDOW_PITCH",
    "WINDOW_ROWS",
    "AluOp",
    "Capability",
    "ConfigRegister",
    "Memory",
    "Opcode",
    "Stage",
    "TokenQueue",
    "initial_registers",
    "window_rows",
]


class Opcode(IntEnum):
    """Bits 0:3 of every instruction. 7 is free."""

    LOAD = 0
    STORE = 1
    GEMM = 2
    FINISH = 3
    ALU = 4
    CONFIG = 5
    DEPTHWISE = 6


class Memory(IntEnum):
    """The scratchpads. ACC_8BIT is ACC seen through a load that sign-extends int8, WGT_4BIT is WGT
    seen through one that expands weights of 4 bits (vta/isa/packed_weights.py), WGT_PLANES through
    one that expands bit planes (vta/isa/weight_planes.py)."""

    UOP = 0
    WGT = 1
    INP = 2
    ACC = 3
    OUT = 4
    ACC_8BIT = 5
    WGT_4BIT = 6
    WGT_PLANES = 7


class AluOp(IntEnum):
    """ALU.alu_op. 6 and 7 are free."""

    MIN = 0
    MAX = 1
    ADD = 2
    SHR = 3
    MUL = 4
    RQ = 5


class Stage(IntEnum):
    """The three queues that execute instructions, each in order."""

    LOAD = 0
    COMPUTE = 1
    STORE = 2


#: A window of DEPTHWISE has at most so many tiles in a row, and so many rows; each row has the room
#: of WINDOW_PITCH weights, and a device whose blocks have room for fewer rows has only these.
WINDOW_COLUMNS = 3
WINDOW_ROWS = 3
WINDOW_PITCH = 4
#: What the second part of a wide weight counts.
WIDE_FACTOR = 128


def window_rows(block: int) -> int:
    """The rows of the largest window of a device. block: lanes of a tile."""
    return min(WINDOW_ROWS, block // WINDOW_PITCH)


#: Weights of 4 bits that share a multiplier and a minimum: of one output, side by side along K.
GROUP_WEIGHTS = 32

#: Weights that share a number of bit planes, side by side in a weight tile; the planes that they
#: have at least; the bytes that a code of planes consists of.
PLANE_WEIGHTS = 16
LEAST_PLANES = 4
PLANE_WORD_BYTES = 8


#: The stage whose queue a LOAD of each memory goes to. OUT is never loaded: compute refuses it.
LOAD_STAGE: Mapping[Memory, Stage] = {
    Memory.UOP: Stage.COMPUTE,
    Memory.WGT: Stage.LOAD,
    Memory.INP: Stage.LOAD,
    Memory.ACC: Stage.COMPUTE,
    Memory.OUT: Stage.COMPUTE,
    Memory.ACC_8BIT: Stage.COMPUTE,
    Memory.WGT_4BIT: Stage.LOAD,
    Memory.WGT_PLANES: Stage.LOAD,
}

#: The scratchpad that a memory_id means.
SCRATCHPAD_OF: Mapping[Memory, Memory] = {
    **{memory: memory for memory in Memory},
    Memory.OUT: Memory.ACC,
    Memory.ACC_8BIT: Memory.ACC,
    Memory.WGT_4BIT: Memory.WGT,
    Memory.WGT_PLANES: Memory.WGT,
}


@dataclass(frozen=True)
class TokenQueue:
    """A queue of tokens between neighbouring stages: `popper` waits for `pusher`."""

    pusher: Stage
    popper: Stage

    @property
    def push(self) -> str:
        """The pusher's flag."""
        return "push_next" if self.popper > self.pusher else "push_prev"

    @property
    def pop(self) -> str:
        """The popper's flag."""
        return "pop_prev" if self.popper > self.pusher else "pop_next"

    def __str__(self) -> str:
        """`load->compute`."""
        return f"{self.pusher.name.lower()}->{self.popper.name.lower()}"


#: All queues: of each pair of neighbours, the one forward and the one back. Load and store are no
#: neighbours.
TOKEN_QUEUES: tuple[TokenQueue, ...] = (
    TokenQueue(Stage.LOAD, Stage.COMPUTE),
    TokenQueue(Stage.COMPUTE, Stage.LOAD),
    TokenQueue(Stage.COMPUTE, Stage.STORE),
    TokenQueue(Stage.STORE, Stage.COMPUTE),
)


class ConfigRegister(IntEnum):
    """CONFIG.register_id. PAD_VALUE exists twice: load's fills INP pads, compute's fills ACC_8BIT
    pads, because a register is read only by the stage that sets it. The RQ registers exist twice,
    too: compute's are for ALU RQ, store's for STOREs that requantize."""

    PAD_VALUE = 0
    RQ_ZERO_POINT = 1
    RQ_MIN = 2
    RQ_MAX = 3
    RQ_ROUNDING = 4


#: The registers that a stage has.
STAGE_REGISTERS: Mapping[Stage, tuple[ConfigRegister, ...]] = {
    Stage.LOAD: (ConfigRegister.PAD_VALUE,),
    Stage.COMPUTE: tuple(ConfigRegister),
    Stage.STORE: (
        ConfigRegister.RQ_ZERO_POINT,
        ConfigRegister.RQ_MIN,
        ConfigRegister.RQ_MAX,
        ConfigRegister.RQ_ROUNDING,
    ),
}

#: What a stage's registers hold when a program starts.
CONFIG_DEFAULTS: Mapping[ConfigRegister, int] = {
    ConfigRegister.PAD_VALUE: 0,
    ConfigRegister.RQ_ZERO_POINT: 0,
    ConfigRegister.RQ_MIN: -128,
    ConfigRegister.RQ_MAX: 127,
    ConfigRegister.RQ_ROUNDING: int(Rounding.DOUBLE),
}


def initial_registers() -> dict[tuple[Stage, ConfigRegister], int]:
    """All registers, as they are when a program starts."""
    return {
        (stage, register): CONFIG_DEFAULTS[register]
        for stage, registers in STAGE_REGISTERS.items()
        for register in registers
    }


class Capability(IntFlag):
    """What a device can do beyond VTA's safe subset: one bit each, in HwConfig and the CAPS
    register."""

    ALU_MUL = 1 << 0  # ALU MUL
    LOAD_ACC8 = 1 << 1  # LOAD of memory ACC_8BIT
    CONFIG = 1 << 2  # opcode CONFIG
    REQUANTIZE = 1 << 3  # ALU RQ
    GEMM_OVERWRITE = 1 << 4  # GEMM.overwrite
    REGIONS = 1 << 5  # LOAD/STORE.region, REGION_BASE and REGION_LIMIT
    DEPTHWISE = 1 << 6  # opcode DEPTHWISE
    STORE_REQUANTIZE = 1 << 7  # STORE.requantize, CONFIG of the store stage
    STORE_INP = 1 << 8  # STORE of memory INP
    WEIGHT_CODE = 1 << 9  # LOAD of memory WGT_PLANES
    WEIGHTS4 = 1 << 10  # LOAD of memory WGT_4BIT
    STORE_ACC = 1 << 11  # STORE of memory ACC


#: Values of enumerated fields that need a capability.
VALUE_NEEDS: Mapping[type[IntEnum], Mapping[int, Capability]] = {
    Memory: {
        Memory.ACC_8BIT: Capability.LOAD_ACC8,
        Memory.WGT_4BIT: Capability.WEIGHTS4,
        Memory.WGT_PLANES: Capability.WEIGHT_CODE,
    },
    AluOp: {AluOp.MUL: Capability.ALU_MUL, AluOp.RQ: Capability.REQUANTIZE},
    Stage: {Stage.STORE: Capability.STORE_REQUANTIZE},
}
