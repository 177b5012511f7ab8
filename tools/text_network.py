# SPDX-License-Identifier: Apache-2.0
"""The second demo's network as an ONNX file: one token of a decoder-only transformer.

In:   weights by name, from train_text.py.
Out:  text.onnx: from a symbol, and what each layer remembers, the scores of the next symbol.
Next: `loadstone demo text`.

    symbol  (1, SYMBOLS)  1 at the symbol, 0 elsewhere          scores   (1, SYMBOLS)
    seen    (1, WINDOW)   1 where the caches hold something     seen_next
    keys_n  (HEADS, WINDOW, WIDTH / HEADS)    newest last       keys_n_next
    values_n  (HEADS, WIDTH / HEADS, WINDOW)  newest last       values_n_next

A cache moves by one place for each token. The weights are stored in float16, which halves the file,
and cast when it is read.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray
from onnx import ModelProto, NodeProto, TensorProto, checker, helper, numpy_helper, save_model

from loadstone.demo.sentences import SYMBOLS
from loadstone.demo.text import LAYERS, STATES

__all__ = [
    "HEADS",
    "HIDDEN",
    "SLOPES",
    "WIDTH",
    "WINDOW",
    "Weights",
    "build",
    "save",
]

WIDTH, HEADS, HIDDEN = 128, 4, 256
#: How many tokens attention sees.
WINDOW = 256
#: What each head takes off a score for every token that lies between.
SLOPES = (0.5, 0.125, 0.03125, 0.0078125)
#: What is taken off the score of a place that holds nothing yet.
EMPTY = 1e4

Weights: TypeAlias = Mapping[str, NDArray[np.float32]]


def save(weights: Weights, path: Path) -> None:
    """Writes the file."""
    save_model(build(weights), path)


def build(weights: Weights) -> ModelProto:
    """The model. weights: dense ones (inputs, outputs)."""
    writer = _Writer(weights)
    writer.network()
    lanes = WIDTH // HEADS
    shapes = {"symbol": [1, len(SYMBOLS)], "seen": [1, WINDOW]}
    for n in range(LAYERS):
        shapes |= {f"keys_{n}": [HEADS, WINDOW, lanes], f"values_{n}": [HEADS, lanes, WINDOW]}

    def described(name: str, shape: list[int]) -> object:
        return helper.make_tensor_value_info(name, TensorProto.FLOAT, shape)

    inputs = [described(name, shape) for name, shape in shapes.items()]
    outputs = [described("scores", [1, len(SYMBOLS)])]
    outputs += [described(after, shapes[before]) for before, after in STATES.items()]
    graph = helper.make_graph(writer.nodes, "text", inputs, outputs, writer.constants)
    model = helper.make_model(
        graph, opset_imports=[helper.make_opsetid("", 17)], producer_name="loadstone", ir_version=8
    )
    checker.check_model(model, full_check=True)
    return model


class _Writer:
    def __init__(self, weights: Weights) -> None:
        self.weights = weights
        self.nodes: list[NodeProto] = []
        self.constants: list[TensorProto] = []

    def node(self, kind: str, inputs: list[str], output: str, **attributes: object) -> str:
        self.nodes.append(helper.make_node(kind, inputs, [output], name=output, **attributes))
        return output

    def constant(self, name: str, value: object) -> str:
        self.constants.append(numpy_helper.from_array(np.asarray(value), name))
        return name

    def weight(self, name: str) -> str:
        half = self.constant(f"{name}.half", self.weights[name].astype(np.float16))
        return self.node("Cast", [half], name, to=TensorProto.FLOAT)

    def dense(self, source: str, name: str, target: str) -> str:
        """source @ weight + bias."""
        inputs = [source, self.weight(f"{name}.weight"), self.weight(f"{name}.bias")]
        return self.node("Gemm", inputs, target)

    def norm(self, source: str, name: str) -> str:
        inputs = [source, self.weight(f"{name}.weight"), self.weight(f"{name}.bias")]
        return self.node("LayerNormalization", inputs, name, axis=-1, epsilon=1e-5)

    def network(self) -> None:
        self.shared()
        x = self.node("MatMul", ["symbol", self.weight("embedding.weight")], "embedding")
        for n in range(LAYERS):
            x = self.block(n, x)
        self.dense(self.norm(x, "norm"), "head", "scores")

    def shared(self) -> None:
        """What every layer reads: what is taken off the scores, and shapes."""
        lanes = WIDTH // HEADS
        for name, shape in (
            ("heads", (HEADS, 1, lanes)),
            ("column", (HEADS, lanes, 1)),
            ("row", (1, WIDTH)),
        ):
            self.constant(name, np.array(shape, np.int64))
        for name, value in (("one", 1), ("two", 2), ("end", WINDOW)):
            self.constant(name, np.array([value], np.int64))
        self.constant("present", np.ones((1, 1), np.float32))
        newer = self.node("Slice", ["seen", "one", "end", "one"], "seen.newer")
        seen = self.node("Concat", [newer, "present"], "seen_next", axis=1)
        back = np.arange(WINDOW - 1, -1, -1, dtype=np.float32)
        slopes = -np.array(SLOPES, np.float32)[:, None, None] * back
        self.constant("distance", slopes - np.float32(EMPTY))
        self.constant("empty", np.float32(EMPTY))
        present = self.node("Mul", [seen, "empty"], "seen.large")
        self.node("Add", [present, "distance"], "taken")
        self.constant("scale", np.float32(1 / lanes**0.5))

    def block(self, n: int, x: str) -> str:
        at, block = f"layer{n}", f"blocks.{n}"
        y = self.norm(x, f"{block}.norm1")
        shape = {"query": "heads", "key": "heads", "value": "column"}
        parts = {
            part: self.node(
                "Reshape", [self.dense(y, f"{block}.{part}", f"{at}.{part}"), shape[part]],
                f"{at}.{part}.heads",
            )
            for part in shape
        }  # fmt: skip
        keys = self.cache(f"keys_{n}", parts["key"], axis=1)
        values = self.cache(f"values_{n}", parts["value"], axis=2)
        turned = self.node("Transpose", [keys], f"{at}.keys", perm=[0, 2, 1])
        scores = self.node("MatMul", [parts["query"], turned], f"{at}.scores")
        scaled = self.node("Mul", [scores, "scale"], f"{at}.scaled")
        biased = self.node("Add", [scaled, "taken"], f"{at}.biased")
        weights = self.node("Softmax", [biased], f"{at}.attention", axis=-1)
        turned = self.node("Transpose", [values], f"{at}.values", perm=[0, 2, 1])
        mixed = self.node("MatMul", [weights, turned], f"{at}.mixed")
        row = self.node("Reshape", [mixed, "row"], f"{at}.row")
        out = self.dense(row, f"{block}.out", f"{at}.out")
        x = self.node("Add", [x, out], f"{at}.attended")
        up = self.dense(self.norm(x, f"{block}.norm2"), f"{block}.up", f"{at}.up")
        down = self.dense(self.node("Relu", [up], f"{at}.relu"), f"{block}.down", f"{at}.down")
        return self.node("Add", [x, down], f"{at}.done")

    def cache(self, name: str, newest: str, axis: int) -> str:
        """Without its oldest place, and with a new one."""
        which = "one" if axis == 1 else "two"
        newer = self.node("Slice", [name, "one", "end", which], f"{name}.newer")
        return self.node("Concat", [newer, newest], STATES[name], axis=axis)
