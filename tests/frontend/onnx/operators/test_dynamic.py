# SPDX-License-Identifier: Apache-2.0
"""frontend/onnx/operators/dynamic.py: scales, integers and sums are ONNX Runtime's, bit by bit."""

from __future__ import annotations

import functools
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

pytest.importorskip("tvm", reason="TVM is not installed (the extra `compiler`)")
pytest.importorskip("onnxruntime", reason="ONNX Runtime is not installed")
pytest.importorskip("onnx", reason="onnx is not installed")

import onnx

from loadstone.compiler import Compiled, compile
from loadstone.frontend.onnx import from_bytes
from loadstone.relax.compat import bindings, dtype, is_call
from tests.frontend.onnx.operators.single import check_model
from tests.onnx_builder import Graph, run, session
from tests.repeat import more, times

DRAW = np.random.default_rng(11)
SHAPE = (7, 33)


def quantizer(shape: tuple[int, ...]) -> bytes:
    graph = Graph()
    y = graph.node("DynamicQuantizeLinear", graph.input(shape, np.float32))
    graph.nodes[-1].output.extend(["scale", "zero_point"])
    kinds = [(y, np.uint8), ("scale", np.float32), ("zero_point", np.uint8)]
    return graph.save(kinds, [shape, (), ()])


@functools.cache
def compiled_quantizer() -> Compiled:
    return compile(onnx.load_model_from_string(quantizer(SHAPE)), "vta-pynq")


def same_bits(samples: NDArray[np.float32]) -> None:
    """The C of the artifact, and ONNX Runtime, sample by sample."""
    opened, made = session(quantizer(SHAPE)), compiled_quantizer().run(samples)
    for k, sample in enumerate(samples):
        for got, want in zip(made, opened.run(None, {"in0": sample}), strict=True):
            assert got.dtype == want.dtype
            assert got[k].tobytes() == want.tobytes()


def test_scale_zero_point_and_integers_are_onnx_runtime_s_bits() -> None:
    """In ranges on one side of 0 and on both, and of all magnitudes."""
    samples = []
    for _ in range(times(30, 3000)):
        size = 10 ** DRAW.uniform(-6, 6)
        x = DRAW.normal(DRAW.uniform(-3, 3) * size, size, SHAPE).astype(np.float32)
        samples += [x, np.abs(x), -np.abs(x)]
    same_bits(np.stack(samples))


def test_a_tensor_of_zeros_has_the_scale_1() -> None:
    x = np.zeros((1, *SHAPE), np.float32)
    same_bits(x)
    levels, scale, zero_point = compiled_quantizer().run(x)
    assert (scale.item(), zero_point.item(), levels.max()) == (1.0, 0, 0)


@pytest.mark.parametrize("number", [np.nan, np.inf, -np.inf])
def test_what_is_no_number_shows_in_the_scale(number: float) -> None:
    x = np.ones((1, *SHAPE), np.float32)
    x[0, 1, 2] = number
    _, scale, _ = compiled_quantizer().run(x, allow_nan=True)
    assert not np.isfinite(scale)


def integers(shape: tuple[int, ...], kind: type) -> NDArray[Any]:
    limits = np.iinfo(kind)
    return DRAW.integers(limits.min, limits.max + 1, shape).astype(kind)


def check(
    kind: str,
    inputs: list[NDArray[Any]],
    *constants: NDArray[Any],
    shape: tuple[int, ...],
    **attributes: Any,
) -> None:
    """One node that gives int32."""
    graph = Graph()
    names = [graph.input(x.shape, x.dtype) for x in inputs]
    names += [graph.constant(c) for c in constants]
    y = graph.node(kind, *names, **attributes)
    check_model(graph.save([(y, np.int32)], [shape]), inputs)


@pytest.mark.parametrize(
    ("first", "second", "shape"),
    [
        (np.uint8, np.int8, (2, 3, 20)),
        (np.uint8, np.uint8, (3, 20)),
        pytest.param(np.uint8, np.uint8, (2, 3, 20), marks=more),
        pytest.param(np.int8, np.int8, (3, 20), marks=more),
    ],
)
def test_a_product_of_integers(first: type, second: type, shape: tuple[int, ...]) -> None:
    """Without zero points, with one of each, and with one for each column."""
    x, weights = integers(shape, first), integers((20, 7), second)
    graph = Graph()
    names = [graph.input(x.shape, first), graph.constant(weights)]
    points = [graph.constant(integers((), first)), graph.constant(integers((), second))]
    columns = graph.constant(integers((7,), second))
    sums = [
        graph.node("MatMulInteger", *names),
        graph.node("MatMulInteger", *names, *points),
        graph.node("MatMulInteger", *names, points[0], columns),
    ]
    check_model(graph.save([(y, np.int32) for y in sums], [(*shape[:-1], 7)] * 3), [x])


def test_a_product_of_two_tensors_that_are_computed() -> None:
    x, y = integers((2, 3, 6), np.uint8), integers((2, 6, 5), np.int8)
    graph = Graph()
    names = [graph.input(x.shape, x.dtype), graph.input(y.shape, y.dtype)]
    names += [graph.constant(np.array(130, np.uint8)), graph.constant(np.array(3, np.int8))]
    product = graph.node("MatMulInteger", *names)
    check_model(graph.save([(product, np.int32)], [(2, 3, 5)]), [x, y])


@pytest.mark.parametrize(
    ("pads", "group"),
    [([1, 2, 1, 0], 1), ([0, 0, 0, 0], 4), pytest.param([1, 2, 1, 0], 4, marks=more)],
)
def test_a_convolution_of_integers_pads_with_its_zero_point(pads: list[int], group: int) -> None:
    x, weights = integers((1, 4, 6, 7), np.uint8), integers((8, 4 // group, 3, 3), np.int8)
    shape = (1, 8, 4 + pads[0] + pads[2], 5 + pads[1] + pads[3])
    said: dict[str, Any] = {"shape": shape, "pads": pads, "group": group}
    check("ConvInteger", [x], weights, np.array(140, np.uint8), np.array(0, np.int8), **said)
    check("ConvInteger", [x], weights, **said)


def test_a_convolution_whose_weights_are_not_centred_is_as_onnx_says_it() -> None:
    x, weights = integers((1, 2, 6, 6), np.uint8), integers((3, 2, 3, 3), np.uint8)
    points = np.array(7, np.uint8), np.array(90, np.uint8)
    check("ConvInteger", [x], weights, *points, shape=(1, 3, 6, 6), pads=[1, 1, 1, 1])


def shared_input() -> bytes:
    graph = Graph()
    x = graph.input((1, 4, 16), np.float32)
    levels = graph.node("DynamicQuantizeLinear", x)
    graph.nodes[-1].output.extend(["scale", "zero_point"])
    weights = [graph.constant(integers((16, 16), np.int8)) for _ in range(3)]
    sums = [graph.node("MatMulInteger", levels, w, "zero_point") for w in weights]
    return graph.save([(name, np.int32) for name in sums], [(1, 4, 16)] * 3)


def test_products_of_one_input_share_its_int8() -> None:
    """The scale is found once for each distinct input, and the integers are."""
    calls = [call for _, call in bindings(from_bytes(shared_input(), "m.onnx")["main"])]
    products = [call for call in calls if is_call(call, "matmul")]
    assert len(products) == 3
    assert len({call.args[0] for call in products}) == 1
    assert {dtype(call.args[0]) for call in products} == {"int8"}


@pytest.mark.parametrize("device", ["vta-pynq", "vtaq-1x16x16"])
def test_such_products_run_on_every_vta(device: str) -> None:
    model = shared_input()
    compiled = compile(onnx.load_model_from_string(model), device)
    x = DRAW.normal(size=(1, 4, 16)).astype(np.float32)
    for got, want in zip(compiled.run(x[None]), run(model, [x]), strict=True):
        np.testing.assert_array_equal(got[0], want)
    kinds = [o.kind for o in compiled.partition.graph.operators]
    assert kinds.count("plane_dense") == 3
