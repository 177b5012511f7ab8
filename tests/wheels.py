# SPDX-License-Identifier: Apache-2.0
"""`python -m tests.wheels [PLATFORM ...]`: wheels for other machines, in dist/: `make wheels`.

In:   the source tree; a platform of PLATFORMS. The compiler is zig's (PyPI's `ziglang`), which
      brings the C library's headers and symbols of each target: no sysroot, nothing of Debian's.
Out:  loadstone-VERSION-py3-none-PLATFORM.whl, whose name auditwheel read off the library: which
      processor, how old a glibc; of musl it is told, and checked. One that is for newer systems
      than its platform says, asks for more than the C library, or is large, is none.
Next: docs/boards/python.md says which wheel goes where; test_wheels.py runs them.

CMake builds as ever; the compiler it is told is a script that names the target. The C++ library is
linked in, so that a wheel asks for the C library alone.
"""

from __future__ import annotations

import io
import os
import re
import subprocess
import sys
import zipfile
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from tests.conftest import ROOT

__all__ = ["PLATFORMS", "Platform", "compilers", "needs", "wheel"]


@dataclass(frozen=True)
class Platform:
    """target: zig's, with the oldest glibc. processor, system: as the wheel's name has them; of a
    `linux` auditwheel finds which."""

    target: str
    processor: str
    system: str = "linux"


#: What zig compiles once: its C++ library, for each target. Not in the user's own folder of caches.
_CACHE = ROOT / "build/zig"
#: musl has no versions of symbols that auditwheel could read; its series 1.2 is of 2020.
_MUSL = "musllinux_1_2"
#: What a library for musl may ask for: the C library, by the name that musl's loader takes for
#: itself, and ours.
_OF_MUSL = {"libc.so", "libloadstone.so"}
#: Whose wheels are made. 2.28 is Debian 10's and Ubuntu 18.10's: no board's Linux that has a Python
#: of 3.10 is older.
PLATFORMS = {
    "x86_64": Platform("x86_64-linux-gnu.2.28", "x86_64"),
    "aarch64": Platform("aarch64-linux-gnu.2.28", "aarch64"),
    "armv7l": Platform("arm-linux-gnueabihf.2.28", "armv7l"),
    "musl-x86_64": Platform("x86_64-linux-musl", "x86_64", _MUSL),
    "musl-aarch64": Platform("aarch64-linux-musl", "aarch64", _MUSL),
}
#: PyPI keeps what was published for ever, and a board's disk is small.
_MOST_BYTES = 10_000_000
#: What a library for glibc may ask for.
_OF_GLIBC = re.compile(r"(libc|libm|libpthread|libdl|ld-linux.*|libloadstone)\.so")
_TOOLS = ("cc", "c++", "ar", "ranlib")


def compilers(platform: Platform, folder: Path) -> dict[str, Path]:
    """Scripts in `folder` that are the compiler, the archiver and so on of a platform."""
    folder.mkdir(parents=True, exist_ok=True)
    made = {}
    for tool in _TOOLS:
        target = f" -target {platform.target}" if tool in ("cc", "c++") else ""
        made[tool] = folder / tool
        made[tool].write_text(
            f"#!/bin/sh\nexport ZIG_GLOBAL_CACHE_DIR='{_CACHE}' ZIG_LOCAL_CACHE_DIR='{_CACHE}'\n"
            f"exec '{sys.executable}' -m ziglang {tool}{target} \"$@\"\n"
        )
        made[tool].chmod(0o755)
    return made


def wheel(platform: Platform, source: Path, folder: Path, options: Sequence[str] = ()) -> Path:
    """The wheel of a source tree, in `folder`/dist. options: more words for pip. Raises
    CalledProcessError; both programs say on stderr what they lack."""
    tools = compilers(platform, folder / "tools")
    defined = {
        "CMAKE_SYSTEM_NAME": "Linux",
        "CMAKE_SYSTEM_PROCESSOR": platform.processor,
        "CMAKE_C_COMPILER": tools["cc"],
        "CMAKE_CXX_COMPILER": tools["c++"],
        "CMAKE_AR": tools["ar"],
        "CMAKE_RANLIB": tools["ranlib"],
        "CMAKE_SHARED_LINKER_FLAGS": "-s",  # no `strip` of this machine knows the target
        "Python_EXECUTABLE": sys.executable,
    }
    words = [f"-Ccmake.define.{name}={value}" for name, value in defined.items()]
    words += ["-Cinstall.strip=false", f"-Cbuild-dir={folder / 'cmake'}", *options]
    pip = [sys.executable, "-m", "pip", "--disable-pip-version-check", "wheel", "-q", "--no-deps"]
    env = {**os.environ, "_PYTHON_HOST_PLATFORM": f"{platform.system}-{platform.processor}"}
    into, named = folder / "built", folder / "dist"
    for old in (*into.glob("*.whl"), *named.glob("*.whl")):
        old.unlink()
    subprocess.run([*pip, "--no-build-isolation", *words, "-w", into, source], env=env, check=True)
    (made,) = into.glob("*.whl")
    if platform.system == _MUSL:
        named.mkdir(exist_ok=True)
        return _small(_of_musl(made)).rename(named / made.name)
    path = os.pathsep.join([str(Path(sys.executable).parent), os.environ["PATH"]])
    repair = [sys.executable, "-m", "auditwheel", "repair", made, "-w", named]
    subprocess.run(repair, env={**os.environ, "PATH": path}, check=True)
    (repaired,) = named.glob("*.whl")
    return _small(_of_glibc(repaired, platform))


def _small(made: Path) -> Path:
    """The same wheel, which is small enough."""
    size = made.stat().st_size
    assert size <= _MOST_BYTES, f"{made.name} has {size} bytes, and at most {_MOST_BYTES} are taken"
    return made


def _of_glibc(made: Path, platform: Platform) -> Path:
    """The same wheel, whose libraries need no newer glibc than the platform says, and nothing
    else."""
    oldest = int(platform.target.rpartition(".")[2])
    found = re.findall(rf"manylinux_2_(\d+)_{platform.processor}\b", made.name)
    assert found, f"{made.name} is for another processor than {platform.processor}"
    assert int(found[0]) <= oldest, f"{made.name} needs a newer glibc than 2.{oldest}"
    more = {need for need in _needed(made) if not _OF_GLIBC.match(need)}
    assert not more, f"{made.name} needs {sorted(more)}"
    return made


def _of_musl(made: Path) -> Path:
    """The same wheel, whose libraries need musl alone, as its name says."""
    assert f"-py3-none-{_MUSL}_" in made.name, made.name
    needed = _needed(made)
    assert "libc.so" in needed <= _OF_MUSL, f"{made.name} needs {sorted(needed)}"
    return made


def _needed(made: Path) -> set[str]:
    """What the libraries of a wheel ask for."""
    with zipfile.ZipFile(made) as files:
        libraries = [name for name in files.namelist() if name.endswith(".so")]
        return {need for name in libraries for need in needs(files.read(name))}


def needs(library: bytes) -> list[str]:
    """The names of the libraries that a library asks for."""
    from elftools.elf.elffile import ELFFile  # of auditwheel

    dynamic = ELFFile(io.BytesIO(library)).get_section_by_name(".dynamic")
    return [tag.needed for tag in dynamic.iter_tags("DT_NEEDED")]


def main(words: Sequence[str]) -> int:
    """Makes those that are named, or all."""
    unknown = set(words) - PLATFORMS.keys()
    if unknown:
        print(f"{', '.join(sorted(unknown))}: not of {', '.join(PLATFORMS)}", file=sys.stderr)
        return 2
    for name in words or PLATFORMS:
        try:
            made = wheel(PLATFORMS[name], ROOT, ROOT / "build/wheels" / name)
        except subprocess.CalledProcessError as error:
            print(f"{name}: no wheel: {error.cmd[2]} ended as above", file=sys.stderr)
            return 1
        target = ROOT / "dist" / made.name
        target.parent.mkdir(exist_ok=True)
        made.replace(target)
        print(target.relative_to(ROOT))
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
