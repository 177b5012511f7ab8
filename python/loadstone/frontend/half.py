# SPDX-License-Identifier: Apache-2.0
"""Networks of float16, computed in float32 as in ONNX Runtime's CPU kernels.

In:   a Relax function.
Out:  the same function, with float16 only at its inputs and outputs.
Next: canonical.py brings it into canonical form.

A host without half precision gains nothing from float16, and C99 has no such type.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from loadstone.relax.compat import bindings, constant, dtype, is_call, is_constant, relax, value
from loadstone.relax.rewriter import Rewriter

if TYPE_CHECKING:
    from loadstone.relax.types import Expr, RelaxFunction, Var

__all__ = ["in_single"]


def in_single(function: RelaxFunction) -> RelaxFunction:
    """float16 is widened where it comes in, and narrowed where it goes out."""
    return _Single(function).run() if _has_half(function) else function


def _has_half(function: RelaxFunction) -> bool:
    """A network without a half at its edges may still compute in it."""
    made = (variable for variable, _ in bindings(function))
    return any(dtype(variable) == "float16" for variable in (*function.params, *made))


class _Single(Rewriter):
    def mapped(self, expr: Expr) -> Expr:
        if isinstance(expr, relax.Var):
            new = self.env[expr]
            if dtype(new) == "float16":  # a parameter, where it is read first
                new = self.env[expr] = self.emit(
                    relax.op.astype(new, "float32"), f"{new.name}/float32"
                )
            return new
        if is_constant(expr) and dtype(expr) == "float16":
            return constant(value(expr).astype(np.float32))
        if is_call(expr, "astype") and str(expr.attrs.dtype) == "float16":
            return relax.op.astype(self.mapped(expr.args[0]), "float32")
        return super().mapped(expr)

    def visit(self, variable: Var, call: Expr) -> Expr:
        """What says itself that it makes halves is widened behind it."""
        made = self.emit(self.mapped(call))
        if dtype(made) == "float16":
            made = self.emit(relax.op.astype(made, "float32"), f"{variable.name}/float32")
        return made

    def finish(self, output: Expr) -> Expr:
        new = self.mapped(output)
        if dtype(output) == "float16":
            return self.emit(relax.op.astype(new, "float16"), f"{output.name}/float16")
        return new
