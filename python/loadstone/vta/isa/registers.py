# SPDX-License-Identifier: Apache-2.0
"""The register blocks, stated once: Loadstone's native page, and those of VTA's existing
bitstreams.

In:   nothing.
Out:  NATIVE, CHISEL, HLS: tables of registers; the bits of CTRL, STATUS and IRQ; error codes.
Next: tools/isa writes them into lds_isa.h and docs/isa.md.

All registers are 32 bits. Offsets are bytes from the block's base.
"""

from __future__ import annotations

from dataclasses import dataclass

__all__ = ["BITS", "BLOCKS", "ERRORS", "REGISTER_VALUES", "STATES", "PageRegister"]


@dataclass(frozen=True)
class PageRegister:
    """One 32-bit register, or `count` of them `stride` bytes apart."""

    name: str
    offset: int
    access: str  # "ro", "rw", "wo", "w1c"
    doc: str
    count: int = 1
    stride: int = 4


NATIVE = (
    PageRegister("ID", 0x00, "ro", "0x3153444C, the letters LDS1"),
    PageRegister("VERSION", 0x04, "ro", "register map version: 1"),
    PageRegister(
        "CONFIG_HASH",
        0x08,
        "ro",
        "CRC-32 of the device's configuration; an artifact for another hash is refused",
    ),
    PageRegister("CAPS", 0x0C, "ro", "capability bits"),
    PageRegister("CTRL", 0x10, "wo", "START, SOFT_RESET, ABORT"),
    PageRegister("STATUS", 0x14, "ro", "state, see STATES"),
    PageRegister("IRQ_STATUS", 0x18, "w1c", "pending interrupts: DONE, ERROR"),
    PageRegister("IRQ_MASK", 0x1C, "rw", "which of them raise the interrupt line"),
    PageRegister("ERROR", 0x20, "ro", "why the state is ERROR, see ERRORS"),
    PageRegister("ERROR_PC", 0x24, "ro", "index of the instruction that failed"),
    PageRegister("ERROR_ADDR", 0x28, "ro", "low 32 bits of the bus address that failed"),
    PageRegister(
        "INSN_BASE_LO",
        0x30,
        "rw",
        "bus address of the first instruction, low half; 16-byte aligned",
    ),
    PageRegister("INSN_BASE_HI", 0x34, "rw", "the same, high half"),
    PageRegister("INSN_COUNT", 0x38, "rw", "number of instructions"),
    PageRegister("INSN_PC", 0x3C, "ro", "instructions completed so far: progress"),
    PageRegister(
        "REGION_BASE", 0x40, "rw", "bus address of DRAM region r, low half then high half", 8, 8
    ),
    PageRegister(
        "REGION_LIMIT",
        0x80,
        "rw",
        "bytes of DRAM region r, low half then high half; bit 63: stores are refused",
        8,
        8,
    ),
    PageRegister("CYCLES", 0xC0, "ro", "cycles of the last run, low half then high half", 1, 8),
    PageRegister("LOAD_BUSY", 0xC8, "ro", "cycles in which the load stage worked", 1, 8),
    PageRegister("COMPUTE_BUSY", 0xD0, "ro", "cycles in which the compute stage worked", 1, 8),
    PageRegister("STORE_BUSY", 0xD8, "ro", "cycles in which the store stage worked", 1, 8),
    PageRegister("READ_BYTES", 0xE0, "ro", "bytes read from DRAM", 1, 8),
    PageRegister("WRITE_BYTES", 0xE8, "ro", "bytes written to DRAM", 1, 8),
)

CHISEL = (
    PageRegister("CONTROL", 0x00, "rw", "write 1 to start; bit 1 is done"),
    PageRegister("CYCLES", 0x04, "ro", "cycle count"),
    PageRegister("INSN_COUNT", 0x08, "rw", "number of instructions"),
    PageRegister("INSN_BASE", 0x0C, "rw", "bus address of the first instruction"),
    PageRegister("UOP_BASE", 0x10, "rw", "ORed into micro-op addresses: 0"),
    PageRegister("INP_BASE", 0x14, "rw", "ORed into INP addresses: 0"),
    PageRegister("WGT_BASE", 0x18, "rw", "ORed into WGT addresses: 0"),
    PageRegister("ACC_BASE", 0x1C, "rw", "ORed into ACC addresses: 0"),
    PageRegister("OUT_BASE", 0x20, "rw", "ORed into OUT addresses: 0"),
)

HLS = (
    PageRegister("FETCH_CONTROL", 0x0000, "rw", "1: start once; bit 2: idle"),
    PageRegister("FETCH_INSN_COUNT", 0x0010, "rw", "number of instructions"),
    PageRegister("FETCH_INSN_BASE", 0x0018, "rw", "bus address of the first instruction"),
    PageRegister("LOAD_CONTROL", 0x1000, "rw", "0x81: start and restart by itself"),
    PageRegister("LOAD_INP_BASE", 0x1010, "rw", "added to INP addresses: 0"),
    PageRegister("LOAD_WGT_BASE", 0x1018, "rw", "added to WGT addresses: 0"),
    PageRegister("COMPUTE_CONTROL", 0x2000, "rw", "0x81: start and restart by itself"),
    PageRegister(
        "COMPUTE_DONE", 0x2018, "ro", "1 after FINISH, until the next program's first instruction"
    ),
    PageRegister(
        "COMPUTE_DONE_VALID",
        0x201C,
        "ro",
        "bit 0: COMPUTE_DONE was written since this was read last; reading clears it",
    ),
    PageRegister("COMPUTE_UOP_BASE", 0x2020, "rw", "added to micro-op addresses: 0"),
    PageRegister("COMPUTE_BIAS_BASE", 0x2028, "rw", "added to ACC addresses: 0"),
    PageRegister("STORE_CONTROL", 0x3000, "rw", "0x81: start and restart by itself"),
    PageRegister("STORE_OUT_BASE", 0x3010, "rw", "added to OUT addresses: 0"),
)

#: Block name -> registers.
BLOCKS = {"native": NATIVE, "chisel": CHISEL, "hls": HLS}

#: Constants that registers hold or take.
REGISTER_VALUES = {
    "NATIVE_ID_VALUE": 0x3153444C,
    "NATIVE_VERSION_VALUE": 1,
    "CHISEL_START": 1,
    "CHISEL_DONE": 2,
    "HLS_START": 1,
    "HLS_IDLE": 4,
    "HLS_AUTO_RESTART": 0x81,
    "HLS_VALID": 1,
}

#: Bits of CTRL, of IRQ_STATUS and IRQ_MASK, and of REGION_LIMIT's high half.
BITS = {
    "CTRL_START": 1 << 0,
    "CTRL_SOFT_RESET": 1 << 1,
    "CTRL_ABORT": 1 << 2,
    "IRQ_DONE": 1 << 0,
    "IRQ_ERROR": 1 << 1,
    "REGION_READ_ONLY_HI": 1 << 31,
}

#: STATUS.
STATES = {"RESET": 0, "IDLE": 1, "RUNNING": 2, "DONE": 3, "ERROR": 4}

#: ERROR: what stopped the program.
ERRORS = {
    "NONE": (0, "no error"),
    "BAD_INSTRUCTION": (1, "an opcode, field value or reserved bit that the device does not know"),
    "DRAM_BOUNDS": (2, "an access outside its region, or a store to a read-only region"),
    "SRAM_BOUNDS": (3, "an access outside a scratchpad"),
    "BUS": (4, "the bus answered with an error"),
    "DEADLOCK": (5, "every stage waits for a token"),
    "ABORTED": (6, "ABORT was written while RUNNING"),
    "CYCLE_LIMIT": (7, "the simulator's limit of cycles was reached"),
    "UNSAFE": (8, "the simulator's strict mode: real VTA hardware would compute something else"),
}
