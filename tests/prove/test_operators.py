# SPDX-License-Identifier: Apache-2.0
"""prove/operators/: what symbols of one operator's elements stand for is what it computes, with
each of its attributes, of int8 and of uint8, with constants among its elements."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from loadstone.prove.definition import Definition
from loadstone.prove.network import ModelNetwork, ModelOperator, ModelTensor
from loadstone.prove.operators import weighted
from loadstone.prove.requantize import Average, Away, Double, Requantizer
from loadstone.prove.values import CONSTANTS, Values
from loadstone.prove.verdict import Unsupported
from tests.prove.test_definition import check

Array = NDArray[Any]
LIMITS = {"int8": (-128, 127), "uint8": (0, 255)}


class Net:
    """A network made by hand; methods return numbers of tensors."""

    def __init__(self, seed: int = 0, dtype: str = "int8") -> None:
        self.rng, self.dtype = np.random.default_rng(seed), dtype
        self.tensors: list[ModelTensor] = []
        self.operators: list[ModelOperator] = []
        self.inputs: list[int] = []

    @property
    def zero(self) -> int:
        """A zero point that differs from one tensor to the next."""
        return 3 + len(self.tensors) + 128 * (self.dtype == "uint8")

    def tensor(self, shape: tuple[int, ...], **changed: Any) -> int:
        held = {"dtype": self.dtype, "scales": (0.5,), "zero_points": (self.zero,)} | changed
        self.tensors.append(ModelTensor(f"t{len(self.tensors)}", shape, **held))
        return len(self.tensors) - 1

    def input(self, *shape: int) -> int:
        self.inputs.append(self.tensor(shape))
        return self.inputs[-1]

    def padded(self, *shape: int) -> int:
        """An input with constants around it, on the last but one axis."""
        x = self.input(*shape)
        before = tuple(int(k == len(shape) - 2) for k in range(len(shape)))
        size = tuple(n + 2 * b for n, b in zip(shape, before, strict=True))
        return self.of("pad", [x], size, before=before, after=before, value=self.zero + 7)

    def constant(self, data: Array, **changed: Any) -> int:
        return self.tensor(data.shape, data=data, dtype=data.dtype.name, **changed)

    def weights(self, *shape: int, **changed: Any) -> int:
        drawn = self.rng.integers(-90, 90, shape).astype(np.int8)
        return self.constant(drawn, **({"zero_points": (0,)} | changed))

    def bias(self, n: int) -> int:
        return self.constant(self.rng.integers(-900, 900, n).astype(np.int32), zero_points=(0,))

    def rule(self, channels: int = 1) -> Requantizer:
        """Of sums of a few products, with another scale for each channel."""
        return Requantizer(
            Double.of(self.rng.uniform(0.002, 0.009, channels)), self.zero, *LIMITS[self.dtype]
        )

    def of(self, kind: str, inputs: list[int], shape: tuple[int, ...], **said: Any) -> int:
        y = self.tensor(shape)
        self.operators.append(ModelOperator(kind, tuple(inputs), (y,), said, f"the {kind}"))
        return y

    def table(self, *shape: int) -> Array:
        return self.rng.integers(*LIMITS[self.dtype], shape, endpoint=True)

    def network(self, *outputs: int) -> ModelNetwork:
        return ModelNetwork(
            "net", tuple(self.tensors), tuple(self.operators), tuple(self.inputs), outputs
        )

    def check(self, *outputs: int) -> None:
        made = self.network(*outputs)
        drawn = [self.table(*self.tensors[k].shape).astype(self.dtype) for k in self.inputs]
        check(made, drawn)


def state(network: ModelNetwork) -> Definition:
    definition = Definition(Values(), network)
    definition.state()
    return definition


@pytest.fixture(params=["int8", "uint8"])
def net(request: pytest.FixtureRequest) -> Net:
    return Net(1, request.param)


WINDOW = {"strides": (2, 1), "dilations": (1, 2), "pads": (1, 0, 2, 1)}
PLAIN = {"strides": (1, 1), "dilations": (1, 1), "pads": (0, 0, 0, 0)}


@pytest.mark.parametrize("layout", ["NHWC", "NCHW"])
@pytest.mark.parametrize("groups", [1, 2, 4])
@pytest.mark.parametrize("window", [PLAIN, WINDOW])
@pytest.mark.parametrize("small", [False, True])
def test_convolutions(
    net: Net, layout: str, groups: int, window: dict[str, Any], small: bool,
    monkeypatch: pytest.MonkeyPatch,
) -> None:  # fmt: skip
    """Of two images, with a bias and without; in parts, where memory is short."""
    if small:
        monkeypatch.setattr(weighted, "_CHUNK", 50)
        monkeypatch.setattr(weighted, "_EXACT_COLUMNS", 5)
    last = layout == "NHWC"
    x = net.padded(2, 5, 4, 4) if last else net.padded(2, 4, 5, 4)
    rows, columns = (5, 6) if last else (7, 4)
    top, left, bottom, right = window["pads"]
    (sy, sx), (dy, dx) = window["strides"], window["dilations"]
    oh, ow = (
        (rows + top + bottom - 2 * dy - 1) // sy + 1,
        (columns + left + right - dx - 1) // sx + 1,
    )
    shape = (2, oh, ow, 8) if last else (2, 8, oh, ow)
    said = {**window, "layout": layout, "groups": groups}
    made = []
    for bias in (-1, net.bias(8)):
        w = net.weights(8, 3, 2, 4 // groups)
        kind = "depthwise_conv2d" if groups == 4 else "conv2d"
        made.append(net.of(kind, [x, w, bias], shape, requantization=net.rule(8), **said))
    net.check(*made)


def test_zero_points_of_weights(net: Net) -> None:
    x = net.input(1, 3, 3, 2)
    said = {**PLAIN, "layout": "NHWC", "groups": 1}
    made = []
    for zeros in ((5,), (1, -2, 3)):
        w = net.weights(3, 2, 2, 2, zero_points=zeros, axis=0)
        made.append(net.of("conv2d", [x, w, -1], (1, 2, 2, 3), requantization=net.rule(3), **said))
    flat = net.of("reshape", [x], (3, 6))
    w = net.weights(4, 6, zero_points=(9, 8, 7, 6), axis=0)
    made.append(net.of("dense", [flat, w, -1], (3, 4), requantization=net.rule(4)))
    net.check(*made)
    w = net.weights(3, 2, 2, 2, zero_points=(1, 2), axis=3)
    net.of("conv2d", [x, w], (1, 2, 2, 3), requantization=net.rule(3), **said)
    with pytest.raises(Unsupported, match="zero points along axis 3"):
        state(net.network(*made))


@pytest.mark.parametrize("small", [False, True])
def test_dense_layers(net: Net, small: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    if small:
        monkeypatch.setattr(weighted, "_CHUNK", 12)
        monkeypatch.setattr(weighted, "_EXACT_COLUMNS", 3)
    x = net.padded(2, 3, 7)
    made = [
        net.of("dense", [x, net.weights(4, 7), bias], (2, 5, 4), requantization=net.rule(4))
        for bias in (-1, net.bias(4))
    ]
    net.check(*made)
    absent = net.operators[-2]
    net.operators.append(replace(absent, inputs=absent.inputs[:2], outputs=(made[1],)))
    elements = state(net.network(*made)).elements
    assert (elements.symbols(made[0]) == elements.symbols(made[1])).all()


@pytest.mark.parametrize("layout", ["NHWC", "NCHW"])
def test_averages_over_windows(net: Net, layout: str) -> None:
    """Divided by the number of elements inside; of levels, or of levels less a zero point."""
    x = net.padded(2, 4, 3, 2)
    taken = {n: Requantizer(Average(n), 0, *LIMITS[net.dtype]) for n in range(1, 7)}
    scaled = {n: Requantizer(Away(np.array([0.7 / n])), net.zero, *LIMITS[net.dtype])
              for n in range(1, 7)}  # fmt: skip
    said = {"layout": layout, "kernel": (2, 3), "strides": (2, 1), "pads": (1, 1, 1, 1)}
    shape = (2, 3, 5, 2) if layout == "NHWC" else (2, 4, 3, 2)
    made = [
        net.of("average_pool", [x], shape, averages=taken, zero_point=0, **said),
        net.of("average_pool", [x], shape, averages=scaled, zero_point=net.zero - 20, **said),
    ]
    net.check(*made)


@pytest.mark.parametrize("layout", ["NHWC", "NCHW"])
def test_the_greatest_of_windows(net: Net, layout: str) -> None:
    x = net.padded(2, 4, 3, 2)
    said = {"layout": layout, "kernel": (2, 3), "strides": (2, 1), "pads": (1, 1, 1, 1)}
    shape = (2, 3, 5, 2) if layout == "NHWC" else (2, 4, 3, 2)
    low, high = LIMITS[net.dtype]
    made = [
        net.of("max_pool", [x], shape, low=low + a, high=high - b, **said)
        for a, b in ((0, 0), (120, 0), (0, 60), (110, 50), (255, 0), (0, 255))
    ]
    net.check(*made)


@pytest.mark.parametrize(
    ("axes", "shape"), [((1, 2), (2, 4)), ((2,), (2, 3, 4)), ((-1, 1), (2, 5)), ((3, 1), (2, 5))]
)
def test_averages_over_axes(net: Net, axes: tuple[int, ...], shape: tuple[int, ...]) -> None:
    x = net.padded(2, 3, 3, 4)
    rule = Requantizer(Away(np.array([0.031])), net.zero, *LIMITS[net.dtype])
    net.check(net.of("mean", [x], shape, axes=axes, keep_dims=False, requantization=rule))


@pytest.mark.parametrize("flips", [(False, False), (True, False), (False, True), (True, True)])
def test_products_of_two_activations(net: Net, flips: tuple[bool, bool]) -> None:
    """Of one matrix with several, and with constants among the elements."""
    a = net.padded(*((2, 5, 3) if flips[0] else (2, 3, 5)))
    shape_a = net.tensors[a].shape[::-1][:2] if flips[0] else net.tensors[a].shape[1:]
    b = net.input(*((4, shape_a[1]) if flips[1] else (shape_a[1], 4)))
    said = {"transpose_a": flips[0], "transpose_b": flips[1], "requantization": net.rule()}
    net.check(net.of("batch_matmul", [a, b], (2, shape_a[0], 4), **said))


@pytest.mark.parametrize("kind", ["add", "sub", "mul"])
def test_functions_of_two_elements(net: Net, kind: str) -> None:
    """In both orders, with itself, with constants on either side or on both; broadcast."""
    x, y = net.padded(2, 3, 4), net.padded(2, 3, 4)
    row = net.input(4)
    fixed = net.constant(net.table(5, 4).astype(net.dtype))
    many = net.constant(net.table(2, 5, 4).astype(net.dtype))
    made = [
        net.of(kind, pair, (2, 5, 4), table=net.table(256, 256))
        for pair in ([x, y], [y, x], [x, x], [x, row], [row, y], [x, fixed], [fixed, x],
                     [many, fixed])
    ]  # fmt: skip
    net.check(*made)


def test_functions_of_one_element(net: Net) -> None:
    x = net.padded(2, 3, 4)
    same = np.arange(256) + LIMITS[net.dtype][0]
    made = [net.of(kind, [x], (2, 5, 4), table=net.table(256)) for kind in ("requantize", "table")]
    made.append(net.of("table", [x], (2, 5, 4), table=same))
    for axis in (0, 1, 2):
        table = net.table((2, 5, 4)[axis], 256)
        made.append(net.of("channel_table", [x], (2, 5, 4), table=table, axis=axis))
    net.check(*made)
    definition = state(net.network(*made))
    assert (definition.elements.symbols(made[2]) == definition.elements.symbols(x)).all()


def test_elements_that_move(net: Net) -> None:
    x, y = net.padded(2, 3, 4), net.input(2, 2, 4)
    joined = net.of("concat", [x, y], (2, 7, 4), axis=1, tables=(None, net.table(256)))
    turned = net.of("transpose", [x], (4, 2, 5), axes=(2, 0, 1))
    wide = net.of("pad", [x], (3, 8, 4), before=(0, 1, 0), after=(1, 2, 0), value=net.zero - 9)
    some = net.of("slice", [x], (1, 2, 4), begin=(1, 4, 3), strides=(1, -2, -1))
    flat = net.of("reshape", [x], (8, 5))
    made = [joined, turned, wide, some, flat]
    net.check(*made)
    one = net.of("slice", [x], (5, 2), begin=(1, 0, 1), strides=(1, 1, 2), counts=(1, 5, 2))
    elements = state(net.network(*made, one)).elements
    assert (elements.symbols(one) == elements.symbols(x)[1, :, 1::2]).all()


@pytest.mark.parametrize("layout", ["NHWC", "NCHW"])
def test_a_resize_to_the_nearest(net: Net, layout: str) -> None:
    x = net.padded(2, 3, 2, 4)
    said = {"layout": layout, "rows": np.array([2, 0, 1, 1]), "columns": np.array([1, 0, 3])}
    if layout == "NHWC":
        net.check(net.of("resize_nearest", [x], (2, 4, 3, 4), **said))
        return
    y = net.of("resize_nearest", [x], (2, 3, 4, 3), **said)
    elements = state(net.network(y)).elements
    taken = elements.symbols(x)[:, :, said["rows"]][..., said["columns"]]
    assert (elements.symbols(y) == taken).all()


def _between(*weights: int, one: int = 1 << 10, dtype: Any = np.int64) -> tuple[Array, ...]:
    """Places between elements 0 and 1, 1 and 2 ..., with these weights of the upper one."""
    lower = np.arange(len(weights)) % 2
    return lower, lower + 1, np.array(weights, dtype)


def test_a_resize_between_elements() -> None:
    net = Net()
    x = net.padded(2, 3, 2, 2)
    said = {
        "layout": "NHWC",
        "arithmetic": "litert_int8",
        "requantization": Requantizer(Average(1 << 20), 0, -128, 127),
        "rows": _between(0, 512, 1000, 1024),
        "columns": _between(512, 0, 3, 256, 512),
    }
    net.check(net.of("resize_bilinear", [x], (2, 4, 5, 2), **said))


def test_a_resize_of_uint8_takes_elements_or_is_not_covered() -> None:
    net = Net(dtype="uint8")
    x = net.padded(1, 3, 2, 2)
    said = {"layout": "NHWC", "arithmetic": "litert_uint8"}
    whole = _between(0, 0, dtype=np.float32)
    same = (np.array([2]), np.array([2]), np.array([1], np.float32))
    y = net.of("resize_bilinear", [x], (1, 2, 1, 2), rows=whole, columns=same, **said)
    elements = state(net.network(y)).elements
    assert (elements.symbols(y) == elements.symbols(x)[:, [0, 1]][:, :, [2]]).all()
    for weight, upper in ((0.5, 1), (1, 1), (-0.5, 0), (1.5, 0)):
        for name in ("rows", "columns"):
            other = (np.array([0]), np.array([upper]), np.array([weight], np.float32))
            spoilt = Net(dtype="uint8")
            places = {"rows": whole, "columns": same, name: other}
            z = spoilt.of(
                "resize_bilinear", [spoilt.input(1, 3, 4, 2)], (1, 2, 1, 2), **said, **places
            )
            with pytest.raises(Unsupported, match="resize between levels of uint8"):
                state(spoilt.network(z))


@pytest.mark.parametrize(("bias", "fits"), [(-128, True), (-127, False)])
def test_sums_of_more_than_32_bits_are_not_covered(bias: int, fits: bool) -> None:
    """The greatest sum is 2^31 - 1, and one more."""
    for sign in (1, -1):
        net = Net()
        x = net.input(1, 2)
        net.tensors[x] = ModelTensor("x", (1, 2), "int8", (0.5,), (0,))
        w = net.constant(np.array([[sign * 1, 0]], np.int8), zero_points=(0,))
        most = (1 << 31) - 127 + bias + 127 if sign > 0 else -(1 << 31) + 127 - bias - 128
        b = net.constant(np.array([most], np.int32), zero_points=(0,))
        y = net.of("dense", [x, w, b], (1, 1), requantization=net.rule())
        if fits:
            state(net.network(y))
        else:
            with pytest.raises(Unsupported, match="the dense: its sums may leave 32 bits"):
                state(net.network(y))


def test_what_is_no_constant_or_no_byte_is_not_covered() -> None:
    net = Net()
    x, w = net.input(1, 2), net.input(3, 2)
    y = net.of("dense", [x, w], (1, 3), requantization=net.rule(3))
    with pytest.raises(Unsupported, match="tensor t1, which is no constant"):
        state(net.network(y))
    wide = Net()
    wide.tensors.append(ModelTensor("wide", (1, 2), "int16", (0.5,), (0,)))
    wide.inputs.append(0)
    with pytest.raises(Unsupported, match="tensor wide of int16: a proof compares bytes"):
        state(wide.network(0))


def test_sums_of_constants_alone_are_constants(net: Net) -> None:
    x = net.constant(net.table(2, 7).astype(net.dtype))
    net.input(1, 1)
    y = net.of("dense", [x, net.weights(4, 7), net.bias(4)], (2, 4), requantization=net.rule(4))
    net.check(y)
    assert (state(net.network(y)).elements.symbols(y) < CONSTANTS).all()
