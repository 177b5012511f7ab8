# SPDX-License-Identifier: Apache-2.0
"""The functions of real numbers that a generated operator may call, as C99 text of our own.

In:   names of TensorIR's intrinsics; runtime/real_math.h.
Out:  definitions without headers, libm or errno, needed ones first.
Next: c_printer.py puts those that an operator calls in front of it.

They are those of the runtime's own operators, word for word: the same bytes on every machine.
"""

from __future__ import annotations

import functools
import re
from collections.abc import Mapping

from loadstone.files import source_folder

__all__ = ["MATH", "closure"]

#: Those of two arguments.
_TWO = ("lds_pow", "lds_fmod")
#: TensorIR's intrinsic -> the function of doubles. round is to even, as TVM's LLVM code does it.
MATH = {
    name: f"lds_{name}"
    for name in (
        *("exp", "log", "sqrt", "rsqrt", "tanh", "erf", "pow", "sin", "cos", "atan"),
        *("tan", "asin", "acos", "sinh", "cosh", "asinh", "acosh", "atanh"),
        *("sigmoid", "fmod", "floor", "ceil", "trunc", "fabs"),
    )
} | {"round": "lds_rint", "nearbyint": "lds_rint", "abs": "lds_fabs"}


@functools.cache
def _defined() -> Mapping[str, str]:
    """Name -> definition, of each function in the header."""
    text = (source_folder() / "runtime/real_math.h").read_text(encoding="utf-8")
    found = re.finditer(r"^static inline \w+ (lds_\w+)\(.*?(?=\n\n)", text, re.M | re.S)
    return {definition[1]: definition[0] for definition in found}


def closure(names: set[str]) -> list[str]:
    """The definitions of these functions and of all that they need, needed ones first. A name that
    ends in f is the float version."""
    order: list[str] = []
    for name in sorted(names):
        _add(name, order)
    return [_definition(name) for name in order]


def _add(name: str, order: list[str]) -> None:
    needed = re.findall(r"\blds_\w+", _definition(name))
    for other in dict.fromkeys(needed):
        if other != name:
            _add(other, order)
    if name not in order:
        order.append(name)


def _definition(name: str) -> str:
    if name in _defined():
        return _defined()[name]
    base = name.removesuffix("f")
    if base in _TWO:
        return (
            f"static inline float {name}(float x, float y) "
            f"{{ return (float){base}((double)x, (double)y); }}"
        )
    return f"static inline float {name}(float x) {{ return (float){base}((double)x); }}"
