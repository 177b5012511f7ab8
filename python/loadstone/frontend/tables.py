# SPDX-License-Identifier: Apache-2.0
"""Functions of one int8, however many operators compute them: one table of 256 real numbers.

In:   a function in canonical form.
Out:  the same, where quantize(f(dequantize(x))) is quantize(take(table of f, x + 128)); the integer
      x is written as round(dequantize(x) / scale) + zero point, which keeps its quantization.
Next: partition/patterns/elementwise.py reads it as one Lookup.

SiLU consists of two operators, GELU of five, and Mish of four: as float operators between a
dequantize and a quantize each would cost the host a pass over float32. Functions with their own
integer rule are not changed: sums and products with constants, clamps, sigmoid, LeakyReLU, TFLite's
functions.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from loadstone.numerics import Array
from loadstone.relax.compat import (
    bindings,
    constant,
    dtype,
    is_call,
    is_constant,
    named,
    op_name,
    relax,
    shape,
    value,
)
from loadstone.relax.functions import bends, evaluated, is_function, operands, single_value
from loadstone.relax.rewriter import Rewriter

if TYPE_CHECKING:
    from loadstone.relax.types import Call, Expr, RelaxFunction, Var

__all__ = ["with_tables"]

#: Alone they are Lookups already.
_KNOWN = ("sigmoid", "nn.leakyrelu")
#: TFLite's kernels compute these in float. GELU is a product of several, HARD_SWISH has integers.
_TFLITE = ("tanh", "exp", "log", "nn.gelu", "nn.silu", "sin", "cos")
_EVERY = np.arange(-128, 128, dtype=np.float64)


def with_tables(function: RelaxFunction) -> RelaxFunction:
    """Raises nothing: what is no function of one int8 stays as it is."""
    tables = _Tables(function)
    return tables.run() if tables.trees else function


class _Tables(Rewriter):
    def __init__(self, function: RelaxFunction) -> None:
        super().__init__(function)
        self.bound = dict(bindings(function))
        numerics = str(function.attrs.get("loadstone.numerics", ""))
        self.tflite = numerics.startswith("tflite")
        #: Of the variables that become a lookup, what they are a function of, and its values.
        self.trees: dict[Var, tuple[_Tree, Array]] = {}
        for variable, call in self.bound.items():
            if is_call(call, "quantize") and (found := self.tree(variable, call)) is not None:
                self.trees[variable] = found

    def visit(self, variable: Var, call: Expr) -> Expr:
        if variable in self.trees:
            return self.table(variable, call, *self.trees[variable])
        return self.emit(self.mapped(call))

    def tree(self, variable: Var, call: Call) -> tuple[_Tree, Array] | None:
        """None: it is no function of one int8 that wants a table."""
        tree = _Tree(self.bound)
        root = self.bound.get(call.args[0])
        if root is None or not is_function(root) or not self.wanted(root):
            return None
        reals = tree.reals(call.args[0])
        if reals is None or tree.source is None or not tree.bent or reals.shape != (256,):
            return None
        if shape(tree.source) != shape(variable) or reals.dtype != np.float32:
            return None
        if self.tflite and "clip" in tree.names:  # HARD_SWISH
            return None
        return tree, reals

    def table(self, variable: Var, call: Call, tree: _Tree, reals: Array) -> Expr:
        """The lookup, quantized."""
        assert tree.grid is not None
        name, grid = variable.name, (np.float32(tree.grid[0]), np.int32(tree.grid[1]))
        # a dequantize says whose integers these are, also where nothing else reads them
        said = relax.op.dequantize(self.mapped(tree.source), *map(constant, grid), axis=0)
        real = self.emit(named(said, f"{name}/index/real"), f"{name}/index/real")
        steps = self.emit(relax.op.divide(real, constant(grid[0])), f"{name}/index/steps")
        whole = self.emit(relax.op.round(steps), f"{name}/index/whole")
        wide = self.emit(relax.op.astype(whole, "int32"), f"{name}/index/wide")
        index = self.emit(relax.op.add(wide, constant(np.int32(grid[1] + 128))), f"{name}/index")
        taken = self.emit(relax.op.take(constant(reals), index, axis=0), f"{name}/table")
        new = relax.Call(call.op, [taken, *call.args[1:]], call.attrs, call.ty_args)
        return self.emit(named(new, name), name)

    def wanted(self, root: Call) -> bool:
        alone = all(
            is_call(self.bound.get(entry), "dequantize")
            for entry in operands(root)
            if isinstance(entry, relax.Var)
        )
        if self.tflite:
            return op_name(root) in (_TFLITE if alone else ("multiply",))
        return not (alone and op_name(root) in _KNOWN)


class _Tree:
    """source: the int8 variable that all depends on. bent: it is no straight line. names: of its
    operators."""

    def __init__(self, bound: dict[Var, Expr]) -> None:
        self.bound = bound
        self.source: Var | None = None
        self.grid: tuple[float, int] | None = None
        self.bent = False
        self.names: set[str] = set()

    def reals(self, expr: Expr) -> Array | None:
        """(256,) for what depends on the source, () for a constant; None for anything else."""
        if is_constant(expr):
            number = single_value(expr)
            return None if number is None else np.asarray(number, np.float32)
        call = self.bound.get(expr) if isinstance(expr, relax.Var) else expr
        if is_call(call, "dequantize"):
            return self.dequantized(call)
        if call is None or not is_function(call):
            return None
        read = operands(call)
        arguments = [self.reals(entry) for entry in read]
        if any(argument is None for argument in arguments):
            return None
        found = [argument for argument in arguments if argument is not None]
        self.names.add(op_name(call))
        varying = [entry for entry, argument in zip(read, found, strict=True) if argument.ndim]
        self.bent |= bends(call, [is_call(self.bound.get(e), "dequantize") for e in varying])
        return evaluated(call, found)

    def dequantized(self, call: Call) -> Array | None:
        stored, grid = call.args[0], _grid_of(call)
        if grid is None:
            return None
        if is_constant(stored):
            number = single_value(stored)
            level = None if number is None else np.asarray(number)
            return None if level is None else _real(level, grid)
        if (clamped := self.clamped(stored, grid)) is not None:
            return clamped
        if dtype(stored) != "int8" or (self.source is not None and self.source != stored):
            return None
        if self.grid not in (None, grid):
            return None
        self.source, self.grid = stored, grid
        return _real(_EVERY, grid)

    def clamped(self, stored: Expr, grid: tuple[float, int]) -> Array | None:
        """canonical.py keeps a clamp integer where something else than a quantize reads it."""
        made = self.bound.get(stored) if isinstance(stored, relax.Var) else None
        if made is None or not is_call(made, "quantize"):
            return None
        inner = self.bound.get(made.args[0])
        if not is_call(inner, "nn.relu", "clip") or _grid_of(made) != grid:
            return None
        before = self.source, self.grid, self.bent
        reals = self.reals(made.args[0])
        if reals is None or reals.ndim == 0:
            self.source, self.grid, self.bent = before
            return None
        levels = np.clip(np.rint(reals / np.float32(grid[0])) + grid[1], -128, 127)
        return _real(levels, grid)


def _grid_of(call: Call) -> tuple[float, int] | None:
    """Scale and zero point of a quantize or dequantize with one of each."""
    scale, zero_point = call.args[1:]
    if not (is_constant(scale) and is_constant(zero_point)) or value(scale).size != 1:
        return None
    return float(value(scale).reshape(-1)[0]), int(value(zero_point).reshape(-1)[0])


def _real(levels: Array, grid: tuple[float, int]) -> Array:
    """As graph/kernels dequantizes: a difference of integers, times a float32."""
    return np.asarray((levels - grid[1]).astype(np.float32) * np.float32(grid[0]), np.float32)
