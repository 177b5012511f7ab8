# SPDX-License-Identifier: Apache-2.0
"""frontend/tflite_kernels.py: operators whose 8-bit kernel is a rule of its own equal LiteRT on
random networks of one operator; what is float in the file stays float."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from math import prod
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

pytest.importorskip("tvm", reason="TVM is not installed (the extra `compiler`)")
pytest.importorskip("ai_edge_litert", reason="LiteRT is not installed")

from loadstone import graph as g
from loadstone.compiler import compile
from loadstone.errors import UnsupportedError
from loadstone.frontend.tflite import from_bytes
from loadstone.vta.device.hw_config import load_config
from tests.draw import Random
from tests.imported import check_same, tflite_graph
from tests.races import check_races
from tests.repeat import times
from tests.tflite_builder import Activation, Graph, Padding, Tensor, run

SEEDS = times(6, 60)
BOTH = pytest.mark.parametrize("unsigned", [False, True], ids=["int8", "uint8"])
#: A model, its inputs, and the kind of graph/ that it must become.
Made = tuple[Graph, Tensor, str]


class _Drawn:
    """Draws tensors of one type, and values for them."""

    def __init__(self, seed: int, *, unsigned: bool) -> None:
        self.draw, self.graph = Random(seed), Graph()
        self.rng, self.unsigned = self.draw.rng, unsigned
        self.dtype = np.dtype(np.uint8 if unsigned else np.int8)

    def real(self, low: float, high: float) -> float:
        """A float32 whose logarithm is drawn evenly."""
        return float(np.float32(10 ** self.rng.uniform(low, high)))

    def shape(self, rank: int, largest: int = 5) -> tuple[int, ...]:
        return tuple(int(n) for n in self.rng.integers(1, largest + 1, rank))

    def tensor(
        self, shape: Sequence[int], scale: float, zero_point: int | None = None
    ) -> dict[str, Any]:
        zero_point = int(self.rng.integers(-128, 128)) if zero_point is None else zero_point
        return {
            "shape": tuple(shape),
            "dtype": self.dtype,
            "scale": np.float32(scale),
            "zero_point": zero_point + 128 * self.unsigned,
        }

    def values(self, shape: Sequence[int]) -> NDArray[Any]:
        limits = np.iinfo(self.dtype)
        return self.rng.integers(limits.min, limits.max, shape, self.dtype, endpoint=True)

    def indices(self, *values: Any) -> list[Tensor]:
        return [self.graph.constant(np.asarray(value, np.int32)) for value in values]


def one_input(kind: str, wanted: str, **says: Any) -> Callable[[_Drawn], Made]:
    """A function of one element, or of rows."""

    def build(d: _Drawn) -> Made:
        scale = d.real(-3, 0)
        x = d.graph.input(**d.tensor((1, 2, 16, 16), scale, says.get("zero_point")))
        grid = says.get("output") or (scale * d.real(-1, 1), None)
        y = d.graph.tensor(**d.tensor(x.shape, *grid))
        d.graph.operator(kind, [x], [y])
        return d.graph, y, wanted

    return build


def two_inputs(
    kind: str, spread: Callable[[float, float], float], wanted: str
) -> Callable[[_Drawn], Made]:
    """Two activations, an activation and a constant; equal shapes or a value per channel."""

    def build(d: _Drawn) -> Made:
        shape, scales = (1, *d.shape(3, 8)), (d.real(-3, 0), d.real(-3, 0))
        x = d.graph.input(**d.tensor(shape, scales[0]))
        other = d.tensor(shape if d.draw.chance(2) else (1, 1, 1, shape[3]), scales[1])
        if d.draw.chance(2):
            values = d.values(other["shape"])
            values[values == other["zero_point"]] ^= 1  # LiteRT divides by no 0
            b = d.graph.constant(values, other["scale"], other["zero_point"])
        else:
            b = d.graph.input(**other)
        y = d.graph.tensor(**d.tensor(shape, spread(*scales) * d.real(-0.5, 1)))
        d.graph.operator(kind, [x, b], [y])
        return d.graph, y, wanted

    return build


def reduction(kind: str, wanted: str) -> Callable[[_Drawn], Made]:
    def build(d: _Drawn) -> Made:
        shape, keep = (1, *d.shape(3)), d.draw.chance(2)
        axes = tuple(sorted({int(axis) for axis in d.rng.integers(0, 4, 2)}))
        scale, count = d.real(-2.5, 0), prod(shape[axis] for axis in axes)
        spread = scale * count if kind == "SUM" else (scale * 60) ** count / 100
        x = d.graph.input(**d.tensor(shape, scale))
        left = tuple(1 if a in axes else n for a, n in enumerate(shape) if keep or a not in axes)
        y = d.graph.tensor(**d.tensor(left, spread * d.real(-1, 1)))
        d.graph.operator(kind, [x, *d.indices(axes)], [y], keep_dims=keep)
        return d.graph, y, wanted

    return build


def batch_matmul(d: _Drawn) -> Made:
    rows, depth, columns = d.shape(3, 9)
    leading = d.draw.pick([(), (2,), (1, 3), (2, 2)])
    turned = [d.draw.chance(2), d.draw.chance(2)]
    scales = d.real(-3, 0), d.real(-3, 0)
    a, b = (
        d.tensor((*leading, *(reversed(size) if t else size)), scale)
        for size, t, scale in zip(((rows, depth), (depth, columns)), turned, scales, strict=True)
    )
    x = d.graph.input(**a)
    if d.draw.chance(2):
        w = d.graph.constant(d.values(b["shape"]), b["scale"], b["zero_point"])
    else:
        w = d.graph.input(**b)
    y = d.graph.tensor(**d.tensor((*leading, rows, columns), prod(scales) * 75 * depth**0.5))
    d.graph.operator("BATCH_MATMUL", [x, w], [y], adj_x=turned[0], adj_y=turned[1])
    return d.graph, y, "batch_matmul"


def transpose_conv(d: _Drawn) -> Made:
    (height, width, channels, out), kernel = d.shape(4, 6), d.shape(2)
    strides, same, scale = d.shape(2, 3), d.draw.chance(2), d.real(-3, 0)
    size = (
        (height * strides[0], width * strides[1])
        if same
        else tuple(
            (n - 1) * s + k for n, s, k in zip((height, width), strides, kernel, strict=True)
        )
    )
    scales = np.float32([d.real(-3, 0) for _ in range(1 if d.unsigned else out)])
    data = d.values((out, *kernel, channels))
    zeros = int(d.rng.integers(0, 256)) if d.unsigned else 0
    weights = d.graph.constant(
        data if d.unsigned else np.maximum(data, -127), scales, zeros, axis=0
    )
    x = d.graph.input(**d.tensor((1, height, width, channels), scale))
    spread = scale * float(np.median(scales)) * 100 * prod((*kernel, channels)) ** 0.5
    y = d.graph.tensor(**d.tensor((1, *size, out), spread))
    operands = [*d.indices(y.shape), weights, x]
    if d.draw.chance(2):
        bias = d.rng.integers(-2000, 2000, out).astype(np.int32)
        operands.append(d.graph.constant(bias, np.float32(scale) * scales, 0))
    d.graph.operator(
        "TRANSPOSE_CONV",
        operands,
        [y],
        padding=Padding.SAME if same else Padding.VALID,
        stride_h=strides[0],
        stride_w=strides[1],
    )
    return d.graph, y, "conv2d"


def space_to_batch(d: _Drawn) -> Made:
    blocks, count = d.shape(2, 3), d.draw.int(1, 2)
    blocks, pads, inner = blocks[:count], [], []
    for block in blocks:
        before, after = d.draw.int(0, 2), d.draw.int(0, 2)
        inner.append(block * d.draw.int(1, 3))
        pads.append((before, after + -(before + after) % block))
    outer = [(n + sum(p)) // b for n, p, b in zip(inner, pads, blocks, strict=True)]
    grid = d.tensor((1, *inner, 3), d.real(-3, 0))
    x = d.graph.input(**grid)
    y = d.graph.tensor(**{**grid, "shape": (prod(blocks), *outer, 3)})
    d.graph.operator("SPACE_TO_BATCH_ND", [x, *d.indices(blocks, pads)], [y])
    return d.graph, y, "pad"


def batch_to_space(d: _Drawn) -> Made:
    blocks, count = d.shape(2, 3), d.draw.int(1, 2)
    blocks, inner = blocks[:count], [d.draw.int(2, 4) for _ in range(count)]
    crops = [(d.draw.int(0, b - 1), d.draw.int(0, b - 1)) for b in blocks]
    outer = [n * b - sum(c) for n, b, c in zip(inner, blocks, crops, strict=True)]
    grid = d.tensor((prod(blocks), *inner, 3), d.real(-3, 0))
    x = d.graph.input(**grid)
    y = d.graph.tensor(**{**grid, "shape": (1, *outer, 3)})
    d.graph.operator("BATCH_TO_SPACE_ND", [x, *d.indices(blocks, crops)], [y])
    return d.graph, y, "slice"


STEPS = (1 / 128, 0)
INT8: dict[str, Callable[[_Drawn], Made]] = {
    "ABS": one_input("ABS", "lookup"),
    "SQRT": one_input("SQRT", "lookup", zero_point=-128),
    "RSQRT": one_input("RSQRT", "lookup", zero_point=-128),
    "SQUARED_DIFFERENCE": two_inputs(
        "SQUARED_DIFFERENCE", lambda a, b: max(a, b) ** 2 * 100, "squared_difference"
    ),
    "REDUCE_PROD": reduction("REDUCE_PROD", "reduce_product"),
    "BATCH_MATMUL": batch_matmul,
}
EITHER: dict[str, Callable[[_Drawn], Made]] = {
    "DIV": two_inputs("DIV", lambda a, b: a / b / 3, "div"),
    "L2_NORMALIZATION": one_input("L2_NORMALIZATION", "l2_normalize", output=STEPS),
    "TRANSPOSE_CONV": transpose_conv,
    "SPACE_TO_BATCH_ND": space_to_batch,
    "BATCH_TO_SPACE_ND": batch_to_space,
}
CASES = [
    *((build, kind, False) for kind, build in (INT8 | EITHER).items()),
    *((build, kind, True) for kind, build in EITHER.items()),
    (reduction("SUM", "reduce_sum"), "SUM", True),
]


@pytest.mark.parametrize(
    ("build", "unsigned"),
    [pytest.param(b, u, id=f"{kind}-{'uint8' if u else 'int8'}") for b, kind, u in CASES],
)
def test_a_kernel_with_a_rule_of_its_own(
    build: Callable[[_Drawn], Made], *, unsigned: bool
) -> None:
    for seed in range(SEEDS):
        d = _Drawn(seed, unsigned=unsigned)
        graph, y, wanted = build(d)
        model, inputs = graph.save([y]), [d.values(tensor.shape) for tensor in graph.inputs]
        if wanted == "div" and len(inputs) > 1:
            inputs[1][inputs[1] == graph.inputs[1].zero_point[0]] ^= 1
        made = tflite_graph(model)
        check_same(made, inputs, run(model, inputs))
        kinds = {operator.kind for operator in made.operators}
        assert wanted in kinds, seed
        assert "host" not in kinds, seed


@pytest.mark.parametrize("device", ["vtaq-1x16x16", "vta-pynq"])
@BOTH
def test_a_transposed_convolution_runs_on_the_device(
    tmp_path: Path, device: str, *, unsigned: bool
) -> None:
    d = _Drawn(8, unsigned=unsigned)
    graph, y, _ = transpose_conv(d)
    model, inputs = graph.save([y]), [d.values(tensor.shape) for tensor in graph.inputs]
    (tmp_path / "up.tflite").write_bytes(model)
    compiled = compile(tmp_path / "up.tflite", device)
    check_races(compiled.artifact, load_config(device))
    np.testing.assert_array_equal(compiled.run(inputs[0][None])[0][0], run(model, inputs)[0])
    assert [r["where"] for r in compiled.explain() if r["kind"] == "conv2d"] == ["vta"]


def test_a_sum_of_int8_is_refused_as_litert_does_not_agree_with_itself() -> None:
    graph = Graph()
    x, y = graph.input((1, 8), np.int8, 0.1, 0), graph.tensor((1, 1), np.int8, 0.4, 0)
    graph.operator("SUM", [x, graph.constant(np.int32([1]))], [y], keep_dims=True)
    model, values = graph.save([y]), [np.full((1, 8), -3, np.int8)]
    assert run(model, values)[0] != run(model, values, reference=False)[0]
    with pytest.raises(UnsupportedError, match=r"SUM .*reads the int8 tensor .* use MEAN"):
        from_bytes(model, "sum.tflite")


#: Float operators with so many operands, and their options.
FLOATS: dict[str, tuple[int, dict[str, Any]]] = {
    "": (1, {}),
    "ADD": (2, {}),
    "MUL": (2, {}),
    "SQUARED_DIFFERENCE": (2, {}),
    "ABS": (1, {}),
    "RELU": (1, {}),
    "LEAKY_RELU": (1, {"alpha": 0.3}),
    "HARD_SWISH": (1, {}),
}


@pytest.mark.parametrize("kind", FLOATS)
def test_what_is_float_between_dequantize_and_quantize_stays_float(kind: str) -> None:
    """The kernel on integers of the same name rounds otherwise."""
    count, options = FLOATS[kind]
    for seed in range(times(2, 20)):
        d, real = _Drawn(seed, unsigned=False), []
        for _ in range(count):
            x = d.graph.input(**d.tensor((1, 4, 8, 8), d.real(-2, 0)))
            real.append(d.graph.tensor(x.shape, np.float32))
            d.graph.operator("DEQUANTIZE", [x], real[-1:])
        computed = real[0]
        if kind:
            computed = d.graph.tensor(computed.shape, np.float32)
            d.graph.operator(kind, real, [computed], **options)
        y = d.graph.tensor(**d.tensor(computed.shape, d.real(-2, 0)))
        d.graph.operator("QUANTIZE", [computed], [y])
        model, inputs = d.graph.save([y]), [d.values(t.shape) for t in d.graph.inputs]
        check_same(tflite_graph(model), inputs, run(model, inputs))


def test_integers_without_a_scale_only_move() -> None:
    graph = Graph()
    x, y = graph.input((1, 4), np.int8), graph.tensor((1, 4), np.int8)
    graph.operator("MUL", [x, x], [y])
    with pytest.raises(UnsupportedError, match=r"needs a scale, and the int8 tensor \"in0\" has"):
        from_bytes(graph.save([y]), "bare.tflite")
    graph.operators.clear()
    graph.operator("RESHAPE", [x, graph.constant(np.int32([1, 4]))], [y], new_shape=[1, 4])
    from_bytes(graph.save([y]), "bare.tflite")


def test_a_scale_per_channel_is_for_weights() -> None:
    graph = Graph()
    x, y = graph.input((1, 3), np.int8, 0.1, 0), graph.tensor((1, 3), np.int8, 0.1, 0)
    graph.operator("MUL", [x, graph.constant(np.int8([1, 2, 3]), [0.1, 0.2, 0.3])], [y])
    with pytest.raises(UnsupportedError, match="only weights can have"):
        from_bytes(graph.save([y]), "channels.tflite")


@pytest.mark.parametrize("count", [1, 2, 8, 9])
def test_a_concatenation_of_uint8_rescales(count: int) -> None:
    """As float32 on the uint8 values; more than the forms take are refused."""
    d = _Drawn(count, unsigned=True)
    parts = [d.graph.input(**d.tensor((1, 2, 32), d.real(-2, 0))) for _ in range(count)]
    y = d.graph.tensor(**d.tensor((1, 2, 32 * count), d.real(-2, 0)))
    d.graph.operator("CONCATENATION", parts, [y], axis=2, fused_activation_function=Activation.NONE)
    model, inputs = d.graph.save([y]), [d.values(t.shape) for t in parts]
    if count > 8:
        with pytest.raises(UnsupportedError, match="joins 9 tensors of several scales"):
            from_bytes(model, "joined.tflite")
        return
    made = tflite_graph(model)
    check_same(made, inputs, run(model, inputs))
    assert any(isinstance(operator, g.Concatenate) for operator in made.operators)


def test_a_difference_whose_square_leaves_litert_s_range_is_refused() -> None:
    """LiteRT aborts the process there."""
    graph = Graph()
    x, y = graph.input((1, 3), np.int8, 2.0, 0), graph.tensor((1, 3), np.int8, 1e-4, 0)
    graph.operator("SQUARED_DIFFERENCE", [x, x], [y])
    with pytest.raises(UnsupportedError, match="nearly all of its results would saturate"):
        from_bytes(graph.save([y]), "square.tflite")


def test_a_concatenation_into_a_scale_that_none_can_reach_is_refused() -> None:
    """LiteRT's float32 leaves int32, which has no defined result."""
    graph = Graph()
    x, y = graph.input((1, 3), np.uint8, 0.5, 9), graph.tensor((1, 3), np.uint8, 2e-30, 9)
    graph.operator("CONCATENATION", [x], [y], axis=1)
    with pytest.raises(UnsupportedError, match="nearly all of its results would saturate"):
        from_bytes(graph.save([y]), "joined.tflite")


def test_a_resize_with_both_rules_of_positions_is_refused() -> None:
    graph = Graph()
    x = graph.input((1, 16, 3, 3), np.int8, 0.1, 0)
    y = graph.tensor((1, 32, 9, 3), np.int8, 0.1, 0)
    both = {"align_corners": True, "half_pixel_centers": True}
    graph.operator("RESIZE_NEAREST_NEIGHBOR", [x, graph.constant(np.int32([32, 9]))], [y], **both)
    with pytest.raises(UnsupportedError, match="align_corners and half_pixel_centers are both"):
        from_bytes(graph.save([y]), "resize.tflite")
