# SPDX-License-Identifier: Apache-2.0
"""What generated C calls where C's own operators stop at some numbers, as C99 text.

In:   names of helpers, each with a type of TVM.
Out:  definitions; C_TYPES: how C writes a type.
Next: c_printer.py uses them, artifact/c_operator.py puts them in front of an operator.

Data must not end a process: a division by 0 gives 0, as NumPy's and ARM's do, and the least integer
by -1 is itself, as all sums wrap. A larger and a smaller of two reals is not a number where one of
them is none, as in PyTorch and ONNX Runtime; as an integer that is the least one, which a quantized
network takes for it.
"""

from __future__ import annotations

__all__ = ["C_TYPES", "helper_texts"]

#: Type of TVM -> type of C. What is missing is refused. A float16 is its bits: it is moved and
#: converted, and nothing is computed with it.
C_TYPES = {"float16": "uint16_t", "float32": "float", "float64": "double", "bool": "uint8_t"} | {
    f"{sign}int{bits}": f"{sign}int{bits}_t" for sign in ("", "u") for bits in (8, 16, 32, 64)
}
#: What a helper takes, and what it returns, for a type {t} with the unsigned type {u}, whose name
#: is {n} and whose least number is {least}: of signed integers, ...
_SIGNED = {
    "lds_div": "{t} a, {t} b: b == 0 ? 0 : b == -1 ? ({t})(0u - ({u})a) : ({t})(a / b)",
    "lds_mod": "{t} a, {t} b: b == 0 || b == -1 ? 0 : ({t})(a % b)",
    "lds_floordiv": "{t} a, {t} b: b == 0 ? 0 : b == -1 ? ({t})(0u - ({u})a)"
    " : ({t})(a / b - (a % b != 0 && (a < 0) != (b < 0)))",
    "lds_floormod": "{t} a, {t} b: b == 0 || b == -1 ? 0"
    " : ({t})(a % b + (a % b != 0 && (a < 0) != (b < 0) ? b : 0))",
    "lds_abs": "{t} a: a < 0 ? ({t})(0u - ({u})a) : a",
    "lds_min": "{t} a, {t} b: a < b ? a : b",
    "lds_max": "{t} a, {t} b: a > b ? a : b",
    "lds_of_float": "float a: a != a ? {least} : ({t})a",
    "lds_of_double": "double a: a != a ? {least} : ({t})a",
}
#: ... of unsigned ones, ...
_UNSIGNED = _SIGNED | {
    "lds_div": "{t} a, {t} b: b == 0 ? 0 : ({t})(a / b)",
    "lds_mod": "{t} a, {t} b: b == 0 ? 0 : ({t})(a % b)",
    "lds_floordiv": "{t} a, {t} b: b == 0 ? 0 : ({t})(a / b)",
    "lds_floormod": "{t} a, {t} b: b == 0 ? 0 : ({t})(a % b)",
    "lds_abs": "{t} a: a",
}
#: ... and of reals.
_REAL = {
    "lds_min": "{t} a, {t} b: a < b || a != a ? a : b",
    "lds_max": "{t} a, {t} b: a > b || a != a ? a : b",
}


def helper_texts(helpers: set[str]) -> list[str]:
    """The definitions of helpers that are no mathematics ("lds_min int32"), in alphabetical
    order."""
    return [_text(*helper.split()) for helper in sorted(helpers) if " " in helper]


def _text(name: str, kind: str) -> str:
    is_real, is_signed = kind.startswith("float"), kind.startswith("int")
    table = _REAL if is_real else _SIGNED if is_signed else _UNSIGNED
    least = f"{kind.upper()}_MIN" if is_signed else "0"
    arguments, _, result = table[name].partition(": ")
    text = f"static inline {{t}} {name}_{{n}}({arguments}) {{{{ return {result}; }}}}"
    return text.format(t=C_TYPES[kind], u=f"u{kind}_t", n=kind, least=least)
