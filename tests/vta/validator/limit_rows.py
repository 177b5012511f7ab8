# SPDX-License-Identifier: Apache-2.0
"""Rows of the table of limits.

In:   a rule of runtime/VALIDATION.md, and the program that lies so many beyond its limit.
Out:  `Rows`, which limits.py, limits_moves.py and limits_compute.py fill.
Next: limits.py puts them together.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from tests.vta.validator.one_instruction import Case


@dataclass(frozen=True)
class Row:
    """A rule; "": none of the validators'. make: the case that lies so many beyond the limit. also:
    who else refuses it, the simulator ("s") or the reference ("r")."""

    rule: str
    also: str
    make: Callable[[int], Case]


class Rows(dict[str, Row]):
    """By name."""

    def limit(self, rule: str, name: str, make: Callable[[int], Case], also: str = "") -> None:
        assert name not in self
        self[name] = Row(rule, also, make)

    def switch(self, rule: str, name: str, good: Case, bad: Case, also: str = "") -> None:
        """A rule of yes and no: what lies beyond is `bad`."""
        self.limit(rule, name, lambda more: bad if more > 0 else good, also)
