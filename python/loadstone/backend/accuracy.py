# SPDX-License-Identifier: Apache-2.0
"""Whether outputs may be one level off where that takes fewer cycles.

In:   `loadstone compile --rounding near`.
Out:  `is_near()`, for back ends, inside `rounding_to`.
Next: vta/operators/rescaled_layer.py asks.

Without it, every integer is the framework's.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar

__all__ = ["ROUNDINGS", "is_near", "rounding_to"]

#: The framework's integers; at most one level off, with a proven bound.
ROUNDINGS = ("exact", "near")
_rounding: ContextVar[str] = ContextVar("rounding", default=ROUNDINGS[0])


def is_near() -> bool:
    """Whether an output may be one level off."""
    return _rounding.get() == "near"


@contextmanager
def rounding_to(name: str) -> Iterator[None]:
    """One of ROUNDINGS holds inside."""
    before = _rounding.set(name)
    try:
        yield
    finally:
        _rounding.reset(before)
