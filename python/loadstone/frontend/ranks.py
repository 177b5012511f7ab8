# SPDX-License-Identifier: Apache-2.0
"""Dense layers on rank 3 and more as layers on rows, convolutions and pools along one axis as
those of images whose height is 1, products of two matrices that are computed as batches of one, and
transposed convolutions as convolutions of phases (phases.py).

In:   a Relax function from an importer.
Out:  the same function with matmul of two ranks, conv2d and pools in two dimensions.
Next: layout.py, channels last.

    matmul  (N, ..., I) x (I, O)    ->  reshape (M, I), matmul, reshape back
    conv1d  (N, C, W)               ->  reshape (N, C, 1, W), conv2d, reshape back
    matmul  (..., K) x computed (K, N) -> reshape (1, M, K) and (1, K, N), matmul, reshape back

Elementwise operators that follow (a bias, an activation, quantize and dequantize) are computed in
the new shape, and the reshape back is deferred until an operator needs the old one. Patterns thus
find the layer with its bias, and consecutive layers need no reshape between them.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Set
from dataclasses import dataclass
from math import prod
from typing import TYPE_CHECKING, TypeAlias

import numpy as np

from loadstone.frontend.phases import Phases, is_transposed, phases_of
from loadstone.relax.compat import (
    bindings,
    constant,
    dtype,
    integers,
    is_call,
    is_constant,
    op_name,
    relax,
    result,
    shape,
    value,
)
from loadstone.relax.rewriter import Rewriter

if TYPE_CHECKING:
    from loadstone.relax.types import Call, Expr, RelaxFunction, Var

__all__ = ["two_dimensional"]

UNARY = (
    *("quantize", "dequantize", "nn.relu", "clip", "sigmoid", "tanh", "nn.silu", "nn.gelu"),
    *("nn.leakyrelu", "exp", "sqrt", "abs", "negative", "erf", "nn.dropout", "astype"),
    *("nn.gelu_tanh", "nn.softplus", "log", "rsqrt", "square", "sign", "sin", "cos"),
)
BINARY = ("add", "subtract", "multiply", "divide", "maximum", "minimum")
#: Not the averages: ONNX sums them in float32, and ties would differ.
POOLS = ("nn.max_pool1d",)


def two_dimensional(function: RelaxFunction) -> RelaxFunction:
    """The function without layers of other ranks; the function itself if it has none."""
    constants = _made_of_constants(function)
    if any(
        _is_dense(entry) or _is_line(entry) or _is_product(entry, constants) or is_transposed(entry)
        for _, entry in bindings(function)
    ):
        return _TwoDimensional(function).run()
    return function


def _is_dense(call: Expr) -> bool:
    """Whether it is a product with one matrix, of an operand with more than two axes. Products of
    integers (onnx/operators/dynamic.py) stay: what is computed beside them has their shape."""
    if not is_call(call, "matmul") or dtype(call).startswith("int"):
        return False
    data, weights = (shape(entry) or () for entry in call.args)
    return len(data) > 2 and len(weights) == 2


def _is_product(call: Expr, constants: Set[Expr]) -> bool:
    """Whether it is a product of two matrices that are both computed."""
    if not is_call(call, "matmul") or {len(shape(entry) or ()) for entry in call.args} != {2}:
        return False
    return not any(is_constant(entry) or entry in constants for entry in call.args)


def _made_of_constants(function: RelaxFunction) -> set[Expr]:
    """The variables that depend on constants only."""
    made: set[Expr] = set()
    for variable, call in bindings(function):
        if is_constant(call):
            made.add(variable)
        elif isinstance(call, relax.Call):
            known = [
                is_constant(argument) or argument in made
                for argument in call.args
                if is_constant(argument) or isinstance(argument, relax.Var | relax.Call)
            ]
            if known and all(known):
                made.add(variable)
    return made


def _is_line(call: Expr) -> bool:
    if is_call(call, "nn.conv1d"):
        return str(call.attrs.data_layout) == "NCW" and str(call.attrs.kernel_layout) == "OIW"
    return is_call(call, *POOLS) and str(call.attrs.layout) == "NCW"


@dataclass(frozen=True)
class _Formed:
    """A value with another shape than in the function: `expr` has `form`. phases: of a transposed
    convolution, whose elements are also in other places."""

    expr: Expr
    form: tuple[int, ...]
    full: tuple[int, ...]
    phases: Phases | None = None

    def is_like(self, other: _Formed) -> bool:
        """Whether elements stand at the same places."""
        mine = (self.form, self.full, self.phases)
        return mine == (other.form, other.full, other.phases)


#: An expression in another form, the form, phases.
_Made: TypeAlias = tuple["Expr", tuple[int, ...], Phases | None]


class _TwoDimensional(Rewriter):
    def __init__(self, function: RelaxFunction) -> None:
        super().__init__(function)
        self.outputs = set(result(function))
        self.constants = _made_of_constants(function)
        self.formed: dict[Var, _Formed] = {}  # by old variable

    def alias(self, variable: Var, value: Expr) -> None:
        super().alias(variable, value)
        if value in self.formed:
            self.formed[variable] = self.formed[value]

    def visit(self, variable: Var, call: Expr) -> Expr:
        made = self.in_form(call)
        if made is None:
            return self.emit(self.mapped(call))
        expr, form, phases = made
        name = self.name + "/rows" if variable in self.outputs else self.name
        full = shape(call) or ()
        self.formed[variable] = _Formed(self.emit(expr, name), form, full, phases)
        return self.formed[variable].expr

    def mapped(self, expr: Expr) -> Expr:
        """A value in another form is brought back for whoever needs its own shape."""
        if isinstance(expr, relax.Var) and expr in self.formed:
            found = self.formed[expr]
            name = expr.name if expr in self.outputs else f"{expr.name}/shaped"
            data = found.expr if found.phases is None else self.together(found.expr, found.phases)
            is_whole = (shape(data) or ()) == found.full
            back = data if is_whole else self.emit(relax.op.reshape(data, found.full), name)
            del self.formed[expr]
            self.env[expr] = back
            return back
        return super().mapped(expr)

    # -- what a call becomes -----------------------------------------------------------------------

    def in_form(self, call: Expr) -> _Made | None:
        """The call in another form, that form and phases; None where it stays as it is."""
        name = op_name(call)
        if _is_dense(call):
            return *self.dense(call), None
        if _is_line(call):
            return *self.line(name, call), None
        if _is_product(call, self.constants):
            return *self.product(call), None
        if is_transposed(call):
            return self.transposed(call)
        if name in UNARY and call.args[0] in self.formed and self.is_single(call):
            found = self.formed[call.args[0]]
            arguments = [found.expr, *(self.mapped(argument) for argument in call.args[1:])]
            made = relax.Call(call.op, arguments, call.attrs, call.ty_args)
            return made, found.form, found.phases
        if name in BINARY:
            return self.binary(name, call)
        return None

    @staticmethod
    def is_single(call: Call) -> bool:
        """One scale for all elements, where there are scales."""
        return not is_call(call, "quantize", "dequantize") or value(call.args[1]).size == 1

    def dense(self, call: Call) -> tuple[Expr, tuple[int, ...]]:
        full = shape(call.args[0]) or ()
        rows = prod(full[:-1])
        columns, weights = (shape(call) or ())[-1], call.args[1]
        if not is_constant(weights) and weights not in self.constants:
            data = self.as_form(call.args[0], (1, rows, full[-1]))
            matrix = self.as_form(weights, (1, full[-1], columns))
            return relax.op.matmul(data, matrix), (1, rows, columns)
        data = self.as_form(call.args[0], (rows, full[-1]))
        return relax.op.matmul(data, self.mapped(weights)), (rows, columns)

    def product(self, call: Call) -> tuple[Expr, tuple[int, ...]]:
        sides = [self.as_form(side, (1, *(shape(side) or ()))) for side in call.args]
        return relax.Call(call.op, sides, call.attrs), (1, *(shape(call) or ()))

    def line(self, name: str, call: Call) -> tuple[Expr, tuple[int, ...]]:
        n, channels, width = shape(call.args[0]) or ()
        data = self.as_form(call.args[0], (n, channels, 1, width))
        full = shape(call) or ()
        form = (full[0], full[1], 1, full[2])
        return _LINES[name](data, self, call), form

    def transposed(self, call: Call) -> _Made | None:
        """None for weights that are computed, or whose scales are another axis's."""
        phases = phases_of(call)
        kernel = self.phased(call.args[1], phases)
        if kernel is None:
            return None
        n, channels, *_ = shape(call.args[0]) or ()
        data = self.as_form(call.args[0], (n, channels, *phases.inputs))
        made = relax.op.nn.conv2d(
            data,
            kernel,
            padding=phases.padding,
            groups=phases.groups,
            data_layout="NCHW",
            kernel_layout="OIHW",
        )
        return made, (n, phases.copies * phases.channels, *phases.counts), phases

    def phased(self, expr: Expr, phases: Phases) -> Expr | None:
        """The weights of all phases, quantized or not."""
        weights = super().mapped(expr)
        made = self.value(weights)
        quantized = is_call(made, "dequantize") and is_constant(made.args[0])
        if not quantized and not is_constant(weights):
            return None
        array = value(made.args[0] if quantized else weights)
        array = array if array.ndim == 4 else array[:, :, None]
        if not quantized:
            return constant(phases.kernel(array, np.zeros(1)))
        axis = int(made.attrs.axis) % len(shape(weights) or (1,))
        many = value(made.args[1]).size > 1
        scales, zeros = (phases.of_outputs(value(item).reshape(-1), axis) for item in made.args[1:])
        if scales is None or zeros is None:
            return None
        zeros = np.broadcast_to(zeros, scales.shape)
        stored = constant(phases.kernel(array, zeros))
        grid = [constant(phases.tiled(a) if many else a[0]) for a in (scales, zeros)]
        return self.emit(relax.op.dequantize(stored, *grid, axis=0), f"{self.name}/kernel")

    def together(self, expr: Expr, phases: Phases) -> Expr:
        """Phases where they belong."""
        name, data = f"{self.name}/phases", expr
        for apart, order in phases.moves:
            split = self.emit(relax.op.reshape(data, apart), name)
            data = self.emit(relax.op.permute_dims(split, order), name)
        data = self.emit(relax.op.reshape(data, phases.whole), name)
        if not phases.is_cut:
            return data
        ends = [begin + size for begin, size in zip(phases.first, phases.size, strict=True)]
        return self.emit(relax.op.strided_slice(data, [2, 3], list(phases.first), ends), name)

    def binary(self, name: str, call: Call) -> _Made | None:
        first = next((a for a in call.args if a in self.formed), None)
        if first is None or shape(call) != self.formed[first].full:
            return None
        found = self.formed[first]
        sides = [self.side(argument, found) for argument in call.args]
        if any(side is None for side in sides):
            return None
        return getattr(relax.op, name)(*sides), found.form, found.phases

    def side(self, argument: Expr, found: _Formed) -> Expr | None:
        """An operand that goes with `found`: of the same form, or a constant that can."""
        if argument in self.formed:
            own = self.formed[argument]
            return own.expr if own.is_like(found) else None
        new = super().mapped(argument)
        extents = shape(new) or ()
        if prod(extents) == 1 and len(extents) <= len(found.form):
            return new
        wide = (1,) * (len(found.full) - len(extents)) + extents
        target = self.broadcast(wide, found)
        if target is None:
            return None
        again = self.constant_as(new, target)
        return again if again is None or found.phases is None else self.repeated(again, found)

    def broadcast(self, wide: tuple[int, ...], found: _Formed) -> tuple[int, ...] | None:
        """The shape of a constant with the shape `wide` in the form: along the last axis of rows
        and products, along the channels of a line."""
        if found.phases is not None:
            channel = wide[-len(found.full) :][1] if len(wide) == len(found.full) else 0
            return (1, channel, 1, 1) if prod(wide) == channel else None
        if len(found.form) < 4:
            return (wide[-1],) if prod(wide) == wide[-1] else None
        return (1, wide[1], 1, 1) if prod(wide) == wide[1] else None

    def repeated(self, expr: Expr, found: _Formed) -> Expr | None:
        """A constant of channels for every phase."""
        assert found.phases is not None
        channels = (1, found.form[1], 1, 1)
        made = self.value(expr)
        if is_constant(expr):
            return constant(found.phases.tiled(value(expr)).reshape(channels))
        while is_call(made, "reshape", "expand_dims"):
            made = self.value(made.args[0])
        if not is_call(made, "dequantize"):
            return None
        scales, zeros = (value(item).reshape(-1) for item in made.args[1:])
        many = scales.size > 1
        grid = [constant(found.phases.tiled(a) if many else a[0]) for a in (scales, zeros)]
        stored = constant(found.phases.tiled(value(made.args[0])))
        whole = self.emit(relax.op.dequantize(stored, *grid, axis=0), f"{self.name}/bias")
        return self.emit(relax.op.reshape(whole, channels), f"{self.name}/bias/formed")

    def constant_as(self, expr: Expr, form: tuple[int, ...]) -> Expr | None:
        """A constant, or a quantized one, in another shape; canonical.py folds the reshape."""
        made = self.value(expr)
        while is_call(made, "reshape", "expand_dims"):
            made = self.value(made.args[0])
        if is_constant(made):
            return constant(value(made).reshape(form))
        if not is_call(made, "dequantize") or not is_constant(made.args[0]):
            return None
        return self.emit(relax.op.reshape(expr, form), f"{expr.name}/formed")

    def as_form(self, argument: Expr, form: tuple[int, ...]) -> Expr:
        if argument in self.formed:
            found = self.formed[argument]
            if found.form == form and found.phases is None:
                return found.expr
        data = self.mapped(argument)
        if (shape(data) or ()) == form:
            return data
        return self.emit(relax.op.reshape(data, form), f"{self.name}/{len(form)}d")

    def kernel(self, call: Call) -> Expr:
        """(O, I, W) as (O, I, 1, W), quantized or not; scales of output channels stay."""
        weights = super().mapped(call.args[1])
        outputs, inputs, taps = shape(weights) or ()
        form = (outputs, inputs, 1, taps)
        if is_constant(weights):
            return constant(value(weights).reshape(form))
        made = self.value(weights)
        if is_call(made, "dequantize") and is_constant(made.args[0]):
            stored = constant(value(made.args[0]).reshape(form))
            again = relax.Call(made.op, [stored, *made.args[1:]], made.attrs, made.ty_args)
            return self.emit(again, f"{self.name}/kernel")
        return self.emit(relax.op.reshape(weights, form), f"{self.name}/kernel")


def _conv(data: Expr, rewriter: _TwoDimensional, call: Call) -> Expr:
    attrs = call.attrs
    before, after = _pair(integers(attrs.padding))
    return relax.op.nn.conv2d(
        data,
        rewriter.kernel(call),
        strides=(1, *integers(attrs.strides)),
        padding=(0, before, 0, after),
        dilation=(1, *integers(attrs.dilation)),
        groups=int(attrs.groups),
        data_layout="NCHW",
        kernel_layout="OIHW",
    )


def _max_pool(data: Expr, _: _TwoDimensional, call: Call) -> Expr:
    attrs = call.attrs
    before, after = _pair(integers(attrs.padding))
    return relax.op.nn.max_pool2d(
        data,
        pool_size=(1, *integers(attrs.pool_size)),
        strides=(1, *integers(attrs.strides)),
        padding=(0, before, 0, after),
        dilation=(1, *integers(attrs.dilation)),
        ceil_mode=bool(attrs.ceil_mode),
        layout="NCHW",
    )


def _pair(padding: tuple[int, ...]) -> tuple[int, int]:
    return padding[0], padding[-1]


_LINES: Mapping[str, Callable[[Expr, _TwoDimensional, Call], Expr]] = {
    "nn.conv1d": _conv,
    "nn.max_pool1d": _max_pool,
}
