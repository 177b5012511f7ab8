# SPDX-License-Identifier: Apache-2.0
"""The C runtime for small processors: compilers, strict flags, size, stack, what it takes of libc.

Rung 0 of runtime's ladder. A tool that is missing skips its test with the package's name.
"""

from __future__ import annotations

import re
import shutil
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest

from loadstone.runtime.footprint import REAL_BYTES, RUNTIME_BYTES
from tests import objects
from tests.board.tools import need
from tests.c.build import STRICT, includes, mode_flags

pytestmark = pytest.mark.rung("0")


#: What a firmware is compiled with besides, so that the linker can leave out what it does not call.
SECTIONS = ("-ffreestanding", "-ffunction-sections", "-fdata-sections")
#: Compiler, its flags, Debian's package. All build what runs on a board.
COMPILERS = {
    "gcc": (["gcc", "-O2"], "gcc"),
    "clang": (["clang", "-O2"], "clang"),
    "gcc-32": (["gcc", "-O2", "-m32"], "gcc"),
    "cortex-m0plus": (
        ["arm-none-eabi-gcc", "-mcpu=cortex-m0plus", "-mthumb", "-Os"],
        "gcc-arm-none-eabi",
    ),
    "cortex-m55": (
        ["arm-none-eabi-gcc", "-mcpu=cortex-m55", "-mthumb", "-mfloat-abi=hard", "-Os"],
        "gcc-arm-none-eabi",
    ),
    "arm64": (["aarch64-linux-gnu-gcc", "-Os"], "gcc-aarch64-linux-gnu"),
    "riscv64": (["riscv64-linux-gnu-gcc", "-Os"], "gcc-riscv64-linux-gnu"),
}


QUICK = ("gcc", "cortex-m55")


KIB = 1024


STACK_BYTES = 1024


def tool(name: str, package: str) -> str:
    """The tool's path; skips the test when it is missing."""
    need(name, package)
    return str(shutil.which(name))


def run(command: list[str], **options: object) -> str:
    """Output of a command that must succeed."""
    done = subprocess.run(command, capture_output=True, text=True, check=False, **options)  # type: ignore[call-overload]
    assert done.returncode == 0, f"{' '.join(command)}\n{done.stdout}{done.stderr}"
    return str(done.stdout)


def board_sources(root: Path) -> list[Path]:
    """What a firmware is made of: the runtime, register blocks, the bare-metal HAL and its pool."""
    drivers = ["regs_native.c", "regs_chisel.c", "regs_hls.c", "hal_baremetal.c", "pool.c"]
    return sorted((root / "runtime").glob("*.c")) + [root / "driver" / d for d in drivers]


def strict_command(name: str, root: Path) -> list[str]:
    """The compiler with every flag: one for all tests of this file, which share its objects."""
    (program, *flags), package = COMPILERS[name]
    flags += mode_flags(32) if "-m32" in flags else ()
    stack = ["-fstack-usage"] if "clang" not in name else []
    return [tool(program, package), *flags, *STRICT, *SECTIONS, *stack, *includes(root)]


@pytest.mark.parametrize(
    "name", [n if n in QUICK else pytest.param(n, marks=pytest.mark.full) for n in COMPILERS]
)
def test_strict_flags_size_and_stack(
    name: str, root: Path, tmp_path: Path, figure: Callable[[str], None]
) -> None:
    command = strict_command(name, root)
    built = objects.all_compiled(command, board_sources(root))
    size = command[0].removesuffix("gcc").removesuffix("clang") + "size"
    if shutil.which(size):
        for path in built:
            (tmp_path / path.name).symlink_to(path)
        names = sorted(path.name for path in built)
        figure(f"{name}\n" + run([size, "-t", *names], cwd=tmp_path))
    usages = [path.with_suffix(".su") for path in built]
    assert all(path.is_file() for path in usages) == ("clang" not in name)
    frames = {}
    for usage in filter(Path.is_file, usages):
        for line in usage.read_text().splitlines():
            place, size_bytes, kind = line.split("\t")
            assert kind != "dynamic", line
            frames[place.split(":")[-1]] = int(size_bytes)
    if frames:
        worst = sorted(frames.items(), key=lambda item: -item[1])[:4]
        figure(f"{name}: largest stack frames: " + ", ".join(f"{f} {s} bytes" for f, s in worst))
        assert worst[0][1] <= STACK_BYTES, worst


@pytest.mark.full
def test_no_symbol_but_memcpy_and_memset(root: Path, tmp_path: Path) -> None:
    """The linker's word: everything else that the runtime needs is its own, or the compiler's
    helpers."""
    for cpu in ("cortex-m0plus", "cortex-m55"):
        command = strict_command(cpu, root)
        built = objects.all_compiled(command, board_sources(root))
        run(
            [*command, "-nostdlib", "-r", *map(str, built), "-lgcc", "-o", f"{cpu}.o"],
            cwd=tmp_path,
        )
        undefined = set(
            re.findall(r" U (\S+)", run(["arm-none-eabi-nm", f"{cpu}.o"], cwd=tmp_path))
        )
        helpers = {s for s in undefined if s.startswith(("__aeabi_", "__gnu_thumb1_"))}
        assert undefined - helpers == {"memcpy", "memset"}


def linked(root: Path, folder: Path, *parts: str) -> dict[str, int]:
    """Bytes of text that a minimal firmware keeps, by source folder, from the linker's map. parts:
    macros of firmware.c."""
    command = strict_command("cortex-m55", root)
    define = [f"-D{part}" for part in parts]
    main = objects.compiled([*command, *define], root / "tests/c/firmware.c")
    built = [main, *objects.all_compiled(command, board_sources(root))]
    symbols = [
        f"-Wl,--defsym={name}=0x1000"
        for name in (
            "model_bytes",
            "model_size_bytes",
            "board",
            "input",
            "output",
            "memcpy",
            "memset",
        )
    ]
    link = [
        "-nostdlib",
        "-Wl,--gc-sections",
        "-Wl,-Ttext=0x8000",
        "-Wl,-Map=firmware.map",
        *symbols,
    ]
    run([*command, *link, *map(str, built), "-lgcc", "-o", "firmware.elf"], cwd=folder)
    kept: dict[str, int] = {}
    body = (folder / "firmware.map").read_text().split("Linker script and memory map")[1]
    for section, size, place in re.findall(
        r"^ (\.(?:text|rodata)\S*)\s+0x[0-9a-f]+\s+(0x[0-9a-f]+)\s+(\S+)$", body, re.MULTILINE
    ):
        assert section
        kept[Path(place).name.split("(")[0]] = kept.get(Path(place).name.split("(")[0], 0) + int(
            size, 16
        )
    kept.pop("firmware.o")
    return kept


def test_text_on_cortex_m55(root: Path, tmp_path: Path, figure: Callable[[str], None]) -> None:
    """Runtime and native driver in 8 KiB; with validator and operators in what a footprint takes
    them for, the compiler's helpers included; functions of real numbers only where asked for."""
    for parts, limit in (
        ((), 8 * KIB),
        (("FULL",), RUNTIME_BYTES),
        (("FULL", "REAL"), RUNTIME_BYTES + REAL_BYTES),
    ):
        folder = tmp_path / "-".join(("least", *parts))
        folder.mkdir()
        kept, full = linked(root, folder, *parts), "FULL" in parts
        what = " ".join(("runtime and native driver", *parts))
        figure(f"text on Cortex-M55, {what}: {sum(kept.values())} bytes of {limit}: {kept}")
        assert "regs_native.o" in kept
        assert ("validate.o" in kept) == full
        assert ("operators_real.o" in kept) == ("REAL" in parts)
        assert 4 * KIB < sum(kept.values()) <= limit
