# SPDX-License-Identifier: Apache-2.0
"""TVM's tensors in the accelerator's memory: libloadstone_tvm.so, built against the wheels of TVM.

In:   a folder; TVM as it is installed.
Out:  the library there (`build`), in this process (`load`): the storage of TVM's virtual machines,
      tensors of `tvm.ext_dev(0)` and of loadstone.memory's `empty`.
Next: runtime/hosts/tvm/memory.cc; `loadstone_share_memory` of a library that hosts/tvm.py made.

    tvm_memory.load(tvm_memory.build("."))                  # before the first virtual machine
    module = tvm.runtime.load_module("net.so")
    module.get_function("loadstone_share_memory", query_imports=True)()
"""

from __future__ import annotations

import ctypes
import os
import subprocess
from importlib.util import find_spec
from pathlib import Path

from loadstone.errors import LoadstoneError, not_installed
from loadstone.files import source_folder
from loadstone.library.native import library_file
from loadstone.relax.compat import tvm

__all__ = ["build", "load"]

#: A function that every load registers.
_SIGN = "loadstone.memory.attach"


def build(folder: str | Path) -> Path:
    """libloadstone_tvm.so in a folder, compiled by the machine's C++ compiler (the environment's
    CXX, else c++) against the TVM that is installed. Raises LoadstoneError."""
    root, library = source_folder(), library_file()
    path = Path(folder) / "libloadstone_tvm.so"
    wheels = [_package("tvm"), _package("tvm_ffi")]
    own = ("runtime/hosts/include", "runtime/include", "driver/include")
    command = [os.environ.get("CXX", "c++"), "-std=c++17", "-O2", "-fPIC", "-shared"]
    command += ["-fvisibility=hidden", str(root / "runtime/hosts/tvm/memory.cc"), "-o", str(path)]
    command += [word for wheel in wheels for word in ("-isystem", str(wheel / "include"))]
    command += ["-idirafter", str(root / "runtime/hosts/tvm/wheel")]
    command += [f"-I{root / part}" for part in own]
    named = (("tvm_runtime", wheels[0] / "lib"), ("tvm_ffi", wheels[1] / "lib"))
    for name, where in (*named, ("loadstone", library.parent)):
        command += [f"-L{where}", f"-l{name}", f"-Wl,-rpath,{where}"]
    try:
        done = subprocess.run(command, capture_output=True, text=True, check=False)
    except OSError as error:
        raise LoadstoneError(f"{command[0]}: {error.strerror}: install a C++ compiler") from error
    if done.returncode:
        raise LoadstoneError(f"{command[0]} cannot compile memory.cc: {done.stderr[:300]}")
    return path


def _package(name: str) -> Path:
    spec = find_spec(name)
    if spec is None or not spec.submodule_search_locations:
        raise LoadstoneError(not_installed(name, "compiler"))
    return Path(spec.submodule_search_locations[0])


def load(path: str | Path) -> None:
    """Takes what `build` made into this process, once, before TVM's first virtual machine; a later
    load is refused by `loadstone_share_memory`. Raises LoadstoneError."""
    if tvm.get_global_func(_SIGN, allow_missing=True) is not None:
        return
    try:
        ctypes.CDLL(str(Path(path).resolve()))  # a name without a folder is looked for elsewhere
    except OSError as error:
        raise LoadstoneError(f"{path}: cannot be loaded: {error}") from error
