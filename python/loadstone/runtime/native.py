"""Open libloadstone through cffi, in ABI mode: no compiler is needed where the package is used.

In:   libloadstone.so and _api.h (the C headers, preprocessed at build), installed beside this file.
Out:  `ffi` and `lib()`.
Next: device.py (runtime and drivers), simulator/sim.py (simulator).
"""

from __future__ import annotations

from functools import lru_cache
from importlib import resources
from pathlib import Path
from typing import Any, TypeAlias

import cffi

from loadstone.errors import ArtifactError, DeviceError, DeviceHungError, LoadstoneError

__all__ = ["CData", "ffi", "lib", "library_file", "raise_for"]

_HEADER, _LIBRARY = (
    resources.files("loadstone").joinpath(name) for name in ("_api.h", "libloadstone.so")
)
#: What cffi makes: a C object, a pointer, a function.
CData: TypeAlias = Any

ffi: Any = cffi.FFI()
# here and not in lib(): types are needed before the first call, and by threads that make it at the
# same time
if _HEADER.is_file():
    ffi.cdef(_HEADER.read_text(encoding="utf-8"))


@lru_cache(maxsize=1)
def lib() -> CData:
    """The library, opened once. Raises DeviceError when it was not built."""
    return ffi.dlopen(str(library_file()))


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
        (range(-26, -9), ArtifactError),
        (range(-32, -30), DeviceHungError),
    ]
    kind = next((k for codes, k in kinds if status in codes), DeviceError)
    raise kind(f"model {what!r}{place}: {text}")
