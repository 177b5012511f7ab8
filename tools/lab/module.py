# SPDX-License-Identifier: Apache-2.0
"""The WebAssembly module of the lab: lab.wasm, with the compiler that PyPI's `ziglang` brings.

In:   lab/, runtime/, driver/pool.c and hw_sim/ of a checkout.
Out:  lab.wasm; objects beside it, and zig's own cache: a second build compiles what changed.
Next: __main__.py puts the page around it.

zig builds its C++ library for WebAssembly without exceptions: what they need of it is compiled
here, out of the sources that zig brings, and one symbol (lab/tag.S). Left out of the simulator are
a device's thread (hw_sim/device.cc, hw_sim/pages.cc, hw_sim/shared_bus.cc) and the pages of a file
that can become shorter (hw_sim/guard.cc).
"""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

__all__ = ["build", "sources"]

_TARGET = ("-target", "wasm32-wasi", "-mexception-handling", "-msimd128")
_LEFT_OUT = {"device.cc", "pages.cc", "shared_bus.cc", "guard.cc"}
#: As the native library has them (CMakeLists.txt, hw_sim/kernels.cmake): floats round one by one.
_FLAGS = ("-g0", "-ffp-contract=off", "-fno-math-errno", "-fno-trapping-math", "-DLDS_BUILD")
_STRICT = ("-Wall", "-Wextra", "-Werror", "-Wconversion", "-Wsign-conversion", "-Wshadow")
_HEADERS = ("runtime/include", "runtime", "driver/include", "hw_sim/include", "hw_sim", "lab")


def sources(root: Path) -> list[Path]:
    """The files of ours that the module is made of."""
    simulator = (path for path in (root / "hw_sim").glob("*.cc") if path.name not in _LEFT_OUT)
    own = (root / "lab").glob("*.cc")
    return sorted([*(root / "runtime").glob("*.c"), root / "driver/pool.c", *simulator, *own])


def build(root: Path, folder: Path) -> Path:
    """lab.wasm in `folder`. Raises CalledProcessError; the compiler says on stderr what it
    lacks."""
    objects = folder / "objects"
    objects.mkdir(parents=True, exist_ok=True)
    zig = _Zig(root / "build/zig")
    includes = [f"-I{root / part}" for part in _HEADERS]
    work = [(path, _own(path, includes)) for path in sources(root)] + _of_exceptions(zig, root)
    made = [objects / f"{path.parent.name}-{path.name}.o" for path, _ in work]
    assert len(set(made)) == len(made), "two files of one name"
    with ThreadPoolExecutor(os.cpu_count()) as pool:
        list(pool.map(lambda one, to: zig.compile(one[1], one[0], to), work, made))
    module = folder / "lab.wasm"
    link = ("-fwasm-exceptions", "-mexec-model=reactor", "-O3", "-s", "-Wl,--gc-sections")
    zig.run(["c++", *_TARGET, *link, *made, "-o", module])
    return module


def _own(path: Path, includes: Sequence[str]) -> list[str]:
    """How a file of ours is compiled."""
    language = ["cc", "-std=c99"]
    if path.suffix == ".cc":
        language = ["c++", "-std=c++17", "-fwasm-exceptions"]
    # What works once for each click or host step is to be small, the simulator fast.
    speed = "-O3" if path.parent.name == "hw_sim" else "-Os"
    return [*language, *_TARGET, speed, *_FLAGS, *_STRICT, *includes]


def _of_exceptions(zig: _Zig, root: Path) -> list[tuple[Path, list[str]]]:
    """What zig's C++ library lacks: the files, and how each is compiled."""
    library = zig.library()
    unwind = f"-I{library / 'libunwind/include'}"
    cxx = ["c++", *_TARGET, "-fwasm-exceptions", "-std=c++23", "-O2", "-w", unwind]
    cxx += ["-D_LIBCXXABI_HAS_NO_THREADS", "-D_LIBCXXABI_BUILDING_LIBRARY"]
    cxx += ["-D_LIBCPP_BUILDING_LIBRARY", f"-I{library / 'libcxx/src'}"]
    c = ["cc", *_TARGET, "-fwasm-exceptions", "-fdeclspec", "-O2", "-w", unwind]
    c.append(f"-I{library / 'libunwind/src'}")
    abi = library / "libcxxabi/src"
    return [
        (root / "lab/tag.S", ["cc", *_TARGET]),
        (library / "libunwind/src/Unwind-wasm.c", c),
        (abi / "cxa_exception.cpp", cxx),
        (abi / "cxa_personality.cpp", cxx),
    ]


class _Zig:
    """The compiler, with a cache of its own. cache: a folder."""

    def __init__(self, cache: Path) -> None:
        self._env = {
            **os.environ,
            "ZIG_GLOBAL_CACHE_DIR": str(cache),
            "ZIG_LOCAL_CACHE_DIR": str(cache),
        }

    def run(self, words: Sequence[str | Path]) -> str:
        """One call; what it printed."""
        command = [sys.executable, "-m", "ziglang", *words]
        done = subprocess.run(command, env=self._env, stdout=subprocess.PIPE, text=True, check=True)
        return done.stdout

    def compile(self, words: Sequence[str | Path], source: Path, made: Path) -> None:
        """An object."""
        self.run([*words, "-c", source, "-o", made])

    def library(self) -> Path:
        """The folder with the sources that zig brings."""
        for line in self.run(["env"]).splitlines():
            name, _, value = line.partition("=")
            if name.strip(' ."') == "lib_dir":
                return Path(value.strip(' ,"'))
        raise RuntimeError("`zig env` names no lib_dir: ziglang of another version?")
