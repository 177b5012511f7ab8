# SPDX-License-Identifier: Apache-2.0
"""Statements that several functions have in common, made once.

In:   what writes a statement, and what it is told: both decide all that is in it.
Out:  `Statements`, which gives the statement, or the one that another function has.
Next: rescaled.py. ir_pass/recognise.py knows a nest again by its address.

A network's rescaled convolutions differ in a few of their nests: a tile is loaded and summed in
one way, and what then becomes of the sum is one of some thirty chains. To make a nest of TVM's
objects, and to read it, takes a hundred times as long as to find it here.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Hashable
from functools import lru_cache
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from loadstone.relax.types import Stmt

__all__ = ["Statements"]


class Statements:
    """Those of one function."""

    def __init__(self) -> None:
        self._times: Counter[Hashable] = Counter()

    def once(self, write: Callable[..., Stmt], *arguments: Hashable) -> Stmt:
        """What `write` makes of the arguments. A function that has the same statement again gets
        another one, with variables of its own, as TVM's passes expect."""
        self._times[write, arguments] += 1
        return _written(write, arguments, self._times[write, arguments])


@lru_cache(maxsize=2048)
def _written(write: Callable[..., Stmt], arguments: tuple[Hashable, ...], time: int) -> Stmt:
    """The `time`-th of those in a function that are the same."""
    del time
    return write(*arguments)
