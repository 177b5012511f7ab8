# SPDX-License-Identifier: Apache-2.0
"""libloadstone by other compilers and for other processors, C and C++ programs that use it, and
emulators that run them.

In:   a toolchain's name; sources.
Out:  the library, as CMakeLists.txt builds it, warnings as errors; executables; the words before
      one that run it.
Next: vta/simulator/test_kernels.py.

Libraries stay in build/toolchains from one run to the next: only what has changed is compiled
again.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from tests.board.tools import ROOT, locked, need, run
from tests.emulated import EMULATOR
from tests.repeat import ALL

__all__ = ["PROCESSORS", "TOOLCHAINS", "Processor", "Toolchain", "executable", "library"]

#: Compiled sooner than -O3, and fast enough for emulators; the kernels too, but in `make test-all`.
_OPTIMIZE = (
    "-DCMAKE_UNITY_BUILD=ON",
    "-DCMAKE_C_FLAGS_RELEASE=-O1",
    "-DCMAKE_CXX_FLAGS_RELEASE=-O1",
    f"-DLOADSTONE_KERNEL_OPTIMIZATION={'-O3' if ALL else '-O1'}",
)
_ARM64 = ("-DCMAKE_SYSTEM_NAME=Linux", "-DCMAKE_SYSTEM_PROCESSOR=aarch64")
_CLANG_ARM64 = tuple(
    f"-DCMAKE_{language}_COMPILER_TARGET=aarch64-linux-gnu" for language in ("C", "CXX")
)
_WARNINGS = (
    "-Wall",
    "-Wextra",
    "-Werror",
    "-Wconversion",
    "-Wsign-conversion",
    "-Wshadow",
    "-Wcast-qual",
    "-Wundef",
)
_HEADERS = ("runtime/include", "driver/include", "hw_sim/include", "tests/board/guest")


@dataclass(frozen=True)
class Toolchain:
    """Compilers with their flags, Debian's packages of them, what CMake needs to know."""

    c: tuple[str, ...]
    cxx: tuple[str, ...]
    packages: str
    options: tuple[str, ...] = ()


@dataclass(frozen=True)
class Processor:
    """What runs an executable of a toolchain: an emulator with its arguments, or nothing; and the
    kernels that it then has."""

    toolchain: str
    emulator: tuple[str, ...] = ()
    kernels: tuple[str, ...] = ()


#: "native" is the library that the package uses, as `make lib` built it.
TOOLCHAINS = {
    "native": Toolchain(("gcc",), ("g++",), "g++"),
    "clang": Toolchain(("clang",), ("clang++",), "clang"),
    "arm64": Toolchain(
        ("aarch64-linux-gnu-gcc",), ("aarch64-linux-gnu-g++",), "g++-aarch64-linux-gnu", _ARM64
    ),
    "clang-arm64": Toolchain(
        ("clang", "--target=aarch64-linux-gnu"),
        ("clang++", "--target=aarch64-linux-gnu"),
        "clang g++-aarch64-linux-gnu",
        (*_ARM64, *_CLANG_ARM64),
    ),
}
_ARM64_LIBRARIES = ("-L", "/usr/aarch64-linux-gnu")
PROCESSORS = {
    "x86-64 without AVX": Processor("native", EMULATOR, ("portable",)),
    "x86-64 with AVX2": Processor(
        "native", ("qemu-x86_64", "-cpu", "Haswell"), ("portable", "avx2")
    ),
    "x86-64 without AVX, clang": Processor("clang", EMULATOR, ("portable",)),
    "arm64 without dot products": Processor(
        "arm64", ("qemu-aarch64", "-cpu", "cortex-a53", *_ARM64_LIBRARIES), ("portable",)
    ),
    "arm64 with dot products": Processor(
        "arm64", ("qemu-aarch64", "-cpu", "max", *_ARM64_LIBRARIES), ("portable", "neon")
    ),
    "arm64 with dot products, clang": Processor(
        "clang-arm64", ("qemu-aarch64", "-cpu", "max", *_ARM64_LIBRARIES), ("portable", "neon")
    ),
}


def library(toolchain: str) -> Path:
    """The folder that holds its libloadstone.so. Skips the test when a compiler is not there."""
    if toolchain == "native":
        return ROOT / "python/loadstone"
    chain = TOOLCHAINS[toolchain]
    for compiler in (chain.c[0], chain.cxx[0]):
        need(compiler, chain.packages)
    if "g++-aarch64-linux-gnu" in chain.packages:
        need("aarch64-linux-gnu-g++", "g++-aarch64-linux-gnu")
    folder = ROOT / "build/toolchains" / toolchain
    tools = Path(sys.executable).parent  # CMake and Ninja, of which the package is built
    compilers = [f"-DCMAKE_C_COMPILER={chain.c[0]}", f"-DCMAKE_CXX_COMPILER={chain.cxx[0]}"]
    beside = "-DSKBUILD_STATE=wheel"  # do not copy it over the library that the package uses
    with locked(f"toolchain-{toolchain}"):
        run(
            [
                tools / "cmake",
                *(
                    "-S",
                    ROOT,
                    "-B",
                    folder,
                    "-G",
                    "Ninja",
                    f"-DCMAKE_MAKE_PROGRAM={tools / 'ninja'}",
                ),
                *(*compilers, *chain.options, *_OPTIMIZE, beside),
            ]
        )
        run([tools / "cmake", "--build", folder])
    return folder


def executable(toolchain: str, sources: Sequence[Path], out: Path) -> Path:
    """Compiles sources, all C99 or all C++17, and links them with the toolchain's libloadstone."""
    folder, chain = library(toolchain), TOOLCHAINS[toolchain]
    compiler = [*chain.c, "-std=c99"] if sources[0].suffix == ".c" else [*chain.cxx, "-std=c++17"]
    need(compiler[0], chain.packages)
    includes = [f"-I{ROOT / header}" for header in _HEADERS]
    link = [folder / "libloadstone.so", f"-Wl,-rpath,{folder}", "-pthread"]
    run([*compiler, "-O1", *_WARNINGS, *includes, *sources, *link, "-o", out])
    return out
