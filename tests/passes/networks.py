# SPDX-License-Identifier: Apache-2.0
"""Small networks that the tests of passes compile, and the targets that they are compiled for."""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache
from pathlib import Path
from tempfile import TemporaryDirectory

import numpy as np
import pytest

from loadstone.backend.plugins import Registry, load_plugins
from loadstone.passes.dump import Dump
from tests.conftest import ROOT
from tests.tflite_builder import Graph, Padding

#: VTA-Q, VTA as it is, and an accelerator from outside the tree, described by an instruction table.
TARGETS: Mapping[str, str] = {
    "vtaq": "vtaq-tiny",
    "vta": "vta-pynq",
    "systolic": "systolic -dim=8 -tokens=1",
}


@cache
def plugins() -> Registry:
    """The example back end. A test that asks for it without TVM, which it needs, is skipped."""
    pytest.importorskip("tvm", reason="TVM is not installed (the extra `compiler`)")
    return load_plugins([ROOT / "docs" / "examples" / "systolic"])


def residual_block() -> bytes:
    """A 3x3 convolution of 8 channels, and an addition of its input."""
    graph = Graph()
    x = graph.input((1, 6, 6, 8), np.int8, 0.05, -3)
    weights = (np.arange(8 * 3 * 3 * 8) * 37 % 255 - 127).astype(np.int8).reshape(8, 3, 3, 8)
    w, b = (
        graph.constant(weights, [0.01] * 8, 0),
        graph.constant(np.arange(8, dtype=np.int32), [0.0005] * 8, 0),
    )
    y = graph.tensor((1, 6, 6, 8), np.int8, 0.1, 5, name="conv")
    z = graph.tensor((1, 6, 6, 8), np.int8, 0.15, 0, name="sum")
    graph.operator("CONV_2D", [x, w, b], [y], padding=Padding.SAME, stride_h=1, stride_w=1)
    graph.operator("ADD", [x, y], [z])
    return graph.save([z])


def dumped(target: str) -> dict[str, str]:
    """Name of the file -> text, of all passes of the residual block for a key of TARGETS."""
    from loadstone.compiler import compile

    with TemporaryDirectory() as folder:
        model = Path(folder) / "block.tflite"
        model.write_bytes(residual_block())
        compile(model, TARGETS[target], Dump(Path(folder) / "dump"), plugins())
        return {
            path.name: path.read_text(encoding="utf-8")
            for path in sorted((Path(folder) / "dump").iterdir())
        }
