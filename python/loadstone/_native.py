"""Open libloadstone through cffi, in ABI mode: no compiler is needed where the package is used.

In:   libloadstone.so and _api.h (the C headers, preprocessed at build), installed beside this file.
Out:  `ffi` and `lib()`.
Next: device.py (runtime and drivers), sim.py (simulator).
"""

from __future__ import annotations

from functools import lru_cache
from importlib import resources
from typing import Any

import cffi

from loadstone.errors import DeviceError

__all__ = ["ffi", "lib"]

ffi: Any = cffi.FFI()


@lru_cache(maxsize=1)
def lib() -> Any:
    """The library, opened once. Raises DeviceError when it was not built."""
    package = resources.files("loadstone")
    header, library = package.joinpath("_api.h"), package.joinpath("libloadstone.so")
    if not header.is_file() or not library.is_file():
        raise DeviceError("libloadstone.so is not beside the package: build it with `make lib`, or install the wheel")
    ffi.cdef(header.read_text(encoding="utf-8"))
    return ffi.dlopen(str(library))
