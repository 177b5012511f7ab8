# SPDX-License-Identifier: Apache-2.0
"""Programs that are about one instruction, and regions of each kind of right for them.

In:   an instruction, or bytes that are none.
Out:  `Case`: the smallest sound program around it, and the artifact for the validators.
Next: limits.py makes its table of them.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, cast

import numpy as np

from loadstone.artifact.format import Artifact, MemoryRegion, ProgramStep, RegionKind
from loadstone.backend.device import ProgramDevice
from loadstone.vta.device.hw_config import HwConfig, load_config
from loadstone.vta.isa.codec import encode, encode_uops
from loadstone.vta.isa.insn import Alu, Config, Depthwise, Finish, Gemm, Insn, Load, Store
from loadstone.vta.isa.spec import LOAD_STAGE, AluOp, Capability, Memory, Stage, layout

_TINY = load_config("vtaq-tiny")
#: Its memories are of other depths each, so that none is taken for another one.
INTEGERS = dataclasses.replace(
    _TINY, log_inp_buff=_TINY.log_inp_buff + 1, log_acc_buff=_TINY.log_acc_buff + 2
)
#: The same, whose stores requantize.
STORING = dataclasses.replace(
    INTEGERS, capabilities=INTEGERS.capabilities | Capability.STORE_REQUANTIZE
)
#: It can also store whole accumulators.
WHOLE = dataclasses.replace(STORING, capabilities=STORING.capabilities | Capability.STORE_ACC)
#: It can also store to INP.
TO_INP = dataclasses.replace(STORING, capabilities=STORING.capabilities | Capability.STORE_INP)
#: The same with windows, of which there are larger ones with larger blocks.
FOUR_LANES, EIGHT_LANES, WINDOWS = (
    dataclasses.replace(
        INTEGERS,
        log_block=log_block,
        log_inp_buff=INTEGERS.log_inp_buff + log_block - 2,
        log_wgt_buff=INTEGERS.log_wgt_buff + 2 * (log_block - 2),
        log_acc_buff=INTEGERS.log_acc_buff + log_block - 2,
        capabilities=INTEGERS.capabilities | Capability.DEPTHWISE,
    )
    for log_block in (2, 3, 4)
)
#: The largest of them, with weights of 4 bits: a group has 288 bytes, and fills two tiles of WGT.
GROUPS = dataclasses.replace(WINDOWS, capabilities=INTEGERS.capabilities | Capability.WEIGHTS4)
#: The same with bit planes.
PLANES = dataclasses.replace(
    WINDOWS, capabilities=INTEGERS.capabilities | Capability.WEIGHT_CODE, bus_bits=64
)
FLOATS = load_config("vtab-1x8x8")
#: Regions in the order of the artifact: what the device may do there.
MICRO_OPS, RESULT, INPUT, ARENA = range(4)
#: Of the largest kind: what each region but that of micro-ops has room for.
TILES = 8


@dataclass(frozen=True)
class Case:
    """A program, and the instruction that a rule is about. uops: what the constants hold."""

    program: Sequence[Insn | bytes]
    at: int = 0
    config: HwConfig = INTEGERS
    uops: tuple[tuple[int, int, int], ...] = ((0, 0, 0),)
    arena_bytes: int = 0
    fingerprint: bytes = b""

    @property
    def room_bytes(self) -> int:
        """Of each region but that of micro-ops."""
        return TILES * self.config.align_bytes

    @property
    def code(self) -> bytes:
        """Its instructions, those that cannot be encoded as the bytes that they are."""
        words = (i if isinstance(i, bytes) else encode(i, self.config) for i in self.program)
        return b"".join(words)

    def artifact(self) -> Artifact:
        """A region of each kind of right, and the program."""
        size = self.config.uop_depth * 4
        data = encode_uops(np.array(self.uops, np.int64), self.config).tobytes().ljust(size, b"\0")
        room = self.room_bytes
        kinds = (
            ("micro-ops", RegionKind.CONSTANTS, size, True, False),
            ("result", RegionKind.OUTPUT, room, False, True),
            ("input", RegionKind.INPUT, room, True, False),
            ("arena", RegionKind.ARENA, self.arena_bytes or room, True, True),
        )
        return Artifact(
            name="limits",
            devices=(ProgramDevice("limits", self.fingerprint or self.config.fingerprint()),),
            samples=1,
            regions=tuple(
                MemoryRegion(
                    name,
                    kind,
                    count,
                    4096,
                    device_reads=reads,
                    device_writes=writes,
                    data=data if kind is RegionKind.CONSTANTS else b"",
                )
                for name, kind, count, reads, writes in kinds
            ),
            tensors=(),
            inputs=(),
            outputs=(),
            steps=(ProgramStep("limits", self.code),),
        )


def computed(insn: Insn | bytes, **more: Any) -> Case:
    """An instruction of compute behind the micro-ops that it needs."""
    case = Case((), **more)
    uops = Load(memory_id=Memory.UOP, y_size=1, x_size=len(case.uops))
    return dataclasses.replace(case, program=(uops, insn, Finish()), at=1)


def moved(insn: Load | Store | Config, **more: Any) -> Case:
    """An instruction of any stage, which tells compute that it is done."""
    if isinstance(insn, Store):
        return Case((dataclasses.replace(insn, push_prev=1), Finish(pop_next=1)), **more)
    stage = LOAD_STAGE[Memory(insn.memory_id)] if isinstance(insn, Load) else insn.stage
    if stage != Stage.LOAD:
        return Case((insn, Finish()), **more)
    return Case((dataclasses.replace(insn, push_next=1), Finish(pop_prev=1)), **more)


def load(memory: Memory, **fields: int) -> Load:
    """A tile; of micro-ops from the constants."""
    region = MICRO_OPS if memory == Memory.UOP else ARENA
    return Load(**{"memory_id": memory, "region": region, "y_size": 1, "x_size": 1, **fields})


def store(**fields: int) -> Store:
    return Store(**{"memory_id": Memory.OUT, "region": ARENA, "y_size": 1, "x_size": 1, **fields})


def gemm(**fields: int) -> Gemm:
    return Gemm(**{"uop_end": 1, "iter_out": 1, "iter_in": 1, **fields})


def depthwise(**fields: int) -> Depthwise:
    return Depthwise(
        **{"uop_end": 1, "iter_out": 1, "iter_in": 1, "rows": 1, "columns": 1, **fields}
    )


def alu(op: AluOp = AluOp.ADD, **fields: int) -> Alu:
    return Alu(**{"uop_end": 1, "iter_out": 1, "iter_in": 1, "alu_op": op, **fields})


def having(insn: Insn, **fields: int) -> Any:
    """The instruction with other values in some fields."""
    return dataclasses.replace(cast(Any, insn), **fields)


def without(capability: Capability, config: HwConfig = INTEGERS) -> HwConfig:
    return dataclasses.replace(config, capabilities=config.capabilities & ~capability)


def poked(insn: Insn, field: str, value: int) -> bytes:
    """With a value that may be none."""
    place = layout(insn.SPEC.fields, INTEGERS.widths)[field]
    word = int.from_bytes(encode(insn, INTEGERS), "little")
    mask = (1 << place.width) - 1 << place.start
    return (word & ~mask | value << place.start).to_bytes(16, "little")


def reserved(insn: Insn) -> list[int]:
    """The lowest and the highest bit that no field has."""
    used = {
        place.start + bit
        for place in layout(insn.SPEC.fields, INTEGERS.widths).values()
        for bit in range(place.width)
    }
    left = sorted(set(range(128)) - used)
    return [left[0], left[-1]] if left else []
