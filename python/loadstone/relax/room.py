# SPDX-License-Identifier: Apache-2.0
"""Whether there is room to load TVM.

In:   the limit of this process's address space, and what it has of it.
Out:  nothing, or one line.
Next: compat.py asks before it imports TVM.

Without room TVM's imports end in whatever comes of a library that is not there, or in a process
that has no memory left to say so.
"""

from __future__ import annotations

import resource

from loadstone.errors import LoadstoneError

__all__ = ["check_room"]

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
