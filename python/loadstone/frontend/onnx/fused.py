# SPDX-License-Identifier: Apache-2.0
"""Operators into which ONNX Runtime's optimizer fuses others (domain com.microsoft), in ONNX's own.

In:   a Rewriting of a node.
Out:  FUSED, the rules that emit the operators that were fused.
Next: rewriting.py replaces the node by these.
"""

from __future__ import annotations

import math

import numpy as np

from loadstone.frontend.message import short
from loadstone.frontend.onnx.rewriting import Rewriting, Rule

__all__ = ["FUSED"]

#: From here on LayerNormalization is one of ONNX's own.
_LAYER_NORMALIZATION = 17
_UNFUSED = "export it without ONNX Runtime's optimizations"


def _number(made: Rewriting, number: float) -> str:
    """In the type of the first input."""
    return made.constant(np.array(number, made.kind(0)))


def _fused_conv(made: Rewriting) -> None:
    """activation(Conv(x, w, b) + z)."""
    inputs = [made.given(k) for k in range(3)]
    names = ("auto_pad", "dilations", "group", "kernel_shape", "pads", "strides")
    name = made.emit("Conv", *(inputs if inputs[2] else inputs[:2]))
    made.nodes[-1].attribute.extend(a for a in made.node.attribute if a.name in names)
    if made.given(3):
        name = made.emit("Add", name, made.given(3))
    _activated(made, name)


#: How many numbers an activation has.
_ACTIVATIONS = {"Relu": 0, "Tanh": 0, "Sigmoid": 0, "LeakyRelu": 1, "Clip": 2, "HardSigmoid": 2}


def _activated(made: Rewriting, name: str) -> None:
    activation, numbers = made.text("activation"), made.floats("activation_params").tolist()
    if not activation:
        made.emit("Identity", name, output=made.made(0))
        return
    if activation not in _ACTIVATIONS:
        raise made.refusal(
            f"its activation is {short(activation)}, and {', '.join(_ACTIVATIONS)} are imported",
            _UNFUSED,
        )
    if len(numbers) != _ACTIVATIONS[activation]:
        raise made.refusal(
            f"its activation_params are {len(numbers)}, and {activation} has "
            f"{_ACTIVATIONS[activation]}",
            _UNFUSED,
        )
    output = made.made(0)
    if activation == "Clip":
        bounds = [_number(made, number) for number in numbers]
        made.emit("Clip", name, *bounds, output=output)
    else:
        said = dict(zip(("alpha", "beta"), numbers, strict=False))
        made.emit(activation, name, output=output, **said)


def _fused_matmul(made: Rewriting) -> None:
    """alpha * op(a) @ op(b); a vector is never turned."""
    for name in ("transBatchA", "transBatchB"):
        if made.whole(name):
            raise made.refusal(f"its attribute {name} is 1, and only 0 is imported", _UNFUSED)
    sides = [made.given(0), made.given(1)]
    for place, name in enumerate(("transA", "transB")):
        rank = len(made.extents(place)) if made.whole(name) else 0
        if rank > 1:
            order = [*range(rank - 2), rank - 1, rank - 2]
            sides[place] = made.emit("Transpose", sides[place], perm=order)
    alpha = made.number("alpha", 1.0)
    if alpha == 1:
        made.emit("MatMul", *sides, output=made.made(0))
    else:
        made.emit("Mul", made.emit("MatMul", *sides), _number(made, alpha), output=made.made(0))


def _gelu(made: Rewriting) -> None:
    """x / 2 * (1 + erf(x / sqrt(2))); BiasGelu: of x plus a bias."""
    x = made.given(0)
    if made.node.op_type == "BiasGelu":
        x = made.emit("Add", x, made.given(1))
    curve = made.emit("Erf", made.emit("Mul", x, _number(made, math.sqrt(0.5))))
    _gated(made, x, curve)


def _fast_gelu(made: Rewriting) -> None:
    """x / 2 * (1 + tanh(sqrt(2 / pi) * (x + 0.044715 * x ** 3))), of x plus a bias if there is
    one."""
    x = made.given(0)
    if made.given(1):
        x = made.emit("Add", x, made.given(1))
    square = made.emit("Mul", x, x)
    cubic = made.emit("Mul", square, _number(made, 0.044715 * math.sqrt(2 / math.pi)))
    slope = made.emit("Add", cubic, _number(made, math.sqrt(2 / math.pi)))
    _gated(made, x, made.emit("Tanh", made.emit("Mul", x, slope)))


def _gated(made: Rewriting, x: str, curve: str) -> None:
    """x / 2 * (1 + curve)"""
    gate = made.emit("Add", curve, _number(made, 1))
    half = made.emit("Mul", x, _number(made, 0.5))
    made.emit("Mul", half, gate, output=made.made(0))


def _quick_gelu(made: Rewriting) -> None:
    """x * sigmoid(alpha * x)"""
    x = made.given(0)
    scaled = made.emit("Mul", x, _number(made, made.number("alpha", 1.702)))
    made.emit("Mul", x, made.emit("Sigmoid", scaled), output=made.made(0))


def _skip_layer_normalization(made: Rewriting) -> None:
    """Over the last axis, of the sum of input, skip and bias; the sum is the last output."""
    for place, what in ((1, "mean"), (2, "inv_std_var")):
        if made.made(place):
            raise made.refusal(
                f"its output {place} ({what}), which training uses, is read and is not imported",
                "export the model for inference",
            )
    if made.opset < _LAYER_NORMALIZATION:
        raise made.refusal(
            f"the model has opset {made.opset}, and LayerNormalization is of "
            f"{_LAYER_NORMALIZATION} and later",
            f"export it with an opset of at least {_LAYER_NORMALIZATION}, or without ONNX "
            "Runtime's optimizations",
        )
    bias, total = made.given(4), made.made(3)
    both = made.emit("Add", made.given(0), made.given(1), output="" if bias else total)
    if bias:
        both = made.emit("Add", both, bias, output=total)
    parameters = [name for name in (made.given(2), made.given(3)) if name]
    epsilon = made.number("epsilon", 1e-12)
    if made.made(0):
        made.emit(
            "LayerNormalization", both, *parameters, output=made.made(0), axis=-1, epsilon=epsilon
        )


#: By domain and operator.
FUSED: dict[tuple[str, str], Rule] = {
    ("com.microsoft", "BiasGelu"): _gelu,
    ("com.microsoft", "FastGelu"): _fast_gelu,
    ("com.microsoft", "FusedConv"): _fused_conv,
    ("com.microsoft", "FusedMatMul"): _fused_matmul,
    ("com.microsoft", "Gelu"): _gelu,
    ("com.microsoft", "QuickGelu"): _quick_gelu,
    ("com.microsoft", "SkipLayerNormalization"): _skip_layer_normalization,
}
