# SPDX-License-Identifier: Apache-2.0
"""The progress of a quantization, on a terminal.

In:   the name of a step; the items that it iterates over.
Out:  a line on stderr, which is removed when the step ends.
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
    """Shows `what` on stderr while it runs, if `show`; for work without items to count."""
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
