# SPDX-License-Identifier: Apache-2.0
"""The description of a device: one protocol, for built-in devices and for those of plug-ins.

In:   nothing; no TVM.
Out:  Device: the properties that the compiler, the artifact and the runtime use; NO_DEVICE;
      ProgramStep, a program for a device.
Next: vta/device/hw_config.py implements it; target.py finds the device of a target;
      artifact/deploy.py binds an artifact to it; runtime/device.py opens it.
"""

from __future__ import annotations

import zlib
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Protocol

__all__ = [
    "CONFIGURATION_BYTES",
    "FINGERPRINT_BYTES",
    "INSN_BYTES",
    "NO_DEVICE",
    "Device",
    "LayerRange",
    "ProgramDevice",
    "ProgramStep",
    "RegisterBlock",
    "Relocation",
    "TimingConstant",
    "WithoutDevice",
    "config_hash_of",
]

#: Bytes of an instruction of a VTA.
INSN_BYTES = 16
#: Of every device's fingerprint (rule R5 of runtime/FORMAT.md).
FINGERPRINT_BYTES = 32
#: Of a VTA's configuration, with which its fingerprint begins; zeros follow.
CONFIGURATION_BYTES = 20


def config_hash_of(fingerprint: bytes) -> int:
    """What register CONFIG_HASH of a device holds: CRC-32 of the 32 bytes of its fingerprint; where
    these are a configuration and zeros, of the configuration alone, as bitstreams have it."""
    own = fingerprint[:CONFIGURATION_BYTES] if _is_configuration(fingerprint) else fingerprint
    return zlib.crc32(own)


def _is_configuration(fingerprint: bytes) -> bool:
    return not any(fingerprint[CONFIGURATION_BYTES:])


# --- what it executes -----------------------------------------------------------------------------
@dataclass(frozen=True)
class LayerRange:
    """Instructions [first, first + count) of a program are for layer `name`."""

    name: str
    first: int
    count: int


@dataclass(frozen=True)
class Relocation:
    """Bits [bit, bit + width) of the instruction at `offset_bytes` become (bus address of the
    region + addend_bytes) >> shift."""

    offset_bytes: int
    bit: int
    width: int
    shift: int
    region: int
    addend_bytes: int


@dataclass(frozen=True)
class ProgramDevice:
    """A device that an artifact names. attributes: its configuration, as JSON. fingerprint: 32
    bytes: of an instruction table its own; of a VTA its configuration, and zeros."""

    name: str
    fingerprint: bytes
    attributes: str = "{}"

    @staticmethod
    def of(device: Device) -> ProgramDevice:
        """A device with what its name does not say."""
        return ProgramDevice(device.name, device.fingerprint(), device.described())

    @property
    def config_hash(self) -> int:
        """What the device itself answers."""
        return config_hash_of(self.fingerprint)

    @property
    def has_configuration(self) -> bool:
        """Whether its fingerprint is a VTA's configuration, and not an instruction table's."""
        return _is_configuration(self.fingerprint)


@dataclass(frozen=True)
class ProgramStep:
    """One program of a device, as a step of an artifact.

    instructions: the device's own. layers: their source map. device: its number in the artifact;
    device 0 is that of the session. insn_count: for a device whose instructions are not all
    INSN_BYTES long. relocations: the places of addresses, which are 0 in the instructions. beside:
    it may start while the programs directly before it work. A program for a VTA has balanced
    tokens, FINISH last, and no relocations: its instructions name regions.
    """

    name: str
    instructions: bytes
    layers: tuple[LayerRange, ...] = ()
    device: int = 0
    insn_count: int = -1
    relocations: tuple[Relocation, ...] = ()
    beside: bool = False

    def __post_init__(self) -> None:
        if self.insn_count < 0:
            object.__setattr__(self, "insn_count", len(self.instructions) // INSN_BYTES)

    def __len__(self) -> int:
        return self.insn_count


# --- what it is -----------------------------------------------------------------------------------
@dataclass(frozen=True)
class RegisterBlock:
    """The access to a device's registers.

    name: the drivers' name of the block (`lds_registers_named`).
    page: the number of this block's kind in the simulated device.
    size_bytes: of the registers in the bus's address space, from base_address on.
    """

    name: str
    page: int
    size_bytes: int
    base_address: int = 0


@dataclass(frozen=True)
class TimingConstant:
    """One constant of a timing model: a number and its source."""

    value: int
    source: str


class Device(Protocol):
    """One configured device: all properties that code outside its back end may use.

    `timing` and `bus_bits` determine the cost of a program, from which the simulator counts cycles;
    a back end with its own model reports it by Backend.cost_cycles.
    """

    @property
    def name(self) -> str:
        """The name in messages and artifacts."""
        ...

    @property
    def batch(self) -> int:
        """Samples of one run."""
        ...

    @property
    def align_bytes(self) -> int:
        """The alignment of tensors in its memory: that of its largest tile."""
        ...

    @property
    def clock_mhz(self) -> int:
        """Cycles per microsecond."""
        ...

    @property
    def bus_bits(self) -> int:
        """Width of the bus to its memory."""
        ...

    @property
    def bus_of(self) -> str:
        """The name of the device whose bus it shares; empty where it has one of its own."""
        ...

    @property
    def bus_offset(self) -> int:
        """Bus address minus the CPU's physical address of the same byte."""
        ...

    @property
    def timing(self) -> Mapping[str, TimingConstant]:
        """Constants of the simulator's timing model, by name: the cost of instructions."""
        ...

    @property
    def register_block(self) -> RegisterBlock:
        """Its register block."""
        ...

    @property
    def config_hash(self) -> int:
        """config_hash_of its fingerprint, which the device itself reports."""
        ...

    def fingerprint(self) -> bytes:
        """The 32 bytes that determine the meaning of a program."""
        ...

    def described(self) -> str:
        """Its configuration as JSON, from which it can be made again; an empty object where its
        name says all of it."""
        ...

    def describe_error(self, code: int) -> str:
        """Name and text of one of its error codes."""
        ...


@dataclass(frozen=True)
class WithoutDevice:
    """The device of an artifact without device programs: all of its steps run on the host.

    It opens as the runtime's null device. Because an artifact needs a valid fingerprint, it has one
    of version 1 with tiles of 1x16, which every reader of the format accepts.
    """

    name: str = "none"
    batch: int = 1
    align_bytes: int = 256
    clock_mhz: int = 100
    bus_bits: int = 64
    bus_of: str = ""
    bus_offset: int = 0

    @property
    def timing(self) -> Mapping[str, TimingConstant]:
        """Nothing takes any cycle."""
        return {}

    @property
    def register_block(self) -> RegisterBlock:
        """The null device shows the native block."""
        return RegisterBlock("native", 0, 0x1000)

    @property
    def config_hash(self) -> int:
        """Of the null device."""
        return config_hash_of(self.fingerprint())

    def fingerprint(self) -> bytes:
        """Constant."""
        configuration = bytes.fromhex("0103030500040f0f12110000002000003f000000")
        return configuration.ljust(FINGERPRINT_BYTES, b"\0")

    def described(self) -> str:
        """There is one."""
        return "{}"

    def describe_error(self, code: int) -> str:
        """It has no errors."""
        return f"error {code}, of a device that computes nothing"


#: The device of targets whose accelerators are all reached through functions.
NO_DEVICE = WithoutDevice()
