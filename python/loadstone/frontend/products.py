# SPDX-License-Identifier: Apache-2.0
"""Products of two activations, written by the rows of the second factor.

In:   a function in canonical form.
Out:  the same, where quantize(matmul(dequantize(a), dequantize(b))) of more than two axes is
      quantize(matmul(dequantize(a), permute_dims(dequantize(t)))), t being b with its last two
      axes turned, and int8 as b is.
Next: partition/patterns/reduction.py reads it as one BatchMatMul.

A device loads the second factor as weights, whose rows are output channels. Attention multiplies by
transposed keys: t is then the tensor before the transpose, and no data is moved. Otherwise one
transpose computes t from b, or from the tensor of which b is a transpose.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from loadstone.relax.compat import (
    bindings,
    constant,
    integers,
    is_call,
    is_constant,
    named,
    relax,
    shape,
    value,
)
from loadstone.relax.rewriter import Rewriter

if TYPE_CHECKING:
    from loadstone.relax.types import Call, Expr, RelaxFunction, Var

__all__ = ["with_turned_products", "with_turned_real_products"]

#: What may stand between the product and its quantize.
_TAILS = ("nn.relu", "clip")


def with_turned_products(function: RelaxFunction) -> RelaxFunction:
    """Raises nothing: a product that is not quantized stays as it is."""
    rewriter = _Products(function)
    return rewriter.run() if rewriter.wanted else function


def with_turned_real_products(function: RelaxFunction) -> RelaxFunction:
    """The same of a network of real numbers, for a device that computes on them."""
    rewriter = _RealProducts(function)
    return rewriter.run() if rewriter.wanted else function


class _RealProducts(Rewriter):
    def __init__(self, function: RelaxFunction) -> None:
        super().__init__(function)
        self.bound: dict[Expr, Expr] = dict(bindings(function))
        self.wanted = {variable for variable, call in self.bound.items() if _is_product(call)}
        self.taken.update(variable.name for variable in self.bound)

    def visit(self, variable: Var, call: Expr) -> Expr:
        if variable not in self.wanted:
            return self.emit(self.mapped(call))
        first, second = call.args
        rank = len(shape(second) or ())
        turn = [*range(rank - 2), rank - 1, rank - 2]
        name, source, axes = self.name, second, turn
        made = self.bound.get(second)
        if made is not None and is_call(made, "permute_dims") and made.attrs.axes is not None:
            source = made.args[0]
            axes = [integers(made.attrs.axes)[axis] for axis in turn]
        rows = self.mapped(source)
        if axes != sorted(axes):
            moved = self.unique(f"{name}/rows")
            rows = self.emit(named(relax.op.permute_dims(rows, axes), moved), moved)
        turned = self.unique(f"{name}/turned")
        again = self.emit(named(relax.op.permute_dims(rows, turn), turned), turned)
        return self.emit(named(relax.op.matmul(self.mapped(first), again), name), name)


def _is_product(call: Expr) -> bool:
    """Of as many matrices on both sides."""
    if not is_call(call, "matmul") or any(is_constant(side) for side in call.args):
        return False
    first, second = (shape(side) or () for side in call.args)
    return len(first) > 2 and first[:-2] == second[:-2]


class _Products(Rewriter):
    def __init__(self, function: RelaxFunction) -> None:
        super().__init__(function)
        self.bound: dict[Expr, Expr] = dict(bindings(function))
        found = (self.product(call) for call in self.bound.values())
        self.wanted = {variable for variable in found if variable is not None}
        for variable, call in self.bound.items():
            if is_call(call, "quantize"):
                self.taken.add(variable.name)

    def product(self, call: Expr) -> Var | None:
        """The product that a quantize ends, where it is one of two activations."""
        if not is_call(call, "quantize"):
            return None
        variable = call.args[0]
        made = self.behind(variable)
        if is_call(made, *_TAILS):
            variable = made.args[0]
            made = self.behind(variable)
        if not is_call(made, "matmul"):
            return None
        sides = [self.behind(entry) for entry in made.args]
        ranks = [len(shape(entry) or ()) for entry in made.args]
        plain = all(is_call(side, "dequantize") for side in sides) and min(ranks) > 2
        return variable if plain else None

    def behind(self, variable: Expr) -> Expr:
        """The call that a variable is bound to; itself where there is none."""
        return self.bound.get(variable, variable)

    def visit(self, variable: Var, call: Expr) -> Expr:
        if variable not in self.wanted:
            return self.emit(self.mapped(call))
        first, second = call.args
        rank = len(shape(second) or ())
        turn = [*range(rank - 2), rank - 1, rank - 2]
        name = self.name
        read = self.bound[second]
        real = self.emitted(self.rows(read, turn), f"{name}/rows/real")
        turned = self.emitted(relax.op.permute_dims(real, turn), f"{name}/turned")
        return self.emitted(relax.op.matmul(self.mapped(first), turned), name)

    def rows(self, read: Call, turn: list[int]) -> Expr:
        """dequantize(t), for this reader alone."""
        stored, grid = read.args[0], read.args[1:]
        if is_constant(stored):
            return relax.op.dequantize(constant(np.transpose(value(stored), turn)), *grid, axis=0)
        source, axes = self.turned_from(stored, grid), turn
        if source is None:
            source = stored
        else:
            made = self.bound[self.bound[stored].args[0]]
            axes = [integers(made.attrs.axes)[axis] for axis in turn]
        if axes == sorted(axes):
            return relax.op.dequantize(self.mapped(source), *grid, axis=0)
        name = self.unique(f"{self.name}/rows")
        real = self.emitted(relax.op.dequantize(self.mapped(source), *grid, axis=0), f"{name}/in")
        moved = self.emitted(relax.op.permute_dims(real, axes), f"{name}/moved")
        turned = self.emitted(relax.op.quantize(moved, *grid, axis=0), name)
        return relax.op.dequantize(turned, *grid, axis=0)

    def turned_from(self, stored: Var, grid: list[Expr]) -> Var | None:
        """What is an int8 tensor the transpose of, on the same grid."""
        made = self.behind(stored)
        if not is_call(made, "quantize") or not _same(made.args[1:], grid):
            return None
        moved = self.behind(made.args[0])
        if not is_call(moved, "permute_dims") or moved.attrs.axes is None:
            return None
        read = self.behind(moved.args[0])
        if not is_call(read, "dequantize") or not _same(read.args[1:], grid):
            return None
        return None if is_constant(read.args[0]) else read.args[0]

    def emitted(self, expr: Expr, name: str) -> Expr:
        return self.emit(named(expr, name), name)


def _same(first: list[Expr], second: list[Expr]) -> bool:
    """Scale and zero point."""
    pairs = zip(first, second, strict=True)
    return all(is_constant(a) and is_constant(b) and value(a) == value(b) for a, b in pairs)
