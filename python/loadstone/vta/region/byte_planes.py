# SPDX-License-Identifier: Apache-2.0
"""Products of integers in the form in which their int32 sums leave a VTA: planes of bytes.

In:   an IRModule in canonical form; the channels of a device's block.
Out:  the same function, in which int32 = matmul or conv2d of int8 by an int8 constant is

          planes = concat(int8(acc), int8(acc >> 8), int8(acc >> 16) ...)       on the device
          acc    = planes[0] & 255 | (planes[1] & 255) << 8 | planes[2] << 16   on the host

      with three planes where the weights prove that no sum leaves 24 bits, else four.
Next: partition/patterns/planes.py matches the first line; the second joins whatever reads the sums,
      in one C function of the host. A call of rescale_rows reads the planes themselves.

Output channels are padded by zeros to whole blocks, so that each plane begins at one.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from loadstone.graph.planes import planes_needed
from loadstone.numerics import Array
from loadstone.relax.compat import (
    bindings,
    dtype,
    exact_constant,
    is_call,
    is_constant,
    name_of,
    named,
    relax,
    result,
    shape,
    tvm,
    value,
)
from loadstone.relax.rewriter import Rewriter
from loadstone.relax.row_calls import rescale_rows, row_call

if TYPE_CHECKING:
    from loadstone.relax.types import Call, Expr, IRModule, RelaxFunction, Var

__all__ = ["with_byte_planes"]


def with_byte_planes(module: IRModule, block: int) -> IRModule:
    """A module without such products is returned as it is."""
    if not any(_is_product(call) for _, call in bindings(module["main"])):
        return module
    function = _Planes(module["main"], block).run()
    return tvm.IRModule({**dict(module.functions.items()), module.get_global_var("main"): function})


def _is_product(call: Expr) -> bool:
    """int8 by constant int8, as int32; of a convolution channels last."""
    if not is_call(call, "matmul", "nn.conv2d") or dtype(call) != "int32":
        return False
    data, weights = call.args[:2]
    if {dtype(data), dtype(weights)} != {"int8"} or not is_constant(weights):
        return False
    if is_call(call, "nn.conv2d"):
        layouts = str(call.attrs.data_layout), str(call.attrs.kernel_layout)
        return layouts == ("NHWC", "OHWI")
    return len(shape(weights) or ()) == 2 and len(shape(data) or ()) > 1


class _Planes(Rewriter):
    def __init__(self, function: RelaxFunction, block: int) -> None:
        super().__init__(function)
        self.block = block
        self.outputs = set(result(function))
        self.taken.update(variable.name for variable, _ in bindings(function))
        self.planes: dict[Var, tuple[Expr, int]] = {}  # of sums, by their old variable
        self.rescaled: set[Var] = set()  # sums that such calls alone read
        others = set(self.outputs)
        for _, call in bindings(function):
            said = row_call(call)
            if said is not None and said[0] == "rescale_rows":
                self.rescaled.add(said[1][0])
            else:
                others |= _read(call)
        self.rescaled -= others

    def visit(self, variable: Var, call: Expr) -> Expr:
        """Names: the planes are an operator of their own."""
        if not _is_product(call):
            made = self.rescaled_planes(call)
            return self.emit(self.mapped(call)) if made is None else made
        weights, axis = value(call.args[1]), 1 if is_call(call, "matmul") else 0
        channels = weights.shape[axis]
        padded = self.padded(weights, axis, call)
        kernels = np.moveaxis(padded, axis, 0)
        planes = planes_needed(kernels)
        product = relax.Call(
            call.op,
            [self.mapped(call.args[0]), exact_constant(padded)],
            call.attrs,
            call.ty_args,
        )
        acc = self.bound(product, "acc")
        parts = [self.bound(relax.op.astype(acc, "int8"), "byte0")]
        for plane in range(1, planes):
            high = self.bound(relax.op.right_shift(acc, _number(8 * plane)), f"shifted{plane}")
            parts.append(self.bound(relax.op.astype(high, "int8"), f"byte{plane}"))
        whole = self.bound(relax.op.concat(parts, axis=-1), "planes")
        if variable in self.rescaled:
            self.planes[variable] = whole, planes
            return whole
        return self.joined(whole, planes, kernels.shape[0], channels)

    def rescaled_planes(self, call: Expr) -> Expr | None:
        """A call of rescale_rows on the planes; None for any other call."""
        said = row_call(call)
        if said is None or said[0] != "rescale_rows" or said[1][0] not in self.planes:
            return None
        whole, planes = self.planes[said[1][0]]
        scales, channels = map(self.mapped, said[1][1:])
        made = rescale_rows(whole, scales, channels, planes)
        return self.emit(named(made, name_of(call) or self.name))

    def padded(self, weights: Array, axis: int, call: Call) -> Array:
        """Zeros for output channels up to a whole block. A grouped convolution's stay: its groups
        are as many."""
        missing = -weights.shape[axis] % self.block
        if is_call(call, "nn.conv2d") and int(call.attrs.groups) > 1:
            missing = 0
        widths = [(0, missing if k == axis else 0) for k in range(weights.ndim)]
        return np.pad(weights, widths) if missing else weights

    def joined(self, whole: Expr, planes: int, stride: int, channels: int) -> Expr:
        """The sums of all planes, under the name that they had."""
        last = len(shape(whole) or ()) - 1
        acc: Expr | None = None
        for plane in reversed(range(planes)):
            at = plane * stride
            part = relax.op.strided_slice(whole, [last], [at], [at + channels])
            wide = self.bound(relax.op.astype(self.bound(part, f"part{plane}"), "int32"), "wide")
            if acc is None:
                acc = wide
                continue
            low = self.bound(relax.op.bitwise_and(wide, _number(255)), "low")
            high = self.bound(relax.op.left_shift(acc, _number(8)), "high")
            made = relax.op.bitwise_or(high, low)
            acc = self.emit(named(made, self.name)) if plane == 0 else self.bound(made, "joined")
        assert acc is not None
        return acc

    def bound(self, expr: Expr, what: str) -> Expr:
        name = self.unique(f"{self.name}/{what}")
        return self.emit(named(expr, name), name)


def _read(expr: Expr) -> set[Var]:
    """The variables in it."""
    if isinstance(expr, relax.Var):
        return {expr}
    inner = expr.fields if isinstance(expr, relax.Tuple) else getattr(expr, "args", ())
    return {variable for item in inner for variable in _read(item)}


def _number(number: int) -> Expr:
    return exact_constant(np.array(number, np.int32))
