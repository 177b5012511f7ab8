# SPDX-License-Identifier: Apache-2.0
"""Single operators that find a scale for each row when the network runs, as the runtime's own.

In:   a module in canonical form, in which

          scale  = max |x| / 127 of the last axis, 1 where that is 0
          levels = int8(clip(round(x / scale), -127, 127))
          y      = float32(int32 product of levels by int8 constants) * scale * constants

      is written by operators of Relax (quantization/dynamic.py), or came so from its ONNX file.
Out:  the same with calls of row_scales, quantize_rows and rescale_rows. Each finite row gives the
      same bits; the integers of another are zeros, which is what ONNX's Cast makes of NaN.
Next: row_calls.py; vta/region/byte_planes.py lets planes of bytes be rescaled.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from loadstone.relax.compat import (
    DeadCodeElimination,
    bindings,
    constant,
    dtype,
    integers,
    is_call,
    is_constant,
    named,
    scalar,
    shape,
    tvm,
    value,
)
from loadstone.relax.rewriter import Rewriter
from loadstone.relax.row_calls import quantize_rows, rescale_rows, row_scales

if TYPE_CHECKING:
    from loadstone.relax.types import Call, Expr, IRModule, Var

__all__ = ["with_row_operators"]

#: Steps on either side of 0.
_MOST = 127


def with_row_operators(module: IRModule) -> IRModule:
    """A module without such operators is returned as it is."""
    found = _Found(dict(bindings(module["main"])))
    if not found.scales:
        return module
    function = _Rows(module["main"], found).run()
    made = {**dict(module.functions.items()), module.get_global_var("main"): function}
    return DeadCodeElimination(["main"])(tvm.IRModule(made, attrs=module.attrs))


class _Found:
    """scales: of a scale the rows. levels: of integers rows and scale. products: of what is
    rescaled the sums, the scale of rows and those of channels."""

    def __init__(self, bound: dict[Var, Expr]) -> None:
        self.bound = bound
        self.scales: dict[Var, Expr] = {}
        self.levels: dict[Var, tuple[Expr, Expr]] = {}
        self.products: dict[Var, tuple[Expr, Expr, Expr]] = {}
        for variable, call in bound.items():
            if (rows := self._rows_of_scale(call)) is not None:
                self.scales[variable] = rows
            elif (ratio := self._ratio_of_levels(call)) is not None:
                self.levels[variable] = ratio
            elif (factors := self._factors(call)) is not None:
                self.products[variable] = factors

    def _call(self, expr: Expr, *names: str) -> Call | None:
        """The call that a variable is bound to, where it is one of these."""
        made = self.bound.get(expr, expr)
        return made if is_call(made, *names) else None

    def _rows_of_scale(self, call: Expr) -> Expr | None:
        """x of where(step == 0, 1, step), step = max |x| / 127."""
        if not is_call(call, "where") or not _is_number(call.args[1], 1):
            return None
        flat, step = self._call(call.args[0], "equal"), self._call(call.args[2], "divide")
        if flat is None or flat.args[0] != call.args[2] or not _is_number(flat.args[1], 0):
            return None
        if step is None or not _is_number(step.args[1], _MOST):
            return None
        return self._rows_of_reach(self._call(step.args[0], "max"))

    def _rows_of_reach(self, reach: Call | None) -> Expr | None:
        """x of max |x| along the last axis."""
        if reach is None:
            return None
        size = self._call(reach.args[0], "abs")
        rank = len(shape(reach.args[0]) or ())
        if size is None or reach.attrs.axis is None or dtype(size.args[0]) != "float32":
            return None
        axes = [axis % rank for axis in integers(reach.attrs.axis)]
        return size.args[0] if axes == [rank - 1] and int(reach.attrs.keepdims) else None

    def _ratio_of_levels(self, call: Expr) -> tuple[Expr, Expr] | None:
        """(x, scale) of int8(clip(round(x / scale)))."""
        if not is_call(call, "astype") or dtype(call) != "int8":
            return None
        clip = self._call(self._unwrapped(call.args[0]), "clip")
        if clip is None or [scalar(end) for end in clip.args[1:]] != [-_MOST, _MOST]:
            return None
        rounded = self._call(clip.args[0], "round")
        ratio = None if rounded is None else self._call(rounded.args[0], "divide")
        if ratio is None or self.scales.get(ratio.args[1]) != ratio.args[0]:
            return None
        return ratio.args[0], ratio.args[1]

    def _unwrapped(self, expr: Expr) -> Expr:
        """What the ONNX importer's Cast to int8 is of: it takes the low byte of integers, and zero
        for what is no number."""
        sign = self._call(expr, "where")
        above = None if sign is None else self._call(sign.args[0], "greater_equal")
        low = None if sign is None else self._call(sign.args[2], "bitwise_and")
        if sign is None or above is None or low is None:
            return expr
        if above.args[0] != sign.args[2] or not _is_number(above.args[1], 128):
            return expr
        whole = self._call(low.args[0], "astype")
        chosen = None if whole is None else self._call(whole.args[0], "where")
        if chosen is None or not _is_number(low.args[1], 255) or not _is_number(chosen.args[1], 0):
            return expr
        none = self._call(chosen.args[0], "logical_not")
        finite = None if none is None else self._call(none.args[0], "isfinite")
        is_same = finite is not None and finite.args[0] == chosen.args[2]
        return chosen.args[2] if is_same else expr

    def _factors(self, call: Expr) -> tuple[Expr, Expr, Expr] | None:
        """(sums, scale, channels) of float32(sums) * scale * channels."""
        if not is_call(call, "multiply") or not is_constant(call.args[1]):
            return None
        scaled = self._call(call.args[0], "multiply")
        real = None if scaled is None else self._call(scaled.args[0], "astype")
        if scaled is None or real is None or dtype(real) != "float32":
            return None
        product = self._call(real.args[0], "matmul")
        if product is None or dtype(product) != "int32":
            return None
        levels = self.levels.get(product.args[0])
        count = (shape(product) or (0,))[-1]
        if levels is None or levels[1] != scaled.args[1] or dtype(product.args[1]) != "int8":
            return None
        channels = value(call.args[1])
        if channels.size not in (1, count) or channels.shape[-1:] != (channels.size,):
            return None
        return real.args[0], scaled.args[1], call.args[1]


def _is_number(expr: Expr, number: float) -> bool:
    return is_constant(expr) and value(expr).size == 1 and value(expr).item() == number


class _Rows(Rewriter):
    def __init__(self, function: Expr, found: _Found) -> None:
        super().__init__(function)
        self.found = found

    def visit(self, variable: Var, call: Expr) -> Expr:
        made: Expr | None = None
        if variable in self.found.scales:
            made = row_scales(self.mapped(self.found.scales[variable]), rotate=False)
        elif variable in self.found.levels:
            rows, scale = map(self.mapped, self.found.levels[variable])
            made = quantize_rows(rows, scale, rotate=False)
        elif variable in self.found.products:
            sums, scale, channels = self.found.products[variable]
            count = (shape(sums) or ())[-1]
            each = np.broadcast_to(value(channels).reshape(-1), count)
            factors = constant(np.ascontiguousarray(each))
            made = rescale_rows(self.mapped(sums), self.mapped(scale), factors)
        return self.emit(self.mapped(call) if made is None else named(made, self.name))
