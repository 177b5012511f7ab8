# SPDX-License-Identifier: Apache-2.0
"""One lowered operator: what emits its operations, and the text of what it was made from.

In:   what from_nests.py or from_tir.py made of a schedule.
Out:  `Kernel`.
Next: operators/kernels.py runs it with the names of tensors.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from loadstone.relax.types import PrimFunc

__all__ = ["Kernel"]


@dataclass(frozen=True, eq=False)
class Kernel:
    """emit(emitter, *places): appends the operations; the places are those of the DRAM tensors, in
    the order of `parameters`. functions: (title, PrimFunc) of every stage of its TensorIR; lowers
    it for that. forms: (title, text) of what comes in front of the TensorIR."""

    parameters: tuple[str, ...]
    emit: Callable[..., None]
    functions: Callable[[], Sequence[tuple[str, PrimFunc]]]
    forms: Callable[[], tuple[tuple[str, str], ...]] = tuple

    @cached_property
    def stages(self) -> tuple[tuple[str, str], ...]:
        """(title, text) of every stage. Printing costs as much as lowering, so it is done when
        somebody asks."""
        return (*self.forms(), *((title, _text(function)) for title, function in self.functions()))


def _text(function: PrimFunc) -> str:
    """TVMScript without the annotations that every allocation carries and nothing reads."""
    return re.sub(r", annotations=\{[^}]*\}", "", str(function.script())) + "\n"
