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
#: The second device's registers behind the first one's; its interrupt line is the next.
SECOND = 0x10000


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
    """One device of a machine: the plug-in that shows it, its simulator's socket, its place."""

    plugin: Path
    socket: Path
    registers: int
    line: int


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
    afterwards. second: another device, at SECOND behind the first one's registers."""
    machine = MACHINES[name]
    package = _PACKAGES.get(machine.qemu, "qemu-system-arm")
    need(machine.qemu, package)
    version = run([machine.qemu, "--version"])
    if " 7.2" not in version:
        missing(
            f"{machine.qemu} 7.2 is needed, whose structures the plug-in mirrors: apt-get "
            f"install {package} on Debian 12"
        )
    shared = plugin()
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
        parts = {device: _Part(shared, socket, machine.registers, machine.line)}
        if second:
            copy = Path(folder, "second.so")  # a library of its own, with a state of its own
            shutil.copy(shared, copy)
            registers, line = machine.registers + SECOND, machine.line + 1
            parts[second] = _Part(copy, Path(folder, "simd2"), registers, line)
        for part in parts.values():
            where = f"base={part.registers:#x},intc={machine.controller},irq={part.line}"
            command += ["-plugin", f"{part.plugin},socket={part.socket},{where}"]
        command += [str(word) for word in arguments]
        environment = {
            **os.environ,
            "QEMU_AUDIO_DRV": "none",
            "PYTHONPATH": f"{ROOT / 'python'}:{os.environ.get('PYTHONPATH', '')}",
        }
        log = work() / f"{name}.log"
        with ExitStack() as ends:
            errors = ends.enter_context(log.open("wb"))
            simulators = []
            for one, part in parts.items():
                words = [sys.executable, "-m", "loadstone", "simd", str(part.socket)]
                simulator = subprocess.Popen(
                    [*words, "--device", one, *serve],
                    stdout=subprocess.PIPE,
                    stderr=errors,
                    text=True,
                    env=environment,
                )
                simulators.append(ends.enter_context(simulator))
                ends.callback(simulator.kill)
                assert simulator.stdout is not None
                assert simulator.stdout.readline(), (
                    f"the simulator does not start: {log.read_text(errors='replace')}"
                )
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
