# SPDX-License-Identifier: Apache-2.0
"""What a device can be: sizes that instructions can name, and properties that go together.

In:   a HwConfig.
Out:  nothing, or a ConfigError that names the property, its value and the limit.
Next: hw_config.py asks for every HwConfig that is made.
"""

from __future__ import annotations

from collections.abc import Collection
from typing import TYPE_CHECKING

from loadstone.errors import ConfigError, shortened
from loadstone.printable import PLAIN_NAME, is_plain_name, one_line
from loadstone.vta.device.device_file import FLOAT_WIDTH
from loadstone.vta.isa.spec import Capability

if TYPE_CHECKING:
    from loadstone.vta.device.hw_config import HwConfig

__all__ = ["check_limits"]

#: Instruction profiles, and log2 of the bits of their elements.
_PROFILES = {"vta": 3, "vtaq": 3, "vtab": FLOAT_WIDTH}


def check_limits(c: HwConfig, registers: Collection[str]) -> None:
    """Refuses what cannot be encoded or built, by name and limit. Raises ConfigError.

    registers: the pages that there are."""

    def limit(name: str, value: int, low: int, high: int, why: str) -> None:
        if not low <= value <= high:
            raise ConfigError(f"device {c.name}: {name}={value} is outside [{low}, {high}]: {why}")

    if not is_plain_name(c.name):
        raise ConfigError(
            f"device {shortened(one_line(c.name), 80)!r}: a name is {PLAIN_NAME}: give it one with "
            'the key "name"'
        )
    limit("LOG_INP_WIDTH", c.log_width, 3, FLOAT_WIDTH, "3 is int8, 4 is bfloat16")
    limit("LOG_BATCH", c.log_batch, 0, 6, "a tile has 1 to 64 rows")
    limit("LOG_BLOCK", c.log_block, 1, 7, "a block has 2 to 128 lanes")
    limit(
        "lu=LOG_UOP_BUFF_SIZE-2",
        c.lu,
        1,
        13,
        "uop_bgn, uop_end and the loop counts share one 64-bit word of GEMM and ALU",
    )
    limit(
        "li=LOG_INP_BUFF_SIZE-LOG_BATCH-LOG_BLOCK",
        c.li,
        1,
        15,
        "a scratchpad has at most 32768 tiles",
    )
    limit("lw=LOG_WGT_BUFF_SIZE-2*LOG_BLOCK", c.lw, 1, 15, "a scratchpad has at most 32768 tiles")
    limit(
        "la=LOG_ACC_BUFF_SIZE-LOG_BATCH-LOG_BLOCK-2",
        c.la,
        1,
        11,
        "ALU's factors, operation and immediate share one 64-bit word",
    )
    limit(
        "la+li+lw",
        c.la + c.li + c.lw,
        3,
        32,
        "GEMM's factors share one 64-bit word; make a scratchpad smaller",
    )
    limit(
        "la+max(la,li)+lw",
        c.la + max(c.la, c.li) + c.lw,
        3,
        32,
        "a micro-op has 32 bits; make a scratchpad smaller",
    )
    limit("uop_depth", c.uop_depth, 1, 1 << c.lu, "micro-op indices have lu bits")
    limit("clock_mhz", c.clock_mhz, 1, 10_000, "a clock in MHz")
    limit("register_base", c.register_base, 0, (1 << 64) - 1, "an address of 64 bits")
    limit(
        "products_per_multiplier",
        c.products_per_multiplier,
        1,
        2,
        "a multiplier of 25 x 18 bits holds two products of int8",
    )
    limit("bus_offset", c.bus_offset, 0, (1 << 64) - 1, "an address of 64 bits")
    if c.bus_bits not in (32, 64, 128, 256, 512):
        raise ConfigError(
            f"device {c.name}: bus_bits={c.bus_bits} is not one of 32, 64, 128, 256, 512"
        )
    if c.profile not in _PROFILES:
        raise ConfigError(
            f"device {c.name}: profile={c.profile!r} is not one of {', '.join(_PROFILES)}"
        )
    if _PROFILES[c.profile] != c.log_width:
        raise ConfigError(
            f"device {c.name}: profile {c.profile} has LOG_INP_WIDTH={_PROFILES[c.profile]}, not "
            f"{c.log_width}: vta and vtaq compute on int8, vtab on bfloat16"
        )
    if c.is_float and c.has(Capability.REQUANTIZE):
        raise ConfigError(
            f"device {c.name}: capability requantize is of integers, and the device computes on "
            "bfloat16: leave it out"
        )
    if c.registers not in registers:
        raise ConfigError(
            f"device {c.name}: registers={c.registers!r} is not one of {', '.join(registers)}"
        )
    if c.has(Capability.REQUANTIZE) and not c.has(Capability.CONFIG):
        raise ConfigError(
            f"device {c.name}: capability requantize needs capability config, whose "
            "registers it reads"
        )
