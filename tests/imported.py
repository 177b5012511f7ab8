# SPDX-License-Identifier: Apache-2.0
"""A model's bytes through the front half: import, canonical form, partition to the host, NumPy.
Shared by the front end's tests."""

from __future__ import annotations

from types import ModuleType
from typing import Any

import numpy as np
from numpy.typing import NDArray

from loadstone import graph as g
from loadstone.frontend import onnx, tflite
from loadstone.frontend.rewrites import canonical
from loadstone.graph.reference import run
from loadstone.partition.eager import partition

__all__ = ["check_same", "imported", "onnx_graph", "tflite_graph"]


def imported(reader: ModuleType, model: bytes) -> g.Graph:
    """The graph of a model, everything on the host."""
    return partition(canonical(reader.from_bytes(model, "made by a test")), [], "test").graph


def tflite_graph(model: bytes) -> g.Graph:
    """Of a .tflite file's bytes."""
    return imported(tflite, model)


def onnx_graph(model: bytes) -> g.Graph:
    """Of an .onnx file's bytes."""
    return imported(onnx, model)


def check_same(graph: g.Graph, inputs: list[NDArray[Any]], wanted: list[NDArray[Any]]) -> None:
    """Every element of every output is equal."""
    for got, want in zip(run(graph, inputs), wanted, strict=True):
        assert got.dtype == want.dtype
        np.testing.assert_array_equal(got, want.reshape(got.shape))
