"""Compile hw_sim/rtl with Verilator for one device, once: the library that rtl.py opens.

In:   a HwConfig; hw_sim/rtl of this checkout; Verilator, a C++ compiler and make.
Out:  build/rtl/NAME/lds_rtl-HASH.so, made anew when a source or the device has changed.
Next: rtl.py. Without Verilator everything else works: `missing` says what to install.
"""

from __future__ import annotations

import fcntl
import hashlib
import shutil
import subprocess
from pathlib import Path

from loadstone.errors import LoadstoneError
from loadstone.vta.hw_config import HwConfig
from loadstone.vta.rtl_package import config_package

__all__ = ["HEADER", "library", "missing", "sources"]

_ROOT = Path(__file__).resolve().parents[3]
_RTL = _ROOT / "hw_sim" / "rtl"
#: Warnings that are errors, but for those about style: packages are imported whole, and not every
#: bit of an instruction is read by every module.
_WARNINGS = ("-Wall", "-Wno-UNUSED", "-Wno-DECLFILENAME", "-Wno-IMPORTSTAR")
#: The packages, in the order in which they need each other.
_PACKAGES = ("lds_isa_pkg.sv", "lds_types_pkg.sv")


#: A short build, and still some hundred thousand cycles a second.
_OPTIMIZATION = ("OPT_FAST=-O1", "OPT_SLOW=-O0", "OPT_GLOBAL=-O1")


def _declarations() -> str:
    """What lds_rtl.h declares, for cffi."""
    path = _RTL / "lds_rtl.h"
    if not path.is_file():
        return ""
    text = path.read_text(encoding="utf-8")
    begin, end = text.index("typedef struct lds_rtl lds_rtl;"), text.index("#if !defined(LDS_CDEF)")
    return text[begin:end]


HEADER = _declarations()


def missing() -> str:
    """What keeps the RTL from being built here, in one line; "" when nothing does."""
    if not (_RTL / "lds_device.sv").is_file():
        return f"no hw_sim/rtl at {_ROOT}: the RTL is in a checkout of loadstone only"
    for tool in ("verilator", "make", "c++"):
        if shutil.which(tool) is None:
            package = {"c++": "g++"}.get(tool, tool)
            return f"{tool} is missing: apt-get install {package}"
    return ""


def sources() -> list[Path]:
    """The SystemVerilog files, packages first."""
    packages = [_RTL / name for name in _PACKAGES]
    return packages + sorted(p for p in _RTL.glob("*.sv") if p not in packages)


def library(config: HwConfig) -> Path:
    """The shared library of a device; compiled when it is not there. Raises LoadstoneError."""
    if reason := missing():
        raise LoadstoneError(f"device rtl: {reason}")
    package = config_package(config)
    digest = hashlib.sha256(package.encode())
    for path in [*sources(), *sorted(_RTL.glob("*.h")), _RTL / "rtl_device.cc"]:
        digest.update(path.read_bytes())
    folder = _ROOT / "build" / "rtl" / config.name
    built = folder / f"lds_rtl-{digest.hexdigest()[:16]}.so"
    folder.mkdir(parents=True, exist_ok=True)
    with (folder / "lock").open("w") as lock:  # another process may be at it
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not built.is_file():
            _compile(config, package, folder, built)
    return built


def _compile(config: HwConfig, package: str, folder: Path, built: Path) -> None:
    """Verilator and make know what they have made before, in folder/obj."""
    parameters = folder / "lds_config_pkg.sv"
    if not parameters.is_file() or parameters.read_text(encoding="utf-8") != package:
        parameters.write_text(package, encoding="utf-8")
    scratch, fresh = folder / "obj", folder / "obj" / "lds_rtl.so"
    flags = f"-fPIC -DLDS_RTL_BUS_BYTES={config.bus_bits // 8} -I{_RTL}"
    _run(
        [
            *("verilator", "--cc", "-O3", "--x-assign", "fast", "--x-initial", "fast"),
            *("--Mdir", str(scratch), "--top-module", "lds_device", *_WARNINGS),
            *map(str, [parameters, *sources()]),
            *("--exe", str(_RTL / "rtl_device.cc"), "-CFLAGS", flags, "-LDFLAGS", "-shared"),
            *("-o", str(fresh)),
        ]
    )
    _run(["make", "-s", "-C", str(scratch), "-f", "Vlds_device.mk", *_OPTIMIZATION])
    shutil.copy(fresh, built)


def _run(command: list[str]) -> None:
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode:
        text = (done.stderr or done.stdout).strip()
        raise LoadstoneError(f"device rtl: {command[0]} failed: {text[-2000:]}")
