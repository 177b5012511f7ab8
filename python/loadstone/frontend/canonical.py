# SPDX-License-Identifier: Apache-2.0
"""The canonical QDQ form: the only form that the stages after the front ends handle.

In:   a Relax function with quantize and dequantize, channels last.
Out:  the same function, in which
        - activations are int8 and stand between quantize and dequantize: uint8 ones are shifted,
          exactly (x - 128), and a uint8 input or output of the model is requantized at the edge;
        - an operator is quantized once, also where a tool wrote a quantize for each reader;
        - every reader has its own dequantize (one with two readers breaks FuseOpsByPattern
          silently);
        - an operator that only moves elements has its input's quantization on both sides;
        - float16 is computed in float32; weights are `dequantize(constant)`, kernels OHWI;
        - every call carries a name from the model file (`name_of`); those of quantize and
          dequantize are unique. products.py, tables.py and wide.py say more.
Next: tables.py, products.py and wide.py, in the order of rewrites.py.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from loadstone.frontend.layout import transposed
from loadstone.frontend.real import (
    Real,
    clamps_on_grid,
    flipped,
    fold,
    folded,
    keeps_grid,
    on_grid,
    quantized_constant,
)
from loadstone.relax.compat import (
    constant,
    dtype,
    integers,
    is_call,
    is_constant,
    named,
    op_name,
    relax,
    result,
    scalar,
    shape,
    value,
)
from loadstone.relax.convolutions import channels_last_conv2d
from loadstone.relax.rewriter import Rewriter

if TYPE_CHECKING:
    from loadstone.relax.types import Call, Expr, RelaxFunction, Var

__all__ = ["FLOAT", "quantized_form"]

#: How a frontend may end the name of a float value that it quantizes under the name itself.
FLOAT = "/float"

#: Operators that move elements (or choose among them): quantize(op(dequantize(x))) is op on the
#: integers themselves.
MOVES = (
    "reshape",
    "permute_dims",
    "squeeze",
    "expand_dims",
    "flatten",
    "strided_slice",
    "nn.max_pool2d",
    "nn.pad",
)
#: Clamps keep the quantization too, but fold into the quantize that follows them.
CLAMPS = ("nn.relu", "clip")


def quantized_form(function: RelaxFunction) -> RelaxFunction:
    """The function in the form above, its images channels last; float parts stay as they are."""
    return _Canonical(function).run()


class _Canonical(Rewriter):
    def __init__(self, function: RelaxFunction) -> None:
        super().__init__(function)
        self.tflite = "loadstone.numerics" in function.attrs and str(
            function.attrs["loadstone.numerics"]
        ).startswith("tflite")
        self.outputs = set(result(function))
        self.edges: dict[Var, Expr] = {}  # uint8 parameter -> its int8 version
        # old variable, scale, zero point, type -> its quantize
        self.quantizations: dict[tuple[Var, float, int, str], Expr] = {}
        # int8 value that the model calls uint8 -> itself, with its quantization
        self.unsigned: dict[Expr, Real] = {}

    # -- what each binding becomes -----------------------------------------------------------------

    def visit(self, variable: Var, call: Call) -> Expr | Real:
        self.name = variable.name
        name = op_name(call)
        if name == "dequantize":
            real = self.dequantized(call)
            return real if real is not None else self.emit(self.mapped(call))
        if name == "quantize":
            return self.quantized(variable, call)
        if name == "TupleGetItem" and self.producer(self.env[call.tuple_value]) == "nn.dropout":
            kept = self.value(self.env[call.tuple_value]).args[0]
            return kept if call.index == 0 else self.emit(self.mapped(call))
        # TFLite's moves of integers give them another scale
        if name in MOVES and not (self.tflite and dtype(call) in ("int8", "uint8")):
            return self.moved(call)
        if name == "nn.conv2d":
            return self.emit(self.convolution(call))
        if name == "nn.batch_norm":
            return self.emit(self.normalization(call))
        return self.emit(self.mapped(call))

    def dequantized(self, call: Call) -> Real | None:
        """None where the form does not reach: other types, parameters computed at run time."""
        stored, scale, zero_point = (self.env.get(item, item) for item in call.args)
        if not (is_constant(scale) and is_constant(zero_point)) or isinstance(stored, Real):
            return None
        scales, zeros = (
            value(scale).astype(np.float32).reshape(-1),
            value(zero_point).astype(np.int32).reshape(-1),
        )
        axis = int(call.attrs.axis) % max(1, len(shape(call) or (1,))) if scales.size > 1 else 0
        kind = dtype(call.args[0])
        if kind == "uint8":
            zeros = zeros - 128
            stored = (
                self.signed(stored, scales, zeros) if not is_constant(stored) else flipped(stored)
            )
        elif kind != "int8" and (kind not in ("int16", "int32") or not is_constant(stored)):
            return None
        return Real(stored, scales, np.broadcast_to(zeros, scales.shape), axis)

    def signed(self, stored: Expr, scales: NDArray[np.float32], zeros: NDArray[np.int32]) -> Expr:
        """The int8 version of a uint8 variable: for a parameter one requantization at the edge."""
        if dtype(stored) == "int8":
            return stored
        if stored not in self.edges:
            real = relax.op.dequantize(
                stored, constant(scales[0]), constant(zeros[0] + 128), axis=0
            )
            name = self.unique(stored.name + "/int8")
            self.edges[stored] = self.emit(
                relax.op.quantize(self.emit(real), constant(scales[0]), constant(zeros[0]), axis=0),
                name,
            )
        return self.edges[stored]

    def quantized(self, variable: Var, call: Call) -> Expr:
        """The new int8 variable of a quantize."""
        scale, zero_point = (self.env.get(item, item) for item in call.args[1:])
        kind = str(call.attrs.out_dtype)
        if not (is_constant(scale) and is_constant(zero_point)) or kind not in ("int8", "uint8"):
            return self.emit(self.mapped(call))
        if is_constant(source := self.env.get(call.args[0], call.args[0])):
            grid = value(scale), value(zero_point)
            return quantized_constant(call, value(source), *grid, half_away=self.tflite)
        if value(scale).size != 1:
            return self.emit(self.mapped(call))
        zeros = value(zero_point).astype(np.int32).reshape(-1) - (128 if kind == "uint8" else 0)
        twin = (call.args[0], scalar(scale), int(zeros[0]), kind)
        if twin in self.quantizations and variable not in self.outputs:
            return self.quantizations[twin]
        target = Real(None, value(scale).astype(np.float32).reshape(-1), zeros, 0)
        name = self.name + "/int8" if kind == "uint8" and variable in self.outputs else self.name
        stored = self.stored(self.env.get(call.args[0], call.args[0]), target, name)
        if kind == "uint8":
            self.unsigned[stored] = replace(target, stored=stored)
        self.quantizations[twin] = stored
        return stored

    def stored(self, expr: Expr, target: Real, name: str) -> Expr:
        """`expr` quantized as `target`; a move on the way is done on the integers."""
        if not isinstance(expr, Real):
            expr = self.dequantize_of(self.value(expr)) or expr
        if isinstance(expr, Real):
            if expr.same_quantization(target) and not is_constant(expr.stored):
                return expr.stored
        elif self.producer(expr) in MOVES:
            move = self.value(expr)
            inner = self.stored(move.args[0], target, f"{name}/{op_name(move)}")
            return self.close(move, replace(target, stored=inner), name).stored
        elif self.producer(expr) == "concat" and not self.tflite:
            expr = self.joined(self.value(expr), target, name)
        call = relax.op.quantize(
            self.read(expr), constant(target.scale[0]), constant(target.zero_point[0]), axis=0
        )
        return self.emit(call, self.unique(name))

    def joined(self, concat: Call, target: Real, name: str) -> Expr:
        """concat of integers that all have the output's quantization already (TFLite's uint8 kernel
        has a rule of its own)."""
        items = []
        for index, item in enumerate(concat.args[0].fields):
            own = self.dequantize_of(self.value(item))
            if own is None or own.same_quantization(target):
                items.append(item)
            else:
                items.append(
                    self.read(
                        replace(target, stored=self.stored(own, target, f"{name}/input{index}"))
                    )
                )
        return self.emit(
            relax.op.concat(items, axis=int(concat.attrs.axis)), self.unique(f"{name}/concat")
        )

    def dequantize_of(self, call: Call) -> Real | None:
        """What a dequantize of an activation, emitted by `read`, stands for."""
        activation = is_call(call, "dequantize") and not is_constant(call.args[0])
        return on_grid(call.args[0], call) if activation else None

    def moved(self, call: Call) -> Expr | Real:
        """A move of constants is done now, one of integers is closed by a quantize and a
        dequantize; others stay."""
        source = self.env.get(call.args[0], call.args[0])
        if isinstance(source, Real):
            if is_constant(source.stored):
                constants = folded(call, source)
                return constants if constants is not None else self.emit(self.mapped(call))
            if source.scale.size == 1 and keeps_grid(call, source):
                return self.close(self.mapped_move(call), source, self.name.removesuffix(FLOAT))
        elif is_constant(source) and (array := fold(call, value(source))) is not None:
            return constant(array)
        elif (real := self.grid_of(source)) is not None and not is_call(call, "nn.pad"):
            return self.moved_integers(call, real)
        return self.emit(self.mapped(call))

    def grid_of(self, stored: Expr) -> Real | None:
        """An int8 variable with the quantization that made it."""
        made = self.value(stored)
        if not is_call(made, "quantize") or dtype(stored) != "int8":
            return None
        return on_grid(stored, made)

    def moved_integers(self, call: Call, source: Real) -> Expr:
        """A move of the integers themselves, as layout.py leaves one before an output in NCHW."""
        unsigned = source.stored in self.unsigned
        moved = self.close(
            self.mapped_move(call), source, self.name + "/int8" if unsigned else self.name
        )
        if unsigned:
            self.unsigned[moved.stored] = moved
        return moved.stored

    def mapped_move(self, call: Call) -> Expr:
        """The move with a placeholder for its source (`close` sets it)."""
        return relax.Call(
            call.op,
            [call.args[0], *(self.mapped(item) for item in call.args[1:])],
            call.attrs,
            call.ty_args,
        )

    def close(self, move: Call, source: Real, name: str) -> Real:
        """quantize(move(dequantize(source))), under the source's quantization."""
        moved = self.emit(
            relax.Call(move.op, [self.read(source), *move.args[1:]], move.attrs, move.ty_args),
            name + "/moved",
        )
        call = relax.op.quantize(
            moved, constant(source.scale[0]), constant(source.zero_point[0]), axis=0
        )
        return replace(source, stored=self.emit(call, self.unique(name)))

    def convolution(self, call: Call) -> Expr:
        """Kernel as OHWI; a pad by the zero point before it joins its own padding."""
        attrs = call.attrs
        if str(attrs.data_layout) != "NHWC":
            return self.mapped(call)
        kernel = self.env.get(call.args[1], call.args[1])
        order = [str(attrs.kernel_layout).index(letter) for letter in "OHWI"]
        if order != [0, 1, 2, 3]:
            kernel = self.reordered(kernel, order)
        data, padding = self.unpadded(
            self.env.get(call.args[0], call.args[0]), integers(attrs.padding)
        )
        return channels_last_conv2d(self.read(data), self.read(kernel), attrs, padding=padding)

    def normalization(self, call: Call) -> Expr:
        """Quantized parameters as plain float constants."""
        data, *parameters = (self.env.get(item, item) for item in call.args)
        constants = [self.real_constant(item) for item in parameters]
        return relax.Call(
            call.op, [self.read(self.closed(data)), *constants], call.attrs, call.ty_args
        )

    def real_constant(self, expr: Expr) -> Expr:
        """The real numbers of a quantized constant of one axis; other expressions as they are."""
        if not isinstance(expr, Real) or not is_constant(expr.stored):
            return self.read(expr)
        integers_ = value(expr.stored)
        if integers_.ndim > 1:
            return self.read(expr)
        return constant(
            expr.scale.reshape(-1)[:, None].T[0] * (integers_ - expr.zero_point).astype(np.float32)
        )

    def reordered(self, kernel: Expr, order: Sequence[int]) -> Expr:
        """A kernel under another order of axes; done now when it is constant."""
        if is_constant(kernel):
            return constant(np.transpose(value(kernel), order))
        if isinstance(kernel, Real) and is_constant(kernel.stored):
            turned = folded(relax.op.permute_dims(kernel.stored, order), kernel)
            assert turned is not None
            return turned
        return self.emit(transposed(self.read(kernel), order), self.name + "/weights")

    def unpadded(self, data: Expr, padding: Sequence[int]) -> tuple[Expr, Sequence[int]]:
        """(what the pad before the convolution pads, the sum of both paddings)."""
        if not isinstance(data, Real) or not is_call(self.value(data.stored), "quantize"):
            return data, padding
        pad = self.value(self.value(data.stored).args[0])
        if (
            not is_call(pad, "nn.pad")
            or float(pad.attrs.pad_value) != 0
            or str(pad.attrs.pad_mode) != "constant"
        ):
            return data, padding
        n0, n1, top, bottom, left, right, c0, c1 = integers(pad.attrs.pad_width)
        source = self.value(pad.args[0])
        if any((n0, n1, c0, c1)) or not is_call(source, "dequantize"):
            return data, padding
        return replace(data, stored=source.args[0]), [
            own + more for own, more in zip(padding, (top, left, bottom, right), strict=True)
        ]

    # -- operands ----------------------------------------------------------------------------------

    def read(self, expr: Expr) -> Expr:
        """An operand as an expression: a Real is dequantized here, for this reader alone."""
        if not isinstance(expr, Real):
            return expr
        return self.emit(self.dequantize(expr), self.unique(self.name + "/real"))

    def dequantize(self, real: Real) -> Expr:
        many = real.scale.size > 1
        scale = constant(real.scale if many else real.scale[0])
        zero_point = constant(real.zero_point if many else real.zero_point[0])
        return relax.op.dequantize(real.stored, scale, zero_point, axis=real.axis)

    def mapped(self, expr: Expr) -> Expr:
        if isinstance(expr, relax.Var):
            new = self.env[expr]
            if dtype(expr) == "uint8" and new in self.unsigned:
                return self.as_unsigned(self.unsigned[new])
            return self.read(self.closed(new))
        return super().mapped(expr)

    def closed(self, expr: Expr) -> Expr:
        """A clamp of integers that something else than a quantize reads stays integer: both clamps
        are on its grid."""
        if isinstance(expr, Real) or self.producer(expr) not in CLAMPS:
            return expr
        source = self.value(self.value(expr).args[0])
        if not is_call(source, "dequantize") or not clamps_on_grid(self.value(expr), source):
            return expr
        target = on_grid(None, source)
        return replace(target, stored=self.stored(expr, target, expr.name))

    def as_unsigned(self, real: Real) -> Expr:
        call = relax.op.quantize(
            self.read(real),
            constant(real.scale[0]),
            constant(real.zero_point[0] + 128),
            axis=0,
            out_dtype="uint8",
        )
        return self.emit(call, self.unique(self.name))

    def finish(self, output: Expr) -> Expr:
        """The results keep the names of the model file."""
        if is_constant(output):
            return output
        self.name = output.name
        real = self.closed(self.env[output])
        if isinstance(real, Real):
            return self.emit(self.dequantize(real), self.unique(self.name))
        return self.mapped(output)

    def emit(self, expr: Expr, name: str | None = None) -> Expr:
        name = self.unique(self.name) if name is None else name
        return super().emit(named(expr, name) if isinstance(expr, relax.Call) else expr, name)
