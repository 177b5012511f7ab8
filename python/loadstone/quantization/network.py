"""Read a float network as layers: what an accelerator computes in one go, and which tensors share a
scale.

In:   a folded float module (fold.py).
Out:  Network: layers in order; for every tensor whether it becomes int8, and its group (the tensors
      with one scale).
Next: simulate.py runs it, plan.py chooses scales for its groups, rewrite.py puts them in.

Layers by what they do to a quantized tensor:

    WEIGHTED  multiplies with constant weights: conv2d, matmul; with its bias and activation
    COMPUTED  computes new values: add, subtract, multiply, average pool, mean; with its activation
    MOVED     chooses among the values it gets: reshape, concat, max pool, relu ... : one scale on
                            both sides
    FLOAT     has no int8 form: it stays on the host, between dequantize and quantize

A tensor becomes int8 when a layer that can run on int8 computes it. Two exceptions save accuracy
and cost nothing: element-wise arithmetic with an operand that only the host knows stays there; so
does what merely moves or combines tensors that only the host reads.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from enum import Enum
from functools import cached_property
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

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

__all__ = ["Layer", "Network", "Role", "read_network"]

_COMPUTED = ("add", "subtract", "multiply", "nn.avg_pool2d", "mean")
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


class Role(Enum):
    """What a layer does to quantized tensors."""

    WEIGHTED = "weighted"
    COMPUTED = "computed"
    MOVED = "moved"
    FLOAT = "float"


@dataclass(frozen=True, eq=False)
class Layer:
    """name: of its output tensor. kind: the Relax operator that leads it.

    core: the variable of that operator; output: the variable of the whole (after bias and
        activation).
    inputs: the variables it reads. constants: tensor operands that are constants, by position in
        the core's arguments.
    weights: output channels on axis 0 (OHWI; for a dense layer (O, I)). bias: float32 (O,). Both
        only of WEIGHTED.
    clamp: the bounds of its activation.
    """

    name: str
    kind: str
    role: Role
    core: Var
    output: Var
    inputs: tuple[Var, ...]
    constants: Mapping[int, NDArray[np.float32]] = field(default_factory=dict)
    weights: NDArray[np.float32] | None = None
    bias: NDArray[np.float32] | None = None
    groups: int = 1
    clamp: tuple[float, float] = (-np.inf, np.inf)

    @property
    def is_depthwise(self) -> bool:
        """A convolution of each channel with itself alone."""
        return (
            self.kind == "nn.conv2d"
            and self.groups > 1
            and self.weights is not None
            and self.weights.shape[-1] == 1
        )

    @property
    def macs(self) -> int:
        """Multiply-accumulates of one run; elements of the output for other layers."""
        extents = shape(self.output) or ()
        size = int(np.prod(extents, dtype=np.int64))
        return size * int(np.prod(self.weights.shape[1:])) if self.weights is not None else size


@dataclass(frozen=True, eq=False)
class Network:
    """function: the folded float function. quantized: variables that become int8. groups: such a
    variable -> its group's number."""

    function: RelaxFunction
    layers: tuple[Layer, ...]
    parameters: tuple[Var, ...]
    outputs: tuple[Var, ...]
    quantized: frozenset[Var]
    groups: Mapping[Var, int]

    @cached_property
    def by_output(self) -> dict[Var, Layer]:
        """The layer that computes a variable."""
        return {layer.output: layer for layer in self.layers}

    @cached_property
    def readers(self) -> dict[Var, tuple[Layer, ...]]:
        """The layers that read a variable."""
        return readers_of(self.layers)

    @property
    def weighted(self) -> tuple[Layer, ...]:
        """The layers with weights, in order."""
        return tuple(layer for layer in self.layers if layer.role is Role.WEIGHTED)

    def name(self, variable: Var) -> str:
        """What reports and files call the tensor."""
        layer = self.by_output.get(variable)
        return layer.name if layer is not None else str(variable.name)

    def members(self, group: int) -> tuple[Var, ...]:
        """The variables of a group, in order."""
        return tuple(variable for variable, number in self.groups.items() if number == group)

    def results(self) -> tuple[Var, ...]:
        """Quantized variables that the host reads or that are outputs: what the device hands
        over."""
        on_host = (
            layer
            for layer in self.layers
            if layer.role is Role.FLOAT or layer.output not in self.quantized
        )
        host = {item for layer in on_host for item in layer.inputs} | set(self.outputs)
        return tuple(
            variable
            for variable in self.groups
            if variable in host and variable not in self.parameters
        )

    def boundaries(self) -> Iterator[Var]:
        """Quantized variables whose values are new: where a quantize rounds. The others are moved
        copies."""
        for variable in self.groups:
            layer = self.by_output.get(variable)
            if (
                layer is None
                or layer.role is not Role.MOVED
                or not all(item in self.quantized for item in layer.inputs)
            ):
                yield variable


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
        _groups(layers, quantized),
    )


def _behind(variable: Var, bound: dict[Var, Expr]) -> Var:
    """The variable that another one merely repeats."""
    while isinstance(bound.get(variable), relax.Var):
        variable = bound[variable]
    return variable


# --- Layers ---------------------------------------------------------------------------------------


class _Reader:
    def __init__(self, function: RelaxFunction) -> None:
        self.function = function
        self.uses = uses(function)
        self.bound = list(bindings(function))
        self.reader: dict[Var, tuple[Var, Call]] = {}  # variable -> the last binding that reads it
        for variable, call in self.bound:
            for operand in _operands(call):
                if isinstance(operand, relax.Var):
                    self.reader[operand] = (variable, call)

    def layers(self) -> Iterator[Layer]:
        """One for each call that is no bias or activation of another."""
        taken: set[Var] = set()
        for variable, call in self.bound:
            if variable in taken or isinstance(call, relax.Var | relax.Tuple):
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
    operands = _operands(call)
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
    if kind in _COMPUTED:
        return replace(layer, role=Role.COMPUTED, constants=constants)
    return replace(layer, role=Role.MOVED) if not constants and _moves(call) else layer


def _has_weights(call: Call) -> bool:
    """A convolution or a dense layer whose weights are constant."""
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


def _moves(call: Call) -> bool:
    """Whether every value of the result is one of the operand's, or zero."""
    kind = op_name(call)
    if kind == "nn.pad":
        return float(call.attrs.pad_value) == 0
    if kind == "image.resize2d":
        return str(call.attrs.method) == "nearest_neighbor"
    return kind in _MOVED


def _operands(call: Call) -> list[Expr]:
    """Tensors that a binding reads, constants included; not its shapes and scalars."""
    if isinstance(call, relax.Var):
        return [call]
    if isinstance(call, relax.TupleGetItem):
        return [call.tuple_value]
    arguments = call.fields if isinstance(call, relax.Tuple) else call.args
    flat = [
        item
        for argument in arguments
        for item in (argument.fields if isinstance(argument, relax.Tuple) else (argument,))
    ]
    return [item for item in flat if isinstance(item, relax.Var) or is_constant(item)]


# --- Which tensors become int8 --------------------------------------------------------------------


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
            if (layer.role is Role.MOVED or layer.kind in _ELEMENTWISE) and (
                _fed_by_host(layer, host, parameters) or (read and layer.kind not in _REDUCING)
            ):
                host.add(layer.output)
        changed = len(host) != before

    device = [layer for layer in layers if layer.output not in host]
    return {layer.output for layer in device} | {item for layer in device for item in layer.inputs}


def readers_of(layers: Sequence[Layer]) -> dict[Var, tuple[Layer, ...]]:
    """The layers that read a variable, each once."""
    found: dict[Var, list[Layer]] = {}
    for layer in layers:
        for variable in dict.fromkeys(layer.inputs):
            found.setdefault(variable, []).append(layer)
    return {variable: tuple(layers) for variable, layers in found.items()}


def _fed_by_host(layer: Layer, host: set[Var], parameters: tuple[Var, ...]) -> bool:
    """Whether the host computes what it needs: one operand of arithmetic is enough."""
    if all(item in host for item in layer.inputs):
        return True
    return layer.role is Role.COMPUTED and any(
        item in host or item in parameters for item in layer.inputs
    )


def _groups(layers: tuple[Layer, ...], quantized: set[Var]) -> dict[Var, int]:
    """Numbers; a moved tensor has its source's."""
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
