# SPDX-License-Identifier: Apache-2.0
"""Rung 8: a RISC-V firmware of 64 and of 32 bits under QEMU's virt, the device on its bus and at
its PLIC."""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.board import build, cases, models, several
from tests.board.emulator import MACHINES, boot
from tests.board.exported import BOARDS, check_exported, exported_lines, firmware
from tests.board.models import Network
from tests.board.tools import ROOT, need, run
from tests.repeat import more

pytestmark = [pytest.mark.full, pytest.mark.rung("8")]

KIND = BOARDS["riscv"]
MACHINE = MACHINES[KIND.machine]  # that of 32 bits has the same addresses
PROCESSORS = ("riscv", "riscv32")
PROJECT = ROOT / "python/loadstone/boards"


@pytest.mark.parametrize("processor", PROCESSORS)
def test_network_gives_the_native_bytes_and_faults_are_survived(
    processor: str, network: Network
) -> None:
    """Each interrupt is handled once: none is lost, none comes twice."""
    faults = cases.faults(network, MACHINE.pool)
    program = firmware(processor, network, cases.RUNS)
    with boot(BOARDS[processor].machine, program, device=network.device, faults=faults) as board:
        cases.check(board.finish(), network)


@pytest.mark.parametrize("processor", PROCESSORS)
def test_exported_project_runs_as_it_is(processor: str, network: Network, tmp_path: Path) -> None:
    """`loadstone export --board riscv`, told only where the registers and the interrupt are, and
    for which processor."""
    check_exported(network, tmp_path, board=processor)


@pytest.mark.parametrize("processor", ["riscv", pytest.param("riscv32", marks=more)])
def test_several_networks_in_one_firmware(processor: str, tmp_path: Path) -> None:
    several.check_periods(tmp_path, processor)


@pytest.mark.parametrize("processor", ["riscv", pytest.param("riscv32", marks=more)])
def test_a_fault_of_one_network_leaves_the_others_exact(processor: str, tmp_path: Path) -> None:
    several.check_faults(tmp_path, processor)


@more
@pytest.mark.parametrize("processor", PROCESSORS)
def test_each_of_two_devices_has_its_interrupt(processor: str, divided: Network) -> None:
    """Each job of either comes to the handler once."""
    program = firmware(processor, divided, len(divided.inputs))
    with boot(BOARDS[processor].machine, program, device=divided.device) as board:
        cases.check_all_interrupts(board.finish(), divided)


@more
@pytest.mark.parametrize("reals", [models.islands, models.gates], ids=["steps in C", "operators"])
def test_exported_float_operators_give_the_native_bits(
    reals: Callable[[Path], Network], tmp_path: Path
) -> None:
    """With a floating-point unit whose products and sums are rounded one by one."""
    check_exported(reals(tmp_path), tmp_path, board="riscv")


def test_firmware_prints_the_whole_fault(convolutions: Network, tmp_path: Path) -> None:
    """Of the device: status, step, instruction, layer, error, address."""
    (line,) = exported_lines(convolutions, tmp_path, board="riscv", wrong=["bus-error@0:2"])
    names = "|".join(part.name for part in convolutions.artifact.programs[0].layers)
    assert re.fullmatch(
        r"loadstone: status -30: the device stopped with an error; "
        rf"step \d, instruction 2, layer ({names}), error 4, bus address \d+",
        line,
    ), line


def test_a_fault_of_the_processor_is_printed(convolutions: Network, tmp_path: Path) -> None:
    """Registers where nothing is: a load's or a store's access fault, with its address, from the
    instruction of the driver that reads or writes."""
    (line,) = exported_lines(convolutions, tmp_path, board="riscv", registers=0xD0000000)
    found = re.fullmatch(
        r"loadstone: the processor's exception 0x000000000000000[57] at 0x([0-9a-f]{16}), called "
        r"from 0x[0-9a-f]{16}, mtval 0x00000000d0000[0-9a-f]{3}",
        line,
    )
    assert found, line
    symbols = run(["riscv64-linux-gnu-nm", "-n", tmp_path / "firmware/model.elf"])
    assert _symbol(symbols, int(found[1], 16)) in ("read32", "write32")


def _symbol(symbols: str, address: int) -> str:
    """The last one at or before an address."""
    lines = [line.split() for line in symbols.splitlines()]
    return [words[2] for words in lines if int(words[0], 16) <= address][-1]


@pytest.mark.parametrize(
    ("line", "possible"),
    [
        ("1", True),
        ("1023", True),
        ("0", False),
        ("1024", False),
        ("1 -DBOARD_ACCELERATORS_IRQ=1023", True),
        ("1 -DBOARD_ACCELERATORS_IRQ=1024", False),
        ("1 -DBOARD_ACCELERATORS_IRQ=0", False),
    ],
)
def test_interrupts_that_a_plic_cannot_have_are_errors(
    *, line: str, possible: bool, tmp_path: Path
) -> None:
    """Of a model for two devices."""
    text = "#define MODEL_ACCELERATORS 1\n#define MODEL_FIRST_IS_ACCELERATOR 0\n"
    (tmp_path / "model.h").write_text(text)
    need("riscv64-linux-gnu-gcc", build.TOOLCHAINS[KIND.toolchain].packages)
    words = ["riscv64-linux-gnu-gcc", "-c", str(PROJECT / "riscv/board.c")]
    words += ["-o", str(tmp_path / "board.o")]
    words += [f"-I{ROOT / folder}" for folder in ("runtime/include", "driver/include")]
    words += [f"-I{PROJECT / 'firmware'}", f"-I{tmp_path}", *f"-DBOARD_IRQ={line}".split()]
    if possible:
        run(words)
        return
    with pytest.raises(AssertionError, match="of the interrupts 1 to 1023"):
        run(words)
