# SPDX-License-Identifier: Apache-2.0
"""A random program in the making: its steps so far, and where its data stand.

In:   a HwConfig and a random generator.
Out:  `Draft`: random numbers, places in scratchpads and DRAM, steps with what they read and write.
Next: program_moves.py and program_computes.py add instructions to it.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from loadstone.vta.device.hw_config import HwConfig
from loadstone.vta.isa.codec import encode_uops
from loadstone.vta.isa.insn import Alu, Insn, Load, MicroOp, Store
from loadstone.vta.isa.spec import AluOp, Capability, Memory
from tests.program_tokens import Places, Step

__all__ = ["BASE", "Draft"]

#: Bus address of the memory.
BASE = 0x1000


@dataclass
class _Windows:
    """Parts of the scratchpads that the program uses: first tile and tiles."""

    inp: tuple[int, int]
    wgt: tuple[int, int]
    acc: tuple[int, int]


class Draft:
    """What every kind of instruction is drawn with."""

    def __init__(self, config: HwConfig, rng: np.random.Generator) -> None:
        self.config, self.rng, self.steps = config, rng, list[Step]()
        self.safe = config.profile == "vta"
        wgt = 20 if config.has(Capability.WEIGHTS4) else 5
        most = {Memory.INP: 24, Memory.WGT: wgt, Memory.ACC: 24}
        self.windows = _Windows(*(self.window(config.depth(m), n) for m, n in most.items()))
        self.uops: list[NDArray[np.uint32]] = []
        self.uop_count = 0
        # Places are numbered through: the tiles of UOP, INP, WGT and ACC, then DRAM's.
        memories = (Memory.UOP, Memory.INP, Memory.WGT, Memory.ACC)
        ends = np.cumsum([config.depth(memory) for memory in memories]).tolist()
        self.first_place = dict(zip(memories, [0, *ends[:-1]], strict=True))
        self.first_dram_place = ends[-1]
        self.computed: set[int] = set()  # ACC tiles that the out buffer of real hardware holds
        # Memory, in bytes from its start: data, then what is stored, then the micro-ops (whose
        # place is known only at the end).
        self.data_tiles = 40
        self.out_tiles = 40
        self.tile = {m: config.tile_bytes(m) for m in Memory}
        self.grain = min(self.tile.values())
        align = config.align_bytes
        up = lambda value: -(-value // align) * align  # noqa: E731
        self.offset = 0 if config.has(Capability.REGIONS) else BASE
        self.start = up(self.offset)
        self.data_bytes = up(
            self.data_tiles * self.tile[Memory.ACC] + (wgt + 3) * self.tile[Memory.WGT]
        )
        self.out_start = self.start + self.data_bytes
        self.uop_start = self.out_start + up(self.out_tiles * self.tile[Memory.OUT])

    # --- drawing ----------------------------------------------------------------------------------
    def below(self, n: int) -> int:
        return int(self.rng.integers(n))

    def between(self, low: int, high: int) -> int:
        return int(self.rng.integers(low, high + 1))

    def chance(self, p: float) -> bool:
        return bool(self.rng.random() < p)

    def window(self, depth: int, most: int) -> tuple[int, int]:
        size = min(most, depth)
        return self.below(depth - size + 1), size

    def factors(self, room: int, turns: tuple[int, int]) -> tuple[int, int, int]:
        """(out, in, room that is left for the micro-op) so that the last turn stays in the room."""
        out, inner = (self.below(3) if t > 1 else self.below(2) for t in turns)
        while (left := room - (turns[0] - 1) * out - (turns[1] - 1) * inner) < 1:
            out, inner = max(0, out - 1), max(0, inner - 1)
        return out, inner, left

    # --- emitting ---------------------------------------------------------------------------------
    def emit(self, insn: Insn, reads: Sequence[Places] = (), writes: Sequence[Places] = ()) -> None:
        none = np.zeros(0, np.int64)
        self.steps.append(
            Step(insn, np.concatenate([none, *reads]), np.concatenate([none, *writes]))
        )

    def places(self, memory: Memory, tiles: Iterable[int]) -> Places:
        if isinstance(tiles, range):
            return np.arange(tiles.start, tiles.stop) + self.first_place[memory]
        return np.array(list(tiles), np.int64) + self.first_place[memory]

    def rows(self, insn: Load | Store) -> Places:
        memory = Memory(insn.memory_id)
        size = self.tile[memory]
        begin = insn.dram_base * self.config.base_bytes(memory)
        begin = (begin + np.arange(insn.dram_rows) * insn.x_stride * size) // self.grain
        return (
            self.first_dram_place + begin[:, None] + np.arange(insn.x_size * size // self.grain)
        ).reshape(-1)

    def micro_ops(self, uops: list[MicroOp]) -> int:
        """LOADs them to some place of UOP; returns its first index. For real hardware in bursts of
        two beats at least: four at a time."""
        depth = self.config.depth(Memory.UOP)
        if self.safe:
            uops = uops + [MicroOp(0, 0)] * (-len(uops) % 4)
        first = self.below(depth - len(uops) + 1)
        table = encode_uops(uops, self.config)
        base = self.uop_start // 4 + self.uop_count
        self.uops.append(table)
        self.uop_count += len(uops)
        insn = Load(
            memory_id=Memory.UOP,
            sram_base=first,
            dram_base=base,
            y_size=1,
            x_size=len(uops),
            x_stride=len(uops),
        )
        self.emit(
            insn, [self.rows(insn)], [self.places(Memory.UOP, range(first, first + len(uops)))]
        )
        return first

    def touch(self, tiles: range) -> None:
        """Touches tiles, so that real hardware's out buffer holds them."""
        first = self.micro_ops([MicroOp(tiles[0], tiles[0])])
        loops = {
            "uop_bgn": first,
            "uop_end": first + 1,
            "iter_out": 1,
            "iter_in": len(tiles),
            "dst_in": 1,
            "src_in": 1,
        }
        touched, uop = self.places(Memory.ACC, tiles), self.places(Memory.UOP, [first])
        self.emit(
            Alu(alu_op=AluOp.ADD, use_imm=1, imm=self.between(-99, 99), **loops),
            [touched, uop],
            [touched],
        )
        self.computed |= set(tiles)
