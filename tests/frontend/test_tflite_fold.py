# SPDX-License-Identifier: Apache-2.0
"""frontend/tflite_fold.py: what is computed from constants is a constant, and equals LiteRT."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

pytest.importorskip("tvm", reason="TVM is not installed (the extra `compiler`)")
pytest.importorskip("ai_edge_litert", reason="LiteRT is not installed")

from loadstone.frontend.tflite_file import read
from loadstone.frontend.tflite_fold import FOLDS, folded
from loadstone.graph.reference import run as computed
from tests.draw import Random
from tests.frontend.tflite_cases import CASES, DTYPES, Case
from tests.frontend.tflite_models import check
from tests.imported import tflite_graph
from tests.tflite_builder import Graph, Padding, Tensor, run

#: Results that no rule has: sums of float32 depend on their order.
UNFOLDED = {("SUM", "f"), ("REDUCE_PROD", "f")}


def constants(kind: str, one: Case, letter: str) -> tuple[Graph, list[Tensor]] | None:
    """The case with a constant for every input, and an operator behind each output that copies it:
    what writes an output stays."""
    graph, rng = Graph(), np.random.default_rng(0)
    sources: list[Tensor | None] = []
    for given in one.inputs:
        if given is None or isinstance(given, np.ndarray):
            sources.append(None if given is None else graph.constant(given))
            continue
        named = given if given[:1] and isinstance(given[0], str) else (letter, given)
        values: NDArray[Any] = rng.integers(1, 9, named[1])
        if named[0] == "b":
            values = values % 2
        grid = (0.05, 3 + 128 * (named[0] == "u")) if named[0] in "qu" else ((), 0)
        sources.append(graph.constant(np.array(values, DTYPES[named[0]]), *grid))
    targets = []
    for wanted in one.outputs:
        named = wanted if wanted[:1] and isinstance(wanted[0], str) else (letter, wanted)
        grid = (0.05, 3 + 128 * (named[0] == "u")) if named[0] in "qu" else ((), 0)
        targets.append(graph.tensor(named[1], DTYPES[named[0]], *grid))
    graph.operator(kind, sources, targets, **one.options)
    return graph, targets


@pytest.mark.parametrize("kind", [*FOLDS, "UNPACK", "SPLIT", "SHAPE", "RANK"])
def test_a_folded_operator_equals_litert(kind: str) -> None:
    counted = 0
    for one in CASES[kind]:
        for letter in one.types:
            made = constants(kind, one, letter)
            assert made is not None
            graph, targets = made
            try:
                wanted = run(graph.save(targets), [])
            except (RuntimeError, ValueError):  # LiteRT has no such kernel
                continue
            ends = [graph.tensor(t.shape, t.dtype, t.scale, t.zero_point) for t in targets]
            for target, end in zip(targets, ends, strict=True):
                graph.operator("RESHAPE", [target], [end], new_shape=list(end.shape))
            file = folded(read(graph.save(ends), "m"))
            if len(file.operators) > len(ends):
                quantized = any(tensor.scale.size for tensor in graph.tensors)
                assert quantized or (kind, letter) in UNFOLDED or one.options, one
                continue
            counted += 1
            for target, want in zip(targets, wanted, strict=True):
                data = file.tensors[target.index].data
                assert data is not None
                assert data.dtype == want.dtype
                np.testing.assert_array_equal(data, want.reshape(data.shape), err_msg=f"{one}")
    assert counted


def test_weights_of_float16_and_a_shape_that_is_computed() -> None:
    """As a converter of float16 writes a transposed convolution of an open batch."""
    draw, graph = Random(0), Graph()
    x = graph.input((1, 4, 4, 3), np.float32)
    half = graph.constant(draw.rng.normal(0, 1, (5, 3, 3, 3)).astype(np.float16))
    weights = graph.tensor((5, 3, 3, 3), np.float32)
    graph.operator("DEQUANTIZE", [half], [weights])
    shape, batch = graph.tensor((4,), np.int32), graph.tensor((), np.int32)
    graph.operator("SHAPE", [x], [shape], out_type=2)
    first, second, one = (graph.constant(np.int32([n])) for n in (0, 1, 1))
    graph.operator("STRIDED_SLICE", [shape, first, second, one], [batch], shrink_axis_mask=1)
    size, channels = (graph.constant(np.array(n, np.int32)) for n in (8, 5))
    whole = graph.tensor((4,), np.int32)
    graph.operator("PACK", [batch, size, size, channels], [whole], values_count=4)
    y = graph.tensor((1, 8, 8, 5), np.float32)
    window = {"stride_h": 2, "stride_w": 2, "padding": Padding.SAME}
    graph.operator("TRANSPOSE_CONV", [whole, weights, x], [y], **window)
    model = graph.save([y])
    values = [draw.rng.normal(0, 1, x.shape).astype(np.float32)]
    (got,) = computed(tflite_graph(model), values)
    np.testing.assert_allclose(got, run(model, values)[0], rtol=1e-5, atol=1e-5)
    assert [o.code for o in folded(read(model, "m")).operators] == ["TRANSPOSE_CONV"]


def test_a_quantized_bias_and_weights_that_are_computed() -> None:
    """QUANTIZE stays a step: weights that a network transposes itself do not."""
    draw, graph = Random(1), Graph()
    x = graph.input((2, 4), np.int8, 0.05, 3)
    stored = graph.constant(draw.int8(4, 6), 0.02)
    weights = graph.tensor((6, 4), np.int8, 0.02, 0)
    graph.operator("TRANSPOSE", [stored, graph.constant(np.int32([1, 0]))], [weights])
    y = graph.tensor((2, 6), np.int8, 0.09, 1)
    graph.operator("FULLY_CONNECTED", [x, weights], [y])
    check(graph, [y], draw)
