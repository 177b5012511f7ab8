# SPDX-License-Identifier: Apache-2.0
"""Run one Linux program on an emulated processor that this machine need not have: one with AVX-512.

In:   a program without libraries (`-static`), linked at PROGRAM_AT; its arguments; files it reads.
Out:  the lines that it printed, when it ended with status 0.
Next: test_avx512.py.

Bochs has AVX-512, which QEMU has not. The machine has no BIOS and no operating system: reset.S
switches the vector registers on, and monitor.c answers what the program asks a kernel for. It
starts in a tenth of a second, and runs some 30 million instructions a second.
"""

from __future__ import annotations

import os
import struct
import subprocess
from collections.abc import Mapping, Sequence
from functools import cache
from pathlib import Path

from tests.board.tools import ROOT, locked, missing, need, run, work

__all__ = ["PROGRAM_AT", "run_on_avx512"]

#: Behind the disk's contents, which stand in memory from 2 MiB on.
PROGRAM_AT = 0x1000_0000
#: An Ice Lake: AVX-512 F, BW, DQ, VL and VNNI, among others.
_CPU = "corei7_icelake_u"
_SOURCES = ROOT / "tests/bochs"
_MIB, _PAGE, _MOST, _NAME = 1 << 20, 4096, 8, 48
_MEMORY_BYTES = 768 * _MIB
_DISK_BLOCK = 16 * 63 * 512  # of whole cylinders
_MONITOR = (
    *("-std=c99", "-O1", "-Wall", "-Wextra", "-Werror", "-ffreestanding", "-mgeneral-regs-only"),
    *("-mno-red-zone", "-fno-pic", "-fno-stack-protector", "-fno-asynchronous-unwind-tables"),
    "-fcf-protection=none",
)
#: Bochs's time is that of so many instructions a second: few, so that no device lets one wait.
_CONFIGURATION = """\
plugin_ctrl: unmapped=true, serial=true, biosdev=false, speaker=false, parallel=false
config_interface: textconfig
display_library: term
memory: guest={megabytes}, host={megabytes}
romimage: file=rom, address=0xffff0000
ata0: enabled=1, ioaddr1=0x1f0, ioaddr2=0x3f0, irq=14
ata0-master: type=disk, mode=flat, path=disk, cylinders=0
cpu: model={cpu}, count=1, ips=1000000, reset_on_triple_fault=0
com1: enabled=1, mode=file, dev=printed
log: log
panic: action=fatal
boot: disk
clock: sync=none
"""


def run_on_avx512(
    program: Path,
    arguments: Sequence[str] = (),
    files: Mapping[str, bytes] | None = None,
    *,
    timeout_s: float = 3600,
) -> list[str]:
    """What `program` prints there. files: by the names that it opens. Skips the test where Bochs is
    missing."""
    need("bochs", "bochs bochs-term")
    folder = work() / "bochs"
    with locked("bochs"):  # one at a time
        folder.mkdir(exist_ok=True)
        (folder / "rom").write_bytes(_rom())
        (folder / "disk").write_bytes(
            _disk([program.name, *arguments], {program.name: program.read_bytes(), **(files or {})})
        )
        (folder / "printed").write_bytes(b"")
        (folder / "configuration").write_text(
            _CONFIGURATION.format(megabytes=_MEMORY_BYTES // _MIB, cpu=_CPU)
        )
        # Debian's Bochs has a debugger that waits to be told to continue; its screen needs a
        # terminal's name.
        done = subprocess.run(
            ["bochs", "-q", "-f", "configuration"],
            cwd=folder,
            env={**os.environ, "TERM": "vt100"},
            input=b"c\nq\n",
            capture_output=True,
            check=False,
            timeout=timeout_s,
        )
        printed = (folder / "printed").read_text(errors="replace")
        (folder / "disk").unlink()
    *lines, last = printed.splitlines() or [""]
    if not last.startswith("exit "):
        complaint = (done.stderr or done.stdout).decode(errors="replace")
        if "term" in complaint and "not available" in complaint:
            missing("Bochs has no screen for terminals: apt-get install bochs-term")
        log = (folder / "log").read_text(errors="replace") if (folder / "log").exists() else ""
        raise AssertionError(f"Bochs ended early.\n{printed}\n{complaint[-2000:]}\n{log[-2000:]}")
    assert last == "exit 0", printed[-4000:]
    return lines[: -1 if lines and not lines[-1] else None]


@cache
def _rom() -> bytes:
    """reset.S and monitor.c: 64 KiB that end where the processor begins."""
    need("gcc", "gcc")
    folder = work() / "rom"
    folder.mkdir(exist_ok=True)
    run(["gcc", *_MONITOR, "-c", _SOURCES / "monitor.c", "-o", "monitor.o"], cwd=folder)
    places = ["--section-start=.start=0x100000", "-Ttext=0x100100", "--oformat", "binary"]
    run(["ld", *places, "monitor.o", "-o", "monitor.bin"], cwd=folder)
    run(["gcc", "-Wa,-I.", "-c", _SOURCES / "reset.S", "-o", "reset.o"], cwd=folder)
    run(["ld", "-Ttext=0xffff0000", "--oformat", "binary", "reset.o", "-o", "rom"], cwd=folder)
    return (folder / "rom").read_bytes()


def _disk(arguments: Sequence[str], files: Mapping[str, bytes]) -> bytes:
    """The table that monitor.c reads, and the files, each from a page on."""
    for name in (*arguments, *files):
        assert len(name.encode()) < _NAME, f"{name}: at most {_NAME - 1} bytes"
    assert max(len(arguments), len(files)) <= _MOST, f"at most {_MOST} arguments and files"
    entries, contents, at = b"", b"", _PAGE
    for name, content in files.items():
        entries += struct.pack(f"<{_NAME}sQQ", name.encode(), at + len(contents), len(content))
        contents += content + bytes(-len(content) % _PAGE)
    at += len(contents)
    assert 2 * _MIB + at < PROGRAM_AT, f"{at >> 20} MiB of files; at most 250"
    words = b"".join(word.encode().ljust(_NAME, b"\0") for word in arguments)
    table = struct.pack("<4Q", _MEMORY_BYTES, at, len(arguments), len(files))
    table += words.ljust(_MOST * _NAME, b"\0") + entries
    disk = table.ljust(_PAGE, b"\0") + contents
    return disk + bytes(-len(disk) % _DISK_BLOCK)
