# SPDX-License-Identifier: Apache-2.0
"""Cross-compile the C runtime, the drivers and a test's main for other machines.

In:   a toolchain's name, C files.
Out:  an executable; the plug-in for QEMU.
Next: emulator.py boots it, or qemu-user runs it.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from tests import objects
from tests.board.tools import BUILD, ROOT, locked, need, run, work

__all__ = ["RUNTIME", "TOOLCHAINS", "Toolchain", "data", "drivers", "executable", "plugin"]

#: The C runtime.
RUNTIME = sorted((ROOT / "runtime").glob("*.c"))

_INCLUDES = ("runtime/include", "driver/include", "tests/board/guest")
_WARNINGS = [
    "-Wall",
    "-Wextra",
    "-Werror",
    "-Wconversion",
    "-Wsign-conversion",
    "-Wshadow",
    "-Wstrict-prototypes",
    "-Wcast-qual",
    "-Wundef",
]


@dataclass(frozen=True)
class Toolchain:
    """A cross-compiler: its prefix, Debian's packages of it, its flags, those behind the files."""

    prefix: str
    packages: str
    flags: tuple[str, ...] = ("-O2", "-static")
    libraries: tuple[str, ...] = ()


_RISCV_FIRMWARE = (
    "-Os",
    "-misa-spec=2.2",
    "-mcmodel=medany",
    "-fno-pie",
    "-no-pie",
    "-fno-asynchronous-unwind-tables",
    "-ffreestanding",
    "-ffunction-sections",
    "-fdata-sections",
    "-nostartfiles",
    "-nostdlib",
    "-static",
    "-Wl,--gc-sections",
    "-Wl,--build-id=none",
)
TOOLCHAINS = {
    "native": Toolchain("", "gcc", ("-O2",)),
    "aarch64": Toolchain("aarch64-linux-gnu-", "gcc-aarch64-linux-gnu libc6-dev-arm64-cross"),
    "armv7": Toolchain("arm-linux-gnueabihf-", "gcc-arm-linux-gnueabihf libc6-dev-armhf-cross"),
    "riscv64": Toolchain("riscv64-linux-gnu-", "gcc-riscv64-linux-gnu libc6-dev-riscv64-cross"),
    "musl": Toolchain("musl-", "musl-tools"),  # this processor, with the C library of small Linux
    "cortex-m3": Toolchain(
        "arm-none-eabi-",
        "gcc-arm-none-eabi libnewlib-arm-none-eabi",
        (
            "-Os",
            "-mcpu=cortex-m3",
            "-mthumb",
            "-ffreestanding",
            "-ffunction-sections",
            "-fdata-sections",
            "-nostartfiles",
            "-Wl,--gc-sections",
        ),
    ),
    "riscv64-firmware": Toolchain(
        "riscv64-linux-gnu-",
        "gcc-riscv64-linux-gnu libc6-dev-riscv64-cross",
        ("-march=rv64gc", "-mabi=lp64d", *_RISCV_FIRMWARE),
        ("-lgcc",),
    ),
    # the headers of newlib alone: they are of every processor
    "riscv32-firmware": Toolchain(
        "riscv64-unknown-elf-",
        "gcc-riscv64-unknown-elf libnewlib-dev",
        ("-march=rv32imac", "-mabi=ilp32", "-isystem/usr/include/newlib", *_RISCV_FIRMWARE),
        ("-lgcc",),
    ),
}


def drivers(*hal: str) -> list[Path]:
    """The register blocks, the pool, and the files of one HAL."""
    return [
        ROOT / "driver" / name
        for name in ("regs.c", "regs_native.c", "regs_chisel.c", "regs_hls.c", "pool.c", *hal)
    ]


def executable(
    toolchain: str, name: str, sources: Sequence[Path], flags: Sequence[str | Path] = ()
) -> Path:
    """Compiles what has changed and links C99 sources. Skips the test when the cross-compiler is
    not there."""
    chain = TOOLCHAINS[toolchain]
    need(chain.prefix + "gcc", chain.packages)
    includes = [word for folder in _INCLUDES for word in ("-I", str(ROOT / folder))]
    compile_ = [
        chain.prefix + "gcc",
        "-std=c99",
        *_WARNINGS,
        *chain.flags,
        *includes,
        *map(str, flags),
    ]
    out = work() / f"{toolchain}-{name}"
    run(
        [*compile_, *(_object(source, compile_) for source in sources), *chain.libraries, "-o", out]
    )
    return out


def data(folder: str, **contents: bytes) -> Path:
    """An assembler file with read-only bytes between NAME_begin and NAME_end, for each name."""
    place = work() / folder
    place.mkdir(parents=True, exist_ok=True)
    lines = []
    for name, content in contents.items():
        (place / name).write_bytes(content)
        lines += [
            f'.section .rodata.{name}, "a"',
            ".balign 4096",
            f".global {name}_begin, {name}_end",
            f'{name}_begin: .incbin "{place / name}"',
            f"{name}_end:",
        ]
    (place / "data.S").write_text("\n".join(lines) + "\n")
    return place / "data.S"


def _object(source: Path, compile_: Sequence[str]) -> Path:
    """Its object file; assembler is left to the linker's call."""
    return objects.compiled(compile_, source) if source.suffix == ".c" else source


def plugin() -> Path:
    """The plug-in that puts the simulator process into QEMU."""
    out = BUILD / "lds_board.so"
    source = ROOT / "tests/board/qemu_plugin/plugin.c"
    with locked("plugin"):
        if not out.is_file() or out.stat().st_mtime < source.stat().st_mtime:
            need("gcc", "gcc")
            run(
                [
                    "gcc",
                    "-std=gnu11",
                    "-O2",
                    *_WARNINGS,
                    "-fPIC",
                    "-shared",
                    "-fvisibility=hidden",
                    source,
                    "-o",
                    out,
                ]
            )
    return out
