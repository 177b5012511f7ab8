# SPDX-License-Identifier: Apache-2.0
"""Dynamic int8: a scale for each row of activations, found when the network runs.

In:   a float module in canonical form; samples, which measure the loss (nothing is calibrated).
Out:  Quantized: dense layers as products of int8 by int8, all else in float32; and a report.
Next: export_onnx.py writes MatMulInteger; relax/dynamic_rows.py makes the runtime's operators of
      it; vta/region/byte_planes.py brings the sums out of a device.

    scale = max |x| / 127 of the row, 1 where that is 0             float32
    q     = round(x / scale), half to even                          int8
    out   = float32(sum q * w) * scale * (scale of the channel)     each product rounded once

Weights are rounded to 127 steps a channel; where it is asked for, those that have 4 bits keep them
(relax/grid_weights.py). The scale of an input is found once for all layers that
read it. A row with NaN or infinity has a scale that is none, and with it the results of that row.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
from numpy.typing import NDArray

from loadstone.errors import ModelError
from loadstone.files import JsonObject
from loadstone.passes.log import PassLog, script
from loadstone.quantization.compare import accuracy, decibels
from loadstone.quantization.fold import fold
from loadstone.quantization.options import DYNAMIC
from loadstone.quantization.samples import Samples
from loadstone.relax.compat import (
    constant,
    dtype,
    exact_constant,
    integers,
    is_call,
    is_constant,
    named,
    relax,
    shape,
    tvm,
    value,
)
from loadstone.relax.grid_weights import error_entry, grid_levels, weights_error
from loadstone.relax.interface import verify_interface
from loadstone.relax.rewriter import Rewriter
from loadstone.relax.saved import run_module

if TYPE_CHECKING:
    from loadstone.relax.types import Call, Expr, IRModule, RelaxFunction, Var

__all__ = ["Dynamic", "dynamic_module", "dynamic_report", "quantized_weights"]

#: Steps on either side of 0.
_STEPS = 127


class Dynamic(NamedTuple):
    """The folded float module, the dynamic one, and of each of its layers, in order, by how much
    its integers change the weights: an entry of weight_errors."""

    real: IRModule
    made: IRModule
    errors: list[JsonObject]


def dynamic_module(
    module: IRModule, log: PassLog, *, per_channel: bool, weights4: bool = False
) -> Dynamic:
    """weights4: layers whose weights have 4 bits keep them. Raises ModelError for a network without
    dense layers of constant weights, or, with weights4, of such weights; and for one that is
    quantized already."""
    folded = log.run("fold", fold, module, verify=verify_interface, show=script)
    writer = _Dynamic(folded["main"], per_channel=per_channel, weights4=weights4)
    made = tvm.IRModule({"main": writer.run()})
    if not writer.errors:
        raise ModelError(
            "the network has no dense layer with constant weights, which scheme dynamic makes "
            "int8: choose affine for convolutions"
        )
    if weights4 and not any("int8" in entry for entry in writer.errors):
        raise ModelError(
            "weights4: no dense layer has 16 equidistant values in each group of 32 inputs, with "
            "no input left over: leave it out, or quantize layers whose inputs are a multiple of "
            "32 to 4 bits in blocks of 32, 64 or 128"
        )
    return Dynamic(folded, made, writer.errors)


def quantized_weights(
    weights: NDArray[np.float32], *, per_channel: bool
) -> tuple[NDArray[np.int8], NDArray[np.float32]]:
    """Weights (I, O) in 127 steps, half to even, and a scale for each of O, or one in an array of
    one. A channel of zeros has the scale 1."""
    reach = np.abs(weights).max(axis=0) if per_channel else np.abs(weights).max().reshape(1)
    scales = np.where(reach > 0, reach / np.float32(_STEPS), np.float32(1)).astype(np.float32)
    levels = np.clip(np.rint(weights / scales), -_STEPS, _STEPS)
    return levels.astype(np.int8), scales


class _Dynamic(Rewriter):
    """errors: of each product that has become one of integers."""

    def __init__(self, function: RelaxFunction, *, per_channel: bool, weights4: bool) -> None:
        super().__init__(function)
        self.per_channel, self.weights4 = per_channel, weights4
        self.errors: list[JsonObject] = []
        self.rows: dict[Expr, tuple[Expr, Expr]] = {}  # int8 and scale of an input
        self.shaped: dict[tuple[Expr, tuple[int, ...]], Expr] = {}

    def visit(self, variable: Var, call: Expr) -> Expr:
        product = is_call(call, "matmul", "nn.conv2d") and dtype(call) == "int32"
        if product or is_call(call, "quantize", "dequantize"):
            raise ModelError(f'"{variable.name}" is quantized already: compile the model as it is')
        if is_call(call, "reshape"):
            return self.in_shape(self.mapped(call.args[0]), integers(call.args[1]))
        if self.is_dense(call):
            return self.dense(call)
        return self.emit(self.mapped(call))

    def is_dense(self, call: Expr) -> bool:
        """Rows of float32 that are computed, times one constant matrix."""
        if not is_call(call, "matmul") or dtype(call) != "float32":
            return False
        data, weights = call.args
        is_matrix = is_constant(weights) and len(shape(weights) or ()) == 2
        return is_matrix and not is_constant(data) and len(shape(data) or ()) > 1

    def in_shape(self, source: Expr, extents: tuple[int, ...]) -> Expr:
        """Once for all layers that read one tensor. Rows are those of one sample, which a device
        loads as one image; back to a shape that it had nothing moves."""
        made = self.value(source)
        if is_call(made, "reshape"):
            source = made.args[0]
        if shape(source) == extents:
            return source
        key = (source, extents)
        if key not in self.shaped:
            self.shaped[key] = self.bound(relax.op.reshape(source, extents), "shaped")
        return self.shaped[key]

    def dense(self, call: Call) -> Expr:
        real = value(call.args[1]).astype(np.float32)
        weights, scales = self.integers(real)
        data, full = self.mapped(call.args[0]), shape(call) or ()
        if len(full) == 2 and full[0] > 1:
            data = self.in_shape(data, (1, *(shape(data) or ())))
        levels, scale = self.quantized(data)
        product = relax.op.matmul(levels, exact_constant(weights), out_dtype="int32")
        sums = self.bound(relax.op.astype(self.bound(product, "sums"), "float32"), "real")
        scaled = self.bound(relax.op.multiply(sums, scale), "scaled")
        made = relax.op.multiply(scaled, constant(scales))
        if data is self.mapped(call.args[0]):
            return self.emit(named(made, self.name))
        return self.emit(named(relax.op.reshape(self.bound(made, "rows"), full), self.name))

    def integers(self, real: NDArray[np.float32]) -> tuple[NDArray[np.int8], NDArray[np.float32]]:
        """Levels and scales of a layer's weights; notes by how much they are off."""
        weights, scales = quantized_weights(real, per_channel=self.per_channel)
        errors = [weights_error(real, weights, scales)]
        found = grid_levels(np.ascontiguousarray(real.T)) if self.weights4 else None
        if found is not None:
            scales, weights = found[0].reshape(-1), np.ascontiguousarray(found[1].T)
            errors.insert(0, weights_error(real, weights, scales))
        self.errors.append(error_entry(self.name, *errors))
        return weights, scales

    def quantized(self, x: Expr) -> tuple[Expr, Expr]:
        """int8 and the scale of each row."""
        if x not in self.rows:
            zero, one, most = (constant(np.float32(n)) for n in (0, 1, _STEPS))
            size = self.bound(relax.op.abs(x), "size")
            reach = self.bound(relax.op.max(size, [-1], keepdims=True), "reach")
            step = self.bound(relax.op.divide(reach, most), "step")
            flat = self.bound(relax.op.equal(step, zero), "flat")
            scale = self.bound(relax.op.where(flat, one, step), "scale")
            levels = self.bound(relax.op.round(self.bound(relax.op.divide(x, scale), "ratio")), "l")
            inside = self.bound(relax.op.clip(levels, -_STEPS, _STEPS), "inside")
            self.rows[x] = self.bound(relax.op.astype(inside, "int8"), "levels"), scale
        return self.rows[x]

    def bound(self, expr: Expr, what: str) -> Expr:
        name = self.unique(f"{self.name}/{what}")
        return self.emit(named(expr, name), name)


def dynamic_report(dynamic: Dynamic, samples: Samples, steps: Sequence[str]) -> JsonObject:
    """Of all samples: signal to noise of each output, and accuracy where there are labels; as
    report.py has them. weight_errors: of each layer in order, relative root mean squares."""
    exact, found = _outputs(dynamic.real, samples), _outputs(dynamic.made, samples)
    ratios = [_ratio(x, y) for x, y in zip(exact, found, strict=True)]
    right: list[float | None] = [None, None]
    if samples.labels is not None:
        right = [accuracy(list(outputs[0]), samples.labels) for outputs in (exact, found)]
    return {
        "scheme": DYNAMIC,
        "method": "the largest number of each row",
        "samples": len(samples),
        "steps": list(steps),
        "output_sqnr_db": [round(r, 2) if np.isfinite(r) else None for r in ratios],
        "silent_outputs": [k for k, r in enumerate(ratios) if np.isnan(r) or r == -np.inf],
        "sample_faults": [],
        "float_top1": right[0],
        "top1": right[1],
        "host": [],
        "host_bits": 32,
        "host_gain_db": None,
        "host_of": "",
        "host_cycles": 0,
        "layers": [],
        "weight_errors": dynamic.errors,
    }


def _outputs(module: IRModule, samples: Samples) -> list[NDArray[np.float64]]:
    """Each output for all samples."""
    runs = [run_module(module, inputs) for inputs in samples]
    return [np.stack(every).astype(np.float64) for every in zip(*runs, strict=True)]


def _ratio(exact: NDArray[np.float64], found: NDArray[np.float64]) -> float:
    """Signal to noise in decibels."""
    return decibels(float(np.square(exact).sum()), float(np.square(exact - found).sum()))
