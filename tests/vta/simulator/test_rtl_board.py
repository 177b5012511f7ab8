# SPDX-License-Identifier: Apache-2.0
"""The top for a ULX3S, under Verilator: a PC loads a program over the serial line, starts it, and
reads what it wrote. No board has run it."""

from __future__ import annotations

import struct
import subprocess
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest

from loadstone.vta.device.hw_config import load_config
from loadstone.vta.device.rtl_package import config_package
from loadstone.vta.isa.asm import assemble
from loadstone.vta.isa.registers import ERRORS, NATIVE, STATES
from loadstone.vta.simulator.rtl_build import RTL, sources
from tests.repeat import more

TINY = load_config("vtaq-tiny")
REGISTER = {r.name: 1 << 31 | r.offset for r in NATIVE}
#: Where things stand in the 64 KiB: the stream, and what it reads and writes.
STREAM, DATA = 0x1000, 0x4000


class SerialLine:
    """Reads and writes of 32 bits, as a PC sends them."""

    def __init__(self, program: Path) -> None:
        self.process = subprocess.Popen([program], stdin=subprocess.PIPE, stdout=subprocess.PIPE)

    def ask(self, command: bytes, answer_bytes: int) -> bytes:
        stdin, stdout = self.process.stdin, self.process.stdout
        assert stdin is not None
        assert stdout is not None
        stdin.write(bytes([len(command), answer_bytes]) + command)
        stdin.flush()
        return stdout.read(answer_bytes)

    def write(self, address: int, value: int) -> None:
        assert self.ask(b"W" + struct.pack("<II", address, value), 1) == b"K"

    def read(self, address: int) -> int:
        return int.from_bytes(self.ask(b"R" + struct.pack("<I", address), 4), "little")

    def run(self, program: str) -> str:
        """The name of the error that the program left."""
        insns = np.frombuffer(assemble(program, TINY), np.uint32)
        for n, word in enumerate(insns):
            self.write(STREAM + 4 * n, int(word))
        for name, value in (("INSN_BASE_LO", STREAM), ("INSN_COUNT", insns.size // 4), ("CTRL", 1)):
            self.write(REGISTER[name], value)
        while (state := self.read(REGISTER["STATUS"])) == STATES["RUNNING"]:
            pass
        assert state in (STATES["DONE"], STATES["ERROR"])
        code = self.read(REGISTER["ERROR"])
        return next(name for name, (value, _) in ERRORS.items() if value == code)


@pytest.fixture(scope="module")
def line(
    verilator: None, tmp_path_factory: pytest.TempPathFactory, root: Path
) -> Iterator[SerialLine]:
    folder = tmp_path_factory.mktemp("board")
    parameters = folder / "lds_config_pkg.sv"
    parameters.write_text(config_package(TINY))
    files = [parameters, *sources(), *sorted((RTL / "boards").glob("*.sv"))]
    subprocess.run(
        [
            *("verilator", "--cc", "--exe", "--build", "--Mdir", str(folder / "obj"), "-GBAUD=1"),
            *("-GCLOCK_HZ=8", "--top-module", "lds_ulx3s", "-Wall", "-Wno-UNUSED"),
            *("-Wno-DECLFILENAME", "-Wno-IMPORTSTAR", "-Wno-PINCONNECTEMPTY", "-o", "line"),
            *(map(str, [*files, root / "tests/vta/simulator/serial_line.cc"])),
        ],
        check=True,
        capture_output=True,
        text=True,
    )
    made = SerialLine(folder / "obj" / "line")
    yield made
    made.process.kill()
    made.process.communicate()


@more
def test_a_program_runs_over_the_serial_line(line: SerialLine) -> None:
    assert line.read(REGISTER["CONFIG_HASH"]) == TINY.config_hash
    line.write(REGISTER["REGION_LIMIT"], 1 << 16)
    tiles = np.arange(1, 17, dtype=np.int8).view(np.uint32)
    for n, tile in enumerate(tiles):
        line.write(DATA + 4 * n, int(tile))
    base = DATA // 4
    program = (
        f"load acc_8bit[0] = dram[{base} + x] for x<4\n"
        "alu acc[u+i] += 3 for i<4 j<1 u in 0..1 push(store)\n"
        f"pop(compute) store dram[{base + 16} + x] = out[0] for x<4 push(compute)\n"
        "pop(store) finish"
    )
    assert line.run("load uop[0] = dram[0 + x] for x<1\nfinish") == "NONE"
    assert line.run(program) == "NONE"
    found = np.array([line.read(DATA + 64 + 4 * n) for n in range(4)], np.uint32).view(np.int8)
    assert np.array_equal(found, tiles.view(np.int8) + 3)


@more
def test_beyond_the_memory_is_a_bus_error(line: SerialLine) -> None:
    line.write(REGISTER["REGION_LIMIT"], 1 << 18)
    program = "load acc_8bit[0] = dram[16384 + x] for x<4\nfinish"
    assert line.run(program) == "BUS"
    assert line.run("nop compute\nfinish") == "NONE"
