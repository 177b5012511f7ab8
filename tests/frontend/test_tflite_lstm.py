# SPDX-License-Identifier: Apache-2.0
"""frontend/tflite_lstm.py: TFLite's LSTM gives LiteRT's integers in C, its states kept from one run
to the next."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

pytest.importorskip("tvm", reason="TVM is not installed (the extra `compiler`)")
pytest.importorskip("ai_edge_litert", reason="LiteRT is not installed")

from loadstone.compiler import compile
from loadstone.errors import UnsupportedError
from tests.frontend.test_tflite_state import same_as_litert
from tests.repeat import more
from tests.tflite_builder import Activation, Graph, Tensor

RNG = np.random.default_rng(23)
RUNS = 8
WIDTH, SIZE = 12, 16


def lstm(graph: Graph, x: Tensor, bits: int = 3, inputs: Any = None, **options: Any) -> Tensor:
    """A layer of SIZE cells over x (batch, steps, WIDTH), of x's type. bits: of the cell, before
    the point. inputs: others in place of what stands there."""
    real = x.dtype == np.float32
    time_major = options.get("time_major", False)
    batch, steps = x.shape[1::-1] if time_major else x.shape[:2]

    def weights(width: int) -> list[Tensor]:
        if real:
            return [
                graph.constant(RNG.normal(0, 0.3, (SIZE, width)).astype(np.float32))
                for _ in range(4)
            ]
        return [
            graph.constant(RNG.integers(-127, 128, (SIZE, width)).astype(np.int8), scale, 0)
            for scale in (0.006, 0.004, 0.005, 0.007)
        ]

    places: list[Tensor | None] = [x, *weights(WIDTH), *weights(SIZE), None, None, None]
    if real:
        places += [graph.constant(RNG.normal(0, 1, SIZE).astype(np.float32)) for _ in range(4)]
        states = [graph.variable((batch, SIZE), np.float32) for _ in range(2)]
    else:
        biases = RNG.integers(-6000, 6000, (4, SIZE)).astype(np.int32)
        places += [graph.constant(bias, 3e-4, 0) for bias in biases]
        states = [
            graph.variable((batch, SIZE), np.int8, 1 / 120, 7),
            graph.variable((batch, SIZE), np.int16, 2.0 ** (bits - 15), 0),
        ]
    places += [None, None, *states, None, None, None, None]
    for place, tensor in (inputs or {}).items():
        places[place] = tensor
    shape = (steps, batch, SIZE) if time_major else (batch, steps, SIZE)
    y = graph.tensor(shape, np.float32) if real else graph.tensor(shape, np.int8, 1 / 120, 7)
    inner = [graph.tensor((), np.int16, 2.0**-12, 0) for _ in range(4)]
    inner.append(graph.tensor((), np.int8, 1 / 120, 7))
    graph.operator(
        "UNIDIRECTIONAL_SEQUENCE_LSTM",
        places,
        [y],
        intermediates=[] if real else inner,
        fused_activation_function=Activation.TANH,
        **options,
    )
    return y


@pytest.mark.parametrize(
    ("bits", "options"),
    [(4, {"time_major": True, "cell_clip": 1.5}), pytest.param(3, {}, marks=more)],
)
def test_integers(bits: int, options: dict[str, Any], tmp_path: Path) -> None:
    graph = Graph()
    x = graph.input((2, 2, WIDTH), np.int8, 0.05, 3)
    y = lstm(graph, x, bits, **options)
    xs = RNG.integers(-128, 128, (RUNS, *x.shape)).astype(np.int8)
    same_as_litert(graph.save([y]), xs, tmp_path)


def test_real_numbers(tmp_path: Path) -> None:
    graph = Graph()
    x = graph.input((1, 2, WIDTH), np.float32)
    xs = RNG.normal(0, 1, (RUNS, *x.shape)).astype(np.float32)
    same_as_litert(graph.save([lstm(graph, x)]), xs, tmp_path, tolerance=1e-5)


def weights_of(dtype: Any, shape: tuple[int, ...]) -> Any:
    return lambda graph: graph.constant(np.ones(shape, dtype), 0.01, 0)


@pytest.mark.parametrize(
    ("place", "made", "line"),
    [
        (9, weights_of(np.int16, (SIZE,)), "it has peephole weights: only layers without"),
        (16, weights_of(np.int8, (SIZE, SIZE)), "it has a projection: only layers without"),
        (20, weights_of(np.int16, (SIZE,)), "it has layer normalization: only layers without"),
        (1, lambda graph: None, "it leaves out input 1: its four gates need weights"),
        (
            19,
            lambda graph: graph.variable((1, SIZE), np.int16, 0.0003, 0),
            "the scale of its cell is 0.0003: powers of two",
        ),
        (
            19,
            lambda graph: graph.variable((1, SIZE), np.float32),
            "its input, weights and cell are int8, int8, float32",
        ),
    ],
)
def test_refusals(place: int, made: Any, line: str, tmp_path: Path) -> None:
    graph = Graph()
    x = graph.input((1, 2, WIDTH), np.int8, 0.05, 3)
    y = lstm(graph, x, inputs={place: made(graph)})
    (tmp_path / "m.tflite").write_bytes(graph.save([y]))
    with pytest.raises(UnsupportedError, match=line):
        compile(tmp_path / "m.tflite", "vtaq-1x16x16", as_float=True)
