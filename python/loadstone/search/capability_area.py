# SPDX-License-Identifier: Apache-2.0
"""What a device's capabilities take, as synthesis for an ECP5 counts it (docs/hardware.md).

In:   a device.
Out:  tables of four inputs, flip-flops, multipliers and bytes of memories, beside those of a device
      without them.
Next: assumptions.py prices them.

A cell of a carry chain counts as two tables. Counts are scaled by what they grow with: multipliers,
lanes, tiles, bits of the bus, LOADs in flight.
"""

from __future__ import annotations

from loadstone.vta.device.hw_config import HwConfig
from loadstone.vta.isa.spec import Capability, Memory

__all__ = [
    "moving_bits",
    "moving_tables",
    "second_inp_bytes",
    "unpacking_multipliers",
    "window_bits",
    "window_tables",
]

#: Beside `vtaq-1x8x8`: windows for each of its 64 multipliers, each of three further LOADs in
#: flight, stores of whole accumulators for each of its 8 lanes.
_WINDOW_TABLES, _WINDOW_BITS = (1266 + 2 * 228) / 64, 698 / 64
_AHEAD_TABLES, _AHEAD_BITS = (1625 + 2 * 357) / 3, 502
_WHOLE_TABLES, _WHOLE_BITS = (425 + 2 * 16) / 8, 48 / 8
#: Stores to INP, for each of 2048 tiles: what tells which memory has it. Two bits do, in memories
#: of which each of two readers has a copy.
_STORED_TABLES, _STORED_BITS = 1092 / 2048, 4
#: In blocks of 16, for each of 64 bits of the bus: each of four receivers writes two words at once,
#: where weights of 4 bits or bit planes become these; what unpacks the former, with 18 multipliers
#: of which two are one of 8 by 8; what decodes the latter, and what each receiver counts of it.
_WIDE_TABLES, _WIDE_BITS = 678 / 4 / 64, 869 / 4 / 64
_PACKED_TABLES, _PACKED_BITS, _PACKED_MULTIPLIERS = (1575 + 2 * 173) / 64, 331 / 64, 18 / 2 / 64
_PLANE_TABLES, _PLANE_BITS = (769 + 2 * 8) / 64, 250 / 64
_ROW_TABLES = (633 + 2 * 96) / 4 / 64


def _loads_ahead(config: HwConfig) -> int:
    """LOADs that may be on their way beside the oldest."""
    known = config.timing.get("loads_in_flight")
    return 0 if known is None else max(1, known.value) - 1


def window_tables(config: HwConfig) -> float:
    """Of a multiplier: windows choose what it takes."""
    return _WINDOW_TABLES * config.has(Capability.DEPTHWISE)


def window_bits(config: HwConfig) -> float:
    """Flip-flops of a multiplier, for windows."""
    return _WINDOW_BITS * config.has(Capability.DEPTHWISE)


def _wide_bus(config: HwConfig) -> int:
    """Bits of the bus, for each receiver of LOADs that writes two words at once."""
    wide = config.has(Capability.WEIGHTS4) or config.has(Capability.WEIGHT_CODE)
    return (1 + _loads_ahead(config)) * config.bus_bits * wide


def moving_tables(config: HwConfig) -> float:
    """Of LOADs and STOREs: receivers of LOADs ahead, unpacking of weights, stores to INP and of
    whole accumulators."""
    planes = _PLANE_TABLES * config.bus_bits + _ROW_TABLES * _wide_bus(config)
    return (
        _AHEAD_TABLES * _loads_ahead(config)
        + _WIDE_TABLES * _wide_bus(config)
        + _PACKED_TABLES * config.bus_bits * config.has(Capability.WEIGHTS4)
        + planes * config.has(Capability.WEIGHT_CODE)
        + _WHOLE_TABLES * config.batch * config.block * config.has(Capability.STORE_ACC)
        + _STORED_TABLES * config.depth(Memory.INP) * config.has(Capability.STORE_INP)
    )


def moving_bits(config: HwConfig) -> float:
    """Flip-flops of LOADs and STOREs, as moving_tables."""
    return (
        _AHEAD_BITS * _loads_ahead(config)
        + _WIDE_BITS * _wide_bus(config)
        + _PACKED_BITS * config.bus_bits * config.has(Capability.WEIGHTS4)
        + _PLANE_BITS * config.bus_bits * config.has(Capability.WEIGHT_CODE)
        + _WHOLE_BITS * config.batch * config.block * config.has(Capability.STORE_ACC)
    )


def unpacking_multipliers(config: HwConfig) -> float:
    """Multipliers of 8 bits that weights of 4 bits take on their way to WGT."""
    return _PACKED_MULTIPLIERS * config.bus_bits * config.has(Capability.WEIGHTS4)


def second_inp_bytes(config: HwConfig) -> int:
    """Of INP's second memory, which stores to INP write, and of the bits that choose."""
    if not config.has(Capability.STORE_INP):
        return 0
    tiles = config.depth(Memory.INP)
    return tiles * config.tile_bytes(Memory.INP) + tiles * _STORED_BITS // 8
