# SPDX-License-Identifier: Apache-2.0
"""TFLite networks with something changed that a converter would not have written.

In:   a number.
Out:  the bytes of a .tflite file, inputs for it, and what was changed, as text.
Next: models.py compiles it and compares.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np
import tflite
from numpy.typing import NDArray

from tests.draw import Random
from tests.random_tflite import Grower, draw_inputs
from tests.tflite_builder import Graph, Tensor

__all__ = ["changed", "mutant"]

#: Factors of scales: near, far, and absurd.
FACTORS = (1.001, 0.5, 1.7, 2.0, 30.0, 1 / 200, 1e-6, 1e6, 1e-30, 1e30)
#: Operators in the place of others that have as many operands.
SWAPS = {
    1: (
        "RELU",
        "RELU6",
        "TANH",
        "LOGISTIC",
        "ABS",
        "NEG",
        "EXP",
        "LOG",
        "SQRT",
        "RSQRT",
        "HARD_SWISH",
        "ELU",
        "QUANTIZE",
        "DEQUANTIZE",
    ),
    2: (
        "ADD",
        "SUB",
        "MUL",
        "DIV",
        "MAXIMUM",
        "MINIMUM",
        "SQUARED_DIFFERENCE",
        "PACK",
        "FULLY_CONNECTED",
        "BATCH_MATMUL",
        "PRELU",
    ),
    3: (
        "CONV_2D",
        "DEPTHWISE_CONV_2D",
        "FULLY_CONNECTED",
        "TRANSPOSE_CONV",
        "CONCATENATION",
        "SELECT_V2",
    ),
}
#: Operators without a table of options.
BARE = ("RELU", "RELU6", "TANH", "LOGISTIC", "ELU", "LOG", "SQRT", "RSQRT", "PRELU")


def mutant(number: int) -> tuple[bytes, list[NDArray[Any]], tuple[str, ...]]:
    """One to three changes of random network `number`."""
    grower = Grower(number)
    grower.network()
    draw = Random(1_000_003 * (number + 1))
    changes = changed(grower.graph, draw)
    graph = grower.graph
    read = {index for operator in graph.operators for index in operator.inputs}
    outputs = [
        t for t in graph.tensors if t.data is None and t.index not in read and t not in graph.inputs
    ]
    inputs = [(tensor.shape, tensor.dtype) for tensor in graph.inputs]
    drawn = [_values(shape, dtype, number) for shape, dtype in inputs]
    return graph.save(outputs), drawn, tuple(change for change in changes if change)


def changed(graph: Graph, draw: Random) -> list[str]:
    """One to three changes; an empty text for one that the graph has no place for."""
    editor = _Editor(graph, draw)
    return [draw.pick(_CHANGES)(editor) for _ in range(draw.pick([1, 1, 1, 2, 3]))]


def _values(shape: tuple[int, ...], dtype: np.dtype[Any], number: int) -> NDArray[Any]:
    if dtype.kind in "iu":
        return draw_inputs([(shape, dtype)], number, 1)[0][0]
    rng = np.random.default_rng(number)
    return rng.random(shape) < 0.5 if dtype == np.bool_ else rng.normal(0, 3, shape).astype(dtype)


class _Editor:
    def __init__(self, graph: Graph, draw: Random) -> None:
        self.graph, self.draw = graph, draw

    def pick(self, wanted: Callable[[Tensor], bool]) -> Tensor | None:
        found = [tensor for tensor in self.graph.tensors if wanted(tensor)]
        return self.draw.pick(found) if found else None

    def change(self, tensor: Tensor, what: str, **fields: Any) -> str:
        new = replace(tensor, **fields)
        self.graph.tensors[tensor.index] = new
        self.graph.inputs[:] = [new if entry is tensor else entry for entry in self.graph.inputs]
        return f"{tensor.name} {what}"

    def operator(
        self, what: Callable[[Any], Any], wanted: Callable[[Any], bool] = lambda _: True
    ) -> str:
        places = [place for place, operator in enumerate(self.graph.operators) if wanted(operator)]
        if not places:
            return ""
        place = self.draw.pick(places)
        old = self.graph.operators[place]
        new = self.graph.operators[place] = what(old)
        return (
            f"{old.kind} {old.inputs} {dict(old.options)} -> {new.kind} {new.inputs} "
            f"{dict(new.options)}"
        )


def _scale(editor: _Editor) -> str:
    tensor = editor.pick(lambda t: t.scale.size > 0)
    if tensor is None:
        return ""
    factor = editor.draw.pick(FACTORS)
    with np.errstate(over="ignore", under="ignore"):
        scales = (tensor.scale * np.float32(factor)).astype(np.float32)
    if scales.size > 1 and editor.draw.chance(2):
        scales = np.where(
            np.arange(scales.size) == editor.draw.int(0, scales.size - 1), scales, tensor.scale
        ).astype(np.float32)
    return editor.change(tensor, f"scale {tensor.scale[0]:.4g} * {factor:g}", scale=scales)


def _zero_point(editor: _Editor) -> str:
    tensor = editor.pick(lambda t: t.scale.size > 0)
    if tensor is None:
        return ""
    value = editor.draw.pick([0, 1, -1, 127, -128, 128, 255, editor.draw.int(-128, 127)])
    return editor.change(
        tensor, f"zero point {value}", zero_point=np.full(tensor.scale.shape, value, np.int64)
    )


def _bias(editor: _Editor) -> str:
    tensor = editor.pick(lambda t: t.dtype == np.int32 and t.scale.size > 0 and t.data is not None)
    if tensor is None:
        return ""
    choice = editor.draw.int(0, 3)
    if choice == 0:
        return editor.change(
            tensor,
            "bias without a scale",
            scale=np.zeros(0, np.float32),
            zero_point=np.zeros(0, np.int64),
        )
    if choice == 1:
        return editor.change(
            tensor,
            "bias scale",
            scale=tensor.scale * np.float32(editor.draw.pick([1.01, 2, 0.3, 77])),
        )
    if choice == 2:
        return editor.change(
            tensor, "bias zero point 3", zero_point=np.full(tensor.scale.shape, 3, np.int64)
        )
    data = np.where(
        np.arange(tensor.shape[-1]) % 3 == 0,
        editor.draw.pick([2**31 - 1, -(2**31), 2**24 + 1]),
        tensor.data,
    )
    return editor.change(tensor, "bias at the edge of int32", data=data.astype(np.int32))


def _channels(editor: _Editor) -> str:
    tensor = editor.pick(
        lambda t: t.data is not None and t.dtype.itemsize == 1 and t.scale.size > 0
    )
    if tensor is None:
        return ""
    axis = editor.draw.int(0, len(tensor.shape) - 1)
    if editor.draw.chance(3):
        return editor.change(
            tensor, "one scale", scale=tensor.scale[:1], zero_point=tensor.zero_point[:1]
        )
    count = tensor.shape[axis]
    scales = (tensor.scale[0] * np.linspace(0.5, 2, count)).astype(np.float32)
    return editor.change(
        tensor,
        f"scales along {axis}",
        scale=scales,
        zero_point=np.resize(tensor.zero_point, count),
        axis=axis,
    )


def _type(editor: _Editor) -> str:
    tensor = editor.pick(lambda t: t.data is None)
    if tensor is None:
        return ""
    dtype = np.dtype(editor.draw.pick([np.int8, np.uint8, np.int32, np.float32, np.int16]))
    return editor.change(tensor, f"is {dtype}", dtype=dtype)


def _unquantized(editor: _Editor) -> str:
    tensor = editor.pick(lambda t: t.scale.size > 0)
    if tensor is None:
        return ""
    return editor.change(
        tensor, "without a scale", scale=np.zeros(0, np.float32), zero_point=np.zeros(0, np.int64)
    )


def _shape(editor: _Editor) -> str:
    tensor = editor.pick(lambda t: t.data is None and len(t.shape) > 1)
    if tensor is None:
        return ""
    shape = list(tensor.shape)
    axis = editor.draw.int(0, len(shape) - 1)
    shape[axis] = max(1, shape[axis] + editor.draw.pick([-1, 1]))
    return editor.change(tensor, f"shape {shape}", shape=tuple(shape))


def _constant(editor: _Editor) -> str:
    tensor = editor.pick(lambda t: t.data is not None and t.dtype == np.int32 and not t.scale.size)
    if tensor is None:
        return ""
    data = np.array(tensor.data)
    data.reshape(-1)[editor.draw.int(0, data.size - 1)] += editor.draw.pick([-1, 1, 2])
    return editor.change(tensor, f"values {data.tolist()}", data=data)


def _activation(editor: _Editor) -> str:
    value = editor.draw.int(0, 5)
    name = "fused_activation_function"
    return editor.operator(
        lambda old: replace(old, options={**old.options, name: value}),
        lambda old: name in old.options,
    )


def _option(editor: _Editor) -> str:
    def changed(old: Any) -> Any:
        key = editor.draw.pick(sorted(old.options))
        value = old.options[key]
        if isinstance(value, bool):
            new: Any = not value
        elif isinstance(value, float):
            new = editor.draw.pick([0.0, -1.0, 0.5, 3.0])
        elif isinstance(value, list | tuple):
            new = [*value[1:], *value[:1]]
        else:
            new = max(0, value + editor.draw.pick([-1, 1, 2]))
        return replace(old, options={**old.options, key: new})

    return editor.operator(changed, lambda o: bool(o.options))


def _kind(editor: _Editor) -> str:
    def changed(old: Any) -> Any:
        kind = editor.draw.pick(SWAPS[len(old.inputs)])
        table = (
            "" if kind in BARE else "".join(part.capitalize() for part in kind.lower().split("_"))
        )
        known = dir(getattr(tflite, f"{table.replace('2d', '2D')}Options", object))
        kept = {
            k: v
            for k, v in old.options.items()
            if "".join(p.capitalize() for p in k.split("_")) in known
        }
        return replace(old, kind=kind, options=kept)

    return editor.operator(changed, lambda o: len(o.inputs) in SWAPS)


def _rewired(editor: _Editor) -> str:
    def changed(old: Any) -> Any:
        inputs, place = list(old.inputs), editor.draw.int(0, len(old.inputs) - 1)
        if editor.draw.chance(3):
            inputs.reverse()
        elif editor.draw.chance(3):
            inputs[place] = -1
        else:
            inputs[place] = editor.draw.int(0, len(editor.graph.tensors) - 1)
        return replace(old, inputs=tuple(inputs))

    return editor.operator(changed)


_CHANGES: list[Callable[[_Editor], str]] = [
    *(
        [_scale] * 4
        + [_zero_point] * 3
        + [_bias] * 3
        + [_channels] * 2
        + [_activation] * 2
        + [_kind] * 3
        + [_option] * 2
    ),
    *(_type, _unquantized, _shape, _constant, _rewired),
]
