# SPDX-License-Identifier: Apache-2.0
"""The back end of ExecuTorch's runtime as a library: compiled, and taken into this process.

In:   backend.cc; the headers and the library of the ExecuTorch that is installed.
Out:  libloadstone_executorch.so, whose constructor registers "LoadstoneBackend".
Next: ExecuTorch's runtime gives it the artifacts of a .pte file.
"""

from __future__ import annotations

import ctypes
import os
import subprocess
from pathlib import Path

import executorch

from loadstone.errors import LoadstoneError
from loadstone.files import source_folder
from loadstone.library.native import library_file

__all__ = ["build", "load"]


def build(folder: str | Path) -> Path:
    """libloadstone_executorch.so in a folder, compiled by the machine's C++ compiler (the
    environment's CXX, else c++) against the ExecuTorch that is installed. Raises LoadstoneError."""
    root, library = source_folder(), library_file()
    host = Path(next(iter(executorch.__path__)))
    path = Path(folder) / "libloadstone_executorch.so"
    headers = [host / "include", host / "include/executorch/runtime/core/portable_type/c10"]
    own = ("runtime/hosts/include", "runtime/include", "driver/include")
    command = [os.environ.get("CXX", "c++"), "-std=c++17", "-O2", "-fPIC", "-shared"]
    command += ["-fvisibility=hidden", "-DC10_USING_CUSTOM_GENERATED_MACROS"]
    command += [str(Path(__file__).with_name("backend.cc")), "-o", str(path)]
    command += [word for header in headers for word in ("-isystem", str(header))]
    command += [f"-I{root / part}" for part in own]
    for name, where in (("executorch", host / "lib"), ("loadstone", library.parent)):
        command += [f"-L{where}", f"-l{name}", f"-Wl,-rpath,{where}"]
    try:
        done = subprocess.run(command, capture_output=True, text=True, check=False)
    except OSError as error:
        raise LoadstoneError(f"{command[0]}: {error.strerror}: install a C++ compiler") from error
    if done.returncode:
        raise LoadstoneError(f"{command[0]} cannot compile backend.cc: {done.stderr[:300]}")
    return path


def load(path: str | Path) -> None:
    """Takes what `build` made into this process: ExecuTorch's runtime then knows the back end.
    Raises LoadstoneError."""
    try:
        ctypes.CDLL(str(Path(path).resolve()))  # a name without a folder is looked for elsewhere
    except OSError as error:
        raise LoadstoneError(f"{path}: cannot be loaded: {error}") from error
