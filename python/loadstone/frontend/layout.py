# SPDX-License-Identifier: Apache-2.0
"""Channels last: NCHW convolutions, pools and what lies between them become NHWC.

In:   a Relax function from an importer (TFLite's is NHWC already, and is not changed).
Out:  the same function in NHWC. Transposes are deferred: an element-wise operator works
      on the NHWC value, and a transpose is emitted only where an operator needs the old order of
      axes (a reshape, an output).
Next: canonical.py.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from loadstone.relax.compat import (
    bindings,
    integers,
    is_call,
    op_name,
    relax,
    result,
    shape,
)
from loadstone.relax.convolutions import channels_last_conv2d
from loadstone.relax.rewriter import Rewriter

if TYPE_CHECKING:
    from loadstone.relax.types import Attrs, Call, Expr, RelaxFunction, Var

__all__ = ["channels_last", "transposed"]

TO_LAST = (0, 2, 3, 1)
TO_FIRST = (0, 3, 1, 2)
WINDOWS = ("nn.conv2d", "nn.avg_pool2d", "nn.max_pool2d", "image.resize2d")
#: One tensor in, the same shape out, no axis attribute that matters (a per-tensor quantization
#: ignores its axis).
UNARY = (
    *(
        "quantize",
        "dequantize",
        "nn.relu",
        "clip",
        "sigmoid",
        "tanh",
        "astype",
        "nn.dropout",
        "nn.leakyrelu",
        "exp",
        "sqrt",
        "abs",
        "negative",
    ),
    *("nn.silu", "nn.gelu", "nn.gelu_tanh", "nn.softplus", "erf", "floor", "ceil", "round"),
    *("log", "rsqrt", "square", "sign", "sin", "cos"),
)
BINARY = ("add", "subtract", "multiply", "divide", "maximum", "minimum")


def channels_last(function: RelaxFunction) -> RelaxFunction:
    """The function with every 4-D window operator in NHWC. Its parameters and results keep their
    shapes."""
    values = [value for _, value in bindings(function)]
    if not any(_is_channels_first(value) for value in values):
        return function
    return _ChannelsLast(function).run()


def transposed(expr: Expr, axes: Sequence[int]) -> Expr:
    """permute_dims; a reshape where only axes of length 1 move."""
    extents = shape(expr)
    assert extents is not None
    moved = [axis for axis in axes if extents[axis] != 1]
    if moved == sorted(moved):
        return relax.op.reshape(expr, tuple(extents[axis] for axis in axes))
    return relax.op.permute_dims(expr, list(axes))


def _is_channels_first(value: Expr) -> bool:
    """Whether an operator fixes the order of axes, with the channels second."""
    if is_call(value, "nn.batch_norm"):
        return len(shape(value.args[0]) or ()) == 4 and int(value.attrs.axis) == 1
    return is_call(value, *WINDOWS) and _layout(value) == "NCHW"


def _layout(call: Call) -> str:
    return str(call.attrs.data_layout if is_call(call, "nn.conv2d") else call.attrs.layout)


class _ChannelsLast(Rewriter):
    def __init__(self, function: RelaxFunction) -> None:
        super().__init__(function)
        self.last: set[Var] = set()  # old variables whose new value is NHWC
        self.outputs = set(result(function))

    def alias(self, variable: Var, value: Expr) -> None:
        super().alias(variable, value)
        if value in self.last:
            self.last.add(variable)

    def visit(self, variable: Var, value: Expr) -> Expr:
        name = op_name(value)
        new = self.visit_last(name, value)
        if new is not None:
            self.last.add(variable)
            return self.emit(new, self.name + "/nhwc" if variable in self.outputs else None)
        if (
            name == "permute_dims"
            and value.args[0] in self.last
            and integers(value.attrs.axes) == TO_LAST
        ):
            return self.env[value.args[0]]
        if (
            name == "mean"
            and value.args[0] in self.last
            and not value.attrs.keepdims
            and integers(value.attrs.axis) == (2, 3)
        ):
            return self.emit(relax.op.mean(self.env[value.args[0]], axis=[1, 2]))
        return self.emit(self.mapped(value))

    def visit_last(self, name: str, value: Expr) -> Expr | None:
        """The call in NHWC; None where it stays as it is."""
        if name == "nn.batch_norm" and _is_channels_first(value):
            return self.with_axes(name, value)
        if name in WINDOWS and _layout(value) == "NCHW":
            return self.window(name, value)
        if (
            name == "permute_dims"
            and len(shape(value) or ()) == 4
            and integers(value.attrs.axes) == TO_FIRST
        ):
            return None if value.args[0] in self.last else self.env.get(value.args[0])
        if not isinstance(value, relax.Call | relax.TupleGetItem):
            return None
        if not any(operand in self.last for operand in _tensors(value)):
            return None
        return self.follow(name, value)

    def follow(self, name: str, value: Expr) -> Expr | None:
        """An operator of any order of axes, which has an operand in NHWC, joins it there."""
        if name in UNARY:
            return self.per_tensor(value)
        if name == "TupleGetItem":
            return (
                relax.TupleGetItem(self.env[value.tuple_value], value.index)
                if len(shape(value) or ()) == 4
                else None
            )
        if name in BINARY and len(shape(value) or ()) == 4:
            return getattr(relax.op, name)(*(self.aligned(operand) for operand in value.args))
        return self.with_axes(name, value)

    def window(self, name: str, value: Expr) -> Expr:
        data = self.to_last(value.args[0])
        if name == "nn.conv2d":
            kernel = transposed(
                self.mapped(value.args[1]),
                [str(value.attrs.kernel_layout).index(letter) for letter in "OHWI"],
            )
            return channels_last_conv2d(
                data, self.emit(kernel, self.name + "/weights"), value.attrs
            )
        if name == "image.resize2d":
            return _resize(value, data)
        return _pool(name, value.attrs, data)

    def per_tensor(self, value: Expr) -> Expr | None:
        """A quantization per channel of an activation has an axis; then the old order is used."""
        if op_name(value) in ("quantize", "dequantize") and shape(value.args[1]) not in ((), (1,)):
            return None
        return relax.Call(
            value.op,
            [self.env.get(item, item) for item in value.args],
            value.attrs,
            value.ty_args,
            span=value.span,
        )

    def with_axes(self, name: str, value: Expr) -> Expr | None:
        """Operators with axis attributes, renumbered."""
        attrs = value.attrs
        if name == "concat":
            items = [self.to_last(item) for item in value.args[0].fields]
            return relax.op.concat(items, axis=TO_FIRST[int(attrs.axis) % 4])
        if name == "mean" and attrs.keepdims:
            return relax.op.mean(
                self.env[value.args[0]],
                axis=[TO_FIRST[axis % 4] for axis in integers(attrs.axis)],
                keepdims=True,
            )
        if name == "nn.softmax":
            return relax.op.nn.softmax(self.env[value.args[0]], axis=TO_FIRST[int(attrs.axis) % 4])
        if name == "nn.prelu":
            slopes, axis = self.mapped(value.args[1]), TO_FIRST[int(attrs.axis) % 4]
            return relax.op.nn.prelu(self.env[value.args[0]], slopes, axis=axis)
        if name == "nn.pad":
            pads = integers(attrs.pad_width)
            moved = [pads[2 * axis + side] for axis in TO_LAST for side in (0, 1)]
            return relax.op.nn.pad(
                self.env[value.args[0]], moved, str(attrs.pad_mode), float(attrs.pad_value)
            )
        if name == "strided_slice":
            axes = [TO_FIRST[axis % 4] for axis in integers(value.args[1])]
            return relax.op.strided_slice(self.env[value.args[0]], axes, *value.args[2:])
        if name == "nn.batch_norm":
            data, parameters = (
                self.to_last(value.args[0]),
                [self.mapped(item) for item in value.args[1:]],
            )
            return relax.op.nn.batch_norm(
                data,
                *parameters,
                axis=3,
                epsilon=attrs.epsilon,
                center=attrs.center,
                scale=attrs.scale,
                training=False,
            )
        return None

    # -- operands ----------------------------------------------------------------------------------

    def mapped(self, expr: Expr) -> Expr:
        """On the new variables, in the old order of axes."""
        if (
            not isinstance(expr, relax.Var)
            or expr not in self.last
            or isinstance(expr.ty, relax.TupleType)
        ):
            return super().mapped(expr)
        new = self.value(self.env[expr])
        if not is_call(new, "quantize"):
            return self.emit(transposed(self.env[expr], TO_FIRST), expr.name + "/nchw")
        first = self.emit(
            transposed(new.args[0], TO_FIRST), expr.name + "/nchw"
        )  # real numbers move, and are quantized then
        return self.emit(
            relax.Call(new.op, [first, *new.args[1:]], new.attrs, new.ty_args), expr.name
        )

    def to_last(self, expr: Expr) -> Expr:
        if expr in self.last:
            return self.env[expr]
        source = expr.name if isinstance(expr, relax.Var) else self.name
        return self.emit(transposed(super().mapped(expr), TO_LAST), source + "/nhwc")

    def aligned(self, expr: Expr) -> Expr:
        """An operand beside an NHWC one: of fewer axes it is broadcast from the right of NCHW."""
        extents = shape(expr) or ()
        if expr in self.last or not extents:
            return self.env.get(expr, expr)
        if len(extents) == 4:
            return self.to_last(expr)
        widened = relax.op.reshape(super().mapped(expr), (1,) * (4 - len(extents)) + extents)
        return self.emit(
            transposed(self.emit(widened, self.name + "/4d"), TO_LAST), self.name + "/nhwc"
        )

    def finish(self, output: Expr) -> Expr:
        """The name of the file is that of the value in the file's order of axes."""
        if output in self.last and not isinstance(output.ty, relax.TupleType):
            return self.emit(transposed(self.env[output], TO_FIRST), output.name)
        return self.mapped(output)


def _tensors(value: Expr) -> list[Expr]:
    if isinstance(value, relax.TupleGetItem):
        return [value.tuple_value]
    return [
        item
        for argument in value.args
        for item in (argument.fields if isinstance(argument, relax.Tuple) else (argument,))
    ]


def _pool(name: str, attrs: Attrs, data: Expr) -> Expr:
    operator = relax.op.nn.avg_pool2d if name == "nn.avg_pool2d" else relax.op.nn.max_pool2d
    return operator(
        data,
        pool_size=integers(attrs.pool_size),
        strides=integers(attrs.strides),
        padding=integers(attrs.padding),
        dilation=integers(attrs.dilation),
        ceil_mode=bool(attrs.ceil_mode),
        count_include_pad=bool(attrs.count_include_pad),
        layout="NHWC",
    )


def _resize(value: Expr, data: Expr) -> Expr:
    attrs = value.attrs
    return relax.op.image.resize2d(
        data,
        value.args[1],
        None,
        layout="NHWC",
        method=str(attrs.method),
        coordinate_transformation_mode=str(attrs.coordinate_transformation_mode),
        rounding_method=str(attrs.rounding_method),
    )
