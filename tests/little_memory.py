# SPDX-License-Identifier: Apache-2.0
"""A process that cannot have much more memory, for a while.

In:   nothing.
Out:  `little_memory`: within it, an allocation of more than 64 MiB fails.
Next: isa/test_hazards.py and isa/test_residency.py ask the library for more.
"""

from __future__ import annotations

import resource
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

__all__ = ["little_memory"]

MORE_BYTES = 64 << 20


@contextmanager
def little_memory() -> Iterator[None]:
    """Address space that is taken counts, used or not."""
    soft, hard = resource.getrlimit(resource.RLIMIT_AS)
    pages = int(Path("/proc/self/statm").read_text(encoding="ascii").split()[0])
    limit = pages * resource.getpagesize() + MORE_BYTES
    resource.setrlimit(resource.RLIMIT_AS, (limit, hard))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_AS, (soft, hard))
