# SPDX-License-Identifier: Apache-2.0
"""Whether there is room to load TVM, and how packages are left out that it would import.

In:   the limit of this process's address space, and what it has of it; names of packages.
Out:  nothing, or one line; `hidden`: a context in which these packages cannot be imported.
Next: compat.py, which imports TVM.

Without room TVM's imports end in whatever comes of a library that is not there, or in a process
that has no memory left to say so.
"""

from __future__ import annotations

import resource
import sys
from collections.abc import Iterator
from contextlib import contextmanager

from loadstone.errors import LoadstoneError

__all__ = ["check_room", "hidden"]

#: Bytes of address space that loading TVM takes, measured.
_TVM_BYTES = 380 << 20


def check_room() -> None:
    """Raises LoadstoneError with the memory that is available, and that is needed."""
    limit = resource.getrlimit(resource.RLIMIT_AS)[0]
    if limit == resource.RLIM_INFINITY:
        return
    with open("/proc/self/statm", encoding="ascii") as file:
        used = int(file.read().split()[0]) * resource.getpagesize()
    if limit - used < _TVM_BYTES:
        raise LoadstoneError(
            f"TVM cannot be loaded: this process may have {limit >> 10} KiB of address space "
            f"(ulimit -v), and needs some {used + _TVM_BYTES >> 10}: raise the limit"
        )


@contextmanager
def hidden(*packages: str) -> Iterator[None]:
    """Inside it `import package` fails, for those that are not imported already."""
    absent = [package for package in packages if package not in sys.modules]
    sys.modules.update(dict.fromkeys(absent))  # type: ignore[arg-type]
    try:
        yield
    finally:
        for package in absent:
            del sys.modules[package]
