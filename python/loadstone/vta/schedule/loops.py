# SPDX-License-Identifier: Apache-2.0
"""Helpers to write a function of TensorIR as loops: loops, buffers, a module.

In:   extents, names, scratchpads.
Out:  `Loops`, which enclose one statement; buffers; the IRModule of a body.
Next: nest_tir.py.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from typing import TYPE_CHECKING

from loadstone.ir_pass.pipeline import SIMPLE_LOOPS
from loadstone.relax.compat import tirx, tvm

if TYPE_CHECKING:
    from loadstone.relax.types import Buffer, Expr, IRModule, Stmt, Var

__all__ = ["Loops", "chip_buffer", "dram_buffer", "written"]


@dataclass
class Loops:
    """Loops that are open around a statement, outermost first, and the conditions inside them."""

    variables: list[tuple[Var, int]] = field(default_factory=list)
    conditions: list[Expr] = field(default_factory=list)

    def loop(self, extent: int, name: str) -> Expr:
        """One more loop inside; its variable."""
        variable = tirx.Var(name, "int32")
        self.variables.append((variable, extent))
        return variable

    def around(self, body: Stmt) -> Stmt:
        """The loops around a statement."""
        if self.conditions:
            body = tirx.IfThenElse(tirx.all(*self.conditions), body, None)
        for variable, extent in reversed(self.variables):
            body = tirx.For(variable, 0, extent, tirx.ForKind.SERIAL, body)
        return body


def written(parameters: Sequence[Buffer], body: Stmt) -> IRModule:
    """A module of one function, which is loops already, with indices and conditions as simple as
    they can be read."""
    function = tirx.PrimFunc(list(parameters), body)
    for attribute in ("s_tir", "tirx.noalias", SIMPLE_LOOPS):
        function = function.with_attr(attribute, True)
    return tvm.IRModule({"main": function.with_attr("global_symbol", "main")})


def dram_buffer(name: str, shape: tuple[int, ...], dtype: str) -> Buffer:
    """In DRAM: a parameter."""
    return tirx.decl_buffer(shape, dtype, name=name, layout=_layout(shape))


def chip_buffer(name: str, shape: Sequence[int], dtype: str, memory: str) -> Buffer:
    """In a scratchpad: inp, wgt or acc."""
    sizes = tuple(int(size) for size in shape)
    scope = f"local.{memory}"
    return tirx.decl_buffer(sizes, dtype, name=name, scope=scope, layout=_layout(sizes))


@lru_cache(maxsize=1024)
def _layout(shape: tuple[int, ...]) -> object:
    """TVM's layout of a packed buffer: what takes longest of making one, and the same for all of a
    shape."""
    return tirx.decl_buffer(shape).layout
