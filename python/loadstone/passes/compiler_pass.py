# SPDX-License-Identifier: Apache-2.0
"""One line of the list of passes.

In:   the words of table.py.
Out:  `CompilerPass`, numbered in the order of the list.
Next: table.py.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TypeAlias

__all__ = ["CompilerPass", "Row", "numbered", "relax_pass", "stage"]


@dataclass(frozen=True)
class CompilerPass:
    """A pass of the compiler.

    number: its place in the list, from 1 on. name: unique. module: the file that does it, inside
    the package. before, after: what must hold. verifier: the function that checks `after` by other
    means than the pass works with; empty where there is none.
    """

    number: int
    stage: str
    name: str
    module: str
    does: str
    before: str
    after: str
    verifier: str = ""

    @property
    def file_name(self) -> str:
        """What a dump's file begins with: place, stage and name, as in `12-partition-segments`."""
        return f"{self.number:02}-{self.stage}-{self.name}"


#: The fields of a CompilerPass from `name` on.
Row: TypeAlias = tuple[str, ...]


def stage(name: str, *rows: Row) -> tuple[tuple[str, Row], ...]:
    """The passes of one stage, in order."""
    return tuple((name, row) for row in rows)


def relax_pass(name: str, module: str, does: str, before: str) -> Row:
    """A pass from Relax to Relax."""
    after = "well-formed Relax; inputs and outputs have the shapes and types that they had"
    return name, module, does, before, after, "relax.interface.verify_interface"


def numbered(*rows: tuple[str, Row]) -> tuple[CompilerPass, ...]:
    """The passes of all stages."""
    return tuple(CompilerPass(n, name, *row) for n, (name, row) in enumerate(rows, start=1))
