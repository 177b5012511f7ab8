# SPDX-License-Identifier: Apache-2.0
"""Folding changes the form of a float network, not its values."""

from __future__ import annotations

import numpy as np
import pytest

from loadstone.errors import ModelError
from loadstone.frontend import import_model, onnx
from loadstone.frontend.rewrites import canonical
from loadstone.passes.log import script
from loadstone.quantization.fold import fold
from loadstone.relax.compat import bindings, dtype, is_constant, op_name, value
from loadstone.relax.saved import run_module
from tests.float_models import SHAPE, images, module, small_onnx
from tests.onnx_builder import Graph, run
from tests.relax_text import before, compare_text


def kinds(folded: object) -> list[str]:
    return [op_name(value) for _, value in bindings(folded["main"])]  # type: ignore[index]


def folded_of(graph: Graph, output: str, shape: tuple[int, ...]) -> tuple[object, bytes]:
    model = graph.save([(output, np.float32)], [shape])
    return fold(canonical(onnx.from_bytes(model, "made by a test"))), model


def test_the_small_network_keeps_its_values_and_loses_its_batch_normalization() -> None:
    folded = fold(module())
    assert not {"nn.batch_norm", "TupleGetItem"} & set(kinds(folded))
    for image in images(4):
        wanted = run(small_onnx(), [image])[0]
        np.testing.assert_allclose(run_module(folded, [image])[0], wanted, rtol=1e-4, atol=1e-5)


def test_scales_and_shifts_of_channels_join_the_convolution() -> None:
    rng = np.random.default_rng(0)
    graph = Graph()
    conv = graph.node(
        "Conv",
        graph.input(SHAPE, np.float32),
        graph.constant(rng.normal(size=(4, 3, 3, 3)), np.float32),
        kernel_shape=[3, 3],
    )
    scaled = graph.node("Mul", conv, graph.constant(rng.normal(size=(4, 1, 1)), np.float32))
    shifted = graph.node("Sub", scaled, graph.constant(rng.normal(size=(1, 4, 1, 1)), np.float32))
    folded, model = folded_of(
        graph, graph.node("Div", shifted, graph.constant(1.7, np.float32)), (1, 4, 10, 10)
    )
    assert [
        kind
        for kind in kinds(folded)
        if kind in ("nn.conv2d", "add", "multiply", "subtract", "divide")
    ] == ["nn.conv2d", "add"]
    for image in images(2):
        np.testing.assert_allclose(
            run_module(folded, [image])[0], run(model, [image])[0], rtol=1e-4, atol=1e-5
        )


def test_a_result_that_two_read_is_not_scaled_for_one() -> None:
    graph = Graph()
    weights = graph.constant(np.random.default_rng(1).normal(size=(4, 3, 1, 1)), np.float32)
    conv = graph.node("Conv", graph.input(SHAPE, np.float32), weights, kernel_shape=[1, 1])
    doubled = graph.node("Mul", conv, graph.constant(2.0, np.float32))
    folded, model = folded_of(graph, graph.node("Add", conv, doubled), (1, 4, 12, 12))
    assert "multiply" in kinds(folded)
    image = images(1)[0]
    np.testing.assert_allclose(
        run_module(folded, [image])[0], run(model, [image])[0], rtol=1e-4, atol=1e-5
    )


def test_a_batch_normalization_without_a_convolution_becomes_one() -> None:
    rng = np.random.default_rng(2)
    graph = Graph()
    terms = [graph.constant(rng.uniform(0.5, 2, 3), np.float32) for _ in range(4)]
    folded, model = folded_of(
        graph, graph.node("BatchNormalization", graph.input(SHAPE, np.float32), *terms), SHAPE
    )
    assert "nn.conv2d" in kinds(folded)
    image = images(1)[0]
    np.testing.assert_allclose(
        run_module(folded, [image])[0], run(model, [image])[0], rtol=1e-4, atol=1e-5
    )


def test_a_pad_joins_the_convolution() -> None:
    graph = Graph()
    pooled = graph.node("MaxPool", graph.input(SHAPE, np.float32), kernel_shape=[1, 1])
    padded = graph.node("Pad", pooled, graph.constant([0, 0, 1, 2, 0, 0, 0, 1], np.int64))
    weights = graph.constant(np.random.default_rng(3).normal(size=(4, 3, 3, 3)), np.float32)
    folded, model = folded_of(
        graph,
        graph.node("Conv", padded, weights, kernel_shape=[3, 3], strides=[2, 2]),
        (1, 4, 6, 7),
    )
    assert "nn.pad" not in kinds(folded)
    image = images(1)[0]
    np.testing.assert_allclose(
        run_module(folded, [image])[0], run(model, [image])[0], rtol=1e-4, atol=1e-5
    )


def test_half_precision_is_computed_in_single(shared) -> None:
    folded = fold(canonical(import_model(shared / "models" / "winml_squeezenet_fp16.onnx")))
    main = folded["main"]
    assert dtype(main.params[0]) == "float16"
    assert all(
        dtype(variable) == "float32"
        for variable, value in bindings(main)
        if op_name(value) == "nn.conv2d"
    )
    golden = np.load(shared / "models" / "golden" / "winml_squeezenet_fp16.onnx.npz")
    found = run_module(folded, [golden["in0"][0]])[0]
    assert found.dtype == np.float16
    np.testing.assert_allclose(
        found.astype(np.float32), golden["out0"][0].astype(np.float32), atol=2e-3
    )


def test_weights_that_are_not_numbers_are_refused() -> None:
    graph = Graph()
    weights = np.ones((4, 3, 1, 1), np.float32)
    weights[1, 2] = np.nan
    conv = graph.node(
        "Conv", graph.input(SHAPE, np.float32), graph.constant(weights), kernel_shape=[1, 1]
    )
    model = graph.save([(conv, np.float32)], [(1, 4, 12, 12)])
    with pytest.raises(ModelError, match="not finite") as caught:
        fold(canonical(onnx.from_bytes(model, "made by a test")))
    assert "\n" not in str(caught.value)


def test_places_that_a_softmax_does_not_see_are_the_smallest_number() -> None:
    """A causal mask as torch.onnx.export's legacy form writes it; elsewhere there is no such
    constant to quantize."""
    mask = np.triu(np.full((6, 6), -np.inf, np.float32), 1)
    for masked in (True, False):
        graph = Graph()
        x = graph.input((1, 6, 6), np.float32)
        y = graph.node("Add", x, graph.constant(mask))
        y = graph.node("Softmax", y, axis=-1) if masked else graph.node("Relu", y)
        model = graph.save([(y, np.float32)], [(1, 6, 6)])
        module = canonical(onnx.from_bytes(model, "made by a test"))
        if not masked:
            with pytest.raises(ModelError, match="not finite"):
                fold(module)
            continue
        image = np.random.default_rng(0).normal(0, 3, (1, 6, 6)).astype(np.float32)
        found, wanted = run_module(fold(module), [image])[0], run(model, [image])[0]
        np.testing.assert_array_equal(found == 0, wanted == 0)
        np.testing.assert_allclose(found, wanted, rtol=1e-5)


def test_text_in_text_out(update_golden: bool) -> None:
    """The text does not show the constants: 3 * 2 and 1."""
    folded = fold(before("fold"))
    compare_text("fold", script(folded), update_golden)
    arguments = [arg for _, call in bindings(folded["main"]) for arg in getattr(call, "args", ())]
    assert [value(arg).item() for arg in arguments if is_constant(arg)] == [6, 1]
