# SPDX-License-Identifier: Apache-2.0
"""Read the layers of a float network, and decide which of its tensors become int8.

In:   a folded float module (fold.py).
Out:  Network (network.py).
Next: simulate.py compiles it once, for every trial of the quantizer.

The bias and the activation after an operator belong to its layer. Layers whose inputs only the host
computes, or whose outputs only the host reads, stay on the host. A moved tensor has the scale of
its source.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Set
from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from loadstone.quantization.chains import Chains, tensors_read
from loadstone.quantization.network import TABLE, Layer, Network, Role, readers_of
from loadstone.relax.compat import (
    bindings,
    is_call,
    is_constant,
    name_of,
    op_name,
    relax,
    result,
    scalar,
    shape,
    uses,
    value,
)

if TYPE_CHECKING:
    from loadstone.relax.types import Call, Expr, IRModule, RelaxFunction, Var

__all__ = ["groups_of", "read_network"]

_COMPUTED = ("add", "subtract", "multiply", "nn.avg_pool2d", "mean", "matmul")
_MOVED = (
    "reshape",
    "permute_dims",
    "squeeze",
    "expand_dims",
    "flatten",
    "strided_slice",
    "nn.max_pool2d",
    "nn.pad",
    "concat",
    "nn.relu",
    "clip",
)
_ELEMENTWISE = ("add", "subtract", "multiply")
_REDUCING = ("nn.max_pool2d",)  # worth doing on the device even when only the host reads the result


def read_network(module: IRModule) -> Network:
    """The layers of `main`."""
    function = module["main"]
    layers = tuple(_Reader(function).layers())
    bound = dict(bindings(function))
    outputs = tuple(_behind(variable, bound) for variable in result(function))
    quantized = _quantized(layers, tuple(function.params), outputs)
    return Network(
        function,
        layers,
        tuple(function.params),
        outputs,
        frozenset(quantized),
        groups_of(layers, quantized),
    )


def _behind(variable: Var, bound: dict[Var, Expr]) -> Var:
    """The variable that another one merely repeats."""
    while isinstance(bound.get(variable), relax.Var):
        variable = bound[variable]
    return variable


# --------------------------------------------------------------------------------------------------
# Layers
# --------------------------------------------------------------------------------------------------


class _Reader:
    def __init__(self, function: RelaxFunction) -> None:
        self.function = function
        self.uses = uses(function)
        self.bound = list(bindings(function))
        self.reader: dict[Var, tuple[Var, Call]] = {}  # variable -> the last binding that reads it
        for variable, call in self.bound:
            for operand in tensors_read(call):
                if isinstance(operand, relax.Var):
                    self.reader[operand] = (variable, call)

    def layers(self) -> Iterator[Layer]:
        """One for each call that is no bias or activation of another, nor inside a chain."""
        chains, taken = self.chains(), set()
        taken |= chains.inside
        for variable, call in self.bound:
            if variable in taken or isinstance(call, relax.Var | relax.Tuple):
                continue
            if variable in chains.ends:
                yield _table(variable, chains.ends[variable])
                continue
            output, bias, clamp, members = self.tail(variable, call)
            taken.update(members)
            yield _layer(
                variable,
                call,
                output,
                bias,
                clamp,
                name_of(dict(self.bound)[output]) or output.name,
            )

    def chains(self) -> Chains:
        """Those behind what is a layer with its bias and its activation."""
        alone = self.chains_without(lambda variable, name: name in ("nn.conv2d", "matmul"))
        return self.chains_without(
            lambda variable, name: (
                name in ("nn.conv2d", "matmul", *_COMPUTED) and variable not in alone.source
            )
        )

    def chains_without(self, is_layer: Callable[[Var, str], bool]) -> Chains:
        """None of them takes the tail of a layer in."""
        tails: set[Expr] = set()
        for variable, call in self.bound:
            if isinstance(call, relax.Call) and is_layer(variable, op_name(call)):
                tails.update(self.tail(variable, call)[3])
        others = [(v, call if v not in tails else relax.Tuple([])) for v, call in self.bound]
        return Chains(others, result(self.function))

    def tail(
        self, variable: Var, call: Call
    ) -> tuple[Expr, NDArray[np.float32] | None, tuple[float, float], list[Expr]]:
        """(output, bias, clamp, variables after the core) of the layer that `variable` begins."""
        name, bias, clamp, members = op_name(call), None, (-np.inf, np.inf), []
        weighted = name in ("nn.conv2d", "matmul") and is_constant(call.args[1])
        following = self.only_reader(variable)
        if (
            weighted
            and following is not None
            and is_call(following[1], "add")
            and is_constant(following[1].args[1])
        ):
            variable, bias = following[0], value(following[1].args[1]).reshape(-1)
            members.append(variable)
            following = self.only_reader(variable)
        if (
            (weighted or name in _COMPUTED)
            and following is not None
            and is_call(following[1], "nn.relu", "clip")
        ):
            variable, activation = following
            members.append(variable)
            clamp = (
                (0.0, np.inf)
                if is_call(activation, "nn.relu")
                else (float(scalar(activation.args[1])), float(scalar(activation.args[2])))
            )
        return variable, bias, clamp, members

    def only_reader(self, variable: Var) -> tuple[Var, Call] | None:
        return self.reader.get(variable) if self.uses.get(variable) == 1 else None


def _layer(
    core: Var,
    call: Call,
    output: Var,
    bias: NDArray[np.float32] | None,
    clamp: tuple[float, float],
    name: str,
) -> Layer:
    kind = op_name(call)
    operands = tensors_read(call)
    inputs = tuple(item for item in operands if isinstance(item, relax.Var))
    layer = Layer(name, kind, Role.FLOAT, core, output, inputs, clamp=clamp)
    if any(shape(item) is None for item in (*inputs, output)):
        return layer
    if bias is not None and _has_weights(call):
        return _weighted(layer, call, bias)
    constants = {
        position: value(item) for position, item in enumerate(operands) if is_constant(item)
    }
    if any(array.dtype != np.float32 for array in constants.values()) or not inputs:
        return layer
    if _is_flat_product(call):
        return layer
    if kind in _COMPUTED:
        return replace(layer, role=Role.COMPUTED, constants=constants)
    return replace(layer, role=Role.MOVED) if not constants and _moves(call) else layer


def _table(variable: Var, source: Var) -> Layer:
    """A function of one tensor, named by its last variable."""
    return Layer(variable.name, TABLE, Role.COMPUTED, variable, variable, (source,))


def _has_weights(call: Call) -> bool:
    """Whether it is a convolution or a dense layer whose weights are constant."""
    if is_call(call, "nn.conv2d"):
        return is_constant(call.args[1]) and str(call.attrs.kernel_layout) == "OHWI"
    return (
        is_call(call, "matmul")
        and is_constant(call.args[1])
        and len(shape(call.args[1]) or ()) == 2
    )


def _weighted(layer: Layer, call: Call, bias: NDArray[np.float32]) -> Layer:
    weights = value(call.args[1])
    if layer.kind == "nn.conv2d":
        return replace(
            layer,
            role=Role.WEIGHTED,
            weights=weights,
            bias=bias,
            groups=int(call.attrs.groups),
        )
    return replace(layer, role=Role.WEIGHTED, weights=np.ascontiguousarray(weights.T), bias=bias)


def _is_flat_product(call: Call) -> bool:
    """Whether it is a product of vectors or matrices without constant weights, for which there is
    no integer rule."""
    return is_call(call, "matmul") and min(len(shape(item) or ()) for item in call.args) < 3


def _moves(call: Call) -> bool:
    """Whether every value of the result is one of the operand's, or zero."""
    kind = op_name(call)
    if kind == "nn.pad":
        return float(call.attrs.pad_value) == 0
    if kind == "image.resize2d":
        return str(call.attrs.method) == "nearest_neighbor"
    return kind in _MOVED


# --------------------------------------------------------------------------------------------------
# Which tensors become int8
# --------------------------------------------------------------------------------------------------


def _quantized(
    layers: tuple[Layer, ...], parameters: tuple[Var, ...], outputs: tuple[Var, ...]
) -> set[Var]:
    host = {layer.output for layer in layers if layer.role is Role.FLOAT}
    readers = readers_of(layers)
    changed = True
    while changed:  # layers that only the host feeds, or only the host reads, join the host
        before = len(host)
        for layer in layers:
            read = all(reader.output in host for reader in readers.get(layer.output, ()))
            if (layer.role is Role.MOVED or layer.kind in (*_ELEMENTWISE, TABLE)) and (
                _fed_by_host(layer, host, parameters) or (read and layer.kind not in _REDUCING)
            ):
                host.add(layer.output)
        changed = len(host) != before

    device = [layer for layer in layers if layer.output not in host]
    return {layer.output for layer in device} | {item for layer in device for item in layer.inputs}


def _fed_by_host(layer: Layer, host: set[Var], parameters: tuple[Var, ...]) -> bool:
    """Whether the host computes its operands; for arithmetic one such operand is enough."""
    if all(item in host for item in layer.inputs):
        return True
    return layer.role is Role.COMPUTED and any(
        item in host or item in parameters for item in layer.inputs
    )


def groups_of(layers: tuple[Layer, ...], quantized: Set[Var]) -> dict[Var, int]:
    """The number of each variable's group; a moved tensor has the group of its source."""
    parent: dict[Var, Var] = {}

    def root(variable: Var) -> Var:
        while parent.setdefault(variable, variable) != variable:
            variable = parent[variable]
        return variable

    order = []
    for layer in layers:
        order += [*layer.inputs, layer.output]
        if layer.role is Role.MOVED and layer.output in quantized:
            for item in layer.inputs:
                if item in quantized:
                    parent[root(item)] = root(layer.output)
    variables = [variable for variable in dict.fromkeys(order) if variable in quantized]
    numbers: dict[Var, int] = {}
    return {variable: numbers.setdefault(root(variable), len(numbers)) for variable in variables}
