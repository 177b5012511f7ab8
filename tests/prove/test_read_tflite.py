# SPDX-License-Identifier: Apache-2.0
"""prove/read_tflite.py and tests/prove/definition.py against LiteRT's reference kernels: random
operators and networks, tables of all levels; and what is refused."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

pytest.importorskip("ai_edge_litert", reason="LiteRT is not installed")

from loadstone.prove.read_tflite import read_tflite
from tests.draw import Random
from tests.prove.comparison import differing
from tests.random_tflite import network as random_network
from tests.repeat import times
from tests.tflite_builder import Activation, Graph, run

Make = Callable[[Graph], Any]


@pytest.mark.parametrize("seed", range(times(30, 2000)))
def test_random_networks_are_litert_s(seed: int) -> None:
    drawn = random_network(seed)
    network = read_tflite(drawn.model, "random.tflite")
    inputs = [array[0] for array in drawn.draw_inputs(seed, 1)]
    assert differing(network, inputs, run(drawn.model, inputs)) == 0


@pytest.mark.parametrize("dtype", [np.int8, np.uint8])
@pytest.mark.parametrize("kind", ["ADD", "SUB", "MUL"])
@pytest.mark.parametrize("seed", range(6))
def test_operators_of_two_levels_are_litert_s_for_all_pairs(
    kind: str, dtype: type[np.integer[Any]], seed: int
) -> None:
    draw, graph = Random(seed), Graph()
    shift = 128 if dtype is np.uint8 else 0
    a = graph.input((256, 1), dtype, draw.scale(), draw.int(-128, 127) + shift)
    b = graph.input((1, 256), dtype, draw.scale(), draw.int(-128, 127) + shift)
    y = graph.tensor((256, 256), dtype, draw.scale(0.1, 8.0), draw.int(-128, 127) + shift)
    activation = draw.pick([Activation.NONE, Activation.RELU, Activation.RELU6])
    graph.operator(kind, [a, b], [y], fused_activation_function=activation)
    model, every = graph.save([y]), np.arange(256).astype(np.uint8).view(dtype)
    inputs = [every.reshape(256, 1), every.reshape(1, 256)]
    assert differing(read_tflite(model, "pairs"), inputs, run(model, inputs)) == 0


@pytest.mark.parametrize(
    "kind",
    ["RELU", "RELU6", "RELU_N1_TO_1", "LEAKY_RELU", "LOGISTIC", "TANH", "QUANTIZE"],
)
@pytest.mark.parametrize("seed", range(6))
def test_functions_of_a_level_are_litert_s_for_all_levels(kind: str, seed: int) -> None:
    draw, graph = Random(seed), Graph()
    x = graph.input((1, 256), np.int8, draw.scale(2**-6, 0.5), draw.int(-128, 127))
    scale, zero = draw.scale(2**-6, 0.5), draw.int(-128, 127)
    if kind in ("LOGISTIC", "TANH"):
        scale, zero = (1 / 256, -128) if kind == "LOGISTIC" else (1 / 128, 0)
    y = graph.tensor((1, 256), np.int8, scale, zero)
    options = {"alpha": draw.rng.uniform(0.01, 0.9)} if kind == "LEAKY_RELU" else {}
    graph.operator(kind, [x], [y], **options)
    model = graph.save([y])
    inputs = [np.arange(-128, 128).astype(np.int8).reshape(1, 256)]
    assert differing(read_tflite(model, kind), inputs, run(model, inputs)) == 0


@pytest.mark.parametrize("dtype", [np.int8, np.uint8])
def test_tables_have_an_element_for_each_level(dtype: type[np.integer[Any]]) -> None:
    graph = Graph()
    x, y, z = (tensor((1, 4), dtype, 0.1, 3) for tensor in (graph.input, graph.input, graph.tensor))
    out = graph.tensor((1, 4), dtype, 0.2, 3)
    graph.operator("SUB", [x, y], [z])
    graph.operator("RELU", [z], [out])
    network = read_tflite(graph.save([out]), "tables")
    shapes = [operator.attributes["table"].shape for operator in network.operators]  # type: ignore[attr-defined]
    assert shapes == [(256, 256), (256,)]


@pytest.mark.parametrize("dtype", [np.int8, np.uint8])
def test_quantize_of_real_numbers_is_litert_s(dtype: type[np.integer[Any]]) -> None:
    graph = Graph()
    x = graph.input((4000,), np.float32)
    y = graph.tensor((4000,), dtype, 0.05, 3)
    graph.operator("QUANTIZE", [x], [y])
    z = graph.tensor((4000,), dtype, 0.05, 3)
    graph.operator("RESHAPE", [y, graph.constant(np.array([4000], np.int32))], [z])
    real = graph.tensor((4000,), np.float32)
    graph.operator("DEQUANTIZE", [z], [real])
    model = graph.save([z, real])
    inputs = [np.linspace(-9, 9, 4000).astype(np.float32)]
    assert differing(read_tflite(model, "ends"), inputs, run(model, inputs)) == 0


@pytest.mark.parametrize("seed", range(8))
def test_products_of_two_activations_are_litert_s(seed: int) -> None:
    draw, graph = Random(seed), Graph()
    m, k, n = draw.int(1, 6), draw.int(1, 40), draw.int(1, 6)
    flips = bool(seed & 1), bool(seed & 2)
    shapes = ((2, k, m) if flips[0] else (2, m, k)), ((2, n, k) if flips[1] else (2, k, n))
    tensors = [graph.input(s, np.int8, draw.scale(), draw.int(-20, 20)) for s in shapes]
    y = graph.tensor((2, m, n), np.int8, draw.scale(0.5, 8.0), draw.int(-20, 20))
    graph.operator("BATCH_MATMUL", tensors, [y], adj_x=flips[0], adj_y=flips[1])
    model, inputs = graph.save([y]), [draw.int8(*shape) for shape in shapes]
    assert differing(read_tflite(model, "product"), inputs, run(model, inputs)) == 0


@pytest.mark.parametrize(
    ("left", "right"),
    [((3, 4), (4, 5)), ((2, 3, 4), (4, 5)), ((1, 3, 4), (2, 4, 5)), ((2, 1, 3, 4), (1, 3, 4, 5))],
)
def test_products_of_several_matrices_are_litert_s(
    left: tuple[int, ...], right: tuple[int, ...]
) -> None:
    graph, draw = Graph(), Random(5)
    tensors = [graph.input(shape, np.int8, 0.1, 3) for shape in (left, right)]
    batch = np.broadcast_shapes(left[:-2], right[:-2])
    y = graph.tensor((*batch, 3, 5), np.int8, 0.7, -4)
    graph.operator("BATCH_MATMUL", tensors, [y], adj_x=False, adj_y=False)
    model, inputs = graph.save([y]), [draw.int8(*left), draw.int8(*right)]
    assert differing(read_tflite(model, "product"), inputs, run(model, inputs)) == 0


@pytest.mark.parametrize("keeps", [False, True])
def test_rows_of_a_dense_layer_are_litert_s(keeps: bool) -> None:
    graph, draw = Graph(), Random(6)
    x = graph.input((2, 3, 4), np.int8, 0.1, 3)
    w = graph.constant(draw.int8(5, 4), 0.02)
    y = graph.tensor((2, 3, 5) if keeps else (6, 5), np.int8, 0.1, -4)
    graph.operator("FULLY_CONNECTED", [x, w], [y], keep_num_dims=keeps)
    model, inputs = graph.save([y]), [draw.int8(2, 3, 4)]
    assert differing(read_tflite(model, "dense"), inputs, run(model, inputs)) == 0


@pytest.mark.parametrize("seed", range(8))
def test_strided_slices_and_paddings_are_litert_s(seed: int) -> None:
    draw, graph = Random(seed), Graph()
    shape = tuple(draw.int(3, 9) for _ in range(3))
    x = graph.input(shape, np.int8, 0.1, 4)
    begin, end, strides, kept, mask = [], [], [], [], 0
    for axis, n in enumerate(shape):
        low, step = draw.int(0, n - 1), draw.pick([1, 2, -1])
        high = draw.int(low + 1, n) if step > 0 else -n - 1
        if draw.chance(4):
            mask, step, high = mask | 1 << axis, 1, low + 1
        else:
            kept.append(len(range(*slice(low, high, step).indices(n))))
        begin, end, strides = [*begin, low], [*end, high], [*strides, step]
    positions = [graph.constant(np.array(some, np.int32)) for some in (begin, end, strides)]
    y = graph.tensor(kept, np.int8, 0.1, 4)
    graph.operator("STRIDED_SLICE", [x, *positions], [y], shrink_axis_mask=mask)
    around = [[draw.int(0, 2), draw.int(0, 2)] for _ in kept]
    z = graph.tensor([n + sum(a) for n, a in zip(kept, around, strict=True)], np.int8, 0.1, 4)
    fill = graph.constant(np.array([9], np.int8), 0.1, 4)
    graph.operator(
        "PADV2", [y, graph.constant(np.array(around, np.int32).reshape(-1, 2)), fill], [z]
    )
    model, inputs = graph.save([z]), [draw.int8(*shape)]
    assert differing(read_tflite(model, "slices"), inputs, run(model, inputs)) == 0


@pytest.mark.parametrize("flags", [(False, False), (True, False), (False, True)])
@pytest.mark.parametrize("dtype", [np.int8, np.uint8])
@pytest.mark.parametrize("kind", ["RESIZE_BILINEAR", "RESIZE_NEAREST_NEIGHBOR"])
def test_resizes_are_litert_s(
    kind: str, dtype: type[np.integer[Any]], flags: tuple[bool, bool]
) -> None:
    """To one row, to as many, to fewer, to more, and between elements at a half."""
    graph, sizes, made = Graph(), [1, 2, 3, 4, 5, 7, 8, 9, 16, 17, 33], []
    said = {"align_corners": flags[0], "half_pixel_centers": flags[1]}
    shapes = [(1, 1, 1, 2), (2, 3, 5, 3), (1, 5, 4, 1), (1, 9, 8, 2), (1, 17, 2, 2)]
    inputs = [graph.input(shape, dtype, 0.1, 3) for shape in shapes]
    for k, rows in enumerate(sizes):
        columns = sizes[(5 * k + 3) % len(sizes)]
        for x, shape in zip(inputs, shapes, strict=True):
            y = graph.tensor((shape[0], rows, columns, shape[3]), dtype, 0.1, 3)
            graph.operator(kind, [x, graph.constant(np.array([rows, columns], np.int32))], [y],
                           **said)  # fmt: skip
            made.append(y)
    model, rng = graph.save(made), np.random.default_rng(3)
    limits = np.iinfo(dtype)
    drawn = [rng.integers(limits.min, limits.max, s, dtype, endpoint=True) for s in shapes]
    assert differing(read_tflite(model, "resizes"), drawn, run(model, drawn)) == 0


@pytest.mark.parametrize("dtype", [np.int8, np.uint8])
def test_concatenations_are_litert_s(dtype: type[np.integer[Any]]) -> None:
    """Along each axis, for all levels; those of uint8 of other scales and zero points."""
    graph, every = Graph(), np.arange(256).astype(np.uint8).view(dtype)
    middle = 128 if dtype is np.uint8 else 0
    grids = [(0.1, 3), (0.1, 3)] if dtype is np.int8 else [(0.1, 3), (0.13, 131), (0.04, 9)]
    parts = [graph.input((1, 256, 1), dtype, *grid) for grid in grids]
    made = []
    for axis in (0, 1, 2, -1, -3):
        shape = [1, 256, 1]
        shape[axis] *= len(parts)
        for scale, zero in ((0.1, 3), (0.07, middle + 3)) if middle else ((0.1, 3),):
            made.append(graph.tensor(shape, dtype, scale, zero))
            graph.operator("CONCATENATION", parts, made[-1:], axis=axis)
    model, inputs = graph.save(made), [every.reshape(1, 256, 1)] * len(parts)
    assert differing(read_tflite(model, "joined"), inputs, run(model, inputs)) == 0


@pytest.mark.parametrize("dtype", [np.int8, np.uint8])
def test_means_are_litert_s(dtype: type[np.integer[Any]]) -> None:
    """Of one element to thousands, of scales far from each other."""
    graph, made, inputs, rng = Graph(), [], [], np.random.default_rng(5)
    limits = np.iinfo(dtype)
    for count in (1, 2, 3, 7, 49, 256, 1000, 5000):
        for scale in (0.001, 0.09, 0.1, 0.11, 3.0, 70.0):
            x = graph.input((4, count), dtype, 0.1, 3)
            made.append(graph.tensor((4, 1), dtype, scale, 5))
            axes = graph.constant(np.array([1], np.int32))
            graph.operator("MEAN", [x, axes], made[-1:], keep_dims=True)
            drawn = rng.integers(limits.min, limits.max, (4, count), dtype, endpoint=True)
            drawn[0] = limits.max
            inputs.append(drawn)
    model = graph.save(made)
    assert differing(read_tflite(model, "means"), inputs, run(model, inputs)) == 0


@pytest.mark.parametrize("axis", [0, 1, -1, -2])
def test_arg_max_is_litert_s(axis: int) -> None:
    graph = Graph()
    x = graph.input((5, 7), np.uint8, 0.1, 4)
    y = graph.tensor(((7,), (5,))[axis], np.int64)
    graph.operator("ARG_MAX", [x, graph.constant(np.array(axis, np.int32))], [y], output_type=4)
    model, inputs = graph.save([y]), [np.random.default_rng(1).integers(0, 9, (5, 7), np.uint8)]
    assert differing(read_tflite(model, "arg"), inputs, run(model, inputs)) == 0
