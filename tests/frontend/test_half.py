# SPDX-License-Identifier: Apache-2.0
"""frontend/half.py: float16 at the edges alone, and what it computes in C."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import onnx

from loadstone.compiler import compile
from loadstone.frontend import load
from loadstone.frontend.half import in_single
from loadstone.relax.compat import bindings, dtype, op_name, result
from tests.onnx_builder import Graph, run
from tests.relax_text import compare_rewritten

SHAPE = (1, 3, 8, 8)


def model() -> bytes:
    """Halves computed with, a half made of a float on the way, and one given out."""
    graph, random = Graph(), np.random.default_rng(1)
    x = graph.input(SHAPE, np.float16)
    weights = graph.constant(random.normal(0, 0.3, (4, 3, 3, 3)), np.float16)
    deep = graph.node("Relu", graph.node("Conv", x, weights, kernel_shape=[3, 3]))
    wide = graph.node("Exp", graph.node("Cast", deep, to=onnx.TensorProto.FLOAT))
    y = graph.node("Add", graph.node("Cast", wide, to=onnx.TensorProto.FLOAT16), deep)
    return graph.save([(y, np.float16)], [(1, 4, 6, 6)])


def test_only_the_edges_are_halves_and_c_computes_what_onnx_runtime_does(tmp_path: Path) -> None:
    (tmp_path / "m.onnx").write_bytes(model())
    main = load(tmp_path / "m.onnx")["main"]
    halves = [op_name(call) for variable, call in bindings(main) if dtype(variable) == "float16"]
    assert not {"nn.conv2d", "nn.relu", "exp", "add"} & set(halves)
    assert "astype" in halves
    assert [dtype(v) for v in (*main.params, *result(main))] == ["float16", "float16"]
    compiled = compile(tmp_path / "m.onnx", "vtaq-tiny", as_float=True)
    assert not compiled.python_steps
    x = np.random.default_rng(2).normal(0, 1, (2, *SHAPE)).astype(np.float16)
    (got,) = compiled.run(x)
    want = np.stack([run(model(), [image])[0] for image in x]).astype(np.float32)
    np.testing.assert_allclose(got.reshape(want.shape).astype(np.float32), want, rtol=4e-3)


def test_a_network_without_halves_is_left_alone(tmp_path: Path) -> None:
    from tests.float_models import module

    main = module()["main"]
    assert in_single(main) is main


def test_text_in_text_out(update_golden: bool) -> None:
    compare_rewritten("single", in_single, update_golden)
