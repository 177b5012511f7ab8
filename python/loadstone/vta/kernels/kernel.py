# SPDX-License-Identifier: Apache-2.0
"""One lowered operator: what emits its operations, and the passes that made it.

In:   what from_nests.py made of a function of nests.
Out:  `Kernel`.
Next: operators/kernels.py runs it with the names of tensors.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from loadstone.passes.log import PassRun

__all__ = ["Kernel"]


@dataclass(frozen=True, eq=False)
class Kernel:
    """emit(emitter, *places): appends the operations; the places are those of the DRAM tensors, in
    the order of `parameters`. runs: of the passes that made it, whose subject is still empty: a
    kernel is made once for all layers that are alike. verified: whether verify.py has looked at
    what it emits."""

    parameters: tuple[str, ...]
    emit: Callable[..., None]
    runs: tuple[PassRun, ...] = ()
    verified: bool = False
