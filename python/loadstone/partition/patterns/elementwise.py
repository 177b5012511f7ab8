# SPDX-License-Identifier: Apache-2.0
"""Operators on elements: their patterns, and the operators of graph/ for them.

In:   quantize(relu? (add | subtract | multiply | divide (dequantize(a), dequantize(b)))),
      quantize(take(table, x + 128)), quantize(dequantize(x)), softmax, layer_norm,
      sigmoid, leakyrelu, abs, sqrt, rsqrt.
Out:  Add, Sub, Mul, Div, SquaredDifference, Lookup, Requantize, Quantize, Dequantize, Softmax,
      LayerNorm.
Next: partition/patterns/__init__.py lists them.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from loadstone.graph import (
    Add,
    ArgMax,
    Dequantize,
    Div,
    Elementwise,
    LayerNorm,
    Lookup,
    Mul,
    Quantization,
    Quantize,
    Requantize,
    Softmax,
    SquaredDifference,
    Sub,
    Tensor,
)
from loadstone.graph.kernels import onnx, tflite
from loadstone.partition.patterns.forms import anything, const, dq, op, q, tail
from loadstone.partition.patterns.reader import Mismatch, Reader
from loadstone.relax.compat import (
    dtype,
    integers,
    is_call,
    is_constant,
    name_of,
    scalar,
    shape,
    value,
)

if TYPE_CHECKING:
    from loadstone.relax.types import Call, DFPattern, Expr

__all__ = [
    "argmax",
    "argmax_pattern",
    "binary",
    "binary_pattern",
    "dequantize",
    "dequantize_pattern",
    "function_pattern",
    "hard_swish",
    "hard_swish_pattern",
    "layer_norm",
    "layer_norm_pattern",
    "leaky_relu",
    "quantize",
    "quantize_pattern",
    "requantize",
    "requantize_pattern",
    "sigmoid",
    "softmax",
    "softmax_pattern",
    "squared_difference",
    "squared_difference_pattern",
    "table",
    "table_pattern",
    "tflite_function",
]

_BINARY: dict[str, type[Elementwise]] = {
    "add": Add,
    "subtract": Sub,
    "multiply": Mul,
    "divide": Div,
}
#: TFLite's rules of functions that other frameworks define in float32.
_TFLITE_FUNCTIONS = {"abs": tflite.absolute, "sqrt": tflite.square_root, "rsqrt": tflite.rsqrt}


def binary_pattern(relax_name: str) -> Callable[[], DFPattern]:
    """Either operand may be a constant."""
    return lambda: tail(op(relax_name)(dq(), dq()))


def binary(relax_name: str) -> Callable[[Reader, Call], Elementwise]:
    """The extractor for add, subtract, multiply or divide."""

    def extract(reader: Reader, root: Call) -> Elementwise:
        if relax_name == "divide" and not reader.tflite:
            raise Mismatch("only TFLite has an integer rule for it")
        inner, low, high = reader.tail(root)
        output = reader.output(root)
        first, second = (_operand(reader, operand, output) for operand in reader.call(inner).args)
        return _BINARY[relax_name](
            name=output.name,
            inputs=(first, second),
            outputs=(output,),
            low=low,
            high=high,
            rounding=reader.rounding,
        )

    return extract


def squared_difference_pattern() -> DFPattern:
    """(a - b)^2, in the form that TVM's importer writes."""
    return q(op("power")(op("subtract")(dq(), dq()), const()))


def squared_difference(reader: Reader, root: Call) -> SquaredDifference:
    """Raises Mismatch for another power, and outside TFLite."""
    power, output = reader.call(root.args[0]), reader.output(root)
    if not reader.tflite or float(scalar(power.args[1])) != 2:
        raise Mismatch("it is no squared difference of TFLite")
    first, second = (_operand(reader, x, output) for x in reader.call(power.args[0]).args)
    return SquaredDifference(
        name=output.name,
        inputs=(first, second),
        outputs=(output,),
        low=-128,
        high=127,
        rounding=reader.rounding,
    )


def _operand(reader: Reader, expr: Expr, output: Tensor) -> Tensor:
    """A constant gets the output's rank; a constant with one value for all channels gets one per
    channel."""
    tensor = _int8(reader.source(expr, output.name))
    if tensor.name in reader.constants and output.shape:
        array = reader.constants[tensor.name]
        array = array.reshape((1,) * (len(output.shape) - array.ndim) + array.shape)
        array = np.ascontiguousarray(np.broadcast_to(array, (*array.shape[:-1], output.shape[-1])))
        reader.constants[tensor.name] = array
        return replace(tensor, shape=array.shape)
    return tensor


def requantize_pattern() -> DFPattern:
    """Integers to other integers, with or without a clamp."""
    return tail(dq())


def requantize(reader: Reader, root: Call) -> Requantize:
    """Raises Mismatch where the input is a constant, which the importer should have folded."""
    inner, low, high = reader.tail(root)
    output = reader.output(root)
    source = reader.source(inner, output.name)
    return Requantize(
        name=output.name,
        inputs=(source,),
        outputs=(output,),
        low=low,
        high=high,
        rounding=reader.rounding,
    )


def quantize_pattern() -> DFPattern:
    """float32 to integers."""
    return q(anything())


def quantize(reader: Reader, root: Call) -> Quantize:
    """The last form for a quantize: its input is computed outside."""
    if dtype(root.args[0]) != "float32":
        raise Mismatch(f"it quantizes {dtype(root.args[0])}")
    output = reader.output(root)
    low, high = reader.clamp(root, -float("inf"), float("inf"))
    return Quantize(
        name=output.name,
        inputs=(reader.tensor(root.args[0]),),
        outputs=(output,),
        low=low,
        high=high,
        rounding=reader.rounding,
    )


def dequantize_pattern() -> DFPattern:
    """Integers to float32."""
    return dq()


def dequantize(reader: Reader, root: Call) -> Dequantize:
    """The last form for a dequantize: its readers are outside."""
    source = reader.source(root)
    name = name_of(root) or ""
    return Dequantize(name=name, inputs=(source,), outputs=(Tensor(name, source.shape, "float32"),))


def function_pattern(relax_name: str) -> Callable[[], DFPattern]:
    """A function of one element."""
    return lambda: q(op(relax_name)(dq()))


def sigmoid(reader: Reader, root: Call) -> Lookup:
    """1 / (1 + exp(-x)). Raises Mismatch for a TFLite output other than [0, 1) in steps of
    1/256."""

    def table(x: NDArray[np.int8], q_in: Quantization, q_out: Quantization) -> NDArray[np.int8]:
        if not reader.tflite:
            return onnx.logistic(x, q_in, q_out)
        if q_out != Quantization(1 / 256, -128):
            raise Mismatch("its output is not in steps of 1/256 from 0")
        return tflite.logistic(x, q_in)

    return _lookup(reader, root, table)


def tflite_function(relax_name: str) -> Callable[[Reader, Call], Lookup]:
    """The extractor for abs, sqrt or rsqrt. It raises Mismatch for models other than TFLite's."""

    def extract(reader: Reader, root: Call) -> Lookup:
        if not reader.tflite:
            raise Mismatch("only TFLite has an integer rule for it")
        return _lookup(reader, root, _TFLITE_FUNCTIONS[relax_name])

    return extract


def hard_swish_pattern() -> DFPattern:
    """x * clip(x + 3, 0, 6) / 6, in the form that TFLite's importer writes."""
    gate = op("clip")(op("add")(dq(), const()), anything(), anything())
    return q(op("divide")(op("multiply")(dq(), gate), const()))


def hard_swish(reader: Reader, root: Call) -> Lookup:
    """Raises Mismatch for numbers other than 3, 0, 6 and 6, and for models other than TFLite's,
    where it is float arithmetic."""
    division = reader.call(root.args[0])
    product = reader.call(division.args[0])
    clip = reader.call(product.args[1])
    total = reader.call(clip.args[0])
    numbers = [float(scalar(item)) for item in (total.args[1], *clip.args[1:], division.args[1])]
    sources = [reader.source(item) for item in (product.args[0], total.args[0])]
    if not reader.tflite or numbers != [3, 0, 6, 6] or sources[0] != sources[1]:
        raise Mismatch("it is no hard swish of TFLite")
    if sources[0].scale >= 128 * reader.output(root).scale:
        raise Mismatch("its input's scale is 128 times its output's, or more")  # LiteRT refuses it
    return _table(sources[0], reader.output(root), tflite.hard_swish)


def table_pattern() -> DFPattern:
    """A table of real numbers, indexed by the bytes of an int8, as frontend/tables.py writes it."""
    index = op("add")(op("astype")(op("round")(op("divide")(dq(), const()))), const())
    return q(op("take")(const(), index))


def table(reader: Reader, root: Call) -> Lookup:
    """Raises Mismatch for a table that does not cover all int8 values."""
    taken, output = reader.call(root.args[0]), reader.output(root)
    index = reader.call(taken.args[1])
    division = reader.call(reader.call(reader.call(index.args[0]).args[0]).args[0])
    source = _int8(reader.source(division.args[0]))
    reals, first = value(taken.args[0]), value(index.args[1])
    grid = float(scalar(division.args[1])), int(first) - 128
    if reals.shape != (256,) or (source.scale, source.zero_point) != grid:
        raise Mismatch("it takes from a table that is not one of all int8 values")
    assert output.quantization is not None
    rules = tflite if reader.tflite else onnx
    numbers = np.where(np.isnan(reals), -np.float32(np.inf), reals)  # runtime/FORMAT.md: low
    levels = np.asarray(rules.quantize(numbers, output.quantization), np.int8)
    return Lookup(name=output.name, inputs=(source,), outputs=(output,), table=levels)


def leaky_relu(reader: Reader, root: Call) -> Lookup:
    """x; below 0 alpha * x."""
    alpha = float(reader.call(root.args[0]).attrs.alpha)
    rules = tflite if reader.tflite else onnx
    return _lookup(reader, root, lambda x, q_in, q_out: rules.leaky_relu(x, q_in, q_out, alpha))


def _lookup(
    reader: Reader,
    root: Call,
    table: Callable[[NDArray[np.int8], Quantization, Quantization], NDArray[np.int8]],
) -> Lookup:
    return _table(reader.source(reader.call(root.args[0]).args[0]), reader.output(root), table)


def _table(
    source: Tensor,
    output: Tensor,
    table: Callable[[NDArray[np.int8], Quantization, Quantization], NDArray[np.int8]],
) -> Lookup:
    _int8(source)
    assert source.quantization is not None
    assert output.quantization is not None
    every = np.arange(-128, 128, dtype=np.int8)
    return Lookup(
        name=output.name,
        inputs=(source,),
        outputs=(output,),
        table=table(every, source.quantization, output.quantization),
    )


def softmax_pattern() -> DFPattern:
    """int8 to int8."""
    return q(op("nn.softmax")(dq() | op("multiply")(dq(), const())))


def softmax(reader: Reader, root: Call) -> Softmax:
    """Raises Mismatch unless it is over the last axis."""
    call = reader.call(root.args[0])
    inner, beta = reader.call(call.args[0]), 1.0
    if is_call(inner, "multiply"):
        inner, beta = reader.call(inner.args[0]), float(scalar(inner.args[1]))
    source, output = _int8(reader.source(inner)), reader.output(root)
    if int(call.attrs.axis) not in (-1, len(source.shape) - 1):
        raise Mismatch(f"its axis is {int(call.attrs.axis)} of {len(source.shape)}")
    if reader.tflite and output.quantization != Quantization(1 / 256, -128):
        raise Mismatch("its output is not in steps of 1/256 from 0")
    if beta != 1 and not reader.tflite:
        raise Mismatch(f"its input is multiplied by {beta}")
    return Softmax(
        name=output.name, inputs=(source,), outputs=(output,), rounding=reader.rounding, beta=beta
    )


def layer_norm_pattern() -> DFPattern:
    """int8 to int8."""
    gamma, beta = (const() | dq(const()) for _ in range(2))  # one pattern would be one constant
    return q(op("nn.layer_norm")(dq(), gamma, beta))


def layer_norm(reader: Reader, root: Call) -> LayerNorm:
    """Raises Mismatch unless it is over the last axes."""
    call = reader.call(root.args[0])
    source, output = _int8(reader.source(reader.call(call.args[0]))), reader.output(root)
    rank, axes = len(source.shape), integers(call.attrs.axes)
    if sorted(axis % rank for axis in axes) != list(range(rank - len(axes), rank)):
        raise Mismatch(f"its axes are {list(axes)} of {rank}")
    if reader.tflite:
        raise Mismatch("TFLite has no such operator")
    gamma, beta = (
        value(item) if is_constant(item) else reader.constant(item).real for item in call.args[1:]
    )
    return LayerNorm(
        name=output.name,
        inputs=(source,),
        outputs=(output,),
        gamma=np.ascontiguousarray(gamma, np.float32).reshape(-1),
        beta=np.ascontiguousarray(beta, np.float32).reshape(-1),
        epsilon=float(call.attrs.epsilon),
    )


def argmax_pattern() -> DFPattern:
    """int8 to an index: dequantize changes no order."""
    index = op("argmax")(dq())
    return op("astype")(index) | index


def argmax(reader: Reader, root: Call) -> ArgMax:
    """Raises Mismatch without an axis."""
    call = reader.call(root.args[0]) if is_call(root, "astype") else root
    source, extents = _int8(reader.source(call.args[0])), shape(root)
    if call.attrs.axis is None or extents is None:
        raise Mismatch("it flattens its input")
    if dtype(root) not in ("int32", "int64"):
        raise Mismatch(f"its index is {dtype(root)}")
    output = Tensor(name_of(root) or "", extents, dtype(root))
    return ArgMax(
        name=output.name,
        inputs=(source,),
        outputs=(output,),
        axis=int(call.attrs.axis) % len(source.shape),
    )


def _int8(tensor: Tensor) -> Tensor:
    if tensor.dtype != "int8":
        raise Mismatch(f"its input is {tensor.dtype}")
    return tensor
