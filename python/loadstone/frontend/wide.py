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
    """scale: float64, () or (O,). zero_point: of one number."""

    scale: NDArray[np.float64]
    zero_point: int


@dataclass(frozen=True, eq=False)
class _Layer:
    """core: the conv2d or matmul. stored: what it reads, as integers. before, after: moves on both
    sides, in order. weights: int16 with output
    channels on `axis`, less their zero point. points: int64 (O,), what the zero point of the input
    adds to sums. scale: (O,), from sums to steps of the output. bias: (O,), in such steps."""

    core: Call
    stored: Var
    before: list[Call]
    after: list[Call]
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
        target, kind = _grid(call), str(call.attrs.out_dtype)
        if target is None or target.scale.size != 1 or kind not in _TYPES:
            return None
        after, inner, low, high = self.tail(call.args[0])
        bias: Expr | None = None
        if is_call(inner, "add") and shape(inner) == shape(inner.args[0]):
            inner, bias = self.made(inner.args[0]), inner.args[1]
        if not is_call(inner, "nn.conv2d", "matmul"):
            return None
        layouts = inner.attrs if is_call(inner, "nn.conv2d") else None
        if layouts and (str(layouts.data_layout), str(layouts.kernel_layout)) != ("NHWC", "OHWI"):
            return None
        axis = 0 if layouts else 1
        before, read = self.moves(inner.args[0])
        kernel = self.made(inner.args[1])
        if not is_call(read, "dequantize") or is_constant(read.args[0]):
            return None
        source, stored = _grid(read), read.args[0]
        weights = self.weights(kernel, axis)
        kinds = (dtype(stored), str(dtype(kernel.args[0])) if weights else "", kind)
        if source is None or source.scale.size != 1 or weights is None:
            return None
        if "int16" not in kinds or not set(kinds) <= set(_TYPES):
            return None
        centred, weight_scale = weights
        unit = source.scale.reshape(()) * np.broadcast_to(weight_scale, (centred.shape[axis],))
        step = float(target.scale.reshape(()))
        real = self.bias(bias, unit.size)
        if real is None or not np.all(unit > 0) or not step > 0:
            return None
        scale, steps = unit / step, real / step
        if not (np.isfinite(scale).all() and np.isfinite(steps).all()):
            return None
        others = tuple(range(1, centred.ndim)) if layouts else (0,)
        wide = centred.astype(np.int64)
        if np.abs(wide).sum(axis=others).max(initial=0) * (2**16 + 2**15) >= _EXACT:
            return None
        limits = np.iinfo(kind)

        def limit(bound: float, end: int) -> int:
            if not np.isfinite(bound):
                return end
            level = np.rint(bound / step) + target.zero_point
            return int(min(max(level, limits.min), limits.max))

        return _Layer(
            inner,
            stored,
            before,
            after,
            source,
            centred,
            -source.zero_point * wide.sum(axis=others),
            scale,
            steps,
            target.zero_point,
            (limit(low, int(limits.min)), limit(high, int(limits.max))),
            kind,
        )

    def made(self, expr: Expr) -> Expr:
        """The call behind a variable that nothing else reads."""
        return self.bound.get(expr, expr) if self.uses.get(expr, 0) == 1 else expr

    def moves(self, expr: Expr) -> tuple[list[Call], Expr]:
        """(moves in order, what stands before them)."""
        call, found = self.made(expr), []
        while is_call(call, *_MOVES):
            found.append(call)
            call = self.made(call.args[0])
        return found[::-1], call

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

    def weights(
        self, call: Expr, axis: int
    ) -> tuple[NDArray[np.int16], NDArray[np.float64]] | None:
        """Less their zero points, and their scales: () or (O,)."""
        if not is_call(call, "dequantize") or not is_constant(call.args[0]):
            return None
        array, scales, zeros = (value(item) for item in call.args)
        if scales.size > 1 and int(call.attrs.axis) % array.ndim != axis:
            return None
        if axis == 1 and array.ndim != 2:
            return None
        along = [1] * array.ndim
        along[axis] = -1
        centred = array.astype(np.int64) - zeros.astype(np.int64).reshape(along)
        if np.abs(centred).max(initial=0) >= 2**15:
            return None
        return centred.astype(np.int16), scales.astype(np.float64).reshape(-1)

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
        for index, move in enumerate(layer.after):
            result = _moved(move, step(f"before{index}", result))
        return self.emit(named(result, name), name)

    def product(self, layer: _Layer, step: Callable[[str, Expr], Expr]) -> Expr:
        """The sums of products, of int64; not bound yet."""
        stored = self.mapped(layer.stored)
        for index, move in enumerate(layer.before):
            stored = step(f"moved{index}", _moved(move, stored))
        if dtype(stored) != "int16":
            stored = step("in", relax.op.astype(stored, "int16"))
        weights = exact_constant(np.ascontiguousarray(layer.weights))
        if is_call(layer.core, "matmul"):
            return relax.op.matmul(stored, weights, out_dtype="int64")
        attrs = layer.core.attrs
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


def _moved(move: Call, integers_: Expr) -> Expr:
    """The same move of integers."""
    return relax.Call(move.op, [integers_, *move.args[1:]], move.attrs, move.ty_args)


def _grid(call: Call) -> _Grid | None:
    """Of a quantize or dequantize; None where it is computed."""
    if not (is_constant(call.args[1]) and is_constant(call.args[2])):
        return None
    zeros = value(call.args[2]).reshape(-1)
    if zeros.size != 1:
        return None
    return _Grid(value(call.args[1]).astype(np.float64).reshape(-1), int(zeros[0]))
