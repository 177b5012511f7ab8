# SPDX-License-Identifier: Apache-2.0
"""Open libloadstone through cffi, in ABI mode: no compiler is needed where the package is used.

In:   libloadstone.so, _api.h (the C headers, preprocessed at build) and _api.ffi (the same,
      parsed), installed with the package.
Out:  `ffi` and `lib()`.
Next: isa/ and vta/ call what is in native/; runtime/device.py the runtime and its drivers,
      vta/simulator/sim.py the simulator.
"""

from __future__ import annotations

import os
from functools import lru_cache, partial
from importlib import resources
from pathlib import Path
from typing import Any, TypeAlias

from loadstone.errors import ArtifactError, DeviceError, DeviceHungError, LoadstoneError
from loadstone.library import parsed_api

__all__ = ["CData", "ffi", "lib", "library_file", "owned", "raise_easy", "raise_for"]

_HEADER, _PARSED, _LIBRARY = (
    resources.files("loadstone").joinpath(name)
    for name in ("_api.h", "_api.ffi", "libloadstone.so")
)
#: What cffi makes: a C object, a pointer, a function.
CData: TypeAlias = Any


def parsed_types() -> parsed_api.FFI:
    """The types and functions of the headers; none of them where the library was not built."""
    header = _HEADER.read_text(encoding="utf-8") if _HEADER.is_file() else ""
    if header and _PARSED.is_file():
        found = parsed_api.opened(_PARSED.read_text(encoding="utf-8"), header)
        if found is not None:
            return found
    import cffi

    made = cffi.FFI()
    made.cdef(header)
    return made


# here and not in lib(): types are needed before the first call, and by threads that make it at the
# same time
ffi: parsed_api.FFI = parsed_types()


@lru_cache(maxsize=1)
def lib() -> CData:
    """The library, opened once. Raises DeviceError when it was not built."""
    return ffi.dlopen(str(library_file()))


def owned(pointer: CData, end: CData) -> CData:
    """A C object that `end` ends when nobody has it any more; a copy of it behind fork() is left
    alone, as its threads and its device are not that process's."""
    return ffi.gc(pointer, partial(_end, end, os.getpid()))


def _end(end: CData, process: int, pointer: CData) -> None:
    if os.getpid() == process:
        end(pointer)


def library_file() -> Path:
    """libloadstone.so. Raises DeviceError when it was not built."""
    if not _HEADER.is_file() or not _LIBRARY.is_file():
        raise DeviceError(
            "libloadstone.so is not beside the package: build it with `make lib`, or install "
            "the wheel"
        )
    return Path(str(_LIBRARY))


def raise_for(status: int, what: str, place: str = "") -> None:
    """The exception that fits a status of the C runtime; none for 0."""
    if not status:
        return
    text = ffi.string(lib().lds_status_text(status)).decode()
    kinds: list[tuple[range, type[LoadstoneError]]] = [
        (range(-27, -9), ArtifactError),
        (range(-32, -30), DeviceHungError),
    ]
    kind = next((k for codes, k in kinds if status in codes), DeviceError)
    raise kind(f"model {what!r}{place}: {text}")


def raise_easy(status: int, error: CData) -> None:
    """A DeviceError with the line that a function of lds_easy.h or lds_serve.h left in *error; none
    for 0."""
    if status:
        raise DeviceError(ffi.string(error.text).decode(errors="replace"))
