# SPDX-License-Identifier: Apache-2.0
"""Write a plan into the network: from float to QDQ, the form that the frontends give for int8
models.

In:   Network (network.py), Plan (plan.py).
Out:  an IRModule whose tensors are int8 between quantize and dequantize; inputs and outputs as the
      float network has them.
Next: partition/eager.py, or export_onnx.py.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from loadstone.graph import Quantization
from loadstone.quantization.network import Layer, Network, Role
from loadstone.quantization.plan import (
    Plan,
    bias_scales,
    float_groups,
    half_step_bias,
    quantized_bias,
    quantized_constant,
    quantized_weights,
)
from loadstone.quantization.wide_plan import is_wide, wide_grid, wide_groups, wide_weights
from loadstone.relax.compat import (
    DeadCodeElimination,
    constant,
    is_call,
    is_constant,
    named,
    relax,
    tvm,
)
from loadstone.relax.rewriter import Rewriter

if TYPE_CHECKING:
    from loadstone.relax.types import Expr, IRModule, Var

__all__ = ["rewrite", "write_weights"]


def rewrite(network: Network, plan: Plan) -> IRModule:
    """The quantized module. Layers of `plan.host` keep float weights, or get int16 ones, between a
    dequantize and a quantize."""
    function = _Rewrite(network, plan).run().with_attr("loadstone.numerics", "onnx")
    return DeadCodeElimination(["main"])(tvm.IRModule({"main": function}))


def write_weights(network: Network) -> IRModule:
    """The float module with the network's weights and biases, which a repair may have changed."""
    return DeadCodeElimination(["main"])(tvm.IRModule({"main": _Weights(network).run()}))


@dataclass(frozen=True, eq=False)
class _Stored:
    """A tensor that exists as integers; each reader dequantizes it anew."""

    variable: Var
    quantization: Quantization


class _Weights(Rewriter):
    """Puts the layers' own weights and biases in place of the function's constants."""

    def __init__(self, network: Network) -> None:
        super().__init__(network.function)
        self.network = network
        self.cores = {layer.core: layer for layer in network.layers}

    def visit(self, variable: Var, value: Expr) -> Expr:
        return self.emit(self.substituted(variable, value))

    def substituted(self, variable: Var, value: Expr) -> Expr:
        layer = self.cores.get(variable)
        if layer is not None and layer.role is Role.WEIGHTED:
            return relax.Call(
                value.op,
                [self.mapped(value.args[0]), self.weights(layer)],
                value.attrs,
                value.ty_args,
            )
        if self.bias_of(value) is not None:
            return relax.op.add(self.env[value.args[0]], self.bias(self.bias_of(value)))
        return self.mapped(value)

    def bias_of(self, value: Expr) -> Layer | None:
        """The weighted layer whose bias this call adds."""
        layer = self.cores.get(value.args[0]) if is_call(value, "add") else None
        return (
            layer
            if layer is not None and layer.role is Role.WEIGHTED and is_constant(value.args[1])
            else None
        )

    def weights(self, layer: Layer) -> Expr:
        assert layer.weights is not None
        return constant(layer.weights if layer.kind == "nn.conv2d" else layer.weights.T)

    def bias(self, layer: Layer | None) -> Expr:
        assert layer is not None
        assert layer.bias is not None
        return constant(layer.bias)

    def emit(self, expr: Expr, name: str | None = None) -> Expr:
        name = name if name is not None else self.name
        return super().emit(named(expr, name) if isinstance(expr, relax.Call) else expr, name)


class _Rewrite(_Weights):
    def __init__(self, network: Network, plan: Plan) -> None:
        super().__init__(network)
        self.plan = plan
        self.wide = wide_groups(network, plan)
        free = float_groups(network, plan.host) - self.wide
        self.quantized_variables = {
            variable for variable, group in network.groups.items() if group not in free
        }
        self.outputs = {layer.output: layer for layer in network.layers}
        self.stored: dict[Var, _Stored] = {}  # old variable -> its int8 version

    # -- where tensors become int8 -----------------------------------------------------------------

    def visit(self, variable: Var, value: Expr) -> Expr:
        layer = self.outputs.get(variable)
        new = self.emit(
            self.substituted(variable, value),
            layer.name + "/real" if layer and variable in self.quantized_variables else None,
        )
        if variable in self.quantized_variables:
            self.stored[variable] = self.quantized(new, variable)
        return new

    def quantized(self, real: Expr, variable: Var) -> _Stored:
        group = self.network.groups[variable]
        quantization, kind = self.plan.activations[group], "int8"
        if group in self.wide:
            quantization, kind = wide_grid(quantization), "int16"
        scale, zero_point = (
            constant(np.float32(quantization.scale)),
            constant(np.int32(quantization.zero_point)),
        )
        name = self.unique(
            self.network.name(variable)
            if variable not in self.function.params
            else f"{variable.name}/{kind}"
        )
        call = relax.op.quantize(real, scale, zero_point, axis=0, out_dtype=kind)
        return _Stored(self.emit(call, name), quantization)

    def mapped(self, expr: Expr) -> Expr:
        if isinstance(expr, relax.Var) and expr in self.quantized_variables:
            if expr not in self.stored:  # a parameter, read for the first time
                self.stored[expr] = self.quantized(self.env[expr], expr)
            return self.dequantized(self.stored[expr])
        return super().mapped(expr)

    def dequantized(self, stored: _Stored) -> Expr:
        quantization = stored.quantization
        scale, zero_point = (
            constant(np.float32(quantization.scale)),
            constant(np.int32(quantization.zero_point)),
        )
        return self.emit(
            relax.op.dequantize(stored.variable, scale, zero_point, axis=0), self.name + "/real"
        )

    # -- weights, biases and constants as integers -------------------------------------------------

    def substituted(self, variable: Var, value: Expr) -> Expr:
        layer = self.cores.get(variable)
        if (
            layer is None
            or not layer.constants
            or not self.on_device(layer)
            or layer.role is not Role.COMPUTED
        ):
            return super().substituted(variable, value)
        arguments = [
            self.constant(layer, position) if position in layer.constants else self.mapped(item)
            for position, item in enumerate(value.args)
        ]
        return relax.Call(value.op, arguments, value.attrs, value.ty_args)

    def on_device(self, layer: Layer) -> bool:
        return (
            layer.role is not Role.FLOAT
            and layer.output in self.network.quantized
            and layer.name not in self.plan.host
        )

    def weights(self, layer: Layer) -> Expr:
        integers: NDArray[np.int8] | NDArray[np.int16]
        if is_wide(layer, self.plan):
            integers, scales = wide_weights(layer)
        elif self.on_device(layer):
            integers, scales = quantized_weights(layer, self.plan), self.plan.weights[layer.name]
        else:
            return super().weights(layer)
        if layer.kind == "matmul":
            return self.real(np.ascontiguousarray(integers.T), scales, 1, layer.name + "/weights")
        return self.real(integers, scales, 0, layer.name + "/weights")

    def bias(self, layer: Layer | None) -> Expr:
        assert layer is not None
        if not self.on_device(layer):
            return super().bias(layer)
        source, scales = (
            self.plan.activations[self.network.groups[layer.inputs[0]]],
            self.plan.weights[layer.name],
        )
        target = self.plan.activations[self.network.groups[layer.output]]
        half_step = half_step_bias(layer, self.plan, source, target)
        if half_step is not None:
            return constant(half_step)
        return self.real(
            quantized_bias(layer, self.plan, source),
            bias_scales(scales, source),
            0,
            layer.name + "/bias",
        )

    def constant(self, layer: Layer, position: int) -> Expr:
        quantization = self.plan.constants[layer.name, position]
        integers = quantized_constant(layer.constants[position], quantization)
        scale, zero_point = (
            constant(np.float32(quantization.scale)),
            constant(np.int32(quantization.zero_point)),
        )
        return self.emit(
            relax.op.dequantize(constant(integers), scale, zero_point, axis=0),
            f"{layer.name}/{position}/real",
        )

    def real(self, integers: Expr, scales: Expr, axis: int, name: str) -> Expr:
        """dequantize(constant), one scale for all where they are equal."""
        if np.all(scales == scales[0]):
            scales, axis = scales[0], 0
        zero_points = np.zeros(scales.shape, np.int32)
        return self.emit(
            relax.op.dequantize(
                constant(integers), constant(scales), constant(zero_points), axis=axis
            ),
            name,
        )

    def finish(self, output: Expr) -> Expr:
        self.name = output.name
        return super().finish(output)
