# SPDX-License-Identifier: Apache-2.0
"""A small network compiled with back ends that a test defines."""

from __future__ import annotations

from pathlib import Path

import numpy as np

from loadstone.backend.interface import Backend
from loadstone.backend.plugins import Registry
from loadstone.backend.template.test_backend import small_model
from loadstone.compiler import Compiled, compile
from loadstone.graph import reference as graph_reference


def compiled(path: Path, target: str, *backends: type[Backend]) -> Compiled:
    known = Registry()
    known.add("this test", lambda: backends)
    assert known.problems == []
    return compile(small_model(path / "small.onnx"), target, plugins=known)


def right(made: Compiled) -> bool:
    image = (
        np.random.default_rng(2)
        .integers(-128, 128, (1, *made.graph.inputs[0].shape))
        .astype(np.int8)
    )
    return bool(
        np.array_equal(made.run(image)[0][0], graph_reference.run(made.graph, [image[0]])[0])
    )
