# SPDX-License-Identifier: Apache-2.0
"""The test of my-npu: a small network through the compiler, the C runtime and the back end, against
its definition in NumPy.

In:   my_npu.py beside this file; a network of two convolutions, made here.
Out:  nothing; `python -m pytest` says what differs.
Next: networks of your own.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper

from loadstone.backend.plugins import load_plugins
from loadstone.compiler import compile as compile_model
from loadstone.graph import reference as graph_reference

HERE = Path(__file__).resolve().parent
CHANNELS = (3, 8, 5)


def small_model(path: Path) -> Path:
    """int8 QDQ: (1, 3, 9, 9), a convolution 3x3 with padding, one 1x1."""
    rng = np.random.default_rng(1)
    constants: dict[str, Any] = {
        "scale": np.float32(0.05),
        "zero": np.int8(3),
        "weight_scale": np.float32(0.01),
        "weight_zero": np.int8(0),
    }
    nodes = [helper.make_node("DequantizeLinear", ["image", "scale", "zero"], ["real0"])]
    for layer, kernel in enumerate((3, 1)):
        weights, y = f"weights{layer}", "y" if layer else "y0"
        constants[weights] = rng.integers(
            -127, 128, (CHANNELS[layer + 1], CHANNELS[layer], kernel, kernel)
        ).astype(np.int8)
        nodes += [
            helper.make_node(
                "DequantizeLinear", [weights, "weight_scale", "weight_zero"], [f"{weights}_real"]
            ),
            helper.make_node(
                "Conv", [f"real{layer}", f"{weights}_real"], [f"sum{layer}"], pads=[kernel // 2] * 4
            ),
            helper.make_node("QuantizeLinear", [f"sum{layer}", "scale", "zero"], [y]),
            helper.make_node("DequantizeLinear", [y, "scale", "zero"], [f"real{layer + 1}"]),
        ]
    inputs = [helper.make_tensor_value_info("image", TensorProto.INT8, (1, CHANNELS[0], 9, 9))]
    outputs = [helper.make_tensor_value_info("y", TensorProto.INT8, (1, CHANNELS[2], 9, 9))]
    initializers = [
        numpy_helper.from_array(np.asarray(value), name) for name, value in constants.items()
    ]
    graph = helper.make_graph(nodes[:-1], "small", inputs, outputs, initializers)
    onnx.save(
        helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8),
        str(path),
    )
    return path


def test_a_small_model_equals_its_definition(tmp_path: Path) -> None:
    """my-npu alone, before VTA, and with nothing that it takes."""
    plugins = load_plugins([HERE])
    assert not plugins.problems
    model = small_model(tmp_path / "small.onnx")
    for target, taken in (
        ("my-npu", 2),
        ("my-npu,vtaq-1x16x16", 2),
        ("my-npu -max_channels=1,vtaq-1x16x16", 0),
    ):
        compiled = compile_model(model, target, plugins=plugins)
        assert [row["where"] for row in compiled.explain()].count("my-npu") == taken
        image = (
            np.random.default_rng(2)
            .integers(-128, 128, (2, *compiled.graph.inputs[0].shape))
            .astype(np.int8)
        )
        (got,) = compiled.run(image)
        want = [graph_reference.run(compiled.graph, [sample])[0] for sample in image]
        np.testing.assert_array_equal(got, np.stack(want))
