# SPDX-License-Identifier: Apache-2.0
"""Convolutions and dense layers with 16 bits, in integers.

In:   a function in canonical form.
Out:  the same, where quantize(clamp(conv2d | matmul (dequantize(x), dequantize(weights)) + bias)),
      some of whose integers have 16 bits, is arithmetic on int64; sums are exact.
Next: the host computes it: no device has 16 bits.

A float32 holds 24 bits of a sum, products of 16 bits have 31 each: in real numbers the result would
depend on the order of the terms. Here it is the integer nearest to the exact one, ties to even,
and a processor without floating point is left a product and a sum of float64 for each output.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from loadstone.numerics import Array
from loadstone.relax.compat import (
    bindings,
    constant_int64,
    dtype,
    exact_constant,
    integers,
    is_call,
    is_constant,
    named,
    relax,
    scalar,
    shape,
    uses,
    value,
)
from loadstone.relax.rewriter import Rewriter

if TYPE_CHECKING:
    from loadstone.relax.types import Call, Expr, RelaxFunction, Var

__all__ = ["with_wide_layers"]

_TYPES = ("int8", "int16")
#: What may stand between a tensor and a layer, as the transposes of ONNX's convolutions do.
_MOVES = ("permute_dims", "reshape", "squeeze", "expand_dims", "flatten")
#: A float64 holds every integer below.
_EXACT = 2**53


def with_wide_layers(function: RelaxFunction) -> RelaxFunction:
    """Raises nothing: what is another form stays in real numbers."""
    if str(function.attrs.get("loadstone.numerics", "")).startswith("tflite"):
        return function
    rewriter = _Wide(function)
    return rewriter.run() if rewriter.layers else function


@dataclass(frozen=True, eq=False)
class _Grid:
    """Of a tensor with one scale."""

    scale: float
    zero_point: int


@dataclass(frozen=True, eq=False)
class _Form:
    """core: the conv2d or matmul. read: the dequantize of its input; kernel: that of its weights.
    before, after: moves on both sides, in order. low, high: the clamp."""

    core: Call
    read: Call
    kernel: Call
    bias: Expr | None
    before: list[Call]
    after: list[Call]
    low: float
    high: float

    @property
    def axis(self) -> int:
        """Of the weights' output channels."""
        return 0 if is_call(self.core, "nn.conv2d") else 1


@dataclass(frozen=True, eq=False)
class _Layer:
    """weights: int16, less their zero points. points: int64 (O,), what the zero point of the input
    adds to sums. scale: (O,), from sums to steps of the output. bias: (O,), in such steps."""

    form: _Form
    source: _Grid
    weights: NDArray[np.int16]
    points: NDArray[np.int64]
    scale: NDArray[np.float64]
    bias: NDArray[np.float64]
    zero_point: int
    limits: tuple[int, int]
    kind: str


class _Wide(Rewriter):
    def __init__(self, function: RelaxFunction) -> None:
        super().__init__(function)
        self.bound: dict[Expr, Expr] = dict(bindings(function))
        self.uses = uses(function)
        self.layers: dict[Var, _Layer] = {}
        for variable, call in self.bound.items():
            if is_call(call, "quantize") and (layer := self.layer(call)) is not None:
                self.layers[variable] = layer

    # -- what is such a layer ----------------------------------------------------------------------

    def layer(self, call: Call) -> _Layer | None:
        """None: another form, or one without 16 bits, or numbers that do not fit."""
        target, kind, form = _grid(call), str(call.attrs.out_dtype), self.form(call)
        if form is None or target is None:
            return None
        kinds = {dtype(form.read.args[0]), dtype(form.kernel.args[0]), kind}
        source, weights = _grid(form.read), self.weights(form)
        if "int16" not in kinds or not kinds <= set(_TYPES) or source is None or weights is None:
            return None
        centred, weight_scales = weights
        wide = np.moveaxis(centred.astype(np.int64), form.axis, 0).reshape(len(weight_scales), -1)
        if np.abs(wide).sum(axis=1).max(initial=0) * (2**16 + 2**15) >= _EXACT:
            return None
        bias = self.bias(form.bias, len(weight_scales))
        if bias is None:
            return None
        with np.errstate(over="ignore", divide="ignore", invalid="ignore"):
            scale, steps = source.scale * weight_scales / target.scale, bias / target.scale
        if not (np.isfinite(scale).all() and np.isfinite(steps).all() and np.all(scale > 0)):
            return None
        ends = _limits(form, target, kind)
        points = -source.zero_point * wide.sum(axis=1)
        return _Layer(form, source, centred, points, scale, steps, target.zero_point, ends, kind)

    def form(self, call: Call) -> _Form | None:
        """None: another one."""
        after, core, low, high = self.tail(call.args[0])
        bias: Expr | None = None
        if is_call(core, "add") and shape(core) == shape(core.args[0]):
            core, bias = self.made(core.args[0]), core.args[1]
        if not is_call(core, "nn.conv2d", "matmul"):
            return None
        before, read = self.moves(core.args[0])
        kernel = self.bound.get(core.args[1], core.args[1])
        if not (is_call(read, "dequantize") and is_call(kernel, "dequantize")):
            return None
        if is_constant(read.args[0]) or not is_constant(kernel.args[0]):
            return None
        if is_call(core, "nn.conv2d"):
            layouts = str(core.attrs.data_layout), str(core.attrs.kernel_layout)
            if layouts != ("NHWC", "OHWI"):
                return None
        elif value(kernel.args[0]).ndim != 2:
            return None
        return _Form(core, read, kernel, bias, before, after, low, high)

    def made(self, expr: Expr) -> Expr:
        """The call behind a variable that nothing else reads."""
        return self.bound.get(expr, expr) if self.uses.get(expr, 0) == 1 else expr

    def moves(self, expr: Expr) -> tuple[list[Call], Expr]:
        """(moves in order, what stands before them)."""
        call, found = self.seen(expr), []
        while is_call(call, *_MOVES):
            found.append(call)
            call = self.seen(call.args[0])
        return found[::-1], call

    def seen(self, expr: Expr) -> Expr:
        """`made`, and a dequantize whoever else reads it: nothing is computed twice for that."""
        call = self.bound.get(expr, expr)
        return call if is_call(call, "dequantize") else self.made(expr)

    def tail(self, expr: Expr) -> tuple[list[Call], Expr, float, float]:
        """(moves in order, what stands before them and the clamps, low, high)."""
        low, high = -np.inf, np.inf
        after, call = self.moves(expr)
        while is_call(call, "nn.relu", "clip"):
            ends = (0.0, np.inf)
            if is_call(call, "clip"):
                ends = (float(scalar(call.args[1])), float(scalar(call.args[2])))
            # the clamp nearest to the quantize is the last one
            low, high = (min(max(end, low), high) for end in ends)
            more, call = self.moves(call.args[0])
            after = more + after
        return after, call, low, high

    def weights(self, form: _Form) -> tuple[NDArray[np.int16], NDArray[np.float64]] | None:
        """Less their zero points, and the scale of each output channel, (O,)."""
        array, scales, zeros = (value(item) for item in form.kernel.args)
        if scales.size > 1 and int(form.kernel.attrs.axis) % array.ndim != form.axis:
            return None
        along = [1] * array.ndim
        along[form.axis] = -1
        centred = array.astype(np.int64) - zeros.astype(np.int64).reshape(along)
        if np.abs(centred).max(initial=0) >= 2**15:
            return None
        channels = (array.shape[form.axis],)
        each = np.broadcast_to(scales.astype(np.float64).reshape(-1), channels)
        return centred.astype(np.int16), each

    def bias(self, expr: Expr | None, channels: int) -> NDArray[np.float64] | None:
        """(O,), the real numbers. None where they are computed, or no number of each channel."""
        if expr is None:
            return np.zeros(channels)
        call = expr if is_constant(expr) else self.made(expr)
        real: Array
        if is_constant(call):
            real = value(call).astype(np.float64).reshape(-1)
        elif is_call(call, "dequantize") and is_constant(call.args[0]):
            stored, scales, zeros = (value(item).astype(np.float64) for item in call.args)
            real = ((stored.reshape(-1) - zeros.reshape(-1)) * scales.reshape(-1)).reshape(-1)
        else:
            return None
        along = (shape(expr) or (1,))[-1]
        if real.size not in (1, channels) or real.size != along:
            return None
        return np.broadcast_to(real, (channels,))

    # -- its arithmetic ----------------------------------------------------------------------------

    def visit(self, variable: Var, call: Call) -> Expr:
        layer = self.layers.get(variable)
        return self.emit(self.mapped(call)) if layer is None else self.computed(layer)

    def computed(self, layer: _Layer) -> Expr:
        name = self.name

        def step(part: str, expr: Expr) -> Expr:
            return self.emit(named(expr, f"{name}/{part}"), f"{name}/{part}")

        sums = step("sums", self.product(layer, step))
        if np.any(layer.points):
            sums = step("centred", relax.op.add(sums, constant_int64(layer.points)))
        real = step("wide", relax.op.astype(sums, "float64"))
        factors = layer.scale.reshape(-1)
        factors = factors[:1] if np.all(factors == factors[0]) else factors
        scaled = step("scaled", relax.op.multiply(real, exact_constant(factors)))
        if np.any(layer.bias):
            scaled = step("biased", relax.op.add(scaled, exact_constant(layer.bias)))
        levels = step("whole", relax.op.round(scaled))
        if layer.zero_point:
            shifted = exact_constant(np.array([layer.zero_point], np.float64))
            levels = step("moved", relax.op.add(levels, shifted))
        ends = [exact_constant(np.array([end], np.float64)) for end in layer.limits]
        least = step("least", relax.op.maximum(levels, ends[0]))
        clamped = step("clamped", relax.op.minimum(least, ends[1]))
        result = relax.op.astype(clamped, layer.kind)
        for index, move in enumerate(layer.form.after):
            result = _moved(move, step(f"before{index}", result))
        return self.emit(named(result, name), name)

    def product(self, layer: _Layer, step: Callable[[str, Expr], Expr]) -> Expr:
        """The sums of products, of int64; not bound yet."""
        stored = self.mapped(layer.form.read.args[0])
        for index, move in enumerate(layer.form.before):
            stored = step(f"moved{index}", _moved(move, stored))
        if dtype(stored) != "int16":
            stored = step("in", relax.op.astype(stored, "int16"))
        weights = exact_constant(np.ascontiguousarray(layer.weights))
        if is_call(layer.form.core, "matmul"):
            return relax.op.matmul(stored, weights, out_dtype="int64")
        attrs = layer.form.core.attrs
        padding = integers(attrs.padding)
        if any(padding) and layer.source.zero_point:
            top, left, bottom, right = padding
            widths, padding = [0, 0, top, bottom, left, right, 0, 0], (0, 0, 0, 0)
            point = layer.source.zero_point
            stored = step("padded", relax.op.nn.pad(stored, widths, pad_value=point))
        return relax.op.nn.conv2d(
            stored,
            weights,
            strides=integers(attrs.strides),
            padding=padding,
            dilation=integers(attrs.dilation),
            groups=int(attrs.groups),
            data_layout="NHWC",
            kernel_layout="OHWI",
            out_dtype="int64",
        )


def _limits(form: _Form, target: _Grid, kind: str) -> tuple[int, int]:
    """The clamp as integers, computed in float32 as a quantize does."""
    ends = np.iinfo(kind)

    def level(bound: float, end: int) -> int:
        if not np.isfinite(bound):
            return end
        steps = np.rint(np.float32(bound) / np.float32(target.scale)) + target.zero_point
        return int(min(max(float(steps), ends.min), ends.max))

    return level(form.low, int(ends.min)), level(form.high, int(ends.max))


def _moved(move: Call, integers_: Expr) -> Expr:
    """The same move of integers."""
    return relax.Call(move.op, [integers_, *move.args[1:]], move.attrs, move.ty_args)


def _grid(call: Call) -> _Grid | None:
    """Of a quantize or dequantize; None where it is computed, or of each channel."""
    if not (is_constant(call.args[1]) and is_constant(call.args[2])):
        return None
    scales, zeros = value(call.args[1]), value(call.args[2])
    if scales.size != 1 or zeros.size != 1 or not scales.reshape(-1)[0] > 0:
        return None
    return _Grid(float(scales.reshape(-1)[0]), int(zeros.reshape(-1)[0]))
