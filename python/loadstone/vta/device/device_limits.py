# SPDX-License-Identifier: Apache-2.0
"""The limits of devices: sizes that instructions can encode, and properties that exclude each
other.

In:   a device's name, its numbers, its profile, its capabilities.
Out:  nothing, or a ConfigError that names the property, its value and the limit.
Next: hw_config.py checks every new HwConfig.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import NamedTuple

from loadstone.errors import ConfigError, shortened
from loadstone.printable import PLAIN_NAME, is_plain_name, one_line
from loadstone.vta.device.device_file import FLOAT_WIDTH
from loadstone.vta.isa.spec import WINDOW_PITCH, Capability
from loadstone.vta.isa.values import GROUP_WEIGHTS, PLANE_WEIGHTS, PLANE_WORD_BYTES

__all__ = [
    "DeviceNumbers",
    "check_capabilities",
    "check_name",
    "check_numbers",
    "check_profile",
    "check_registers",
]

#: Instruction profiles, and log2 of the bits of their elements.
_PROFILES = {"vta": 3, "vtaq": 3, "vtab": FLOAT_WIDTH}
_BUSES = (32, 64, 128, 256, 512)


class DeviceNumbers(NamedTuple):
    """What is a number of a device.

    log_width: log2 of an element's bits. log_batch, log_block: log2 of a tile's rows and columns.
    lu, li, lw, la: log2 of the micro-ops, and of the tiles of INP, WGT and ACC, that instructions
    can name. uop_depth: micro-ops that there are. bus_bits: width of the DRAM bus.
    """

    log_width: int
    log_batch: int
    log_block: int
    lu: int
    li: int
    lw: int
    la: int
    uop_depth: int
    clock_mhz: int
    bus_bits: int
    register_base: int
    bus_offset: int
    products_per_multiplier: int


def check_name(name: str) -> None:
    """Refuses a name that no file and no report could carry. Raises ConfigError."""
    if not is_plain_name(name):
        raise ConfigError(
            f"device {shortened(one_line(name), 80)!r}: a name is {PLAIN_NAME}: give it one with "
            'the key "name"'
        )


def check_numbers(device: str, n: DeviceNumbers) -> None:
    """Refuses what cannot be encoded or built, by name and limit. Raises ConfigError."""
    for name, value, low, high, why in (
        ("LOG_INP_WIDTH", n.log_width, 3, FLOAT_WIDTH, "3 is int8, 4 is bfloat16"),
        ("LOG_BATCH", n.log_batch, 0, 6, "a tile has 1 to 64 rows"),
        ("LOG_BLOCK", n.log_block, 1, 7, "a block has 2 to 128 lanes"),
        (
            "lu=LOG_UOP_BUFF_SIZE-2",
            n.lu,
            1,
            13,
            "uop_bgn, uop_end and the loop counts share one 64-bit word of GEMM and ALU",
        ),
        (
            "li=LOG_INP_BUFF_SIZE-LOG_BATCH-LOG_BLOCK",
            n.li,
            1,
            15,
            "a scratchpad has at most 32768 tiles",
        ),
        ("lw=LOG_WGT_BUFF_SIZE-2*LOG_BLOCK", n.lw, 1, 15, "a scratchpad has at most 32768 tiles"),
        (
            "la=LOG_ACC_BUFF_SIZE-LOG_BATCH-LOG_BLOCK-2",
            n.la,
            1,
            11,
            "ALU's factors, operation and immediate share one 64-bit word",
        ),
        (
            "la+li+lw",
            n.la + n.li + n.lw,
            3,
            32,
            "GEMM's factors share one 64-bit word; make a scratchpad smaller",
        ),
        (
            "la+max(la,li)+lw",
            n.la + max(n.la, n.li) + n.lw,
            3,
            32,
            "a micro-op has 32 bits; make a scratchpad smaller",
        ),
        ("uop_depth", n.uop_depth, 1, 1 << min(max(n.lu, 0), 13), "micro-op indices have lu bits"),
        ("clock_mhz", n.clock_mhz, 1, 10_000, "a clock in MHz"),
        ("register_base", n.register_base, 0, (1 << 64) - 1, "an address of 64 bits"),
        (
            "products_per_multiplier",
            n.products_per_multiplier,
            1,
            2,
            "a multiplier of 25 x 18 bits holds two products of int8",
        ),
        ("bus_offset", n.bus_offset, 0, (1 << 64) - 1, "an address of 64 bits"),
    ):
        if not low <= value <= high:
            raise ConfigError(f"device {device}: {name}={value} is outside [{low}, {high}]: {why}")
    if n.bus_bits not in _BUSES:
        raise ConfigError(
            f"device {device}: bus_bits={n.bus_bits} is not one of {', '.join(map(str, _BUSES))}"
        )


def check_profile(device: str, profile: str, log_width: int, capabilities: Capability) -> None:
    """Refuses properties that do not go together. log_width: log2 of an element's bits. Raises
    ConfigError."""
    if profile not in _PROFILES:
        raise ConfigError(
            f"device {device}: profile={profile!r} is not one of {', '.join(_PROFILES)}"
        )
    if _PROFILES[profile] != log_width:
        raise ConfigError(
            f"device {device}: profile {profile} has LOG_INP_WIDTH={_PROFILES[profile]}, not "
            f"{log_width}: vta and vtaq compute on int8, vtab on bfloat16"
        )
    for capability in (Capability.REQUANTIZE, Capability.STORE_REQUANTIZE):
        name = str(capability.name).lower()
        if capability not in capabilities:
            continue
        if log_width == FLOAT_WIDTH:
            raise ConfigError(
                f"device {device}: capability {name} is of integers, and the device computes on "
                "bfloat16: leave it out"
            )
        if Capability.CONFIG not in capabilities:
            raise ConfigError(
                f"device {device}: capability {name} needs capability config, whose "
                "registers it reads"
            )
    if Capability.STORE_REQUANTIZE in capabilities and Capability.REQUANTIZE not in capabilities:
        raise ConfigError(
            f"device {device}: capability store_requantize needs capability requantize: what is "
            "not only stored is requantized by compute"
        )
    if Capability.STORE_ACC in capabilities and log_width == FLOAT_WIDTH:
        raise ConfigError(
            f"device {device}: capability store_acc is of integers, and the device computes on "
            "bfloat16: leave it out"
        )
    if Capability.STORE_INP not in capabilities:
        return
    for why, fits in (
        ("is of integers, and the device computes on bfloat16", log_width < FLOAT_WIDTH),
        (
            "needs capability regions: a host that writes addresses into programs would take a "
            "tile of INP for one",
            Capability.REGIONS in capabilities,
        ),
    ):
        if not fits:
            raise ConfigError(f"device {device}: capability store_inp {why}: leave it out")


def check_capabilities(device: str, n: DeviceNumbers, capabilities: Capability) -> None:
    """Refuses capabilities that a device of these numbers cannot have. Raises ConfigError."""
    _check_depthwise(device, n, capabilities)
    _check_weights4(device, n, capabilities)
    _check_weight_code(device, n, capabilities)


def _refuse(device: str, capability: str, rules: Sequence[tuple[str, bool]]) -> None:
    """rules: what is wanted of the device, and whether it has that. Raises ConfigError."""
    for what, fits in rules:
        if not fits:
            raise ConfigError(f"device {device}: capability {capability} {what}: leave it out")


def _check_depthwise(device: str, n: DeviceNumbers, capabilities: Capability) -> None:
    """Refuses the capability depthwise where its windows do not fit. Raises ConfigError."""
    if Capability.DEPTHWISE not in capabilities:
        return
    rules = (
        ("is of integers, and the device computes on bfloat16", n.log_width < FLOAT_WIDTH),
        (
            f"needs blocks of {WINDOW_PITCH} lanes or more: a weight tile has a row of a window in "
            "each lane",
            1 << n.log_block >= WINDOW_PITCH,
        ),
        (f"reads {WINDOW_PITCH} banks of INP, which has {1 << n.li} tiles", 1 << n.li >= 4),
        (
            f"needs products_per_multiplier=1, not {n.products_per_multiplier}: its products share "
            "no factor",
            n.products_per_multiplier == 1,
        ),
    )
    _refuse(device, "depthwise", rules)


def _check_weights4(device: str, n: DeviceNumbers, capabilities: Capability) -> None:
    """Refuses the capability weights4 where groups fill no tiles. Raises ConfigError."""
    if Capability.WEIGHTS4 not in capabilities:
        return
    beat = n.bus_bits // 8
    rules = (
        ("is of integers, and the device computes on bfloat16", n.log_width < FLOAT_WIDTH),
        (
            f"needs blocks of 4 to {GROUP_WEIGHTS} lanes, not {1 << n.log_block}: a group fills "
            "whole tiles",
            4 <= 1 << n.log_block <= GROUP_WEIGHTS,
        ),
        (
            f"needs a bus of {16 << n.log_block} bits or less, not {n.bus_bits}: a word holds "
            "multipliers or weights",
            beat <= 2 << n.log_block,
        ),
    )
    _refuse(device, "weights4", rules)


def _check_weight_code(device: str, n: DeviceNumbers, capabilities: Capability) -> None:
    """Refuses the capability weight_code where a row of weights is none. Raises ConfigError."""
    if Capability.WEIGHT_CODE not in capabilities:
        return
    rules = (
        ("is of integers, and the device computes on bfloat16", n.log_width < FLOAT_WIDTH),
        (
            f"needs blocks of {PLANE_WEIGHTS} lanes or more, not {1 << n.log_block}: a tile holds "
            "whole groups",
            1 << n.log_block >= PLANE_WEIGHTS,
        ),
        (
            f"needs a bus of {8 * PLANE_WORD_BYTES} bits, not {n.bus_bits}: a word of the code "
            "comes in a cycle",
            n.bus_bits == 8 * PLANE_WORD_BYTES,
        ),
    )
    _refuse(device, "weight_code", rules)


def check_registers(device: str, registers: str, pages: Collection[str]) -> None:
    """Refuses a page of registers that there is not. Raises ConfigError."""
    if registers not in pages:
        raise ConfigError(
            f"device {device}: registers={registers!r} is not one of {', '.join(pages)}"
        )
