# SPDX-License-Identifier: Apache-2.0
"""Programs that store nothing after a layer.

In:   a device program of an artifact.
Out:  its layers with their last stores; the program with later stores turned into no-ops.
Next: analysis/taps.py runs such programs through the C runtime, on any device.

A program cannot end in its middle: its tokens must balance, and FINISH waits for all of them. But
the results of a layer leave the device only by its stores. Without later stores, the output of a
layer in memory is not changed, whatever the device computes afterwards. The tokens are kept, so
that the order of instructions does not change. runtime/layers.c does the same on a board.
"""

from __future__ import annotations

from dataclasses import replace

from loadstone.artifact.format import ProgramStep
from loadstone.backend.device import INSN_BYTES
from loadstone.simulator.interface import LayerStores
from loadstone.vta.device.hw_config import HwConfig
from loadstone.vta.isa.codec import decode_stream
from loadstone.vta.isa.insn import Store
from loadstone.vta.isa.spec import Memory

__all__ = ["layer_stores", "without_stores"]

#: Opcode and tokens; a no-op has nothing else.
_KEPT_BITS = 0x7F


def layer_stores(program: ProgramStep, config: HwConfig) -> list[LayerStores]:
    """In the order of their last stores."""
    tile = config.tile_bytes(Memory.OUT)
    layer_of = [""] * len(program)
    for layer in program.layers:
        layer_of[layer.first : layer.first + layer.count] = [layer.name] * layer.count
    found: dict[str, LayerStores] = {}
    for number, insn in enumerate(decode_stream(program.instructions, config)):
        if not isinstance(insn, Store) or insn.is_noop or insn.to_inp:
            continue
        name = layer_of[number]
        start = insn.dram_base * tile
        end = (insn.dram_base + (insn.y_size - 1) * insn.x_stride + insn.x_size) * tile
        old = found.pop(name, LayerStores(name, 0, insn.region, start, end))
        found[name] = LayerStores(
            name, number, insn.region, min(start, old.start_bytes), max(end, old.end_bytes)
        )
    return list(found.values())


def without_stores(program: ProgramStep, behind: int, config: HwConfig) -> ProgramStep:
    """The program in which every STORE to DRAM behind instruction `behind` moves nothing."""
    data = bytearray(program.instructions)
    for number, insn in enumerate(decode_stream(program.instructions, config)):
        if number > behind and isinstance(insn, Store) and not insn.to_inp:
            at = number * INSN_BYTES
            data[at : at + INSN_BYTES] = bytes([data[at] & _KEPT_BITS]) + bytes(INSN_BYTES - 1)
    return replace(program, instructions=bytes(data))
