# SPDX-License-Identifier: Apache-2.0
"""A float ONNX network as int8 TFLite, as TFLite's converter writes such networks: channels last,
activations fused, biases in int32.

In:   a float ONNX file (batch normalizations folded), samples.
Out:  the bytes of a .tflite file, float32 outside; NotInTflite names what TFLite has no int8
      operator for.
Next: ways.py; LiteRT's reference kernels say what the file means.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import onnx
from tflite import TensorType

from tests.matrix.tflite_layers import LAYERS, attributes
from tests.matrix.tflite_values import Array, NotInTflite, Values, grid_like, grid_of
from tests.tflite_builder import Tensor

__all__ = ["written"]


def written(path: Path, samples: Sequence[Array]) -> bytes:
    """The model."""
    values = Values(onnx.load(path), samples)
    entry = values.onnx.input[0].name
    x = values.graph.input(values.shape(entry), np.float32)
    values.define(entry, values.emit("QUANTIZE", [x], x.shape, values.grid(entry)))
    done: set[str] = set()
    for node in values.onnx.node:
        if node.output[0] in done:
            continue
        rule = (LAYERS | _RULES).get(node.op_type)
        if rule is None:
            raise NotInTflite(f"TFLite has no int8 operator for {node.op_type}")
        done |= set(rule(values, node) or ())
    outputs = []
    for entry in values.onnx.output:
        found = values.plain(entry.name)
        if found.dtype == np.int8:
            y = values.graph.tensor(found.shape, np.float32)
            values.graph.operator("DEQUANTIZE", [found], [y])
            found = y
        outputs.append(found)
    return values.graph.save(outputs)


Rule = Callable[[Values, Any], Sequence[str] | None]


def _operands(values: Values, node: Any) -> tuple[list[Tensor], bool]:
    """Of an operator on elements: all with the channels last if one is."""
    rank = len(values.shape(node.output[0]))
    last = rank in (3, 4) and any(values.is_last(name) for name in node.input)
    last = last and all(len(values.shape(n)) == rank or n in values.constants for n in node.input)
    return [values.last(n) if last else values.plain(n) for n in node.input], last


def _elements(kind: str) -> Rule:
    def rule(values: Values, node: Any) -> Sequence[str]:
        inputs, last = _operands(values, node)
        result, fused = node.output[0], 0
        after = values.only_reader(result, "Relu")
        if after is not None and kind == "ADD":
            result, fused = after.output[0], 1
        shape = np.broadcast_shapes(*(x.shape for x in inputs))
        grid = values.grid(result)
        y = values.emit(kind, inputs, shape, grid, fused_activation_function=fused)
        values.define(result, y, last=last)
        return [result]

    return rule


def _function(kind: str, grid: tuple[float, int] | None = None, **options: Any) -> Rule:
    def rule(values: Values, node: Any) -> None:
        inputs, last = _operands(values, node)
        found = grid or values.grid(node.output[0])
        y = values.emit(kind, inputs[:1], inputs[0].shape, found, **options)
        values.define(node.output[0], y, last=last)

    return rule


def _leaky(values: Values, node: Any) -> None:
    _function("LEAKY_RELU", alpha=attributes(node).get("alpha", 0.01))(values, node)


def _hard_sigmoid(values: Values, node: Any) -> Sequence[str] | None:
    """Of torch: relu6(x + 3) / 6; times x it is HARD_SWISH."""
    (x,), last = _operands(values, node)
    product = values.only_reader(node.output[0], "Mul")
    if product is not None and node.input[0] in product.input:
        y = values.emit("HARD_SWISH", [x], x.shape, values.grid(product.output[0]))
        values.define(product.output[0], y, last=last)
        return [product.output[0]]
    three, sixth = (values.constant(np.array([v], np.float32)) for v in (3, 1 / 6))
    y = values.emit("ADD", [x, three], x.shape, (6 / 255, -128), fused_activation_function=3)
    y = values.emit("MUL", [y, sixth], x.shape, (1 / 255, -128))
    values.define(node.output[0], y, last=last)
    return None


def _softplus(values: Values, node: Any) -> None:
    """log(exp(x) + 1)."""
    (x,), last = _operands(values, node)
    top = float(np.exp(max(a.max() for a in values.seen[node.input[0]])))
    one = values.constant(np.ones(1, np.float32))
    y = values.emit("EXP", [x], x.shape, (top / 255, -128))
    y = values.emit("ADD", [y, one], x.shape, ((top + 1) / 255, -128))
    y = values.emit("LOG", [y], x.shape, values.grid(node.output[0]))
    values.define(node.output[0], y, last=last)


def _elu(values: Values, node: Any) -> None:
    """relu(x) + (exp(min(x, 0)) - 1): LiteRT has no reference kernel of ELU."""
    (x,), last = _operands(values, node)
    low = min(float(a.min()) for a in values.seen[node.input[0]])
    zero = values.graph.constant(np.array([x.zero_point[0]], np.int8), x.scale, x.zero_point)
    below = values.emit("MINIMUM", [x, zero], x.shape, grid_like(x))
    power = values.emit("EXP", [below], x.shape, (1 / 255, -128))
    one = values.constant(np.ones(1, np.float32))
    power = values.emit("SUB", [power, one], x.shape, ((1 - float(np.exp(low))) / 255, 127))
    above = values.emit("RELU", [x], x.shape, grid_like(x))
    y = values.emit("ADD", [above, power], x.shape, values.grid(node.output[0]))
    values.define(node.output[0], y, last=last)


def _gelu(values: Values, node: Any) -> Sequence[str]:
    """x / sqrt(2), erf, + 1, * x, / 2, as PyTorch's exporter writes it."""
    names, at = [], node
    for kinds in (("Erf",), ("Add",), ("Mul",), ("Mul",)):
        at = values.only_reader(at.output[0], *kinds)
        if at is None:
            raise NotInTflite("this division is no GELU")
        names.append(at.output[0])
    x, last = _operands(values, node)
    y = values.emit("GELU", x[:1], x[0].shape, values.grid(names[-1]), approximate=False)
    values.define(names[-1], y, last=last)
    return names


def _prelu(values: Values, node: Any) -> None:
    x = values.last(node.input[0])
    alpha = values.constant(values.constants[node.input[1]].reshape(-1))
    channels = x.shape[-1] if alpha.shape[0] > 1 else 1
    alpha = values.constant(values.constants[node.input[1]].reshape(1, 1, channels))
    y = values.emit("PRELU", [x, alpha], x.shape, values.grid(node.output[0]))
    values.define(node.output[0], y, last=True)


def _concatenated(values: Values, node: Any) -> None:
    inputs, last = _operands(values, node)
    rank = len(values.shape(node.output[0]))
    axis = attributes(node)["axis"] % rank
    grid = values.grid(node.output[0])
    parts = [values.in_steps(x, grid) for x in inputs]
    if last:
        axis = 3 if axis == 1 else axis - 1 + (rank == 3)
    shape = list(parts[0].shape)
    shape[axis] = sum(x.shape[axis] for x in parts)
    values.define(
        node.output[0], values.emit("CONCATENATION", parts, shape, grid, axis=axis), last=last
    )


def _reshaped(values: Values, node: Any) -> None:
    x = values.plain(node.input[0])
    values.define(node.output[0], values.reshaped(x, values.shape(node.output[0])))


def _turned(values: Values, node: Any) -> None:
    order = attributes(node)["perm"]
    if list(order) == [0, 2, 3, 1] and values.is_last(node.input[0]):
        values.define(node.output[0], values.last(node.input[0]))
        return
    values.define(node.output[0], values.turned(values.plain(node.input[0]), order))
    if list(order) == [0, 3, 1, 2]:
        values.define(node.output[0], values.plain(node.input[0]), last=True)


def _shares(values: Values, node: Any) -> None:
    x = values.plain(node.input[0])
    rank = len(x.shape)
    axis = attributes(node).get("axis", -1) % rank
    order = [*(d for d in range(rank) if d != axis), axis]
    x = values.turned(x, order)
    y = values.emit("SOFTMAX", [x], x.shape, (1 / 256, -128), beta=1.0)
    values.define(node.output[0], values.turned(y, np.argsort(order).tolist()))


def _sliced(values: Values, node: Any) -> None:
    x = values.plain(node.input[0])
    starts, ends, axes, *steps = (values.constants[name] for name in node.input[1:])
    begin, end, by = [0] * len(x.shape), list(x.shape), [1] * len(x.shape)
    for k, axis in enumerate(axes.tolist()):
        begin[axis], by[axis] = int(starts[k]), int(steps[0][k]) if steps else 1
        end[axis] = min(int(ends[k]), x.shape[axis])
    shape = values.shape(node.output[0])
    values.define(node.output[0], values.moved("STRIDED_SLICE", x, shape, begin, end, by))


def _split(values: Values, node: Any) -> None:
    x = values.plain(node.input[0])
    axis, start = attributes(node).get("axis", 0) % len(x.shape), 0
    for name in node.output:
        shape = values.shape(name)
        begin = [start if d == axis else 0 for d in range(len(shape))]
        values.define(name, values.moved("SLICE", x, shape, begin, list(shape)))
        start += shape[axis]


def _gathered(values: Values, node: Any) -> None:
    x, index = values.plain(node.input[0]), values.constants[node.input[1]]
    axis = attributes(node).get("axis", 0) % len(x.shape)
    begin = [0] * len(x.shape)
    begin[axis] = int(index.reshape(-1)[0]) % x.shape[axis]
    size = [1 if d == axis else n for d, n in enumerate(x.shape)]
    if index.size != 1:
        raise NotInTflite("a Gather of several")
    found = values.moved("SLICE", x, size, begin, size)
    values.define(node.output[0], values.reshaped(found, values.shape(node.output[0])))


def _expanded(values: Values, node: Any) -> None:
    x, shape = values.plain(node.input[0]), values.shape(node.output[0])
    values.define(node.output[0], values.moved("BROADCAST_TO", x, shape, list(shape)))


def _largest_index(values: Values, node: Any) -> None:
    x, given = values.plain(node.input[0]), attributes(node)
    axis = given.get("axis", 0) % len(x.shape)
    kept = [n for d, n in enumerate(x.shape) if d != axis]
    y = values.graph.tensor(kept, np.int64)
    axes = values.graph.constant(np.array(axis, np.int32))
    values.graph.operator("ARG_MAX", [x, axes], [y], output_type=TensorType.INT64)
    if given.get("keepdims", 1):
        raise NotInTflite("an ArgMax that keeps its axis")
    values.define(node.output[0], y)


def _depth_to_space(values: Values, node: Any) -> None:
    """PixelShuffle's order of channels: the block's places are inside."""
    x, by = values.plain(node.input[0]), attributes(node)["blocksize"]
    _, channels, height, width = x.shape
    x = values.reshaped(x, (channels // by**2, by, by, height, width))
    x = values.turned(x, (0, 3, 1, 4, 2))
    values.define(node.output[0], values.reshaped(x, values.shape(node.output[0])))


def _normalized(values: Values, node: Any) -> None:
    """LayerNormalization over the last axis, InstanceNormalization over all behind the second: in
    the operators that the converter writes."""
    x = values.plain(node.input[0])
    given = attributes(node)
    seen = [a.astype(np.float64) for a in values.seen[node.input[0]]]
    is_layer = node.op_type == "LayerNormalization"
    axes = (len(x.shape) - 1,) if is_layer else tuple(range(2, len(x.shape)))
    epsilon = given.get("epsilon", 1e-5)
    middle = [a.mean(axes, keepdims=True) for a in seen]
    apart = [a - m for a, m in zip(seen, middle, strict=True)]
    spread = [(a**2).mean(axes, keepdims=True) for a in apart]
    inverse = [1 / np.sqrt(v + epsilon) for v in spread]
    one = [n if d not in axes else 1 for d, n in enumerate(x.shape)]
    which = values.graph.constant(np.asarray(axes, np.int32))
    grid = grid_of
    mean = values.emit("MEAN", [x, which], one, grid(middle), keep_dims=True)
    far = values.emit("SUB", [x, mean], x.shape, grid(apart))
    square = values.emit("MUL", [far, far], x.shape, grid([a**2 for a in apart]))
    total = values.emit("MEAN", [square, which], one, grid(spread), keep_dims=True)
    small = values.constant(np.full(1, epsilon, np.float32))
    total = values.emit("ADD", [total, small], one, grid([v + epsilon for v in spread]))
    factor = values.emit("RSQRT", [total], one, grid(inverse))
    normal = [a * i for a, i in zip(apart, inverse, strict=True)]
    y = values.emit("MUL", [far, factor], x.shape, grid(normal))
    wide = [-1] if is_layer else [1, -1, *[1] * len(axes)]
    weights, bias = (values.constants[name].reshape(wide) for name in node.input[1:3])
    y = values.emit(
        "MUL", [y, values.constant(weights)], x.shape, grid([a * weights for a in normal])
    )
    y = values.emit("ADD", [y, values.constant(bias)], x.shape, values.grid(node.output[0]))
    values.define(node.output[0], y)


_RULES: dict[str, Rule] = {
    "Add": _elements("ADD"),
    "Mul": _elements("MUL"),
    "Sub": _elements("SUB"),
    "Div": _gelu,
    "Relu": _function("RELU"),
    "Clip": _function("RELU6"),
    "Sigmoid": _function("LOGISTIC", (1 / 256, -128)),
    "Tanh": _function("TANH", (1 / 128, 0)),
    "Elu": _elu,
    "LeakyRelu": _leaky,
    "HardSigmoid": _hard_sigmoid,
    "Softplus": _softplus,
    "PRelu": _prelu,
    "Concat": _concatenated,
    **dict.fromkeys(("Reshape", "Flatten", "Squeeze", "Unsqueeze"), _reshaped),
    "Transpose": _turned,
    "Softmax": _shares,
    "Slice": _sliced,
    "Split": _split,
    "Gather": _gathered,
    "Expand": _expanded,
    "ArgMax": _largest_index,
    "DepthToSpace": _depth_to_space,
    **dict.fromkeys(("LayerNormalization", "InstanceNormalization"), _normalized),
}
