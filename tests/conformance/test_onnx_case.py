# SPDX-License-Identifier: Apache-2.0
"""conformance/onnx_case.py: ONNX Runtime computes of the file what the network's definition says,
and the compiler reads the same operators."""

from __future__ import annotations

import numpy as np
import pytest

from loadstone.conformance.check import CASES, samples_of
from loadstone.conformance.onnx_case import _NODES, onnx_case
from loadstone.conformance.schemes import rounded_as_onnx
from loadstone.errors import UnsupportedError
from loadstone.frontend import load
from loadstone.graph.reference import run
from loadstone.partition.eager import partition
from tests import onnx_builder
from tests.repeat import times

#: What ONNX has no operator of, or no integer rule for.
NOT_ONNX = {
    "slice", "pad", "resize_nearest", "resize_bilinear", "softmax", "lookup", "argmax", "div",
    "squared_difference", "reduce_sum", "reduce_product", "l2_normalize", "layer_norm",
    "batch_matmul",
}  # fmt: skip


@pytest.mark.parametrize("kind", sorted(CASES.keys() - NOT_ONNX))
def test_onnx_runtime_computes_what_the_definition_says(kind: str) -> None:
    written = 0
    for seed in range(times(3, 12)):
        graph = rounded_as_onnx(CASES[kind](np.random.default_rng(seed)))
        if any(type(operator) not in _NODES for operator in graph.operators):
            continue
        written += 1
        model = onnx_case(graph).SerializeToString()
        for sample in zip(*samples_of(graph), strict=True):
            want = run(graph, list(sample))
            for got, array in zip(onnx_builder.run(model, list(sample)), want, strict=True):
                # A float32 sum's order decides ties of averages (graph/kernels/onnx/pooling.py).
                ties = 1 if kind == "average_pool2d" else 0
                assert np.abs(got.astype(np.float64) - array).max() <= ties
    assert written or kind in ("classifier", "upsampling", "excitation", "separable")


@pytest.mark.parametrize("kind", ["conv2d", "depthwise", "dense", "add", "residual", "branches"])
def test_the_compiler_reads_the_same_operators(kind: str) -> None:
    for seed in range(3):
        graph = rounded_as_onnx(CASES[kind](np.random.default_rng(seed)))
        read = partition(load(onnx_case(graph)), []).graph
        ours, theirs = (
            sorted(operator.kind for operator in network.operators) for network in (graph, read)
        )
        assert ours == theirs
        for sample in zip(*samples_of(graph), strict=True):
            for got, want in zip(run(read, list(sample)), run(graph, list(sample)), strict=True):
                assert np.array_equal(got, want)


@pytest.mark.parametrize(
    ("kind", "why"),
    [
        ("softmax", "softmax as TFLite rounds it is not ONNX"),
        ("lookup", "lookup has no form in ONNX of one operator"),
        ("reduce_sum", "reduce_sum has no form in ONNX"),
    ],
)
def test_what_onnx_cannot_say_is_refused(kind: str, why: str) -> None:
    with pytest.raises(UnsupportedError, match=why):
        onnx_case(CASES[kind](np.random.default_rng(0)))
