# SPDX-License-Identifier: Apache-2.0
"""Random instructions that move tiles, and those that set registers.

In:   a draft (program_draft.py).
Out:  one more LOAD or STORE in it, or CONFIG.
Next: programs.py chooses among them and those of program_computes.py.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from loadstone.vta.isa.insn import Config, Load, Store
from loadstone.vta.isa.spec import SCRATCHPAD_OF, Capability, ConfigRegister, Memory, Stage
from tests.program_draft import Draft
from tests.program_tokens import Places

__all__ = ["configure", "load", "load_planes", "store"]


def load(draft: Draft, memory: Memory, first: int, room: int, *, fill: bool = False) -> None:
    """A LOAD into [first, first + room), of all of it with `fill`; from data, or sometimes from
    what was stored."""
    fills, whole = draft.config.filled_tiles(memory), room
    room //= fills
    padless = (memory in (Memory.WGT, Memory.UOP) and draft.safe) or memory == Memory.WGT_4BIT
    pads = {} if padless or fill else _pads(draft, room)
    height, width = (
        sum(pads.get(k, 0) for k in ("y_pad_0", "y_pad_1")),
        sum(pads.get(k, 0) for k in ("x_pad_0", "x_pad_1")),
    )
    x = room if fill else draft.between(1, max(1, min(room, 8) - width))
    y = 1 if fill else draft.between(1, max(1, min(6, room // (x + width) - height)))
    if (x + width) * (y + height) > room:
        pads, x, y = {}, 1, 1
        height = width = 0
    size = draft.tile[memory]
    sums = memory == Memory.ACC and draft.config.has(Capability.STORE_ACC) and not fill
    stored = (memory in (Memory.INP, Memory.ACC_8BIT) or sums) and draft.chance(0.2)
    begin, bytes_ = (
        (draft.out_start, draft.out_tiles * draft.tile[Memory.OUT])
        if stored
        else (draft.start, draft.data_bytes)
    )
    tiles = bytes_ // size
    stride = (
        0
        if y == 1 and draft.chance(0.5)
        else draft.between(0, max(0, (tiles - x) // max(1, y - 1)) if y > 1 else 9)
    )
    stride = min(stride, 60)
    step = draft.config.base_bytes(memory)
    base = begin // step + draft.below(tiles - ((y - 1) * stride + x) + 1) * (size // step)
    filled_count = (x + width) * (y + height) * fills
    sram = first if fill else first + draft.below(whole - filled_count + 1)
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
    draft.emit(insn, [draft.rows(insn)], [draft.places(to, filled)])
    if to == Memory.ACC:
        draft.computed -= set(filled)


def load_planes(draft: Draft, first: int, room: int) -> None:
    """A LOAD of bit planes, of random words: more or fewer than the tiles that it says have."""
    size, memory = draft.tile[Memory.WGT_PLANES], Memory.WGT_PLANES
    tiles = draft.between(1, min(room, 6))
    words = draft.between(1, 1 + 40 * tiles * draft.config.block**2 // 256)
    words = min(words, draft.data_bytes // size)
    insn = Load(
        memory_id=memory,
        sram_base=first + draft.below(room - tiles + 1),
        dram_base=draft.start // size + draft.below(draft.data_bytes // size - words + 1),
        y_size=tiles,
        x_size=words,
    )
    filled = range(insn.sram_base, insn.sram_base + tiles)
    draft.emit(insn, [draft.rows(insn)], [draft.places(Memory.WGT, filled)])


def _pads(draft: Draft, room: int) -> dict[str, int]:
    if draft.chance(0.6) or room < 6:
        return {}
    names = ("y_pad_0", "y_pad_1", "x_pad_0", "x_pad_1")
    return {name: draft.below(3) for name in names}


def store(draft: Draft) -> None:
    first, size = draft.windows.acc
    x, y = draft.between(1, 4), draft.between(1, 3)
    if x * y > size:
        x = y = 1
    sram = first + draft.below(size - x * y + 1)
    tiles = range(sram, sram + x * y)
    if draft.safe and not set(tiles) <= draft.computed:
        draft.touch(tiles)
    stride = draft.between(0, (draft.out_tiles - x) // max(1, y - 1)) if y > 1 else x
    base = draft.out_start // draft.tile[Memory.OUT] + draft.below(
        draft.out_tiles - ((y - 1) * stride + x) + 1
    )
    insn = Store(
        memory_id=Memory.OUT,
        sram_base=sram,
        dram_base=base,
        y_size=y,
        x_size=x,
        x_stride=stride,
    )
    read = [draft.places(Memory.ACC, tiles)]
    if draft.config.has(Capability.STORE_REQUANTIZE) and draft.chance(0.6):
        step = int(draft.chance(0.5))
        count = 3 * (y if step else 1)
        operands = first + draft.below(size - count + 1)
        insn = replace(insn, operands=operands, operand_step=step, requantize=1)
        read.append(draft.places(Memory.ACC, range(operands, operands + count)))
    if draft.config.has(Capability.STORE_INP) and draft.chance(0.6):
        insn, places = _to_inp(draft, insn)
        draft.emit(insn, read, [places])
        return
    if draft.config.has(Capability.STORE_ACC) and draft.chance(0.6):
        insn, read = _whole(draft, insn), read[:1]
    draft.emit(insn, read, [draft.rows(insn)])


def _whole(draft: Draft, insn: Store) -> Store:
    """The same STORE of all bits of its lanes: tiles of four times the bytes, as many rows of
    them as there is room for."""
    room = draft.out_tiles * draft.tile[Memory.OUT] // draft.tile[Memory.ACC]
    x, y = min(insn.x_size, room), min(insn.y_size, max(1, room // insn.x_size))
    stride = draft.between(0, (room - x) // (y - 1)) if y > 1 else insn.x_stride
    first = -(-draft.out_start // draft.tile[Memory.ACC])
    base = first + draft.below(room - ((y - 1) * stride + x) + 1)
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


def _to_inp(draft: Draft, insn: Store) -> tuple[Store, Places]:
    """The same STORE to INP, and the tiles that it writes there; rows may overlap."""
    first, size = draft.windows.inp
    room = max(0, size - insn.x_size) // max(1, insn.y_size - 1)
    stride = draft.between(0, room) if insn.y_size > 1 else insn.x_stride
    extent = (insn.y_size - 1) * stride + insn.x_size
    base = first + draft.below(size - extent + 1)
    rows = base + stride * np.arange(insn.y_size)[:, None] + np.arange(insn.x_size)
    to = replace(insn, memory_id=Memory.INP, dram_base=base, x_stride=stride)
    return to, draft.places(Memory.INP, np.unique(rows).tolist())


def configure(draft: Draft) -> None:
    if not draft.config.has(Capability.CONFIG):
        return
    register = ConfigRegister(draft.below(len(ConfigRegister)))
    stage = Stage(draft.below(2)) if register == ConfigRegister.PAD_VALUE else Stage.COMPUTE
    if register != ConfigRegister.PAD_VALUE and draft.config.has(Capability.STORE_REQUANTIZE):
        stage = Stage.STORE if draft.chance(0.5) else Stage.COMPUTE
    if register == ConfigRegister.RQ_ROUNDING:
        value = draft.below(3)
    elif draft.chance(0.2):
        value = draft.between(-(1 << 31), (1 << 31) - 1)
    else:
        value = draft.between(-128, 127)
    draft.emit(Config(stage=stage, register_id=register, value=value))
