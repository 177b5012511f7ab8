# SPDX-License-Identifier: Apache-2.0
"""A device's energy, area and highest clock, by stated assumptions, each with its source.

In:   the counts of simulated runs, and the device.
Out:  microjoules by part, square millimetres by part, megahertz.
Next: sweep.py adds them to what was counted; a space may replace each constant.

These are not measurements of any chip. They are the published costs of single operations in a
45 nm process at 0.9 V, multiplied by what the simulator counts:

    [H] M. Horowitz, "Computing's energy problem (and what we can do about it)", ISSCC 2014
    [D] W. Dally, "High-performance hardware for machine learning", NIPS 2015: areas beside [H]
    [I] K. Mistry et al., IEDM 2007: the SRAM cell of a 45 nm process, 0.346 square micrometres

At another node (`node_nm`) they are scaled (technology.py). The model includes multipliers, lanes
of the ALU, accesses of scratchpads, bytes of DRAM, and what a wide bus, long queues, a second port
and a fast clock cost: flip-flops and the clock that drives them in every cycle, a copy of ACC, and
gates that are larger the nearer the clock is to its limit. It excludes leakage, the host and the
idle power of the DRAM: energies are therefore good for comparing devices, and a lower bound for a
chip. The energy of a scratchpad access depends on the scratchpad's size ([H]: 10 pJ for 8 bytes of
8 KiB, 20 of 32 KiB, 100 of 1 MiB), with a power law between these.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import astuple, dataclass, fields, replace
from math import sqrt

import numpy as np

from loadstone.errors import ConfigError
from loadstone.files import JsonValue
from loadstone.search.capability_area import (
    moving_bits,
    moving_tables,
    second_inp_bytes,
    unpacking_multipliers,
    window_bits,
    window_tables,
)
from loadstone.search.technology import NODES, area_factor, delay_factor, energy_factor
from loadstone.vta.device.hw_config import HwConfig
from loadstone.vta.isa.spec import INSN_BYTES, Capability, Memory, Stage
from loadstone.vta.simulator.result import Result

__all__ = [
    "CONTROL_BITS",
    "MAC_BITS",
    "MOST_LEVELS",
    "SOURCES",
    "Assumptions",
    "Counts",
    "area_mm2",
    "assumptions_of",
    "clock_limit_mhz",
    "energy_uj",
    "path_limit_mhz",
    "sram_pj_per_byte",
]

_SRAM_BYTES = (8 << 10, 32 << 10, 1 << 20)
_SRAM_PJ_PER_BYTE = (10 / 8, 20 / 8, 100 / 8)
#: Levels of logic of a sum of products of `block` int8, by block: yosys 0.23's `ltp` behind `abc`.
_LEVELS = {4: 73, 8: 73, 16: 81, 32: 79}
#: Flip-flops, by nextpnr: `vtaq-tiny` has 12,694 (16 multipliers, 4 lanes), `vtaq-1x8x8` 19,131 (64
#: and 8), a lane of RQ 912. What is left is a number for the device, and one for each multiplier.
_LANE_BITS, MAC_BITS, CONTROL_BITS = 912, 58, 8118
#: Levels of a device of which nothing is known.
MOST_LEVELS = 81
#: A plain lane has a register of 32 bits on each side.
_PLAIN_LANE_BITS = 96
#: Beats that a channel of the bus, one to read and one to write, buffers.
_BEATS = 2 * 16
_PADS = (Memory.UOP, Memory.INP, Memory.WGT, Memory.ACC, Memory.OUT)


@dataclass(frozen=True)
class Assumptions:
    """The constants; a space's `assumptions` replace them by name."""

    int8_mac_pj: float = 0.3
    bf16_mac_pj: float = 2.0
    alu_lane_pj: float = 0.1
    rq_lane_pj: float = 3.2
    sram_scale: float = 1.0
    dram_pj_per_byte: float = 244.0
    int8_mac_um2: float = 419.0
    bf16_mac_um2: float = 5824.0
    alu_lane_um2: float = 137.0
    rq_lane_um2: float = 3632.0
    sram_um2_per_byte: float = 5.54
    flipflop_um2: float = 4.52
    lut4_um2: float = 3.19
    flipflop_fj: float = 5.0
    gate_ps: float = 25.0
    sram_ps: float = 600.0
    logic_at_limit: float = 0.5
    clock_limit_mhz: float = 0.0
    node_nm: float = 45.0


@dataclass(frozen=True)
class Counts:
    """What energy depends on, of one run or of several. read_*: bytes from DRAM."""

    macs: int = 0
    gemm_steps: int = 0
    alu_steps: int = 0
    read_fetch: int = 0
    read_uop: int = 0
    read_inp: int = 0
    read_wgt: int = 0
    read_acc: int = 0
    write: int = 0

    @classmethod
    def of(cls, result: Result) -> Counts:
        """Of a simulated run."""
        read = result.read_bytes
        return cls(
            macs=result.macs,
            gemm_steps=result.gemm_steps,
            alu_steps=result.alu_steps,
            read_fetch=read["fetch"],
            read_uop=read["uop"],
            read_inp=read["inp"],
            read_wgt=read["wgt"],
            read_acc=read["acc"],
            write=result.write_bytes,
        )

    def __add__(self, other: Counts) -> Counts:
        pairs = zip(astuple(self), astuple(other), strict=True)
        return Counts(*(a + b for a, b in pairs))

    @property
    def read(self) -> int:
        """Bytes from DRAM in all."""
        return self.read_fetch + self.read_uop + self.read_inp + self.read_wgt + self.read_acc


#: Constant -> what it is and where it comes from.
SOURCES: Mapping[str, str] = {
    "int8_mac_pj": "[H] multiplication of 8 bits 0.2, addition of 32 bits 0.1",
    "bf16_mac_pj": "[H] floating-point multiplication of 16 bits 1.1, addition of 32 bits 0.9",
    "alu_lane_pj": "[H] addition of 32 bits, each lane of an ALU instruction's step",
    "rq_lane_pj": "[H] multiplication 3.1 and addition 0.1 of 32 bits; ALU lanes of devices with "
    "RQ or MUL have such a multiplier, taken as used in every step",
    "sram_scale": "factor on the energy of every access of a scratchpad, [H] at 1",
    "dram_pj_per_byte": "[H] 1.3 to 2.6 nJ for 8 bytes, the middle",
    "int8_mac_um2": "[D] multiplier of 8 bits 282, adder of 32 bits 137",
    "bf16_mac_um2": "[D] floating-point multiplier of 16 bits 1640, adder of 32 bits 4184",
    "alu_lane_um2": "[D] adder of 32 bits",
    "rq_lane_um2": "[D] multiplier 3495 and adder 137 of 32 bits",
    "sram_um2_per_byte": "[I] 8 cells, half of the array being cells",
    "flipflop_um2": "DFF_X1 of the NanGate 45 nm Open Cell Library; their number: synthesis for an "
    "ECP5 (docs/hardware.md), and 32 for each bit of the bus",
    "lut4_um2": "assumed: four NAND2_X1 of the NanGate library (0.798) for a table of four inputs; "
    "their number, for each capability: synthesis for an ECP5 (docs/hardware.md)",
    "flipflop_fj": "assumed: what a flip-flop and its part of the clock tree take in a cycle",
    "gate_ps": "assumed: a level of logic with its wires; the levels are yosys's of a sum of "
    "products, 73 to 81 by the block, twice as many for bfloat16",
    "sram_ps": "assumed, after CACTI: access of 32 KiB; with the square root of the size",
    "logic_at_limit": "assumed: by this share logic grows until the clock is at its limit",
    "clock_limit_mhz": "the highest clock; 0: by gate_ps and sram_ps, the longer of both. An ECP5 "
    "reaches 50 (`vtaq-1x8x8`, routed)",
    "node_nm": "Stillmaker and Baas, Integration 58, 2017: constants above are scaled by it, DRAM "
    "is not",
}
#: What scales with the node, and how; a constant that a space gives is its node's own.
_BY_ENERGY = (
    "int8_mac_pj",
    "bf16_mac_pj",
    "alu_lane_pj",
    "rq_lane_pj",
    "sram_scale",
    "flipflop_fj",
)
_BY_AREA = (
    *("int8_mac_um2", "bf16_mac_um2", "alu_lane_um2", "rq_lane_um2", "sram_um2_per_byte"),
    *("flipflop_um2", "lut4_um2"),
)
_BY_DELAY = ("gate_ps", "sram_ps")


def assumptions_of(path: str, given: Mapping[str, JsonValue]) -> Assumptions:
    """The constants with those that a space gives. Raises ConfigError for other names, and for what
    is no number from 0 on."""
    names = [entry.name for entry in fields(Assumptions)]
    for name, value in given.items():
        if name not in names:
            raise ConfigError(f"{path}: assumption {name!r} is not one of {', '.join(names)}")
        number = isinstance(value, int | float) and not isinstance(value, bool)
        if not number or not 0 <= value < 1e12:
            raise ConfigError(f"{path}: assumption {name}={value!r} is no number from 0 on")
    node = given.get("node_nm", 45)
    if node not in NODES:
        known = ", ".join(map(str, NODES))
        raise ConfigError(f"{path}: assumption node_nm={node!r} is not one of {known}")
    own = {name: float(value) for name, value in given.items()}
    return replace(_scaled(int(node)), **own)


def _scaled(nm: int) -> Assumptions:
    """The published constants at a node."""
    base = Assumptions()
    scaled = {
        name: getattr(base, name) * factor(nm)
        for names, factor in (
            (_BY_ENERGY, energy_factor),
            (_BY_AREA, area_factor),
            (_BY_DELAY, delay_factor),
        )
        for name in names
    }
    return replace(base, **scaled, node_nm=float(nm))


def _has_multipliers(config: HwConfig) -> bool:
    return config.has(Capability.REQUANTIZE) or config.has(Capability.ALU_MUL)


def _pad_bytes(config: HwConfig, memory: Memory) -> int:
    return config.depth(memory) * config.tile_bytes(memory)


def sram_pj_per_byte(size: int) -> float:
    """Of an access, by the memory's bytes: on straight lines through the three published sizes,
    both axes logarithmic; the outer lines go on."""
    x, y = np.log(_SRAM_BYTES), np.log(_SRAM_PJ_PER_BYTE)
    k = 0 if size < _SRAM_BYTES[1] else 1
    slope = (y[k + 1] - y[k]) / (x[k + 1] - x[k])
    return float(np.exp(y[k] + slope * (np.log(size) - x[k])))


def clock_limit_mhz(config: HwConfig, a: Assumptions) -> float:
    """The highest clock: a sum of products, and an access of the largest scratchpad, each have a
    cycle."""
    nearest = min(_LEVELS, key=lambda block: abs(block - config.block))
    levels = _LEVELS[nearest] * (2 if config.is_float else 1)
    largest = max(_pad_bytes(config, memory) for memory in _PADS)
    return path_limit_mhz(levels, largest, a)


def path_limit_mhz(levels: int, largest_bytes: int, a: Assumptions) -> float:
    """Of so many levels of logic, and an access of the largest memory; or as the space says."""
    if a.clock_limit_mhz:
        return a.clock_limit_mhz
    return float(1e6 / max(levels * a.gate_ps, a.sram_ps * sqrt(largest_bytes / _SRAM_BYTES[1])))


def _logic_factor(config: HwConfig, a: Assumptions) -> float:
    """By which gates are larger than at a slow clock."""
    return 1 + a.logic_at_limit * min(1.0, config.clock_mhz / clock_limit_mhz(config, a))


def _flipflops(config: HwConfig) -> int:
    """Bits of registers: control, lanes, multipliers, buffers of the bus, LOADs and STOREs."""
    lane = _LANE_BITS if _has_multipliers(config) else _PLAIN_LANE_BITS
    mac = MAC_BITS + window_bits(config)
    own = CONTROL_BITS + round(mac * config.macs_per_cycle) + lane * _lanes(config)
    return own + _BEATS * config.bus_bits + round(moving_bits(config))


def _lanes(config: HwConfig) -> int:
    """Of compute, and as many of the store stage where it requantizes."""
    sets = 2 if config.has(Capability.STORE_REQUANTIZE) else 1
    return sets * config.batch * config.block


def _out_tile_bytes(config: HwConfig) -> int:
    """Of OUT, a copy of what is stored: of whole accumulators where the store requantizes, or
    stores them so."""
    whole = config.has(Capability.STORE_REQUANTIZE) or config.has(Capability.STORE_ACC)
    return config.tile_bytes(Memory.ACC if whole else Memory.OUT)


def _queue_bytes(config: HwConfig) -> int:
    """Of the instructions that wait: in three queues, and in the fetch stage."""
    names = {"stage_queue_entries": len(Stage), "fetch_batch_instructions": 1}
    known = ((config.timing.get(name), count) for name, count in names.items())
    return INSN_BYTES * sum(count * entry.value for entry, count in known if entry is not None)


def _acc_copies(config: HwConfig) -> int:
    """A step of the ALU with two tiles in one cycle reads ACC through two ports: two copies."""
    step = config.timing.get("alu_tensor_step_cycles")
    return 2 if step is not None and step.value == 1 else 1


def energy_uj(n: Counts, config: HwConfig, a: Assumptions, cycles: int) -> dict[str, float]:
    """Microjoules of what was counted, by part: multipliers, alu, scratchpads, dram, clock.

    A step of GEMM reads a tile of INP, of both memories where stores have a second one, and a tile
    of WGT, reads and writes one of ACC, and reads a micro-op; a step of the ALU reads two tiles of
    ACC and writes one. What is loaded or stored passes through its scratchpad once more. Where a
    store may requantize, all it stores is taken as requantized on the way.
    """
    tile = {memory: config.tile_bytes(memory) for memory in _PADS}
    moved = {
        Memory.UOP: (n.gemm_steps + n.alu_steps) * tile[Memory.UOP] + n.read_uop,
        Memory.INP: (2 if second_inp_bytes(config) else 1) * n.gemm_steps * tile[Memory.INP]
        + n.read_inp,
        Memory.WGT: n.gemm_steps * tile[Memory.WGT] + n.read_wgt,
        Memory.ACC: (2 * n.gemm_steps + 3 * n.alu_steps) * tile[Memory.ACC] + n.read_acc,
        Memory.OUT: 2 * n.write * _out_tile_bytes(config) // tile[Memory.OUT],
    }
    lanes = n.alu_steps * config.batch * config.block
    lanes += n.write if config.has(Capability.STORE_REQUANTIZE) else 0
    mac_pj = a.bf16_mac_pj if config.is_float else a.int8_mac_pj
    lane_pj = a.rq_lane_pj if _has_multipliers(config) else a.alu_lane_pj
    logic = _logic_factor(config, a)
    copies = _acc_copies(config)  # what is written, is written into each
    moved[Memory.ACC] += (copies - 1) * (n.gemm_steps + n.alu_steps) * tile[Memory.ACC]
    sram_pj = sum(
        count * sram_pj_per_byte(_pad_bytes(config, memory)) for memory, count in moved.items()
    )
    return {
        "multipliers": n.macs * mac_pj * logic / 1e6,
        "alu": lanes * lane_pj * logic / 1e6,
        "scratchpads": sram_pj * a.sram_scale / 1e6,
        "dram": (n.read + n.write) * a.dram_pj_per_byte / 1e6,
        "clock": cycles * _flipflops(config) * a.flipflop_fj * logic / 1e9,
    }


def area_mm2(config: HwConfig, a: Assumptions) -> dict[str, float]:
    """Square millimetres by part: multipliers, alu, scratchpads, registers, queues."""
    mac = a.bf16_mac_um2 if config.is_float else a.int8_mac_um2
    lane = a.rq_lane_um2 if _has_multipliers(config) else a.alu_lane_um2
    pads = sum(_pad_bytes(config, memory) for memory in _PADS)
    pads += (_acc_copies(config) - 1) * _pad_bytes(config, Memory.ACC)
    pads += second_inp_bytes(config)
    pads += (_out_tile_bytes(config) - config.tile_bytes(Memory.OUT)) * config.depth(Memory.OUT)
    mac += window_tables(config) * a.lut4_um2
    moving = moving_tables(config) * a.lut4_um2 + unpacking_multipliers(config) * a.int8_mac_um2
    logic = _logic_factor(config, a)
    return {
        "multipliers": config.macs_per_cycle * mac * logic / 1e6,
        "alu": _lanes(config) * lane * logic / 1e6,
        "scratchpads": pads * a.sram_um2_per_byte / 1e6,
        "registers": _flipflops(config) * a.flipflop_um2 * logic / 1e6,
        "queues": (_queue_bytes(config) * a.sram_um2_per_byte + moving * logic) / 1e6,
    }
