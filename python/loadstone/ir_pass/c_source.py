# SPDX-License-Identifier: Apache-2.0
"""A lowered operator as C: loops around calls of a library, for a device whose maker delivers
functions.

In:   the PrimFunc of pipeline.py; headers of the library; which of its functions does what an
      intrinsic call says.
Out:  C99 text of one function: its parameters are the operator's tensors in DRAM, its tiles static
      arrays.
Next: a back end keeps the text in an ExternalRegion, and compiles it with the library.

    calls = {"dma_copy": "npu_copy", "gemm": "npu_matmul", "fill": "npu_set", "rq": "npu_scale"}
    c_source(function, "layer1", includes=("npu.h",), calls=calls)

    void layer1(int8_t *x, int8_t *w, int32_t *p, int8_t *out) {
      for (int32_t i0 = 0; i0 < 4; i0++) {
        npu_copy(&x_local[0], &x[i0 * 80 - 16], 0, 2, (const lds_loop_t[]){{5, 0, 5, 0, 5, {16,
        16}}, {16, 0, 16, 0, 16, {1, 1}}});

A call gets a pointer for each buffer (of its element at the origin of the loops), its immediates,
and its loops, outermost first:
first <= i < last is executed; of a copy, what is not in [inside_first, inside_last) is the pad
value. Strides are in elements, in the order of the pointers. A tensor on chip is a pointer, too: a
device that has addresses of its own maps the arrays.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from math import prod
from typing import TYPE_CHECKING

from loadstone.errors import LoweringError
from loadstone.ir_pass.intrinsics import (
    Axis,
    BufferOperand,
    Intrinsic,
    is_intrinsic,
    read_intrinsic,
)
from loadstone.relax.compat import is_tir_call, tirx

if TYPE_CHECKING:
    from loadstone.relax.types import Buffer, Expr, PrimFunc, Stmt, Var

__all__ = ["PREAMBLE", "c_source"]

#: What every text begins with. The library's header may use lds_loop_t.
PREAMBLE = """\
#include <stdint.h>

#ifndef LDS_LOOP_T
#define LDS_LOOP_T
typedef struct {
  int32_t extent, first, last, inside_first, inside_last, strides[4];
} lds_loop_t;
#endif
static inline int32_t lds_floordiv(int32_t a, int32_t b) {
  return a / b - (a % b != 0 && (a < 0) != (b < 0));
}
static inline int32_t lds_floormod(int32_t a, int32_t b) { return a - lds_floordiv(a, b) * b; }
static inline int32_t lds_min(int32_t a, int32_t b) { return a < b ? a : b; }
static inline int32_t lds_max(int32_t a, int32_t b) { return a > b ? a : b; }
"""
_INFIX = {
    tirx.Add: "+", tirx.Sub: "-", tirx.Mul: "*", tirx.And: "&&", tirx.Or: "||",
    tirx.LT: "<", tirx.LE: "<=", tirx.GT: ">", tirx.GE: ">=", tirx.EQ: "==", tirx.NE: "!=",
}  # fmt: skip
_CALLED = {
    tirx.FloorDiv: "lds_floordiv",
    tirx.FloorMod: "lds_floormod",
    tirx.Min: "lds_min",
    tirx.Max: "lds_max",
}


def c_source(
    function: PrimFunc, name: str, includes: Sequence[str], calls: Mapping[str, str]
) -> str:
    """calls: intrinsic (without `lds.`) -> function of the library. Raises LoweringError for a call
    that has none."""
    return _Writer(calls).text(function, name, includes)


class _Writer:
    def __init__(self, calls: Mapping[str, str]) -> None:
        self.calls = calls
        self.tiles: list[str] = []
        self.lines: list[str] = []
        self.names: dict[Var | Buffer, str] = {}

    def text(self, function: PrimFunc, name: str, includes: Sequence[str]) -> str:
        parameters = ", ".join(f"{_type(p)} *{self.name(p)}" for p in function.params)
        self.visit(function.body, 1)
        headers = "".join(f'#include "{header}"\n' for header in includes)
        return "\n".join(
            [PREAMBLE + headers, f"void {name}({parameters}) {{", *self.tiles, *self.lines, "}", ""]
        )

    def visit(self, stmt: Stmt, depth: int) -> None:
        if isinstance(stmt, tirx.SeqStmt):
            for part in stmt.seq:
                self.visit(part, depth)
        elif isinstance(stmt, tirx.For):
            i = self.name(stmt.loop_var)
            first, last = self.c(stmt.min), self.c(stmt.min + stmt.extent)
            self.block(f"for (int32_t {i} = {first}; {i} < {last}; {i}++) {{", stmt.body, depth)
        elif isinstance(stmt, tirx.IfThenElse) and stmt.else_case is None:
            self.block(f"if ({self.c(stmt.condition)}) {{", stmt.then_case, depth)
        elif isinstance(stmt, tirx.AllocBuffer):
            size = prod(int(n) for n in stmt.buffer.shape)
            self.tiles.append(f"  static {_type(stmt.buffer)} {self.name(stmt.buffer)}[{size}];")
        elif is_intrinsic(stmt):
            self.lines.append("  " * depth + self.call(read_intrinsic(stmt)))
        elif not (isinstance(stmt, tirx.Evaluate) and isinstance(stmt.value, tirx.IntImm)):
            raise LoweringError(
                f"c_source: statement {type(stmt).__name__} is neither a loop nor an "
                f"intrinsic call: {stmt}"
            )

    def block(self, head: str, body: Stmt, depth: int) -> None:
        self.lines.append("  " * depth + head)
        self.visit(body, depth + 1)
        self.lines.append("  " * depth + "}")

    def call(self, call: Intrinsic) -> str:
        if call.name not in self.calls:
            raise LoweringError(
                f"c_source: the library has no function for lds.{call.name}; it has them for "
                f"{', '.join(self.calls)}"
            )
        loops = ", ".join(self.loop(axis) for axis in call.axes) or "{0}"
        parts = [
            *(self.pointer(operand) for operand in call.operands),
            *map(str, call.immediates),
            str(len(call.axes)),
        ]
        return f"{self.calls[call.name]}({', '.join(parts)}, (const lds_loop_t[]){{{loops}}});"

    def pointer(self, operand: BufferOperand) -> str:
        shape = [int(n) for n in operand.buffer.shape]
        offset: Expr = tirx.IntImm("int32", 0)
        for position, index in enumerate(operand.indices):
            offset = offset + index * prod(shape[position + 1 :])
        return f"{self.name(operand.buffer)} + {self.c(offset)}"

    def loop(self, axis: Axis) -> str:
        first, last = axis.first, axis.extent if axis.last is None else axis.last
        inside = (
            (first, last) if axis.inside_first is None else (axis.inside_first, axis.inside_last)
        )
        bounds = ", ".join(self.c(bound) for bound in (first, last, *inside))
        return f"{{{axis.extent}, {bounds}, {{{', '.join(map(str, axis.strides))}}}}}"

    def name(self, variable: Var | Buffer) -> str:
        if variable not in self.names:
            taken, name = set(self.names.values()), re.sub(r"\W", "_", str(variable.name))
            while name in taken:
                name += "_"
            self.names[variable] = name
        return self.names[variable]

    def c(self, expr: Expr) -> str:
        """An index expression."""
        if isinstance(expr, int | tirx.IntImm):
            return str(int(expr.value if isinstance(expr, tirx.IntImm) else expr))
        if isinstance(expr, tirx.Var):
            return self.name(expr)
        if type(expr) in _INFIX:
            return f"({self.c(expr.a)} {_INFIX[type(expr)]} {self.c(expr.b)})"
        if type(expr) in _CALLED:
            return f"{_CALLED[type(expr)]}({self.c(expr.a)}, {self.c(expr.b)})"
        if isinstance(expr, tirx.Cast):
            return self.c(expr.value)
        if is_tir_call(expr, "likely"):
            return self.c(expr.args[0])
        raise LoweringError(f"c_source: expression {type(expr).__name__} has no C form: {expr}")


def _type(buffer: Buffer) -> str:
    dtype = str(buffer.dtype)
    if dtype not in ("int8", "int32"):
        raise LoweringError(f"c_source: buffer {buffer.name} is {dtype}, neither int8 nor int32")
    return f"{dtype}_t"
