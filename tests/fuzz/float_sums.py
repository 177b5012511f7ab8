# SPDX-License-Identifier: Apache-2.0
"""The integers that a QDQ model may give: all that its real numbers round to in float32, summed in
any order.

In:   an ONNX model and its inputs.
Out:  for each output the lowest and the highest integer of every element; None where an operator is
      none of those below.
Next: models.py lets an element differ there, and nowhere else.

A value is a real number and a bound of the error that float32 arithmetic may have made on the way
to it. A sum of n products, in any order, with or without fused multiplications, is off by at most
n * U / (1 - n * U) times the sum of the terms' magnitudes (Higham, Accuracy and Stability of
Numerical Algorithms, section 3.1). A QuantizeLinear gives two integers instead of one only where a
tie lies within the bound; what reads it then has both, which may be further apart in finer steps.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from math import prod
from typing import Any

import numpy as np
import onnx
from numpy.typing import NDArray
from onnx import numpy_helper
from onnx.reference import ReferenceEvaluator

__all__ = ["integers"]

Doubles = NDArray[np.float64]
#: Half a unit in the last place of 1 in float32; and a thousandth, for what float64 rounds here.
U = 2.0**-24 * 1.001
#: What float32 loses below its smallest normal number.
TINY = 2.0**-126
#: What a library's sigmoid, tanh or exp may be off by, as a part of 1: four units in the last
#: place, as their approximations are.
NEARLY = 2.0**-21


@dataclass(frozen=True)
class Value:
    """Real numbers, and how far from each what float32 holds may be: arrays of one shape."""

    real: Doubles
    error: Doubles

    @property
    def most(self) -> Doubles:
        """The magnitude at most."""
        return np.abs(self.real) + self.error


def integers(model: bytes, inputs: Sequence[NDArray[Any]]) -> list[tuple[Doubles, Doubles]] | None:
    """(lowest, highest) of every output, arrays of its shape. inputs: with or without a batch of
    one."""
    graph = onnx.load_model_from_string(model).graph
    values = {t.name: _exact(numpy_helper.to_array(t)) for t in graph.initializer}
    types = {t.name: numpy_helper.to_array(t).dtype for t in graph.initializer}
    for entry, array in zip(graph.input, inputs, strict=True):
        extents = [dim.dim_value for dim in entry.type.tensor_type.shape.dim]
        values[entry.name] = _exact(array.reshape(extents))
    for node in graph.node:
        rule = _RULES.get(node.op_type)
        operands = [values.get(name) for name in node.input]
        if rule is None or len(node.output) != 1:
            return None
        if node.op_type == "QuantizeLinear":
            zero = types.get(node.input[2]) if len(node.input) == 3 else np.dtype(np.uint8)
            if zero is None:
                return None
            values[node.output[0]] = _quantized(node, operands, np.iinfo(zero))
        else:
            values[node.output[0]] = rule(node, operands)
    found = [values[entry.name] for entry in graph.output]
    return [(value.real - value.error, value.real + value.error) for value in found]


def _exact(array: NDArray[Any]) -> Value:
    real = array.astype(np.float64)
    return Value(real, np.zeros_like(real))


def _run(node: Any, *operands: NDArray[Any] | None) -> Doubles:
    """One node in float64."""
    feeds = {
        name: x for name, x in zip(node.input, operands, strict=True) if name and x is not None
    }
    return np.asarray(ReferenceEvaluator(node).run(None, feeds)[0], np.float64)


def _along(node: Any, parameter: Doubles, x: Doubles) -> Doubles:
    """A scale or zero point for each index of an axis, or for all."""
    if parameter.size == 1:
        return parameter.reshape(())
    axis = next((a.i for a in node.attribute if a.name == "axis"), 1) % x.ndim
    return parameter.reshape([-1 if d == axis else 1 for d in range(x.ndim)])


def _dequantized(node: Any, operands: list[Value | None]) -> Value:
    x, scale = operands[0], operands[1]
    assert x is not None
    assert scale is not None
    zero = operands[2].real if len(operands) == 3 and operands[2] is not None else np.zeros(1)
    by = _along(node, scale.real, x.real)
    real = (x.real - _along(node, zero, x.real)) * by
    error = x.error * np.abs(by)
    return Value(real, error + 2 * U * (np.abs(real) + error) + TINY)


def _quantized(node: Any, operands: list[Value | None], limits: np.iinfo) -> Value:
    x, scale = operands[0], operands[1]
    assert x is not None
    assert scale is not None
    zero = operands[2].real if len(operands) == 3 and operands[2] is not None else np.zeros(1)
    by, offset = _along(node, scale.real, x.real), _along(node, zero, x.real)
    steps, error = x.real / by, x.error / np.abs(by)
    error = error + U * (np.abs(steps) + error) + TINY
    low = np.clip(np.ceil(steps - error - 0.5) + offset, limits.min, limits.max)
    high = np.clip(np.floor(steps + error + 0.5) + offset, limits.min, limits.max)
    return Value((low + high) / 2, (high - low) / 2)


def _summed(node: Any, operands: list[Value | None]) -> Value:
    """Conv, Gemm, MatMul: the factors' errors, and that of a sum of so many products."""
    given = [x for x in operands if x is not None]
    real = _run(node, *(x and x.real for x in operands))
    plain = _run(node, *(x and np.abs(x.real) for x in operands))
    most = _run(node, *(x and x.most for x in operands))
    n = _terms(node, given[1].real) + 4  # a bias, and what Gemm multiplies by
    return Value(real, most - plain + n * U / (1 - n * U) * most + TINY)


def _terms(node: Any, weights: Doubles) -> int:
    """Products in one sum, at most."""
    if node.op_type == "Conv":
        return prod(weights.shape[1:])
    if node.op_type == "ConvTranspose":
        return weights.shape[0] * prod(weights.shape[2:])
    turned = any(a.name == "transB" and a.i for a in node.attribute)
    return weights.shape[-1 if turned or weights.ndim == 1 else -2]


def _averaged(node: Any, operands: list[Value | None]) -> Value:
    x = operands[0]
    assert x is not None
    n = prod(x.real.shape[2:]) + 2
    return Value(
        _run(node, x.real), _run(node, x.error) + n * U / (1 - n * U) * _run(node, x.most) + TINY
    )


def _added(node: Any, operands: list[Value | None]) -> Value:
    a, b = operands
    assert a is not None
    assert b is not None
    real, error = _run(node, a.real, b.real), a.error + b.error
    return Value(real, error + U * (np.abs(real) + error))


def _multiplied(node: Any, operands: list[Value | None]) -> Value:
    a, b = operands
    assert a is not None
    assert b is not None
    real, most = _run(node, a.real, b.real), a.most * b.most
    return Value(real, most - np.abs(real) + U * most + TINY)


def _no_further(node: Any, operands: list[Value | None]) -> Value:
    """Relu and Clip bring two numbers no further apart."""
    x = operands[0]
    assert x is not None
    return Value(_run(node, *(y and y.real for y in operands)), x.error)


def _moved(node: Any, operands: list[Value | None]) -> Value:
    """Elements elsewhere, with their errors; the largest of some has the largest error of them at
    most."""
    return Value(
        _run(node, *(x and x.real for x in operands)),
        _run(node, *(x and x.error for x in operands)),
    )


def _placed(node: Any, operands: list[Value | None]) -> Value:
    """Elements elsewhere: where to, further operands say (a shape, bounds, scales of an image)."""
    x = operands[0]
    assert x is not None
    kind = np.float32 if node.op_type == "Resize" else np.int64
    where = [y and y.real.astype(kind) for y in operands[1:]]
    return Value(_run(node, x.real, *where), _run(node, x.error, *where))


def _bent(steepest: float) -> Callable[[Any, list[Value | None]], Value]:
    """A function of one number, nowhere steeper than that, which a library computes nearly."""

    def rule(node: Any, operands: list[Value | None]) -> Value:
        x = operands[0]
        assert x is not None
        real = _run(node, x.real)
        return Value(real, steepest * x.error + NEARLY * np.maximum(np.abs(real), 1))

    return rule


def _leaning(node: Any, operands: list[Value | None]) -> Value:
    """LeakyRelu: a product below zero."""
    x = operands[0]
    assert x is not None
    slope = next((a.f for a in node.attribute if a.name == "alpha"), 0.01)
    real = _run(node, x.real)
    return Value(real, max(1.0, abs(slope)) * x.error + U * np.abs(real) + TINY)


def _shares(node: Any, operands: list[Value | None]) -> Value:
    """Softmax: an error of e in all that it reads changes a share by a factor of exp(2e); an
    exponential, and a sum of them."""
    x = operands[0]
    assert x is not None
    real = _run(node, x.real)
    return Value(real, real * (np.expm1(2 * x.error.max()) + 2 * NEARLY + x.real.size * U) + TINY)


_RULES: dict[str, Callable[[Any, list[Value | None]], Value]] = {
    "DequantizeLinear": _dequantized,
    "QuantizeLinear": lambda *_: _exact(np.zeros(0)),  # _quantized, which needs the type
    **dict.fromkeys(("Conv", "ConvTranspose", "Gemm", "MatMul"), _summed),
    **dict.fromkeys(("AveragePool", "GlobalAveragePool"), _averaged),
    **dict.fromkeys(("Add", "Sub"), _added),
    "Mul": _multiplied,
    **dict.fromkeys(("Relu", "Clip"), _no_further),
    **dict.fromkeys(("Sigmoid", "HardSigmoid"), _bent(0.25)),
    "Tanh": _bent(1),
    "HardSwish": _bent(1.5),
    "LeakyRelu": _leaning,
    "Softmax": _shares,
    **dict.fromkeys(("Reshape", "Resize", "Slice", "Squeeze", "Unsqueeze"), _placed),
    **dict.fromkeys(("Concat", "Identity", "Transpose", "Flatten", "MaxPool"), _moved),
}
