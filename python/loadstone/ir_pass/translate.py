# SPDX-License-Identifier: Apache-2.0
"""Translate TensorIR of loops around intrinsic calls into Python source, which runs much faster
than a walk over TVM's objects.

In:   a PrimFunc after pipeline.py.
Out:  `Translator`: the text of `def emit(e, PARAMETERS)`; a back end defines how its scratchpads
      and calls are written.
Next: unroll.py returns each call with plain numbers to a back end.

Walking TVM's objects once per tile is slow, so the TensorIR is translated once, and Python with
plain numbers is executed:

    for i3_0 in range(4):
        x_local = e.tile(...)                              allocate(buffer)
        e.load(x_local, x, i3_0*80-17, ...)                call(intrinsic)
"""

from __future__ import annotations

import re
from abc import ABC, abstractmethod
from typing import TYPE_CHECKING

from loadstone.errors import LoweringError
from loadstone.ir_pass.intrinsics import Intrinsic, is_intrinsic, read_intrinsic
from loadstone.relax.compat import is_tir_call, tirx

if TYPE_CHECKING:
    from loadstone.relax.types import Buffer, Expr, PrimFunc, Stmt, Var

__all__ = ["Translator"]

_BINARY = {
    tirx.Add: "+", tirx.Sub: "-", tirx.Mul: "*", tirx.FloorDiv: "//", tirx.FloorMod: "%",
    tirx.LT: "<", tirx.LE: "<=", tirx.GT: ">", tirx.GE: ">=", tirx.EQ: "==", tirx.NE: "!=",
    tirx.And: " and ", tirx.Or: " or ",
}  # fmt: skip


class Translator(ABC):
    """Python source of one PrimFunc. reserved: names that stand for something else in that source.

    class Words(Translator):
        def allocate(self, buffer):
            return f"e.tile({buffer.name!r})"
        def call(self, intrinsic):
            return f"e.{intrinsic.name}({', '.join(self.name(operand.buffer) for operand in
            intrinsic.operands)})"
    """

    reserved: tuple[str, ...] = ("e",)

    def __init__(self, function: PrimFunc) -> None:
        self._function = function
        self._lines: list[str] = []
        self._names: dict[int, str] = {}  # by the address of a variable or a buffer

    def python(self, expr: Expr) -> str:
        """An index expression as Python source."""
        if isinstance(expr, int):
            return str(expr)
        if isinstance(expr, tirx.IntImm):
            return str(int(expr.value))
        if isinstance(expr, tirx.Var):
            return self.name(expr)
        if type(expr) in _BINARY:
            return f"({self.python(expr.a)}{_BINARY[type(expr)]}{self.python(expr.b)})"
        if isinstance(expr, (tirx.Min, tirx.Max)):
            return f"{type(expr).__name__.lower()}({self.python(expr.a)}, {self.python(expr.b)})"
        if isinstance(expr, tirx.Cast):
            return self.python(expr.value)
        if is_tir_call(expr, "likely"):
            return self.python(expr.args[0])
        raise LoweringError(f"lower: expression {type(expr).__name__} has no Python form: {expr}")

    @abstractmethod
    def allocate(self, buffer: Buffer) -> str:
        """The expression for a new life of a scratchpad buffer."""

    @abstractmethod
    def call(self, intrinsic: Intrinsic) -> str:
        """The statement for one intrinsic call."""

    def source(self) -> str:
        """The text of `def emit(e, ...)`."""
        parameters = [self.name(parameter) for parameter in self._function.params]
        self._lines.append(f"def emit(e, {', '.join(parameters)}):")
        self._visit(self._function.body, 1)
        return "\n".join(self._lines) + "\n"

    def _visit(self, stmt: Stmt, depth: int) -> None:
        if is_intrinsic(stmt):
            self._line(self.call(read_intrinsic(stmt)), depth)
        elif isinstance(stmt, tirx.SeqStmt):
            for part in stmt.seq[:]:
                self._visit(part, depth)
        elif isinstance(stmt, tirx.For):
            loop = (
                f"for {self.name(stmt.loop_var)} in range({self.python(stmt.min)}, "
                f"{self.python(stmt.min + stmt.extent)}):"
            )
            self._block(loop, stmt.body, depth)
        elif isinstance(stmt, tirx.IfThenElse) and stmt.else_case is None:
            self._block(f"if {self.python(stmt.condition)}:", stmt.then_case, depth)
        elif isinstance(stmt, tirx.AllocBuffer):
            self._line(f"{self.name(stmt.buffer)} = {self.allocate(stmt.buffer)}", depth)
        elif not (isinstance(stmt, tirx.Evaluate) and isinstance(stmt.value, tirx.IntImm)):
            raise LoweringError(
                f"lower: statement {type(stmt).__name__} is neither a loop nor an intrinsic "
                f"call: {stmt}"
            )

    def _block(self, head: str, body: Stmt, depth: int) -> None:
        self._line(head, depth)
        before = len(self._lines)
        self._visit(body, depth + 1)
        if len(self._lines) == before:
            self._line("pass", depth + 1)

    def _line(self, text: str, depth: int) -> None:
        self._lines.append("    " * depth + text)

    def name(self, variable: Var | Buffer) -> str:
        """The Python name of a loop variable, a parameter or a buffer."""
        address = variable.__chandle__()  # to compare two variables makes an expression
        if address not in self._names:
            base = re.sub(r"\W", "_", str(variable.name))
            taken, name, count = set(self._names.values()) | set(self.reserved), base, 0
            while name in taken:
                count += 1
                name = f"{base}_{count}"
            self._names[address] = name
        return self._names[address]
