# SPDX-License-Identifier: Apache-2.0
"""The test of my-npu: a small network through the compiler, the C runtime and the simulator of the
device, against its definition in NumPy; its instructions as text.

In:   my_npu.py beside this file; a network of two dense layers, made here.
Out:  nothing; `python -m pytest` says what differs.
Next: networks of your own.
"""

from __future__ import annotations

from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper

from loadstone.backend.plugins import described_accelerator, load_plugins
from loadstone.compiler import compile as compile_model
from loadstone.graph import reference as graph_reference
from loadstone.isa.codec import decode, encode
from loadstone.isa.text import assemble, disassemble

HERE = Path(__file__).resolve().parent
SIZES = (24, 16, 10)


def small_model(path: Path) -> Path:
    """int8 QDQ: (1, 24), two matrix products."""
    rng = np.random.default_rng(1)
    constants: dict[str, Any] = {
        "scale": np.float32(0.05),
        "zero": np.int8(3),
        "weight_scale": np.float32(0.01),
        "weight_zero": np.int8(0),
    }
    nodes = [helper.make_node("DequantizeLinear", ["x", "scale", "zero"], ["real0"])]
    for layer, shape in enumerate(pairwise(SIZES)):
        weights, y = f"weights{layer}", "y" if layer else "y0"
        constants[weights] = rng.integers(-127, 128, shape).astype(np.int8)
        real = [weights, "weight_scale", "weight_zero"]
        nodes += [
            helper.make_node("DequantizeLinear", real, [f"{weights}_real"]),
            helper.make_node("MatMul", [f"real{layer}", f"{weights}_real"], [f"sum{layer}"]),
            helper.make_node("QuantizeLinear", [f"sum{layer}", "scale", "zero"], [y]),
            helper.make_node("DequantizeLinear", [y, "scale", "zero"], [f"real{layer + 1}"]),
        ]
    inputs = [helper.make_tensor_value_info("x", TensorProto.INT8, (1, SIZES[0]))]
    outputs = [helper.make_tensor_value_info("y", TensorProto.INT8, (1, SIZES[-1]))]
    kept = [numpy_helper.from_array(np.asarray(value), name) for name, value in constants.items()]
    graph = helper.make_graph(nodes[:-1], "small", inputs, outputs, kept)
    opset = [helper.make_opsetid("", 17)]
    onnx.save(helper.make_model(graph, opset_imports=opset, ir_version=8), str(path))
    return path


def test_a_small_model_equals_its_definition(tmp_path: Path) -> None:
    """my-npu alone, before VTA, and with nothing that it takes."""
    plugins = load_plugins([HERE])
    assert not plugins.problems
    model = small_model(tmp_path / "small.onnx")
    # EDIT: the last is a device so small that `accepts` refuses a layer, and how many it then takes
    for target, taken in (
        ("my-npu", 2),
        ("my-npu,vtaq-1x16x16", 2),
        ("my-npu -buffer_bytes=16,vtaq-1x16x16", 1),
    ):
        compiled = compile_model(model, target, plugins=plugins)
        assert [row["where"] for row in compiled.explain()].count("my-npu") == taken
        x = np.random.default_rng(2).integers(-128, 128, (2, 1, SIZES[0])).astype(np.int8)
        (got,) = compiled.run(x)
        want = [graph_reference.run(compiled.graph, [sample])[0] for sample in x]
        np.testing.assert_array_equal(got, np.stack(want))


def test_instructions_as_text(tmp_path: Path) -> None:
    """A program to text, to instructions, to bytes."""
    plugins = load_plugins([HERE])
    accelerator = described_accelerator(plugins, "my-npu")
    assert accelerator is not None
    table, model = accelerator.table, small_model(tmp_path / "small.onnx")
    artifact = compile_model(model, "my-npu", plugins=plugins).artifact
    for step in artifact.programs:
        code = step.instructions
        text = disassemble(table, decode(table, code))
        assert len(text.splitlines()) == len(step)
        assert encode(table, assemble(table, text)) == code
