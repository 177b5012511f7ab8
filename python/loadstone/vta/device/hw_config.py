# SPDX-License-Identifier: Apache-2.0
"""HwConfig: one device, read from JSON and checked against what the instruction set can encode.

In:   a device's name, a JSON file (VTA's own vta_config.json, or one of devices/*.json), or a dict.
Out:  a frozen HwConfig: widths, geometry, depths, capabilities, bus, clock, timing constants.
Next: all code that handles instructions takes one; no code assumes 16x16.

A device file *is* a vta_config.json with more keys, so that owners of a VTA bitstream can use their
existing file. VTA's keys are log2 of bits, of a tile's sides, or of bytes:

    LOG_INP_WIDTH LOG_WGT_WIDTH LOG_ACC_WIDTH      3 3 5      int8, int8, int32
                                                   4 4 5      bfloat16, bfloat16, float32
    LOG_BATCH LOG_BLOCK                            0 4        a tile is 1x16
    LOG_UOP_BUFF_SIZE LOG_INP_BUFF_SIZE LOG_WGT_BUFF_SIZE LOG_ACC_BUFF_SIZE   15 15 18 17   bytes
"""

from __future__ import annotations

import json
import struct
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property
from pathlib import Path

from loadstone.backend.device import (
    FINGERPRINT_BYTES,
    Device,
    RegisterBlock,
    TimingConstant,
    config_hash_of,
)
from loadstone.errors import ConfigError
from loadstone.files import JsonObject, JsonValue, is_file, parsed_json, read_whole
from loadstone.printable import is_plain_name
from loadstone.vta.device.device_file import (
    ELEMENT_WIDTHS,
    FLOAT_WIDTH,
    LOG_SIZES,
    capabilities,
    complete,
    device_names,
    integer,
    read_builtin,
)
from loadstone.vta.device.device_limits import (
    DeviceNumbers,
    check_capabilities,
    check_name,
    check_numbers,
    check_profile,
    check_registers,
)
from loadstone.vta.device.timing_tables import builtin_timing, compact_timing, timing_table
from loadstone.vta.isa.packed_weights import group_bytes, group_tiles
from loadstone.vta.isa.registers import ERRORS
from loadstone.vta.isa.spec import UOP_BYTES, Capability, Memory
from loadstone.vta.isa.values import PLANE_WORD_BYTES

__all__ = [
    "TARGET_FIELDS",
    "HwConfig",
    "builtin_timing",
    "config_of",
    "configuration",
    "device_names",
    "load_config",
]

_NONE = Capability(0)
_CONFIGURATION = "<12BII"
#: The fields of sizes, in the order of the configuration and of LOG_SIZES.
_SIZES = (
    "log_batch",
    "log_block",
    "log_uop_buff",
    "log_inp_buff",
    "log_wgt_buff",
    "log_acc_buff",
)
#: Name -> the page that the simulator shows, bytes of registers (vta/isa/registers.py).
_REGISTER_BLOCKS = {"native": (0, 0x1000), "vta-chisel": (1, 0x1000), "vta-hls": (2, 0x4000)}


#: Fields that a target may say of a device, and what they are.
TARGET_FIELDS = {
    "clock_mhz": "clock in MHz: seconds and GOPS in reports",
    "bus_bits": "width of the DRAM bus: tiling and cycles",
}


@dataclass(frozen=True)
class HwConfig:
    """One device. Sizes are log2 as in VTA's files; properties give tiles and bytes."""

    name: str
    log_batch: int
    log_block: int
    log_uop_buff: int
    log_inp_buff: int
    log_wgt_buff: int
    log_acc_buff: int
    log_width: int = 3  # of an element of INP, WGT and OUT in bits: 3 is int8, 4 is bfloat16
    profile: str = "vta"
    description: str = ""
    capabilities: Capability = _NONE
    clock_mhz: int = 100
    bus_bits: int = 64
    uop_depth: int = 0  # micro-ops that the device really has; 0: all that can be encoded
    registers: str = "native"
    register_base: int = 0
    bus_offset: int = 0  # bus address = the CPU's physical address + this
    products_per_multiplier: int = 1  # of the hardware: 2 shares one of 25 x 18 bits
    bus_of: str = ""  # the device whose bus to the memory it shares; "": it has one of its own
    timing: Mapping[str, TimingConstant] = field(default_factory=dict, compare=False)
    measured: str = field(default="", compare=False)  # on which hardware `timing` was; "": on none

    def __post_init__(self) -> None:
        if not self.uop_depth:
            object.__setattr__(self, "uop_depth", 1 << min(max(self.lu, 0), 13))
        check_name(self.name)
        check_name(self.bus_of or self.name)
        numbers = DeviceNumbers(*(getattr(self, name) for name in DeviceNumbers._fields))
        check_numbers(self.name, numbers)
        check_capabilities(self.name, numbers, self.capabilities)
        check_profile(self.name, self.profile, self.log_width, self.capabilities)
        check_registers(self.name, self.registers, _REGISTER_BLOCKS)

    # --- geometry ---------------------------------------------------------------------------------
    @property
    def is_float(self) -> bool:
        """Whether elements are bfloat16 and accumulators float32; else int8 and int32."""
        return self.log_width == FLOAT_WIDTH

    @property
    def tensor_type(self) -> str:
        """The type of tensors that it computes on; of float32 it takes the nearest bfloat16."""
        return "float32" if self.is_float else "int8"

    @property
    def element_bytes(self) -> int:
        """Bytes of an element of INP, WGT and OUT."""
        return 1 << self.log_width >> 3

    @property
    def batch(self) -> int:
        """Rows of a tile."""
        return 1 << self.log_batch

    @property
    def block(self) -> int:
        """Columns of a tile, and both sides of a weight tile."""
        return 1 << self.log_block

    @property
    def lu(self) -> int:
        """log2 of the micro-ops that can be encoded."""
        return self.log_uop_buff - 2

    @property
    def li(self) -> int:
        """log2 of the tiles of INP."""
        return self.log_inp_buff - self.log_batch - self.log_block - (self.log_width - 3)

    @property
    def lw(self) -> int:
        """log2 of the tiles of WGT."""
        return self.log_wgt_buff - 2 * self.log_block - (self.log_width - 3)

    @property
    def la(self) -> int:
        """log2 of the tiles of ACC (and OUT)."""
        return self.log_acc_buff - self.log_batch - self.log_block - 2

    @property
    def widths(self) -> dict[str, int]:
        """The names that vta/isa/spec.py's field widths are written in."""
        return {"lu": self.lu, "li": self.li, "lw": self.lw, "la": self.la}

    def depth(self, memory: Memory) -> int:
        """Tiles (or micro-ops) that a scratchpad holds."""
        return self._depths[memory]

    @cached_property
    def _depths(self) -> Mapping[Memory, int]:
        return {
            Memory.UOP: self.uop_depth,
            Memory.INP: 1 << self.li,
            **dict.fromkeys((Memory.WGT, Memory.WGT_4BIT, Memory.WGT_PLANES), 1 << self.lw),
            **dict.fromkeys((Memory.ACC, Memory.OUT, Memory.ACC_8BIT), 1 << self.la),
        }

    def tile_bytes(self, memory: Memory) -> int:
        """Bytes in DRAM of what x_size counts: a tile, a group (WGT_4BIT), a word (WGT_PLANES)."""
        return self._tile_sizes[memory]

    @cached_property
    def _tile_sizes(self) -> Mapping[Memory, int]:
        lanes, size = self.batch * self.block, self.element_bytes
        return {
            Memory.UOP: UOP_BYTES,
            Memory.WGT: size * self.block * self.block,
            Memory.ACC: 4 * lanes,
            **dict.fromkeys((Memory.INP, Memory.OUT, Memory.ACC_8BIT), size * lanes),
            Memory.WGT_4BIT: group_bytes(self.block),
            Memory.WGT_PLANES: PLANE_WORD_BYTES,
        }

    def base_bytes(self, memory: Memory) -> int:
        """Bytes that dram_base counts: of a tile, or of a group's multipliers and minima."""
        return 2 * self.block if memory == Memory.WGT_4BIT else self.tile_bytes(memory)

    def filled_tiles(self, memory: Memory) -> int:
        """Tiles of its scratchpad that one of x_size fills: 1, or a group's (`Load.places`)."""
        return group_tiles(self.block) if memory == Memory.WGT_4BIT else 1

    @property
    def align_bytes(self) -> int:
        """What tensors in DRAM are aligned to: the largest tile."""
        return max(self.base_bytes(memory) for memory in Memory)

    @property
    def macs_per_cycle(self) -> int:
        """Multiply-accumulates of one GEMM step."""
        return self.batch * self.block * self.block

    @property
    def peak_gops(self) -> float:
        """10^9 operations a second, a multiply-accumulate counted as two."""
        return 2 * self.macs_per_cycle * self.clock_mhz / 1000

    def has(self, capability: Capability) -> bool:
        """Whether the device has `capability`."""
        return capability in self.capabilities

    # --- identity ---------------------------------------------------------------------------------
    def configuration(self) -> bytes:
        """`lds_hw_config` in lds_isa.h, 20 bytes, little-endian.

        isa version, three log widths, log_batch, log_block, four log sizes (bytes), two zero bytes,
        uop_depth (u32), capabilities (u32)
        """
        logs = (
            self.log_batch,
            self.log_block,
            self.log_uop_buff,
            self.log_inp_buff,
            self.log_wgt_buff,
            self.log_acc_buff,
        )
        widths = (self.log_width, self.log_width, 5)
        return struct.pack(
            _CONFIGURATION, 1, *widths, *logs, 0, 0, self.uop_depth, int(self.capabilities)
        )

    def fingerprint(self) -> bytes:
        """The 32 bytes that decide what a program means: the configuration, and zeros."""
        return self.configuration().ljust(FINGERPRINT_BYTES, b"\0")

    @property
    def config_hash(self) -> int:
        """Register CONFIG_HASH, and what an artifact is bound to: CRC-32 of the configuration."""
        return config_hash_of(self.fingerprint())

    @property
    def register_block(self) -> RegisterBlock:
        """How the host reaches the device."""
        return RegisterBlock(self.registers, *_REGISTER_BLOCKS[self.registers], self.register_base)

    def described(self) -> str:
        """As JSON; an empty object for a built-in device as it is."""
        known = self.name in device_names() and load_config(self.name).to_json() == self.to_json()
        said = {**self.to_json(), "timing": compact_timing(self.timing)}
        return json.dumps({} if known else said, sort_keys=True)

    def describe_error(self, code: int) -> str:
        """What a value of register ERROR means: name and text."""
        for name, (value, text) in ERRORS.items():
            if value == code:
                return f"{name}, {text}"
        return f"error {code}, which this version does not know"

    def to_json(self) -> JsonObject:
        """The device as a dict that `load_config` reads back to an equal HwConfig."""
        return {
            "name": self.name,
            "description": self.description,
            "profile": self.profile,
            **dict.fromkeys(ELEMENT_WIDTHS, self.log_width),
            "LOG_ACC_WIDTH": 5,
            "LOG_BATCH": self.log_batch,
            "LOG_BLOCK": self.log_block,
            "LOG_UOP_BUFF_SIZE": self.log_uop_buff,
            "LOG_INP_BUFF_SIZE": self.log_inp_buff,
            "LOG_WGT_BUFF_SIZE": self.log_wgt_buff,
            "LOG_ACC_BUFF_SIZE": self.log_acc_buff,
            "uop_depth": self.uop_depth,
            "capabilities": [
                c.name.lower() for c in Capability if c in self.capabilities and c.name
            ],
            "clock_mhz": self.clock_mhz,
            "bus_bits": self.bus_bits,
            "registers": self.registers,
            "register_base": self.register_base,
            "bus_offset": self.bus_offset,
            "products_per_multiplier": self.products_per_multiplier,
            "timing": {
                name: {"value": c.value, "source": c.source} for name, c in self.timing.items()
            },
            **({"bus_of": self.bus_of} if self.bus_of else {}),
            **({"measured": self.measured} if self.measured else {}),
        }


def load_config(source: str | Path | Mapping[str, JsonValue]) -> HwConfig:
    """A device by built-in name, by path to a JSON file, or from a dict. Raises ConfigError."""
    if isinstance(source, Mapping):
        return _from_dict(dict(source), "device")
    text = str(source)
    if text in device_names():
        return _from_dict(read_builtin(text), text)
    path = Path(text)
    if not is_file(path):
        raise ConfigError(
            f"device {text!r} is neither built in ({', '.join(device_names())}) nor a JSON file"
        )
    try:
        data = parsed_json(read_whole(path), f"device file {text}", ConfigError)
    except OSError as error:
        raise ConfigError(f"device file {text}: {error.strerror}") from None
    if not isinstance(data, dict):
        raise ConfigError(
            f"device file {text}: holds a {type(data).__name__}, not an object of keys as in "
            "vta_config.json"
        )
    return _from_dict(data, path.stem)


def configuration(device: Device) -> HwConfig:
    """What a device is made of, for VTA's own tools. Raises ConfigError for one of another kind."""
    if not isinstance(device, HwConfig):
        raise ConfigError(
            f"device {device.name} is none of VTA and its kind (`loadstone devices` lists those)"
        )
    return device


def config_of(fingerprint: bytes, name: str = "") -> HwConfig:
    """The device of an artifact's fingerprint: the built-in one of that name, else the first one,
    under the artifact's name for it, else one that has no name. Raises ConfigError."""
    name = name if is_plain_name(name) else ""  # it is for people, and the file is from anywhere
    for entry in sorted(device_names(), key=lambda known: known != name):
        config = load_config(entry)
        if config.fingerprint() == fingerprint:
            return replace(config, name=name or config.name)
    try:
        values = struct.unpack(f"{_CONFIGURATION}12x", fingerprint)
    except struct.error:
        raise ConfigError(
            f"a fingerprint of {len(fingerprint)} bytes has not the "
            f"{FINGERPRINT_BYTES} of isa version 1"
        ) from None
    logs, (uop_depth, capabilities) = values[4:10], values[12:]
    named = dict(zip(_SIZES, logs, strict=True))
    config = HwConfig(
        name or "unnamed",
        **named,
        log_width=values[1],
        profile="vtab" if values[1] == FLOAT_WIDTH else "vtaq",
        uop_depth=uop_depth,
        capabilities=Capability(capabilities),
    )
    if config.fingerprint() != fingerprint:
        raise ConfigError(
            f"the fingerprint {fingerprint.hex()} is not one of isa version 1, int8 and int32"
        )
    return config


def _from_dict(data: JsonObject, name: str) -> HwConfig:
    name = str(data.get("name", name))
    data = complete(data, name)
    sizes = [integer(data, key, name) for key in LOG_SIZES]
    return HwConfig(
        name=name,
        **dict(zip(_SIZES, sizes, strict=True)),
        log_width=integer(data, "LOG_INP_WIDTH", name),
        profile=str(data.get("profile", "vta")),
        description=str(data.get("description", "")),
        capabilities=capabilities(data.get("capabilities", []), name),
        clock_mhz=integer(data, "clock_mhz", name, 100),
        bus_bits=integer(data, "bus_bits", name, 64),
        uop_depth=integer(data, "uop_depth", name, 0),
        registers=str(data.get("registers", "native")),
        register_base=integer(data, "register_base", name, 0),
        bus_offset=integer(data, "bus_offset", name, 0),
        products_per_multiplier=integer(data, "products_per_multiplier", name, 1),
        bus_of=str(data.get("bus_of", "")),
        timing=timing_table(data.get("timing", "vta-rtl"), name),
        measured=str(data.get("measured", "")),
    )
