# SPDX-License-Identifier: Apache-2.0
"""Run a network with or without quantization: one compilation serves all scales.

In:   Network (network.py).
Out:  FakeQuantizedRunner: runs samples on TVM's CPU back end; weights and scales are arguments, and
      every quantized tensor is a result.
Next: calibrate.py runs it in float, report.py compares float with quantized, mixed.py quantizes one
      layer at a time.

Quantized values are simulated: rounded to their steps, but computed in float32. This is the meaning
of QDQ; it differs from the device's integers only where a sum lies close to the boundary between
two steps.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from copy import copy
from dataclasses import dataclass, field
from functools import cached_property
from typing import TYPE_CHECKING

import numpy as np

from loadstone.graph import Quantization
from loadstone.numerics import Array, Float32Array
from loadstone.passes.log import PassLog
from loadstone.quantization.executable import executable
from loadstone.quantization.network import Layer, Network, Role
from loadstone.relax.compat import bindings, is_call, relax, shape, te, tirx, tvm, with_main
from loadstone.relax.convolutions import channels_last_conv2d
from loadstone.relax.rewriter import Rewriter

if TYPE_CHECKING:
    from loadstone.relax.types import Call, Expr, IRModule, TeTensor, TvmTensor, Var

__all__ = ["FLOAT", "FakeQuantizedRunner", "Grid", "Settings"]


@dataclass(frozen=True)
class Grid:
    """The scale of a tensor, with zero point 0, and the number of bits of its integers."""

    quantization: Quantization
    bits: int = 8


@dataclass(frozen=True, eq=False)
class Settings:
    """One way to run the network; a part without settings stays float.

    weights, biases: real values by layer name, in place of the network's own. constants: by (layer
        name, position).
    activations: the steps of boundary variables.
    """

    weights: Mapping[str, Float32Array] = field(default_factory=dict)
    biases: Mapping[str, Float32Array] = field(default_factory=dict)
    constants: Mapping[tuple[str, int], Float32Array] = field(default_factory=dict)
    activations: Mapping[Var, Grid] = field(default_factory=dict)


#: The number of settings whose arguments are kept in the executable's form.
_KEPT_SETTINGS = 4
#: The float network, as it was compiled.
FLOAT = Settings()


class FakeQuantizedRunner:
    """recorded: the variables whose values `run` returns besides the outputs: all quantized ones.
    It compiles at the first run. log: the passes that produced the network."""

    def __init__(self, network: Network, log: PassLog | None = None) -> None:
        self.network = network
        self.log = log or PassLog()
        self.recorded = tuple(network.groups)
        builder = _Instrumented(network, self.recorded)
        self._layers, self._boundaries, self._constants = (
            builder.layers,
            builder.boundaries,
            builder.constants,
        )
        self._module = builder.module()
        self._bound: dict[Settings, list[TvmTensor]] = {}

    @cached_property
    def _run(self) -> Callable[[Sequence[TvmTensor]], list[TvmTensor]]:
        return executable(self._module)

    def with_network(self, network: Network) -> FakeQuantizedRunner:
        """The same executable for the network with other groups."""
        self.compile()
        other = copy(self)
        other.network = network
        return other

    def compile(self) -> None:
        """Compiles the network now instead of at the first run, which takes seconds for a large
        one."""
        _ = self._run

    def run(
        self, inputs: Sequence[Array], settings: Settings = FLOAT
    ) -> tuple[list[Array], Mapping[Var, Float32Array]]:
        """(outputs, recorded values by variable) of one sample. A parameter of float16 takes and
        returns float16."""
        results = self._run([*map(tvm.runtime.tensor, inputs), *self._arguments(settings)])
        count = len(self.network.outputs)
        return [np.from_dlpack(result) for result in results[:count]], _Recorded(
            dict(zip(self.recorded, results[count:], strict=True))
        )

    def _arguments(self, settings: Settings) -> list[TvmTensor]:
        """All arguments but the samples; kept for the last settings, because a comparison
        alternates between some."""
        if settings not in self._bound:
            while len(self._bound) >= _KEPT_SETTINGS:
                del self._bound[next(iter(self._bound))]
            self._bound[settings] = [
                tvm.runtime.tensor(np.asarray(array, order="C")) for array in self._arrays(settings)
            ]
        return self._bound[settings]

    def _arrays(self, settings: Settings) -> list[Array | None]:
        arrays: list[Array | None] = []
        for layer in self._layers:
            weights = settings.weights.get(layer.name, layer.weights)
            assert weights is not None
            arrays += [
                weights.transpose(_ORDER[layer.kind]),
                settings.biases.get(layer.name, layer.bias),
            ]
        arrays += [
            settings.constants.get((layer.name, position), layer.constants[position])
            for layer, position in self._constants
        ]
        return arrays + [
            bound
            for variable in self._boundaries
            for bound in _steps(settings.activations.get(variable))
        ]


@dataclass(frozen=True)
class _Recorded(Mapping["Var", Float32Array]):
    """Tensors that become arrays when they are read, because most readers need only some of
    them."""

    tensors: Mapping[Var, TvmTensor]

    def __getitem__(self, variable: Var) -> Float32Array:
        return np.asarray(np.from_dlpack(self.tensors[variable]), np.float32)

    def __iter__(self) -> Iterator[Var]:
        return iter(self.tensors)

    def __len__(self) -> int:
        return len(self.tensors)


#: From (O, ...) to the order in which TVM's convolution and matmul read weights: HWIO and IO.
_ORDER = {"nn.conv2d": (1, 2, 3, 0), "matmul": (1, 0)}


def _steps(grid: Grid | None) -> list[Float32Array]:
    """Scale, lowest and highest step around zero, one element each; all 0: rounding is off."""
    if grid is None:
        return [np.zeros(1, np.float32)] * 3
    end = 1 << (grid.bits - 1)
    low, high = (limit - grid.quantization.zero_point for limit in (-end, end - 1))
    return [np.array([bound], np.float32) for bound in (grid.quantization.scale, low, high)]


def _rounded(x: TeTensor, scale: TeTensor, low: TeTensor, high: TeTensor) -> TeTensor:
    """clip(round(x / scale)) * scale where scale > 0, else x. One function instead of seven
    operators, for each of which TVM would generate a function."""

    def element(*place: Expr) -> Expr:
        value = x(*place)
        steps = tirx.min(tirx.max(tirx.round(value / scale[0]), low[0]), high[0])
        return tirx.Select(scale[0] > tirx.FloatImm("float32", 0.0), steps * scale[0], value)

    return te.compute(x.shape, element, name="rounded")


#: The parameters that round a boundary.
_BOUNDS = ("scale", "low", "high")


class _Instrumented(Rewriter):
    """The function with weights, biases, constants and steps as further parameters and the recorded
    values as further results."""

    def __init__(self, network: Network, recorded: Sequence[Var]) -> None:
        super().__init__(network.function)
        self.network, self.recorded = network, recorded
        self.layers = network.weighted
        self.constants = [
            (layer, position)
            for layer in network.layers
            for position in layer.constants
            if layer.role is Role.COMPUTED
        ]
        # A concatenation rounds where it gets a scale of its own (apart.py).
        joins = {layer.output for layer in network.layers if layer.kind == "concat"}
        rounds = joins.union(network.boundaries())
        self.boundaries = [variable for variable in network.groups if variable in rounds]
        # by shape, a function that rounds: TVM takes half a millisecond to make one
        self.rounders: dict[tuple[int, ...] | None, Expr] = {}
        self.weights = {
            layer.core: self.parameter(layer.name, _weights_shape(layer)) for layer in self.layers
        }
        self.biases = {
            layer.core: self.parameter(f"{layer.name}/bias", layer.bias.shape)
            for layer in self.layers
            if layer.bias is not None
        }
        self.operands = {
            (layer.core, position): self.parameter(
                f"{layer.name}/{position}", layer.constants[position].shape
            )
            for layer, position in self.constants
        }
        self.steps = {
            variable: [self.parameter(f"{variable.name}/{name}", (1,)) for name in _BOUNDS]
            for variable in self.boundaries
        }

    def parameter(self, name: str, extents: Sequence[int]) -> Var:
        return relax.Var(name, relax.TensorType(tuple(extents), "float32"))

    def module(self) -> IRModule:
        """`main`, and the functions that it calls."""
        own = [
            parameter
            for layer in self.layers
            for parameter in (self.weights[layer.core], self.biases[layer.core])
        ]
        steps = [bound for bounds in self.steps.values() for bound in bounds]
        parameters = [*self.network.parameters, *own, *self.operands.values(), *steps]
        with self.builder.function("main", parameters):
            with self.builder.dataflow():
                for variable in self.network.parameters:
                    self.env[variable] = self.rounded(variable, variable)
                for variable, value in bindings(self.network.function):
                    if not isinstance(value, relax.Tuple):
                        self.name = variable.name
                        self.env[variable] = self.rounded(
                            variable, self.emit(self.substituted(variable, value))
                        )
                results = [
                    self.env[variable] for variable in (*self.network.outputs, *self.recorded)
                ]
                final = self.builder.emit_output(relax.Tuple(results))
            self.builder.emit_func_output(final)
        return with_main(self.builder.get())

    def substituted(self, variable: Var, call: Call) -> Expr:
        if isinstance(call, relax.Call):
            arguments = list(call.args)
            if variable in self.weights and is_call(call, "nn.conv2d"):
                return channels_last_conv2d(
                    self.mapped(arguments[0]),
                    self.weights[variable],
                    call.attrs,
                    kernel_layout="HWIO",
                )
            if variable in self.weights:
                arguments[1] = self.weights[variable]
            elif is_call(call, "add") and call.args[0] in self.biases:
                arguments[1] = self.biases[call.args[0]]
            for position in range(len(arguments)):
                arguments[position] = self.operands.get((variable, position), arguments[position])
            call = relax.Call(call.op, arguments, call.attrs, call.ty_args)
        return self.mapped(call)

    def mapped(self, expr: Expr) -> Expr:
        return self.env.get(expr, expr) if isinstance(expr, relax.Var) else super().mapped(expr)

    def rounded(self, variable: Var, new: Expr) -> Expr:
        if variable not in self.steps:
            return new
        extents = shape(variable)
        if extents not in self.rounders:
            call = self.builder.call_te(
                _rounded, new, *self.steps[variable], primfunc_name_hint="rounded"
            )
            self.rounders[extents] = call.args[0]
            return self.emit(call)
        arguments = relax.Tuple([new, *self.steps[variable]])
        return self.emit(relax.call_tir(self.rounders[extents], arguments, variable.ty))


def _weights_shape(layer: Layer) -> tuple[int, ...]:
    assert layer.weights is not None
    return tuple(layer.weights.shape[axis] for axis in _ORDER[layer.kind])
