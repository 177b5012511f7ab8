# SPDX-License-Identifier: Apache-2.0
"""Random legal programs, for everything that runs or checks instruction streams.

In:   a HwConfig and a random generator.
Out:  `random_program`: instructions in program order with tokens for every hazard between stages,
      the memory they run on.
Next: vta/simulator/test_sim.py holds the simulator against vta/meaning/reference.py; the runtime's
      validator must accept each.

Tokens come from hazards alone, by a rule of its own (not the compiler's
vta/passes/synchronize/synchronize.py): an instruction waits for the last one of another stage that
touches the same tile or bytes, if one of the two writes and it has not waited for it, or a later
one, before. Programs for profile vta keep to the subset in which real hardware agrees; others use
what their device has.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from loadstone.graph import bfloat16
from loadstone.numerics import scale_lane, shift_lane
from loadstone.vta.device.hw_config import HwConfig
from loadstone.vta.isa.codec import encode, encode_uops
from loadstone.vta.isa.insn import Alu, Config, Depthwise, Gemm, Insn, Load, MicroOp, Store
from loadstone.vta.isa.spec import (
    INSN_BYTES,
    SCRATCHPAD_OF,
    VALUE_NEEDS,
    WINDOW_COLUMNS,
    AluOp,
    Capability,
    ConfigRegister,
    Memory,
    Stage,
    window_rows,
)
from tests.program_tokens import Places, Step, far_apart, indices, with_tokens

__all__ = ["BASE", "Program", "random_program"]

#: Bus address of the memory.
BASE = 0x1000


@dataclass(frozen=True, eq=False)
class Program:
    """insns: uint8 (N, 16). memory: what stands at BASE (region 0 of devices with regions, whose
    addresses count from its start)."""

    config: HwConfig
    objects: list[Insn]
    insns: NDArray[np.uint8]
    memory: NDArray[np.uint8]


@dataclass
class _Windows:
    """Parts of the scratchpads that the program uses: first tile and tiles."""

    inp: tuple[int, int]
    wgt: tuple[int, int]
    acc: tuple[int, int]


class _Maker:
    def __init__(self, config: HwConfig, rng: np.random.Generator) -> None:
        self.config, self.rng, self.steps = config, rng, list[Step]()
        self.safe = config.profile == "vta"
        wgt = 20 if config.has(Capability.WEIGHTS4) else 5
        most = {Memory.INP: 24, Memory.WGT: wgt, Memory.ACC: 24}
        self.windows = _Windows(*(self._window(config.depth(m), n) for m, n in most.items()))
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

    def _window(self, depth: int, most: int) -> tuple[int, int]:
        size = min(most, depth)
        return self.below(depth - size + 1), size

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

    def load(self, memory: Memory, first: int, room: int, *, fill: bool = False) -> None:
        """A LOAD into [first, first + room), of all of it with `fill`; from data, or sometimes from
        what was stored."""
        fills, whole = self.config.filled_tiles(memory), room
        room //= fills
        padless = (memory in (Memory.WGT, Memory.UOP) and self.safe) or memory == Memory.WGT_4BIT
        pads = {} if padless or fill else self._pads(room)
        height, width = (
            sum(pads.get(k, 0) for k in ("y_pad_0", "y_pad_1")),
            sum(pads.get(k, 0) for k in ("x_pad_0", "x_pad_1")),
        )
        x = room if fill else self.between(1, max(1, min(room, 8) - width))
        y = 1 if fill else self.between(1, max(1, min(6, room // (x + width) - height)))
        if (x + width) * (y + height) > room:
            pads, x, y = {}, 1, 1
            height = width = 0
        size = self.tile[memory]
        sums = memory == Memory.ACC and self.config.has(Capability.STORE_ACC) and not fill
        stored = (memory in (Memory.INP, Memory.ACC_8BIT) or sums) and self.chance(0.2)
        begin, bytes_ = (
            (self.out_start, self.out_tiles * self.tile[Memory.OUT])
            if stored
            else (self.start, self.data_bytes)
        )
        tiles = bytes_ // size
        stride = (
            0
            if y == 1 and self.chance(0.5)
            else self.between(0, max(0, (tiles - x) // max(1, y - 1)) if y > 1 else 9)
        )
        stride = min(stride, 60)
        step = self.config.base_bytes(memory)
        base = begin // step + self.below(tiles - ((y - 1) * stride + x) + 1) * (size // step)
        filled_count = (x + width) * (y + height) * fills
        sram = first if fill else first + self.below(whole - filled_count + 1)
        insn = Load(
            memory_id=memory,
            sram_base=sram,
            dram_base=base,
            y_size=y,
            x_size=x,
            x_stride=stride,
            **pads,
        )
        to = SCRATCHPAD_OF[memory]
        filled = range(sram, sram + filled_count)
        self.emit(insn, [self._rows(insn)], [self.places(to, filled)])
        if to == Memory.ACC:
            self.computed -= set(filled)

    def load_planes(self, first: int, room: int) -> None:
        """A LOAD of bit planes, of random words: more or fewer than the tiles that it says have."""
        size, memory = self.tile[Memory.WGT_PLANES], Memory.WGT_PLANES
        tiles = self.between(1, min(room, 6))
        words = self.between(1, 1 + 40 * tiles * self.config.block**2 // 256)
        words = min(words, self.data_bytes // size)
        insn = Load(
            memory_id=memory,
            sram_base=first + self.below(room - tiles + 1),
            dram_base=self.start // size + self.below(self.data_bytes // size - words + 1),
            y_size=tiles,
            x_size=words,
        )
        filled = range(insn.sram_base, insn.sram_base + tiles)
        self.emit(insn, [self._rows(insn)], [self.places(Memory.WGT, filled)])

    def _pads(self, room: int) -> dict[str, int]:
        if self.chance(0.6) or room < 6:
            return {}
        names = ("y_pad_0", "y_pad_1", "x_pad_0", "x_pad_1")
        return {name: self.below(3) for name in names}

    def _rows(self, insn: Load | Store) -> Places:
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
            insn, [self._rows(insn)], [self.places(Memory.UOP, range(first, first + len(uops)))]
        )
        return first

    def store(self) -> None:
        first, size = self.windows.acc
        x, y = self.between(1, 4), self.between(1, 3)
        if x * y > size:
            x = y = 1
        sram = first + self.below(size - x * y + 1)
        tiles = range(sram, sram + x * y)
        if self.safe and not set(tiles) <= self.computed:
            self.alu_imm(tiles)
        stride = self.between(0, (self.out_tiles - x) // max(1, y - 1)) if y > 1 else x
        base = self.out_start // self.tile[Memory.OUT] + self.below(
            self.out_tiles - ((y - 1) * stride + x) + 1
        )
        insn = Store(
            memory_id=Memory.OUT,
            sram_base=sram,
            dram_base=base,
            y_size=y,
            x_size=x,
            x_stride=stride,
        )
        read = [self.places(Memory.ACC, tiles)]
        if self.config.has(Capability.STORE_REQUANTIZE) and self.chance(0.6):
            step = int(self.chance(0.5))
            count = 3 * (y if step else 1)
            operands = first + self.below(size - count + 1)
            insn = replace(insn, operands=operands, operand_step=step, requantize=1)
            read.append(self.places(Memory.ACC, range(operands, operands + count)))
        if self.config.has(Capability.STORE_INP) and self.chance(0.6):
            insn, places = self._to_inp(insn)
            self.emit(insn, read, [places])
            return
        if self.config.has(Capability.STORE_ACC) and self.chance(0.6):
            insn, read = self._whole(insn), read[:1]
        self.emit(insn, read, [self._rows(insn)])

    def _whole(self, insn: Store) -> Store:
        """The same STORE of all bits of its lanes: tiles of four times the bytes, as many rows of
        them as there is room for."""
        room = self.out_tiles * self.tile[Memory.OUT] // self.tile[Memory.ACC]
        x, y = min(insn.x_size, room), min(insn.y_size, max(1, room // insn.x_size))
        stride = self.between(0, (room - x) // (y - 1)) if y > 1 else insn.x_stride
        first = -(-self.out_start // self.tile[Memory.ACC])
        base = first + self.below(room - ((y - 1) * stride + x) + 1)
        return replace(
            insn,
            memory_id=Memory.ACC,
            dram_base=base,
            x_size=x,
            y_size=y,
            x_stride=stride,
            operands=0,
            operand_step=0,
            requantize=0,
        )

    def _to_inp(self, insn: Store) -> tuple[Store, Places]:
        """The same STORE to INP, and the tiles that it writes there; rows may overlap."""
        first, size = self.windows.inp
        room = max(0, size - insn.x_size) // max(1, insn.y_size - 1)
        stride = self.between(0, room) if insn.y_size > 1 else insn.x_stride
        extent = (insn.y_size - 1) * stride + insn.x_size
        base = first + self.below(size - extent + 1)
        rows = base + stride * np.arange(insn.y_size)[:, None] + np.arange(insn.x_size)
        to = replace(insn, memory_id=Memory.INP, dram_base=base, x_stride=stride)
        return to, self.places(Memory.INP, np.unique(rows).tolist())

    def alu_imm(self, tiles: range) -> None:
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

    def _factors(self, room: int, turns: tuple[int, int]) -> tuple[int, int, int]:
        """(out, in, room that is left for the micro-op) so that the last turn stays in the room."""
        out, inner = (self.below(3) if t > 1 else self.below(2) for t in turns)
        while (left := room - (turns[0] - 1) * out - (turns[1] - 1) * inner) < 1:
            out, inner = max(0, out - 1), max(0, inner - 1)
        return out, inner, left

    def gemm(self) -> None:
        turns = (self.between(1, 4), self.between(1, 4))
        w = self.windows
        (dst_out, dst_in, dst), (src_out, src_in, src), (wgt_out, wgt_in, wgt) = (
            self._factors(size, turns) for _, size in (w.acc, w.inp, w.wgt)
        )
        count = self.between(1, 6)
        uops = [
            MicroOp(
                w.acc[0] + self.below(dst), w.inp[0] + self.below(src), w.wgt[0] + self.below(wgt)
            )
            for _ in range(count)
        ]
        first = self.micro_ops(uops)
        insn = Gemm(
            uop_bgn=first,
            uop_end=first + count,
            iter_out=turns[0],
            iter_in=turns[1],
            dst_out=dst_out,
            dst_in=dst_in,
            src_out=src_out,
            src_in=src_in,
            wgt_out=wgt_out,
            wgt_in=wgt_in,
            reset=int(self.chance(0.15)),
            overwrite=int(self.config.has(Capability.GEMM_OVERWRITE) and self.chance(0.3)),
        )
        d, s, g = (set(indices(insn, uops, name)) for name in ("dst", "src", "wgt"))
        acc, uop = self.places(Memory.ACC, d), self.places(Memory.UOP, range(first, first + count))
        inputs = [] if insn.reset else [self.places(Memory.INP, s), self.places(Memory.WGT, g)]
        self.emit(insn, [uop, *inputs, acc], [acc])
        self.computed = self.computed - d if insn.reset else self.computed | d

    def depthwise(self) -> None:
        """Windows that move by rows, as those of a convolution do, and others."""
        turns = (self.between(1, 3), self.between(1, 4))
        w = self.windows
        rows = self.between(1, window_rows(self.config.block))
        columns, stride = self.between(1, WINDOW_COLUMNS), self.between(0, 4)
        reach = (rows - 1) * stride + columns - 1
        (dst_out, dst_in, dst), (wgt_out, _, wgt) = (
            self._factors(size, turns) for _, size in (w.acc, w.wgt)
        )
        src_out, src_in, src = self._factors(w.inp[1] - reach, turns)
        below = self.between(1, 2) * stride
        if self.chance(0.7) and (left := w.inp[1] - reach - (turns[1] - 1) * below) > 0:
            src_out, src_in, src = 0, below, left
        count = self.between(1, 4)
        first_src, apart = w.inp[0] + self.below(src), self.chance(0.5)
        uops = [
            MicroOp(
                w.acc[0] + self.below(dst),
                w.inp[0] + self.below(src) if apart else first_src,
                w.wgt[0] + self.below(wgt),
            )
            for _ in range(count)
        ]
        if self.chance(0.3) and first_src + (count - 1) * stride < w.inp[0] + src:
            uops = [replace(u, src=first_src + k * stride) for k, u in enumerate(uops)]
        first = self.micro_ops(uops)
        insn = Depthwise(
            uop_bgn=first,
            uop_end=first + count,
            iter_out=turns[0],
            iter_in=turns[1],
            dst_out=dst_out,
            dst_in=dst_in,
            src_out=src_out,
            src_in=src_in,
            wgt_out=wgt_out,
            rows=rows,
            columns=columns,
            row_stride=stride,
            wide=int(self.chance(0.4)),
            overwrite=int(self.config.has(Capability.GEMM_OVERWRITE) and self.chance(0.3)),
        )
        d, s, g = (set(indices(insn, uops, name)) for name in ("dst", "src", "wgt"))
        read = {t + r * stride + c for t in s for r in range(rows) for c in range(columns)}
        acc, uop = self.places(Memory.ACC, d), self.places(Memory.UOP, range(first, first + count))
        inputs = [self.places(Memory.INP, read), self.places(Memory.WGT, g)]
        self.emit(insn, [uop, *inputs, acc], [acc])
        self.computed |= d

    def alu(self) -> None:
        for _ in range(20):
            if self._try_alu():
                return

    def _try_alu(self) -> bool:
        op = self.rng.choice(self._operations())
        requantizes = op == AluOp.RQ
        immediate = not requantizes and self.chance(0.5)
        first, size = self.windows.acc
        turns = (self.between(1, 3), self.between(1, 4))
        dst_out, dst_in, dst = self._factors(size, turns)
        src_out, src_in, src = self._factors(size - 2 * requantizes, turns)
        count = self.between(1, 6)
        uops = [MicroOp(first + self.below(dst), first + self.below(src)) for _ in range(count)]
        if immediate and self.safe:
            src_out, src_in, uops = dst_out, dst_in, [MicroOp(u.dst, u.dst) for u in uops]
        imm = self.between(-16, 15) if op == AluOp.SHR else self.between(-32768, 32767)
        if self.config.is_float and self.chance(0.7):
            imm = bfloat16.immediate(float(self.rng.normal()))
        loops = {
            "iter_out": turns[0],
            "iter_in": turns[1],
            "dst_out": dst_out,
            "dst_in": dst_in,
            "src_out": src_out,
            "src_in": src_in,
        }
        insn = Alu(
            alu_op=int(op),
            use_imm=int(immediate),
            imm=imm if immediate else 0,
            uop_end=count,
            **loops,
        )
        d, s = indices(insn, uops, "dst"), indices(insn, uops, "src")
        if self.safe and (
            (op == AluOp.SHR and not immediate) or not far_apart(d, d if immediate else s)
        ):
            return False
        if requantizes and self.chance(0.3):
            self.load(Memory.ACC, first, size, fill=True)  # data hold sensible operands, and others
        begin = self.micro_ops(uops)
        insn = replace(insn, uop_bgn=begin, uop_end=begin + count)
        read = {t + k for t in s for k in range(3 if requantizes else 0 if immediate else 1)}
        written, uop = (
            self.places(Memory.ACC, set(d)),
            self.places(Memory.UOP, range(begin, begin + count)),
        )
        self.emit(insn, [self.places(Memory.ACC, read), written, uop], [written])
        self.computed |= set(d)
        return True

    def _operations(self) -> list[AluOp]:
        has = self.config.has
        needs = VALUE_NEEDS[AluOp]
        operations = [op for op in AluOp if op not in needs or has(needs[op])]
        if self.config.is_float:
            operations.remove(AluOp.SHR)
        return operations + [AluOp.RQ] * 2 * has(Capability.REQUANTIZE)  # the richest: more often

    def configure(self) -> None:
        if not self.config.has(Capability.CONFIG):
            return
        register = ConfigRegister(self.below(len(ConfigRegister)))
        stage = Stage(self.below(2)) if register == ConfigRegister.PAD_VALUE else Stage.COMPUTE
        if register != ConfigRegister.PAD_VALUE and self.config.has(Capability.STORE_REQUANTIZE):
            stage = Stage.STORE if self.chance(0.5) else Stage.COMPUTE
        if register == ConfigRegister.RQ_ROUNDING:
            value = self.below(3)
        elif self.chance(0.2):
            value = self.between(-(1 << 31), (1 << 31) - 1)
        else:
            value = self.between(-128, 127)
        self.emit(Config(stage=stage, register_id=register, value=value))

    # --- the program ------------------------------------------------------------------------------
    def make(self, length: int) -> Program:
        w = self.windows
        for memory, window in ((Memory.INP, w.inp), (Memory.WGT, w.wgt), (Memory.ACC, w.acc)):
            self.load(memory, *window, fill=True)
        choices: list[Callable[[], None]] = (
            [self.gemm] * 4 + [self.alu] * 4 + [self.store] * 3 + [self.configure] * 2
        )
        choices += [lambda: self.load(Memory.INP, *w.inp)] * 2 + [
            lambda: self.load(Memory.WGT, *w.wgt)
        ]
        choices += [lambda: self.load(Memory.ACC, *w.acc)]
        if self.config.has(Capability.LOAD_ACC8):
            choices += [lambda: self.load(Memory.ACC_8BIT, *w.acc)]
        if self.config.has(Capability.WEIGHTS4):
            choices += [lambda: self.load(Memory.WGT_4BIT, *w.wgt)] * 3
        if self.config.has(Capability.WEIGHT_CODE):
            choices += [lambda: self.load_planes(*w.wgt)] * 3
        if self.config.has(Capability.DEPTHWISE):
            choices += [self.depthwise] * 4
        while len(self.steps) < length:
            choices[self.below(len(choices))]()
        objects = with_tokens(self.steps, self.rng)
        stream = b"".join(
            encode(insn, self.config) for insn in objects
        )  # for so few sooner than encode_stream
        return Program(
            self.config,
            objects,
            np.frombuffer(stream, np.uint8).reshape(-1, INSN_BYTES),
            self._memory(),
        )

    def _memory(self) -> NDArray[np.uint8]:
        size = self.uop_start + 4 * self.uop_count - self.offset
        memory = self.rng.integers(0, 256, size, np.uint8)
        if self.config.is_float:
            self._make_floats(memory)
            return self._with_micro_ops(memory)
        # Some of the data are plausible operands of RQ: any lane may serve as multiplier or shift.
        words = memory[self.start - self.offset :][: self.data_bytes].view("<i4")
        kind = self.rng.integers(0, 6, words.size)
        words[kind == 0] = self.rng.integers(1 << 30, 1 << 31, words.size)[kind == 0]
        words[kind == 1] = shift_lane(
            self.rng.integers(-31, 31, words.size), self.rng.integers(0, 8, words.size)
        )[kind == 1]
        words[kind == 2] = scale_lane((self.rng.random(words.size) * 0.01).astype(np.float32))[
            kind == 2
        ]
        words[kind == 3] = self.rng.integers(-5000, 5000, words.size)[kind == 3]
        return self._with_micro_ops(memory)

    def _make_floats(self, memory: NDArray[np.uint8]) -> None:
        """Most data are numbers of everyday size, of few bits: any bits would soon make every sum
        infinite or no number. The upper half of a float32 and a bfloat16 look alike. Others are
        tiny, so that products and sums are subnormal, or zeros of either sign."""
        halves = memory[: memory.size // 2 * 2].view("<u2")
        kind = self.rng.integers(0, 40, halves.size)
        usual = bfloat16.bits_of(self.rng.normal(size=halves.size).astype(np.float32))
        coarse = bfloat16.bits_of(self.rng.integers(-8, 9, halves.size).astype(np.float32))
        tiny = bfloat16.bits_of((self.rng.normal(size=halves.size) * 2.0**-66).astype(np.float32))
        zeros = np.where(self.rng.integers(0, 2, halves.size) > 0, 0x8000, 0).astype(np.uint16)
        among = (usual, usual, coarse, tiny, zeros)
        for position, values in enumerate(among):
            here = (kind > 0) & (kind % len(among) == position)
            halves[here] = values[here]

    def _with_micro_ops(self, memory: NDArray[np.uint8]) -> NDArray[np.uint8]:
        memory[self.uop_start - self.offset :] = (
            np.concatenate([np.zeros(0, np.uint32), *self.uops]).astype("<u4").view(np.uint8)
        )
        return memory


def random_program(config: HwConfig, rng: np.random.Generator, length: int = 24) -> Program:
    """A legal program of at least `length` instructions, FINISH last, no token left."""
    return _Maker(config, rng).make(length)
