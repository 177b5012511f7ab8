# SPDX-License-Identifier: Apache-2.0
"""A step of the host as one C file: its text, its symbol, what it reads besides its inputs.

In:   functions and statements in C; names of helpers.
Out:  COperator.
Next: host.py makes a step of it; `loadstone export` writes the text beside the model,
      runtime/c_step.py compiles it where Python runs the model.

    void SYMBOL(void *const *operands)      inputs, constants, outputs, scratch memory
"""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass

from loadstone.numerics import Array
from loadstone.relax.c_math import closure

__all__ = ["COperator", "translation_unit"]


@dataclass(frozen=True, eq=False)
class COperator:
    """symbol: the function in `source`. constants: what it reads besides its inputs, in order."""

    symbol: str
    source: str
    constants: tuple[Array, ...]
    workspace_bytes: int


def translation_unit(
    helpers: set[str], functions: Sequence[str], body: Sequence[str]
) -> tuple[str, str]:
    """(symbol, text) of a file. helpers: names of relax/c_math.py. body: statements that see
    `operands`.

    The symbol is a hash of the text, so that steps with one text are one function.
    """
    parts = ["#include <stdint.h>", *closure(helpers), *functions]
    code = "\n".join(["{", *(f"  {line}" for line in body), "}"])
    symbol = "lds_c_" + hashlib.sha256("\n".join([*parts, code]).encode()).hexdigest()[:16]
    head = f"void {symbol}(void *const *operands);\n\nvoid {symbol}(void *const *operands) "
    return symbol, "\n\n".join([*parts, head + code]) + "\n"
