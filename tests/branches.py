# SPDX-License-Identifier: Apache-2.0
"""A network of two branches, one for an accelerator of an example, one for VTA-Q: no data ties
their programs.

In:   a folder for the file.
Out:  the artifact for `systolic,vtaq-1x16x16`; inputs, and LiteRT's outputs.
Next: tests that see both devices work at once, in one process, in two, and on an emulated board.
"""

from __future__ import annotations

from pathlib import Path

import numpy as np

from loadstone.artifact.format import Artifact
from loadstone.backend.plugins import load_plugins
from loadstone.compiler import compile
from tests.conftest import ROOT
from tests.tflite_builder import Graph, Padding, run

__all__ = ["TARGET", "branches"]

TARGET = "systolic,vtaq-1x16x16"


def branches(folder: Path) -> tuple[Artifact, np.ndarray, list[np.ndarray]]:
    """The artifact; inputs (samples, 1, 6, 6, 16); each output, with an axis of samples."""
    random, graph = np.random.default_rng(14), Graph()
    x = graph.input((1, 6, 6, 16), np.int8, scale=0.05, zero_point=-5)
    weights = random.integers(-127, 128, (8, 1, 1, 16), np.int8)
    w = graph.constant(weights, scale=random.uniform(0.002, 0.01, 8).astype(np.float32), axis=0)
    b = graph.constant(np.zeros(8, np.int32), scale=w.scale * x.scale[0], axis=0)
    convolved = graph.tensor((1, 6, 6, 8), np.int8, scale=0.1, zero_point=-3)
    strides = {"padding": Padding.VALID, "stride_h": 1, "stride_w": 1}
    graph.operator(
        "CONV_2D", [x, w, b], [convolved], dilation_h_factor=1, dilation_w_factor=1, **strides
    )
    pooled = graph.tensor((1, 3, 3, 16), np.int8, scale=0.05, zero_point=-5)
    window = {"filter_width": 2, "filter_height": 2, "stride_h": 2, "stride_w": 2}
    graph.operator("MAX_POOL_2D", [x], [pooled], padding=Padding.VALID, **window)
    model = graph.save([convolved, pooled])
    (folder / "branches.tflite").write_bytes(model)
    plugins = load_plugins([ROOT / "docs/examples/systolic"])
    artifact = compile(folder / "branches.tflite", TARGET, plugins=plugins).artifact
    inputs = random.integers(-128, 128, (2, *x.shape), np.int8)
    outputs = [run(model, [x]) for x in inputs]
    return artifact, inputs, [np.stack(rows) for rows in zip(*outputs, strict=True)]
