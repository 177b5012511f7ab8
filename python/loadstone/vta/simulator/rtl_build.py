# SPDX-License-Identifier: Apache-2.0
"""Compile hw_sim/rtl with Verilator for one device, once: the library that rtl.py opens.

In:   a HwConfig; hw_sim/rtl of this checkout; Verilator and a C++ compiler.
Out:  build/rtl/NAME/lds_rtl-HASH.so, rebuilt when a source or the device has changed; `sources`.
Next: rtl.py. Everything else works without Verilator: `missing` names what to install. `make synth`
      passes the same sources to yosys.
"""

from __future__ import annotations

import fcntl
import hashlib
import re
import shutil
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

from loadstone.errors import LoadstoneError
from loadstone.vta.device.hw_config import HwConfig, load_config
from loadstone.vta.device.rtl_package import config_package

__all__ = ["HEADER", "RTL", "library", "main", "missing", "sources"]

RTL = Path(__file__).resolve().parents[4] / "hw_sim" / "rtl"
_BUILT = RTL.parents[1] / "build" / "rtl"
#: Warnings that are errors, but for those about style: packages are imported whole, and not every
#: bit of an instruction is read by every module.
_WARNINGS = ("-Wall", "-Wno-UNUSED", "-Wno-DECLFILENAME", "-Wno-IMPORTSTAR")
#: The packages, in the order in which they need each other.
_PACKAGES = ("lds_isa_pkg.sv", "lds_types_pkg.sv")
#: A short build, and still some hundred thousand cycles a second.
_OPTIMIZATION = "-O1"
#: A file of Verilator's own makefile, by its name without .cpp.
_MADE = re.compile(r"^\t(\w+) \\$", re.MULTILINE)


def _declarations() -> str:
    """What hw_sim/rtl/lds_rtl.h declares, for cffi."""
    path = RTL / "lds_rtl.h"
    if not path.is_file():
        return ""
    text = path.read_text(encoding="utf-8")
    begin, end = text.index("typedef struct lds_rtl lds_rtl;"), text.index("#if !defined(LDS_CDEF)")
    return text[begin:end]


HEADER = _declarations()


def missing() -> str:
    """What keeps the RTL from being built here, in one line; "" when nothing does."""
    if not (RTL / "lds_device.sv").is_file():
        return f"no hw_sim/rtl at {RTL.parents[1]}: the RTL is in a checkout of loadstone only"
    for tool in ("verilator", "c++"):
        if shutil.which(tool) is None:
            package = {"c++": "g++"}.get(tool, tool)
            return f"{tool} is missing: apt-get install {package}"
    return ""


def sources() -> list[Path]:
    """The SystemVerilog files, packages first."""
    packages = [RTL / name for name in _PACKAGES]
    return packages + sorted(p for p in RTL.glob("*.sv") if p not in packages)


def library(config: HwConfig) -> Path:
    """The shared library of a device; compiled when it is not there. Raises LoadstoneError."""
    if reason := missing():
        raise LoadstoneError(f"device rtl: {reason}")
    package = config_package(config)
    digest = hashlib.sha256(package.encode())
    for path in [*sources(), *sorted(RTL.glob("*.h")), RTL / "rtl_device.cc"]:
        digest.update(path.read_bytes())
    folder = _BUILT / config.name
    built = folder / f"lds_rtl-{digest.hexdigest()[:16]}.so"
    folder.mkdir(parents=True, exist_ok=True)
    with (folder / "lock").open("w") as lock:  # another process may be at it
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not built.is_file():
            _compile(config, package, folder, built)
    return built


def main(arguments: Sequence[str]) -> int:
    """`make rtl`: builds the library of a device."""
    try:
        print(library(load_config(arguments[0])))
    except LoadstoneError as error:
        print(error, file=sys.stderr)
        return 1
    return 0


def _compile(config: HwConfig, package: str, folder: Path, built: Path) -> None:
    """In folder/obj, as one translation unit: a dozen files would each read the same headers
    again, and take more than twice as long."""
    parameters = folder / "lds_config_pkg.sv"
    parameters.write_text(package, encoding="utf-8")
    scratch = folder / "obj"
    shutil.rmtree(scratch, ignore_errors=True)
    _run(
        [
            *("verilator", "--cc", "-O3", "--x-assign", "fast", "--x-initial", "fast"),
            # Loops over the words of a memory: a tile of 32 x 32 has 128 of 8 bytes.
            *("--unroll-count", "256", "--Mdir", str(scratch), "--top-module", "lds_device"),
            *_WARNINGS,
            *map(str, [parameters, *sources()]),
        ]
    )
    made = _MADE.findall((scratch / "Vlds_device_classes.mk").read_text(encoding="utf-8"))
    unit = scratch / "lds_rtl.cc"
    names = [*(f"{name}.cpp" for name in made), "rtl_device.cc"]
    unit.write_text("".join(f'#include "{name}"\n' for name in names), encoding="utf-8")
    include = Path(_output(["verilator", "--getenv", "VERILATOR_ROOT"])) / "include"
    fresh = scratch / "lds_rtl.so"
    _run(
        [
            *("c++", "-std=c++17", _OPTIMIZATION, "-w", "-fPIC", "-shared", "-pthread"),
            f"-DLDS_RTL_BUS_BYTES={config.bus_bits // 8}",
            *(f"-I{folder}" for folder in (scratch, RTL, include, include / "vltstd")),
            *(str(unit), "-o", str(fresh), "-latomic"),
        ]
    )
    fresh.replace(built)


def _run(command: list[str]) -> None:
    _output(command)


def _output(command: list[str]) -> str:
    """What a tool says. Raises LoadstoneError when it fails."""
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode:
        text = (done.stderr or done.stdout).strip()
        raise LoadstoneError(f"device rtl: {command[0]} failed: {text[-2000:]}")
    return done.stdout.strip()


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
