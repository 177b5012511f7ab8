# SPDX-License-Identifier: Apache-2.0
"""The contents of the arena in DRAM and of the scratchpads, over the cycles of a program.

In:   a Profile, its device, and the artifact whose memory it uses.
Out:  rectangles: tiles or bytes from `first` to `end`, cycles from `begin` to `last`, of a layer.
Next: analysis/page_data.py draws them; analysis/report.py counts the bytes that are alive.

A rectangle begins with the instruction that writes it and ends with the last one that reads it
before it is overwritten. The accesses of an instruction are decoded from its fields and micro-ops,
in program order, which the tokens preserve on the device.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np
from numpy.typing import NDArray

from loadstone.artifact.format import Artifact, HostStep
from loadstone.artifact.memory_layout import RegionIndex
from loadstone.simulator.interface import Lived
from loadstone.vta.device.hw_config import HwConfig
from loadstone.vta.isa.codec import decode_stream, decode_uops
from loadstone.vta.isa.insn import Alu, Depthwise, Gemm, Insn, Load, Store
from loadstone.vta.isa.spec import SCRATCHPAD_OF, UOP_BYTES, AluOp, Memory, Stage
from loadstone.vta.simulator.profile import Profile
from loadstone.vta.simulator.result import Event

__all__ = ["arena_occupation", "scratchpad_occupation"]

_Numbers = NDArray[np.int64]
#: The arena is looked at in pieces of so many bytes.
_GRAIN_BYTES = 16
_RQ_OPERANDS = 3


class _Memory:
    """One memory: what wrote each of its places last. by_layer: all that a layer writes is one
    piece; else what it writes into places that it does not hold yet begins another."""

    def __init__(self, name: str, size: int, *, by_layer: bool = False) -> None:
        self.name = name
        self.by_layer = by_layer
        self.pieces: dict[str, int] = {}  # of a layer, its latest
        self.owner = np.full(size, -1, np.int64)
        self.lived: list[Lived] = []

    def write(self, places: _Numbers, layer: str, event: Event) -> None:
        """Joins a piece of the layer's own that is there already."""
        if not places.size:
            return
        first, end = int(places.min()), int(places.max()) + 1
        number = self.pieces.get(layer, -1)
        if number >= 0 and (self.by_layer or (self.owner[places] == number).all()):
            piece = self.lived[number]
            piece.first, piece.end = min(piece.first, first), max(piece.end, end)
            piece.last = max(piece.last, event.end)
        else:
            number = len(self.lived)
            self.lived.append(Lived(self.name, layer, first, end, event.start, event.end))
        self.pieces[layer] = number
        self.owner[places] = number

    def read(self, places: _Numbers, event: Event) -> None:
        """Keeps alive what stands there."""
        for owner in np.unique(self.owner[places]) if places.size else ():
            if owner >= 0:
                self.lived[owner].last = max(self.lived[owner].last, event.end)


def _in_order(entry: Profile, config: HwConfig) -> Iterator[tuple[Event, Insn, str]]:
    insns = list(decode_stream(entry.program.instructions, config))
    for event in sorted(entry.events, key=lambda e: e.insn):
        yield event, insns[event.insn], entry.layer_of[event.insn]


# --- the arena ------------------------------------------------------------------------------------
def arena_occupation(entry: Profile, config: HwConfig, artifact: Artifact) -> list[Lived]:
    """Bytes of the arena. What the host put there before, or other programs, is alive from cycle 0
    on, under the name of its tensor, as far as this program reads it."""
    size = artifact.regions[RegionIndex.ARENA].size_bytes
    arena = _Memory("arena", -(-size // _GRAIN_BYTES), by_layer=True)
    before = Event(0, Stage.LOAD, 0, 0, 0, 0, None, None, 0)
    made_before = _made_before(entry, artifact)
    for view in artifact.tensors:
        name = view.name.removesuffix(" on device")
        if view.region == RegionIndex.ARENA and {name, view.name} & made_before:
            first, end = view.offset_bytes, view.offset_bytes + view.size_bytes
            arena.write(np.arange(first // _GRAIN_BYTES, -(-end // _GRAIN_BYTES)), name, before)
    for event, insn, layer in _in_order(entry, config):
        if isinstance(insn, Load | Store) and insn.region == RegionIndex.ARENA and insn.x_size:
            places = _dram_places(insn, config)
            if isinstance(insn, Store):
                arena.write(places[places < len(arena.owner)], layer, event)
            else:
                arena.read(places[places < len(arena.owner)], event)
    return [
        Lived(p.memory, p.layer, p.first * _GRAIN_BYTES, p.end * _GRAIN_BYTES, p.begin, p.last)
        for p in arena.lived
        if p.last > 0
    ]


def _made_before(entry: Profile, artifact: Artifact) -> set[str]:
    """Tensors of earlier steps of the host, layers of earlier programs."""
    names: set[str] = set()
    for step in artifact.steps:
        if step is entry.program:
            break
        if isinstance(step, HostStep):
            names.update(artifact.tensors[index].name for index in step.outputs)
        else:
            names.update(layer.name for layer in step.layers)
    return names


def _dram_places(insn: Load | Store, config: HwConfig) -> _Numbers:
    memory = Memory(insn.memory_id)
    tile, first = config.tile_bytes(memory), insn.dram_base * config.base_bytes(memory)
    rows = first + np.arange(insn.dram_rows, dtype=np.int64) * insn.x_stride * tile
    tiles = (rows[:, None] + np.arange(insn.x_size) * tile).ravel()
    begin, last = tiles // _GRAIN_BYTES, (tiles + tile - 1) // _GRAIN_BYTES
    grains = begin[:, None] + np.arange(int((last - begin).max(initial=0)) + 1)
    return np.unique(grains[grains <= last[:, None]])


# --- scratchpads ----------------------------------------------------------------------------------
def scratchpad_occupation(entry: Profile, config: HwConfig, artifact: Artifact) -> list[Lived]:
    """Tiles of INP, WGT and ACC, and micro-ops."""
    pads: dict[Memory, _Memory] = {
        memory: _Memory(memory.name.lower(), config.depth(memory))
        for memory in Memory
        if SCRATCHPAD_OF[memory] is memory  # no other view of one
    }
    uops = np.zeros((config.depth(Memory.UOP), 3), np.int64)
    for event, insn, layer in _in_order(entry, config):
        if isinstance(insn, Load) and insn.x_size:
            memory = SCRATCHPAD_OF[Memory(insn.memory_id)]
            places = _loaded_places(insn, config)
            if memory is Memory.UOP:
                table = artifact.regions[insn.region].data[insn.dram_base * UOP_BYTES :]
                uops[places] = decode_uops(table[: len(places) * UOP_BYTES], config)
            pads[memory].write(places, layer, event)
        elif isinstance(insn, Store) and insn.x_size:
            pads[Memory.ACC].read(_stored_places(insn), event)
            pads[Memory.INP].write(_places_in_inp(insn), layer, event)
        elif isinstance(insn, Gemm | Depthwise | Alu) and insn.steps:
            pads[Memory.UOP].read(np.arange(insn.uop_bgn, insn.uop_end), event)
            for memory, places, written in _computed_places(insn, uops):
                if written:
                    pads[memory].write(places, layer, event)
                else:
                    pads[memory].read(places, event)
    return [piece for pad in pads.values() for piece in pad.lived]


def _loaded_places(insn: Load, config: HwConfig) -> _Numbers:
    count = insn.places(config.filled_tiles(Memory(insn.memory_id)))
    return np.arange(insn.sram_base, insn.sram_base + count)


def _stored_places(insn: Store) -> _Numbers:
    """Those of the operands, too."""
    stored = np.arange(insn.sram_base, insn.sram_base + insn.x_size * insn.y_size)
    rows = insn.y_size if insn.operand_step else 1
    operands = np.arange(insn.operands, insn.operands + _RQ_OPERANDS * rows * insn.requantize)
    return np.union1d(stored, operands)


def _places_in_inp(insn: Store) -> _Numbers:
    """None of a STORE to DRAM."""
    rows = insn.dram_base + np.arange(insn.y_size)[:, None] * insn.x_stride
    return np.unique(rows + np.arange(insn.x_size * insn.to_inp))


def _computed_places(
    insn: Gemm | Depthwise | Alu, uops: NDArray[np.int64]
) -> Sequence[tuple[Memory, _Numbers, bool]]:
    """Scratchpad, tiles, and whether they are written. uops: (micro-ops, 3) of dst, src, wgt."""
    used = uops[insn.uop_bgn : insn.uop_end]

    def tiles(column: int, out: int, inner: int) -> _Numbers:
        turns = np.arange(insn.iter_out)[:, None] * out + np.arange(insn.iter_in) * inner
        return np.unique(turns.reshape(-1, 1) + used[:, column])

    dst = tiles(0, insn.dst_out, insn.dst_in)
    if isinstance(insn, Gemm):
        if insn.reset:
            return [(Memory.ACC, dst, True)]
        return [
            (Memory.INP, tiles(1, insn.src_out, insn.src_in), False),
            (Memory.WGT, tiles(2, insn.wgt_out, insn.wgt_in), False),
            (Memory.ACC, dst, True),
        ]
    if isinstance(insn, Depthwise):
        rows, columns = np.arange(insn.rows)[:, None] * insn.row_stride, np.arange(insn.columns)
        first = tiles(1, insn.src_out, insn.src_in)
        return [
            (Memory.INP, np.unique(first[:, None] + (rows + columns).reshape(-1)), False),
            (Memory.WGT, tiles(2, insn.wgt_out, 0), False),
            (Memory.ACC, dst, True),
        ]
    if insn.use_imm:
        return [(Memory.ACC, dst, True)]
    src = tiles(1, insn.src_out, insn.src_in)
    if insn.alu_op == AluOp.RQ:
        src = np.unique(src[:, None] + np.arange(_RQ_OPERANDS))
    return [(Memory.ACC, src, False), (Memory.ACC, dst, True)]
