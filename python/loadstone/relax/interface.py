# SPDX-License-Identifier: Apache-2.0
"""Is what a pass on Relax made still a module, of the same inputs and outputs?

In:   a module before the pass and behind it.
Out:  nothing, or a LoweringError that says what differs.
Next: passes/log.py runs it behind every pass on Relax, where verifiers run.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from loadstone.errors import LoweringError
from loadstone.relax.compat import dtype, relax, result, shape

if TYPE_CHECKING:
    from loadstone.relax.types import Expr, IRModule, RelaxFunction

__all__ = ["verify_interface"]


def verify_interface(before: IRModule, after: IRModule) -> None:
    """Raises LoweringError where `after` is not well-formed, or where its `main` has inputs or
    outputs of other shapes or types, in another order or number."""
    try:
        relax.analysis.well_formed(after)
    except Exception as error:  # of TVM: which class depends on what is wrong
        why = " ".join(str(error).split())
        raise LoweringError(f"what it made is no well-formed Relax: {why}") from error
    for what, one, other in zip(
        ("inputs", "outputs"), _ends(before["main"]), _ends(after["main"]), strict=True
    ):
        if one != other:
            raise LoweringError(f"the {what} were {', '.join(one)}, and are {', '.join(other)}")


def _ends(function: RelaxFunction) -> tuple[list[str], list[str]]:
    """Types of inputs and outputs."""
    return list(map(_type, function.params)), list(map(_type, result(function)))


def _type(entry: Expr) -> str:
    """Element type and shape; `?` for one that is not known, which is none of a single number."""
    extents = shape(entry)
    return f"{dtype(entry)}{'?' if extents is None else list(extents)}"
