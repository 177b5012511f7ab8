# SPDX-License-Identifier: Apache-2.0
"""Single-operator models for LiteRT's reference kernels.

In:   int8 arrays and their quantizations.
Out:  what LiteRT computes of them; as a uint8 model too, whose values are 128 more.
Next: the tests beside this file compare graph/kernels/tflite with it.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

pytest.importorskip("ai_edge_litert", reason="LiteRT is not installed")

from loadstone.graph import Quantization
from loadstone.graph.kernels import tflite as ops
from tests.draw import Random
from tests.tflite_builder import Activation, Graph, Tensor, run

#: (fused activation, lower real bound, upper real bound)
ACTIVATIONS = [
    (Activation.NONE, None, None),
    (Activation.RELU, 0.0, None),
    (Activation.RELU6, 0.0, 6.0),
    (Activation.RELU_N1_TO_1, -1.0, 1.0),
]


def fused_activation(draw: Random, q_out: Quantization) -> tuple[int, int, int]:
    """(fused activation, low, high)."""
    kind, low, high = ACTIVATIONS[max(0, draw.int(-3, 3))]  # none at all, mostly
    return kind, *ops.activation_range(q_out, low, high)


def quantized(
    graph: Graph,
    shape: tuple[int, ...],
    q: Quantization,
    *,
    is_input: bool = True,
    unsigned: bool = False,
) -> Tensor:
    """An int8 tensor, or the uint8 tensor of the same real values."""
    dtype, zero_point = (np.uint8, q.zero_point + 128) if unsigned else (np.int8, q.zero_point)
    return (graph.input if is_input else graph.tensor)(shape, dtype, q.scale, zero_point)


def to_uint8(x: NDArray[np.int8]) -> NDArray[np.uint8]:
    """The same real values in a uint8 tensor, whose zero point is 128 more."""
    return (x.astype(np.int16) + 128).astype(np.uint8)


def from_uint8(x: NDArray[np.uint8]) -> NDArray[np.int8]:
    return (x.astype(np.int16) - 128).astype(np.int8)


def litert(
    kind: str,
    arrays: list[NDArray[np.int8]],
    qs: list[Quantization],
    q_out: Quantization,
    shape: tuple[int, ...],
    constants: list[NDArray[np.int32]] | None = None,
    *,
    unsigned: bool = False,
    **options: Any,
) -> NDArray[Any]:
    """One operator of activations and int32 constants; as a uint8 model, its inputs and output
    shifted by 128."""
    graph = Graph()
    inputs = [
        quantized(graph, x.shape, q, unsigned=unsigned) for x, q in zip(arrays, qs, strict=True)
    ]
    inputs += [graph.constant(values) for values in constants or []]
    output = quantized(graph, shape, q_out, is_input=False, unsigned=unsigned)
    graph.operator(kind, inputs, [output], **options)
    if unsigned:
        return from_uint8(run(graph.save([output]), [to_uint8(x) for x in arrays])[0])
    return run(graph.save([output]), arrays)[0]


signed_and_unsigned = pytest.mark.parametrize("unsigned", [False, True], ids=["int8", "uint8"])
