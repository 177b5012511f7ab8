# SPDX-License-Identifier: Apache-2.0
"""A device's energy and area, by stated assumptions, each with its source.

In:   the counts of simulated runs, and the device.
Out:  microjoules by part, square millimetres by part.
Next: sweep.py adds them to what was counted; a space may replace each constant.

These are not measurements of any chip. They are the published costs of single operations in a
45 nm process at 0.9 V, multiplied by what the simulator counts:

    [H] M. Horowitz, "Computing's energy problem (and what we can do about it)", ISSCC 2014
    [D] W. Dally, "High-performance hardware for machine learning", NIPS 2015: areas beside [H]
    [I] K. Mistry et al., IEDM 2007: the SRAM cell of a 45 nm process, 0.346 square micrometres

The model includes multipliers, lanes of the ALU, accesses of scratchpads, and bytes of DRAM. It
excludes control, clock tree, leakage, the host and the idle power of the DRAM: energies are
therefore good for comparing devices, and a lower bound for a chip. The energy of a scratchpad
access depends on the scratchpad's size ([H]: 10 pJ for 8 bytes of 8 KiB, 20 of 32 KiB, 100 of 1
MiB), with a power law between these.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import astuple, dataclass, fields, replace

import numpy as np

from loadstone.errors import ConfigError
from loadstone.files import JsonValue
from loadstone.vta.device.hw_config import HwConfig
from loadstone.vta.isa.spec import Capability, Memory
from loadstone.vta.simulator.result import Result

__all__ = ["SOURCES", "Assumptions", "Counts", "area_mm2", "assumptions_of", "energy_uj"]

_SRAM_BYTES = (8 << 10, 32 << 10, 1 << 20)
_SRAM_PJ_PER_BYTE = (10 / 8, 20 / 8, 100 / 8)
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
}


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
    return replace(Assumptions(), **{name: float(value) for name, value in given.items()})


def _has_multipliers(config: HwConfig) -> bool:
    return config.has(Capability.REQUANTIZE) or config.has(Capability.ALU_MUL)


def _pad_bytes(config: HwConfig, memory: Memory) -> int:
    return config.depth(memory) * config.tile_bytes(memory)


def _sram_pj_per_byte(size: int) -> float:
    """On straight lines through the three published sizes, both axes logarithmic; the outer lines
    go on."""
    x, y = np.log(_SRAM_BYTES), np.log(_SRAM_PJ_PER_BYTE)
    k = 0 if size < _SRAM_BYTES[1] else 1
    slope = (y[k + 1] - y[k]) / (x[k + 1] - x[k])
    return float(np.exp(y[k] + slope * (np.log(size) - x[k])))


def energy_uj(n: Counts, config: HwConfig, a: Assumptions) -> dict[str, float]:
    """Microjoules of what was counted, by part: multipliers, alu, scratchpads, dram.

    A step of GEMM reads a tile of INP and of WGT, reads and writes one of ACC, and reads a
    micro-op; a step of the ALU reads two tiles of ACC and writes one. What is loaded or stored
    passes through its scratchpad once more.
    """
    tile = {memory: config.tile_bytes(memory) for memory in _PADS}
    moved = {
        Memory.UOP: (n.gemm_steps + n.alu_steps) * tile[Memory.UOP] + n.read_uop,
        Memory.INP: n.gemm_steps * tile[Memory.INP] + n.read_inp,
        Memory.WGT: n.gemm_steps * tile[Memory.WGT] + n.read_wgt,
        Memory.ACC: (2 * n.gemm_steps + 3 * n.alu_steps) * tile[Memory.ACC] + n.read_acc,
        Memory.OUT: 2 * n.write,
    }
    lanes = n.alu_steps * config.batch * config.block
    mac_pj = a.bf16_mac_pj if config.is_float else a.int8_mac_pj
    lane_pj = a.rq_lane_pj if _has_multipliers(config) else a.alu_lane_pj
    sram_pj = sum(
        count * _sram_pj_per_byte(_pad_bytes(config, memory)) for memory, count in moved.items()
    )
    return {
        "multipliers": n.macs * mac_pj / 1e6,
        "alu": lanes * lane_pj / 1e6,
        "scratchpads": sram_pj * a.sram_scale / 1e6,
        "dram": (n.read + n.write) * a.dram_pj_per_byte / 1e6,
    }


def area_mm2(config: HwConfig, a: Assumptions) -> dict[str, float]:
    """Square millimetres by part: multipliers, alu, scratchpads."""
    mac = a.bf16_mac_um2 if config.is_float else a.int8_mac_um2
    lane = a.rq_lane_um2 if _has_multipliers(config) else a.alu_lane_um2
    pads = sum(_pad_bytes(config, memory) for memory in _PADS)
    return {
        "multipliers": config.macs_per_cycle * mac / 1e6,
        "alu": config.batch * config.block * lane / 1e6,
        "scratchpads": pads * a.sram_um2_per_byte / 1e6,
    }
