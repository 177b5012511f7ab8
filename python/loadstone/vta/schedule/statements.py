# SPDX-License-Identifier: Apache-2.0
"""Nests that several functions have in common, made once.

In:   what writes a nest, and what it is told: both decide all that is in it.
Out:  the nest, or the one that another function has.
Next: rescaled.py. nest_kernel.py knows a nest again by its identity.

A network's rescaled convolutions differ in a few of their nests: a tile is loaded and summed in
one way, and what then becomes of the sum is one of some thirty chains.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable
from functools import lru_cache

from loadstone.vta.schedule.nests import Nest

__all__ = ["once"]


@lru_cache(maxsize=4096)
def once(write: Callable[..., Nest], *arguments: Hashable) -> Nest:
    """What `write` makes of the arguments."""
    return write(*arguments)
