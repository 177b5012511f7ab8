# SPDX-License-Identifier: Apache-2.0
"""The native page of simulated accelerators, against the registers that the drivers know."""

from __future__ import annotations

from loadstone.isa.native_page import Action, NativePage, PageJob
from loadstone.isa.state import ERRORS, MachineFault, MachineRun
from loadstone.vta.isa import registers

AT = {register.name: register.offset for register in registers.BLOCKS["native"]}


def test_registers_are_those_of_the_drivers() -> None:
    page = NativePage(0x12345678)
    assert page.read32(AT["ID"]) == registers.REGISTER_VALUES["NATIVE_ID_VALUE"]
    assert page.read32(AT["VERSION"]) == registers.REGISTER_VALUES["NATIVE_VERSION_VALUE"]
    assert page.read32(AT["CONFIG_HASH"]) == 0x12345678
    for offset, value in ((AT["INSN_BASE_LO"], 64), (AT["INSN_BASE_HI"], 2), (AT["INSN_COUNT"], 7)):
        assert page.write32(offset, value) is None
    assert page.job() == PageJob(2 << 32 | 64, 7)
    bits = registers.BITS
    for name, action in (
        ("CTRL_START", Action.START),
        ("CTRL_SOFT_RESET", Action.RESET),
        ("CTRL_ABORT", Action.ABORT),
    ):
        assert page.write32(AT["CTRL"], bits[name]) is action
    for error, text in ERRORS.items():
        known = {code: name for name, (code, _) in registers.ERRORS.items()}
        assert known[error] in ("BAD_INSTRUCTION", "DRAM_BOUNDS", "SRAM_BOUNDS", "DEADLOCK")
        assert text


def test_states_and_the_interrupt() -> None:
    page, states, bits = NativePage(0), registers.STATES, registers.BITS
    page.write32(AT["IRQ_MASK"], bits["IRQ_DONE"] | bits["IRQ_ERROR"])
    page.started()
    assert page.read32(AT["STATUS"]) == states["RUNNING"]
    page.moved(7)
    assert page.read32(AT["INSN_PC"]) == 7
    page.ended(MachineRun(5 << 32 | 3, 9, {"a": 1, "b": 2}, {}, 30, 40))
    assert (page.read32(AT["STATUS"]), page.irq()) == (states["DONE"], 1)
    assert (page.read32(AT["CYCLES"]), page.read32(AT["CYCLES"] + 4)) == (3, 5)
    assert [page.read32(AT[n]) for n in ("LOAD_BUSY", "COMPUTE_BUSY", "STORE_BUSY")] == [1, 2, 0]
    assert [page.read32(AT[n]) for n in ("READ_BYTES", "WRITE_BYTES", "INSN_PC")] == [30, 40, 9]
    page.write32(AT["IRQ_STATUS"], bits["IRQ_DONE"])
    assert page.irq() == 0
    fault = MachineFault(2, "", 0xABC)
    fault.instruction = 4
    page.ended(fault)
    assert (page.read32(AT["STATUS"]), page.irq()) == (states["ERROR"], 1)
    assert [page.read32(AT[n]) for n in ("ERROR", "ERROR_PC", "ERROR_ADDR")] == [2, 4, 0xABC]
    page.ended(None)
    assert page.read32(AT["STATUS"]) == states["IDLE"]
