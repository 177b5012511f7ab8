# SPDX-License-Identifier: Apache-2.0
"""What a quantization is at, on a terminal.

In:   what is done; items that are gone through.
Out:  a line on stderr that is gone when it is done.
Next: compiler.py and the stages of a quantization.
"""

from __future__ import annotations

import sys
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from typing import TypeVar

__all__ = ["phase", "progress"]

T = TypeVar("T")


@contextmanager
def phase(what: str, show: bool) -> Iterator[None]:
    """Says `what` on stderr while it is done, when `show`: of what has no items to count."""
    if not show:
        yield
        return
    print(f"\r{what} ...", end="\033[K", file=sys.stderr, flush=True)
    try:
        yield
    finally:
        print("\r", end="\033[K", file=sys.stderr, flush=True)


def progress(items: Iterable[T], what: str, show: bool) -> Iterator[T]:
    """The items, with a progress bar on stderr when `show`."""
    if not show:
        yield from items
        return
    from tqdm import tqdm

    yield from tqdm(items, desc=what, leave=False)
