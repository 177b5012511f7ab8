# SPDX-License-Identifier: Apache-2.0
"""Boot a machine under QEMU with the simulator process as its accelerator.

In:   a machine's name, what it boots, a device, the faults that it is to have.
Out:  Console: the lines that the guest printed, as they come; how long it took.
Next: the tests of the rungs read them.

QEMU's memory is a file that both processes map: the device's DMA is real. Nothing waits for ever:
after the deadline everything ends. A guest boots in ten seconds on a core of its own and in minutes
on a busy machine, so that the deadline is far beyond both: it ends a guest that hangs, and says
nothing about speed.
"""

from __future__ import annotations

import os
import re
import select
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path

from tests.board.build import plugin
from tests.board.tools import ROOT, missing, need, run, work

__all__ = ["FRAGMENTS", "MACHINES", "Board", "Machine", "boot"]

_MIB = 1 << 20
_DEADLINE_S = 900.0
#: Registers of the next device behind those of the one before; its interrupt line is the next.
NEXT = 0x10000


@dataclass(frozen=True)
class Machine:
    """What QEMU emulates, where the register page and the interrupt are put, and which memory the
    two processes share."""

    qemu: str
    machine: str
    cpu: str | None
    memory_base: int
    memory_bytes: int
    registers: int
    controller: str  # type or path of the interrupt controller
    line: int  # its input: number of the shared peripheral interrupt, or of NVIC's, PLIC's
    pool: int  # where the DMA memory begins
    console: str = ""  # of Linux


#: Boards that driver/devicetree has a fragment for: the registers and the memory that it says, on
#: QEMU's ZCU102, which has memory from 0 on.
FRAGMENTS = ("pynq-z2", "de10-nano", "ultra96", "kv260")
MACHINES = {
    "virt-arm64": Machine(
        "qemu-system-aarch64",
        "virt",
        "cortex-a53",
        0x40000000,
        256 * _MIB,
        0x0B000000,
        "arm_gic",
        100,
        0x4C000000,
        "ttyAMA0",
    ),
    "virt-armhf": Machine(
        "qemu-system-arm",
        "virt,highmem=off",
        "cortex-a15",
        0x40000000,
        256 * _MIB,
        0x0B000000,
        "arm_gic",
        100,
        0x4C000000,
        "ttyAMA0",
    ),
    "zcu102": Machine(
        "qemu-system-aarch64",
        "xlnx-zcu102",
        None,
        0,
        256 * _MIB,
        0xA0000000,
        "/machine/soc/gic",
        89,
        0xC000000,
        "ttyPS0",
    ),
    **{
        name: Machine(
            "qemu-system-aarch64",
            "xlnx-zcu102",
            None,
            bus_base,
            memory_mib * _MIB,
            registers,
            "/machine/soc/gic",
            89,
            bus_base + pool,
            "ttyPS0",
        )
        for name, bus_base, memory_mib, registers, pool in (
            ("pynq-z2", 0, 512, 0x43C00000, 0x1C000000),
            ("de10-nano", 0x80000000, 1024, 0xFF220000, 0x38000000),
            ("ultra96", 0, 2048, 0xA0000000, 0x70000000),
            ("kv260", 0, 2048, 0xA0000000, 0x60000000),
        )
    },
    "mps2-an385": Machine(
        "qemu-system-arm",
        "mps2-an385",
        None,
        0x21000000,
        16 * _MIB,
        0x40100000,
        "armv7m",
        20,
        0x21000000,
    ),
    **{
        f"virt-{processor}": Machine(
            f"qemu-system-{processor}",
            "virt",
            None,
            0x80000000,
            64 * _MIB,
            0x40100000,
            "riscv.sifive.plic",
            50,
            0x82000000,
        )
        for processor in ("riscv64", "riscv32")
    },
}
_PACKAGES = dict.fromkeys(("qemu-system-riscv64", "qemu-system-riscv32"), "qemu-system-misc")


@dataclass(frozen=True)
class _Part:
    """One device of a machine: the plug-in that shows it, its simulator's socket, its number."""

    plugin: Path
    socket: str
    number: int

    def words(self, machine: Machine) -> list[str]:
        """For QEMU."""
        registers, line = machine.registers + NEXT * self.number, machine.line + self.number
        where = f"base={registers:#x},intc={machine.controller},irq={line}"
        return ["-plugin", f"{self.plugin},socket={self.socket},{where}"]


def _library(folder: str, number: int) -> Path:
    """The plug-in; of each further device a library of its own, with a state of its own."""
    return Path(shutil.copy(plugin(), Path(folder, f"device{number}.so"))) if number else plugin()


def _sockets(simulator: subprocess.Popen[str], device: str, log: Path) -> list[str]:
    """Where the simulator says that its devices are."""
    assert simulator.stdout is not None
    several = re.search(r"-count=(\d+)", device)
    lines = [simulator.stdout.readline() for _ in range(int(several[1]) if several else 1)]
    assert all(lines), f"the simulator does not start: {log.read_text(errors='replace')}"
    return [line.partition(" at ")[2].partition(": memory ")[0] for line in lines]


class Board:
    """A machine that runs, and its simulator."""

    def __init__(
        self,
        qemu: subprocess.Popen[bytes],
        simulator: subprocess.Popen[str],
        log: Path,
        deadline: float,
    ) -> None:
        self.qemu, self.simulator = qemu, simulator
        self.lines: list[str] = []
        self._log, self._deadline = log, deadline

    def read(self) -> Iterator[str]:
        """Lines of the console until the machine is off. AssertionError when the deadline passes,
        or QEMU fails."""
        assert self.qemu.stdout is not None
        fd, rest = self.qemu.stdout.fileno(), b""
        while True:
            left = self._deadline - time.monotonic()
            if left <= 0 or not select.select([fd], [], [], left)[0]:
                raise AssertionError(
                    "the guest hangs; its console so far:\n" + "\n".join(self.lines)
                )
            got = os.read(fd, 65536)
            if not got:
                assert self.qemu.wait(timeout=_DEADLINE_S) == 0, (
                    f"QEMU ended with {self.qemu.returncode}: "
                    f"{self._log.read_text(errors='replace')}"
                )
                return
            *lines, rest = (rest + got).split(b"\n")
            for line in lines:
                self.lines.append(line.decode(errors="replace").rstrip("\r"))
                yield self.lines[-1]

    def finish(self) -> list[str]:
        """All lines; the machine is off afterwards."""
        for _ in self.read():
            pass
        return self.lines


@contextmanager
def boot(
    name: str,
    arguments: Sequence[str | Path],
    *,
    device: str = "vtaq-1x16x16",
    faults: Sequence[str] = (),
    order: str = "program",
    plugins: Sequence[Path] = (),
    second: str = "",
    timeout_s: float = _DEADLINE_S,
) -> Iterator[Board]:
    """Starts the simulator, then the machine with `arguments` (what it boots). Both are gone
    afterwards. device: one, or several equal ones ("vtaq-1x16x16 -count=2 -bus=shared") of one
    simulator. second: another device, of another one. All behind the first have their registers at
    NEXT behind those of the one before."""
    machine = MACHINES[name]
    package = _PACKAGES.get(machine.qemu, "qemu-system-arm")
    need(machine.qemu, package)
    version = run([machine.qemu, "--version"])
    if " 7.2" not in version:
        missing(
            f"{machine.qemu} 7.2 is needed, whose structures the plug-in mirrors: apt-get "
            f"install {package} on Debian 12"
        )
    plugin()  # built before anything waits for it
    with tempfile.TemporaryDirectory(prefix="lds-board-") as folder:
        socket, ram = Path(folder, "simd"), Path(folder, "ram")
        ram.touch()
        os.truncate(ram, machine.memory_bytes)
        serve = ["--memory", str(ram), "--base", hex(machine.memory_base), "--clients", "1"]
        serve += ["--order", order] if order != "program" else []
        serve += [word for fault in faults for word in ("--fault", fault)]
        serve += [word for folder in plugins for word in ("--uma-backends", str(folder))]
        command = [
            machine.qemu,
            "-machine",
            f"{machine.machine},memory-backend=ram",
            *(["-cpu", machine.cpu] if machine.cpu else []),
        ]
        command += [
            "-object",
            f"memory-backend-file,id=ram,size={machine.memory_bytes},mem-path={ram},share=on",
        ]
        command += [
            "-m",
            f"{machine.memory_bytes // _MIB}M",
            "-nodefaults",
            "-display",
            "none",
            "-no-reboot",
        ]
        command += ["-chardev", "stdio,id=console,mux=on", "-serial", "chardev:console"]
        environment = {
            **os.environ,
            "QEMU_AUDIO_DRV": "none",
            "PYTHONPATH": f"{ROOT / 'python'}:{os.environ.get('PYTHONPATH', '')}",
        }
        log = work() / f"{name}.log"
        with ExitStack() as ends:
            errors = ends.enter_context(log.open("wb"))
            simulators, sockets = [], list[str]()
            for one, path in ((device, socket), (second, Path(folder, "simd2"))):
                if not one:
                    continue
                words = [sys.executable, "-m", "loadstone", "simd", str(path)]
                simulator = subprocess.Popen(
                    [*words, "--device", one, *serve],
                    stdout=subprocess.PIPE,
                    stderr=errors,
                    text=True,
                    env=environment,
                )
                simulators.append(ends.enter_context(simulator))
                ends.callback(simulator.kill)
                sockets += _sockets(simulator, one, log)
            for number, reached in enumerate(sockets):
                part = _Part(_library(folder, number), reached, number)
                command += part.words(machine)
            command += [str(word) for word in arguments]
            qemu = subprocess.Popen(
                command,
                stdin=subprocess.DEVNULL,
                stdout=subprocess.PIPE,
                stderr=errors,
                env=environment,
            )
            ends.enter_context(qemu)
            ends.callback(qemu.kill)
            yield Board(qemu, simulators[0], log, time.monotonic() + timeout_s)
