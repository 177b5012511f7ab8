# SPDX-License-Identifier: Apache-2.0
"""Fold constant operations of a float network into its layers: batch normalization, scaling, pads.

In:   a float module in canonical form (frontend/canonical.py).
Out:  the same network in float32, with the same inputs and outputs, in which
        - batch normalization and multiplication or addition of a constant per channel are part of
        the convolution before
          them; without one they are a depthwise 1x1 convolution;
        - a mask of -inf before a softmax has the smallest number instead;
        - every convolution and dense layer is followed by the addition of a constant bias;
        - a pad by zero is part of the convolution that follows;
        - two reshapes are one.
Next: read_network.py reads layers from it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from loadstone.errors import ModelError
from loadstone.numerics import Array
from loadstone.relax.compat import (
    DeadCodeElimination,
    bindings,
    constant,
    dtype,
    integers,
    is_call,
    is_constant,
    named,
    op_name,
    relax,
    shape,
    tvm,
    uses,
    value,
)
from loadstone.relax.convolutions import channels_last_conv2d
from loadstone.relax.quiet import quietly
from loadstone.relax.rewriter import Rewriter

if TYPE_CHECKING:
    from loadstone.relax.types import Call, Expr, IRModule, RelaxFunction, Var

__all__ = ["fold"]

WEIGHTED = ("nn.conv2d", "matmul")
RESHAPES = ("reshape", "squeeze", "expand_dims", "flatten")
AFFINE = ("add", "subtract", "multiply", "divide", "nn.batch_norm")


def fold(module: IRModule) -> IRModule:
    """The module in the form above. Raises ModelError for weights that are not finite."""
    if any(_is_of_constants(value) for _, value in bindings(module["main"])):
        with quietly():  # TVM makes functions of all operators, to find these
            module = relax.transform.FoldConstant()(module)
    folded = _Fold(module["main"]).run()
    return DeadCodeElimination(["main"])(tvm.IRModule({"main": folded}))


def _is_of_constants(expr: Expr) -> bool:
    return isinstance(expr, relax.Call) and not relax.analysis.free_vars(expr)


def _is_weighted(call: Expr) -> bool:
    """A convolution, or a product with a constant matrix."""
    return is_call(call, "nn.conv2d") or (is_call(call, "matmul") and is_constant(call.args[1]))


class _Fold(Rewriter):
    def __init__(self, function: RelaxFunction) -> None:
        super().__init__(function)
        self.uses = uses(function)
        self.softmaxed: dict[Var, int] = {}
        for _, call in bindings(function):
            if is_call(call, "nn.softmax"):
                self.softmaxed[call.args[0]] = self.softmaxed.get(call.args[0], 0) + 1

    def visit(self, variable: Var, call: Call) -> Expr:
        self.name, call = variable.name, self.unmasked(variable, call)
        name = op_name(call)
        if name == "TupleGetItem" and self.producer(self.env[call.tuple_value]) == "nn.batch_norm":
            return self.normalized(variable, call)
        if name == "astype":
            source = self.env.get(call.args[0], call.args[0])
            is_same = dtype(variable) == dtype(source) == "float32"
            return source if is_same else self.emit(self.mapped(call))
        if name in RESHAPES and shape(variable) is not None:
            return self.reshaped(self.mapped(call.args[0]), shape(variable))
        if _is_weighted(call) and dtype(variable).startswith("float"):  # integers take no factor
            convolves = name == "nn.conv2d"
            return self.weighted(self.convolution(call) if convolves else self.mapped(call))
        if name in AFFINE[:-1] and any(is_constant(item) for item in call.args):
            return self.affine(self.mapped(call), shape(variable))
        return self.emit(self.mapped(call))

    def normalized(self, variable: Var, call: Call) -> Expr:
        """The result of a batch normalization, which is an affine function of its input."""
        if call.index:
            raise ModelError(
                f"{variable.name}: the statistics that a batch normalization learns are read; "
                "export the network for inference"
            )
        return self.affine(self.value(self.env[call.tuple_value]), shape(variable))

    def unmasked(self, variable: Var, call: Call) -> Call:
        """Finite numbers in a mask that softmax alone reads."""
        alone = self.softmaxed.get(variable) == self.uses.get(variable)
        if not is_call(call, "add") or not alone:
            return call
        return relax.Call(call.op, [_finite(item) for item in call.args])

    def mapped(self, expr: Expr) -> Expr:
        if is_constant(expr):
            array = value(expr)
            if array.dtype.kind == "f" and not np.all(np.isfinite(array)):
                raise ModelError(
                    f'constants of "{self.name}" hold values that are not finite (NaN or '
                    "infinity): nothing to quantize"
                )
            return expr
        return super().mapped(expr)

    def reshaped(self, source: Expr, extents: Expr) -> Expr:
        """Two reshapes are one, and one that changes nothing is none."""
        while is_call(self.value(source), *RESHAPES):
            source = self.value(source).args[0]
        return source if shape(source) == extents else self.emit(relax.op.reshape(source, extents))

    # -- convolutions and dense layers: core(x, weights) + bias ------------------------------------

    def convolution(self, call: Call) -> Expr:
        """A pad by zero before it joins its own padding."""
        new = self.mapped(call)
        pad = self.value(new.args[0])
        if (
            not is_call(pad, "nn.pad")
            or str(pad.attrs.pad_mode) != "constant"
            or float(pad.attrs.pad_value) != 0
        ):
            return new
        n0, n1, top, bottom, left, right, c0, c1 = integers(pad.attrs.pad_width)
        if any((n0, n1, c0, c1)):
            return new
        padding = [
            own + more
            for own, more in zip(
                integers(call.attrs.padding), (top, left, bottom, right), strict=True
            )
        ]
        return channels_last_conv2d(pad.args[0], new.args[1], call.attrs, padding=padding)

    def weighted(self, core: Expr) -> Expr:
        """The core, and a bias of zeros for what follows to change."""
        channels = self.channels(core)
        bias = np.zeros(channels, np.float32)
        return self.biased(core, bias) if is_constant(core.args[1]) else self.emit(core)

    def biased(self, core: Expr, bias: NDArray[np.float32]) -> Expr:
        return self.emit(relax.op.add(self.emit(core, self.name + "/sum"), constant(bias)))

    def channels(self, core: Expr) -> int:
        extents = shape(core.args[1])
        assert extents is not None
        return extents[0] if is_call(core, "nn.conv2d") else extents[-1]

    # -- x * scale + shift, per channel ------------------------------------------------------------

    def affine(self, call: Call, extents: tuple[int, ...] | None) -> Expr:
        """Into the layer before; else, for images, a layer of its own; else as it is."""
        source, scale, shift = self.terms(call)
        if source is None or shape(source) != extents:
            return self.emit(call)
        add = self.value(source)
        core: Expr = (
            self.value(add.args[0]) if is_call(add, "add") and is_constant(add.args[1]) else None
        )
        if is_call(core, *WEIGHTED) and is_constant(core.args[1]) and self.single(source):
            bias = value(add.args[1])
            kernel = value(core.args[1])
            along = (
                scale.reshape((-1,) + (1,) * (kernel.ndim - 1))
                if is_call(core, "nn.conv2d")
                else scale
            )
            scaled = relax.Call(
                core.op,
                [core.args[0], constant((kernel * along).astype(np.float32))],
                core.attrs,
                core.ty_args,
            )
            return self.biased(scaled, (bias * scale + shift).astype(np.float32))
        if is_call(call, "nn.batch_norm"):
            return self.depthwise(source, scale, shift)
        return self.emit(call)

    def terms(self, call: Call) -> tuple[Expr, Array, Array]:
        """(x, scale, shift) with one number per channel; x is None where the call is something
        else."""
        if is_call(call, "nn.batch_norm"):
            gamma, beta, mean, variance = (
                value(item).astype(np.float64) for item in call.args[1:5]
            )
            scale = gamma / np.sqrt(variance + float(call.attrs.epsilon))
            return call.args[0], scale, beta - mean * scale
        name, (first, second) = op_name(call), call.args
        source, term = (second, first) if is_constant(first) else (first, second)
        channels = (shape(source) or (0,))[-1]
        number = (
            None if is_constant(first) and name == "divide" else _per_channel(value(term), channels)
        )
        if number is None:
            return None, np.zeros(0), np.zeros(0)
        ones, zeros = np.ones(channels), np.zeros(channels)
        if name == "subtract":
            return (source, -ones, number) if is_constant(first) else (source, ones, -number)
        if name == "add":
            return source, ones, number
        return source, number if name == "multiply" else 1 / number, zeros

    def single(self, variable: Var) -> bool:
        """Whether nothing else reads the layer that this variable ends."""
        return sum(self.uses.get(old, 0) for old, new in self.env.items() if new == variable) == 1

    def depthwise(self, source: Expr, scale: Array, shift: Array) -> Expr:
        """A batch normalization that follows no convolution."""
        kernel = scale.astype(np.float32).reshape(-1, 1, 1, 1)
        core = relax.op.nn.conv2d(
            source, constant(kernel), groups=len(kernel), data_layout="NHWC", kernel_layout="OHWI"
        )
        return self.biased(core, shift.astype(np.float32))

    def emit(self, expr: Expr, name: str | None = None) -> Expr:
        name = name if name is not None else self.name
        return super().emit(named(expr, name) if isinstance(expr, relax.Call) else expr, name)


def _finite(expr: Expr) -> Expr:
    """The mask of a softmax has -inf at places that it ignores; the smallest finite number has the
    same effect."""
    if not is_constant(expr) or value(expr).dtype != np.float32:
        return expr
    array = value(expr)
    return constant(np.where(np.isneginf(array), np.finfo(np.float32).min, array))


def _per_channel(number: Array, channels: int) -> NDArray[np.float64] | None:
    """A constant that broadcasts along the last axis alone, as one number per channel."""
    if number.size == 1:
        return np.full(channels, number.reshape(-1)[0], np.float64)
    if number.shape[-1] == channels and number.size == channels:
        return number.reshape(-1).astype(np.float64)
    return None
